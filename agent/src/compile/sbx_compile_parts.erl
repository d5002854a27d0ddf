%%% The modules that the compilers consist of. Loading them together halves the time of a first
%%% compilation.
-module(sbx_compile_parts).

-export([load/1, erlang/0, elixir/0]).

%% Loads them once. Modules that the toolchain does not have are not searched again.
-spec load(ours | erlang | elixir) -> ok.
load(Language) ->
    case persistent_term:get({?MODULE, Language}, false) of
        true ->
            ok;
        false ->
            ok = sbx_batch_load:load(parts(Language)),
            persistent_term:put({?MODULE, Language}, true)
    end.

parts(ours) -> ours();
parts(erlang) -> erlang() ++ of_some_otps();
parts(elixir) -> parts(erlang) ++ elixir() ++ of_some_elixirs().

ours() ->
    [
        sbx_app_file, sbx_compile_app, sbx_compile_erl, sbx_compile_ex, sbx_config, sbx_diagnostic, sbx_files,
        sbx_guess, sbx_hint, sbx_mix, sbx_mix_app, sbx_mix_compilers, sbx_mix_hex, sbx_mix_scm, sbx_mix_shell,
        sbx_parallel, sbx_project, sbx_project_mix, sbx_project_rebar, sbx_rebar_config, sbx_scratch, sbx_toolchain,
        sbx_tracer
    ].

%% Every release has these.
-spec erlang() -> [module()].
erlang() ->
    [
        beam_a, beam_asm, beam_block, beam_bounds, beam_call_types, beam_clean, beam_dict, beam_flatten,
        beam_jump, beam_lib, beam_opcodes, beam_ssa, beam_ssa_bc_size, beam_ssa_bool, beam_ssa_bsm,
        beam_ssa_codegen, beam_ssa_dead, beam_ssa_opt, beam_ssa_pre_codegen, beam_ssa_recv, beam_ssa_share,
        beam_ssa_throw, beam_ssa_type, beam_trim, beam_types, beam_utils, beam_validator, beam_z, cerl,
        cerl_clauses, cerl_trees, compile, core_lib, digraph, digraph_utils, epp, erl_anno, erl_bifs,
        erl_bits, erl_expand_records, erl_features, erl_internal, erl_lint, erl_parse, erl_scan, eval_bits,
        filelib, io, io_lib, io_lib_format, io_lib_pretty, ordsets, otp_internal, sets, sofs, string,
        sys_core_alias, sys_core_bsm, sys_core_fold, unicode_util, v3_core
    ].

-spec elixir() -> [module()].
elixir() ->
    [
        'Elixir.Agent', 'Elixir.Agent.Server', 'Elixir.Code.Formatter', 'Elixir.Code.Normalizer',
        'Elixir.Collectable.BitString', 'Elixir.Collectable.File.Stream', 'Elixir.Collectable.HashDict',
        'Elixir.Collectable.HashSet', 'Elixir.Collectable.IO.Stream', 'Elixir.Collectable.List',
        'Elixir.Collectable.Map', 'Elixir.Collectable.MapSet', 'Elixir.Config', 'Elixir.Config.Reader',
        'Elixir.Enumerable.Date.Range', 'Elixir.Enumerable.File.Stream', 'Elixir.Enumerable.Function',
        'Elixir.Enumerable.GenEvent.Stream', 'Elixir.Enumerable.HashDict', 'Elixir.Enumerable.HashSet',
        'Elixir.Enumerable.IO.Stream', 'Elixir.Enumerable.List', 'Elixir.Enumerable.Map',
        'Elixir.Enumerable.MapSet', 'Elixir.Enumerable.Range', 'Elixir.Enumerable.Stream', 'Elixir.File',
        'Elixir.IO', 'Elixir.Inspect.Any', 'Elixir.Inspect.Atom', 'Elixir.Inspect.BitString',
        'Elixir.Inspect.Date', 'Elixir.Inspect.Date.Range', 'Elixir.Inspect.DateTime', 'Elixir.Inspect.Float',
        'Elixir.Inspect.Function', 'Elixir.Inspect.HashDict', 'Elixir.Inspect.HashSet',
        'Elixir.Inspect.Inspect.Error', 'Elixir.Inspect.Integer', 'Elixir.Inspect.List',
        'Elixir.Inspect.Macro.Env', 'Elixir.Inspect.Map', 'Elixir.Inspect.MapSet',
        'Elixir.Inspect.NaiveDateTime', 'Elixir.Inspect.PID', 'Elixir.Inspect.Port', 'Elixir.Inspect.Range',
        'Elixir.Inspect.Reference', 'Elixir.Inspect.Regex', 'Elixir.Inspect.Stream', 'Elixir.Inspect.Time',
        'Elixir.Inspect.Tuple', 'Elixir.Inspect.URI', 'Elixir.Inspect.Version',
        'Elixir.Inspect.Version.Requirement', 'Elixir.Kernel.ErrorHandler', 'Elixir.Kernel.LexicalTracker',
        'Elixir.Kernel.ParallelCompiler', 'Elixir.Kernel.Typespec', 'Elixir.Kernel.Utils',
        'Elixir.List.Chars', 'Elixir.List.Chars.Atom', 'Elixir.List.Chars.BitString',
        'Elixir.List.Chars.Float', 'Elixir.List.Chars.Integer', 'Elixir.List.Chars.List', 'Elixir.Logger',
        'Elixir.Mix', 'Elixir.Mix.Project', 'Elixir.Mix.ProjectStack', 'Elixir.Mix.State',
        'Elixir.Mix.TasksServer', 'Elixir.Module', 'Elixir.Module.Types', 'Elixir.Module.Types.Expr',
        'Elixir.Module.Types.Helpers', 'Elixir.Module.Types.Of', 'Elixir.Module.Types.Pattern', 'Elixir.Path',
        'Elixir.Protocol', 'Elixir.Range', 'Elixir.String.Chars.Atom', 'Elixir.String.Chars.BitString',
        'Elixir.String.Chars.Date', 'Elixir.String.Chars.DateTime', 'Elixir.String.Chars.Float',
        'Elixir.String.Chars.Integer', 'Elixir.String.Chars.List', 'Elixir.String.Chars.NaiveDateTime',
        'Elixir.String.Chars.Time', 'Elixir.String.Chars.URI', 'Elixir.String.Chars.Version',
        'Elixir.String.Chars.Version.Requirement', core_lint, elixir_bitstring, elixir_bootstrap,
        elixir_clauses, elixir_compiler, elixir_def, elixir_erl_clauses, elixir_erl_compiler, elixir_erl_for,
        elixir_erl_try, elixir_fn, elixir_import, elixir_interpolation, elixir_lexical, elixir_map,
        elixir_overridable, sys_core_inline, 'Elixir.Code', 'Elixir.Code.Identifier', 'Elixir.Inspect',
        'Elixir.Inspect.Algebra', 'Elixir.Inspect.Opts', 'Elixir.List', 'Elixir.Macro',
        'Elixir.Module.ParallelChecker', 'Elixir.String', elixir_aliases, elixir_dispatch, elixir_env,
        elixir_erl, elixir_erl_pass, elixir_erl_var, elixir_expand, elixir_module, elixir_parser,
        elixir_quote, elixir_rewrite, elixir_tokenizer, elixir_utils, erl_anno, erl_eval, erl_internal,
        ordsets
    ].

%% Modules that some releases from OTP 25 to 29 have and others don't.
of_some_otps() ->
    [
        beam_core_to_ssa, beam_digraph, beam_doc, beam_kernel_to_ssa, beam_ssa_alias, beam_ssa_destructive_update,
        beam_ssa_private_append, beam_ssa_ss, graph, v3_kernel
    ].

%% The same from Elixir 1.14 to 1.20.
of_some_elixirs() ->
    [
        'Elixir.Module.Behaviour', 'Elixir.Module.LocalsTracker', 'Elixir.Module.Types.Apply',
        'Elixir.Module.Types.Descr', 'Elixir.Module.Types.Unify', elixir_locals
    ].
