%%% Compiles an application's Elixir files.
-module(sbx_compile_ex).

-export([compile/3]).

-define(KEY, {?MODULE, compiler_options}).

-type compiled() :: #{
    file := file:filename(),
    modules := [{module(), binary()}],
    compile := [module()],
    exports := [module()],
    runtime := [module()],
    resources := [file:filename()],
    config := boolean()
}.

-spec compile(sbx_project:app(), [file:filename()], file:filename()) ->
    {[compiled()], [sbx_diagnostic:diagnostic()]}.
compile(_App, [], _Root) ->
    {[], []};
compile(#{name := Name, elixir_options := Options}, Sources, Root) ->
    ok = sbx_elixir:need("the project"),
    ok = set_options(Options),
    Ebin = unicode:characters_to_binary(sbx_scratch:ebin(Name)),
    Files = [unicode:characters_to_binary(Source) || Source <- Sources],
    Answer =
        try
            'Elixir.Kernel.ParallelCompiler':compile_to_path(Files, Ebin, [
                {return_diagnostics, true}, {each_module, fun made/3}
            ])
        after
            'Elixir.Code':put_compiler_option(tracers, [])
        end,
    {Modules, Warnings} = outcome(Answer, Root),
    Beams = maps:from_list([{Module, read(Module, Ebin)} || Module <- Modules]),
    maps:foreach(fun sbx_scratch:note/2, Beams),
    ok = claim_strays(Modules, hd(Files)),
    Compiled = [compiled(Source, File, Beams) || {Source, File} <- lists:zip(Sources, Files)],
    {Compiled, Warnings ++ doubled(Root)}.

%% The tracer does not see a module that a function makes, as Module.create/3 does. The compiler
%% knows the file that called the function.
made(File, Module, _Beam) ->
    sbx_tracer:defines(File, Module).

%% A module may be defined where its file is unknown. It is reported with the first file, so that it
%% is not lost.
claim_strays(Modules, File) ->
    Known = maps:from_list(sbx_tracer:defined()),
    Strays = [Module || Module <- Modules, not is_map_key(Module, Known)],
    lists:foreach(fun(Module) -> ok = sbx_tracer:defines(File, Module) end, Strays).

%% Which of the definitions stays is random.
doubled(Root) ->
    Defined = lists:sort(sbx_tracer:defined()),
    [
        sbx_diagnostic:doubled(Module, Second, First, Root)
     || {{Module, First}, {Module, Second}} <- pairs(Defined)
    ].

pairs([One | [Next | _] = Rest]) -> [{One, Next} | pairs(Rest)];
pairs(_Last) -> [].

%% Each application has its own options; others have Elixir's defaults. A module of the project may
%% have the name of a loaded module.
set_options(Options) ->
    Tracers = proplists:get_value(tracers, Options, []),
    Known = 'Elixir.Code':available_compiler_options() -- [warnings_as_errors, tracers],
    Own = [Option || {Key, _} = Option <- Options, lists:member(Key, Known)],
    Ours = [{ignore_module_conflict, true}, {tracers, [sbx_tracer | Tracers]}],
    _ = 'Elixir.Code':compiler_options(maps:to_list(maps:merge(defaults(), maps:from_list(Ours ++ Own)))),
    ok.

defaults() ->
    case persistent_term:get(?KEY, none) of
        none ->
            Kept = [docs, debug_info, relative_paths, no_warn_undefined, parser_options],
            Defaults = maps:with(Kept, 'Elixir.Code':compiler_options()),
            persistent_term:put(?KEY, Defaults),
            Defaults;
        Defaults ->
            Defaults
    end.

outcome({ok, Modules, Warnings}, Root) ->
    {Modules, warnings(Warnings, Root)};
outcome({error, Errors, Warnings}, Root) ->
    Told = [sbx_diagnostic:from_elixir(error, Error, Root) || Error <- Errors],
    throw({failed, without_summaries(Told), warnings(Warnings, Root)}).

%% Since 1.15 the compiler adds an error without a line that only says that there were others.
without_summaries(Errors) ->
    case [Error || Error <- Errors, not is_summary(Error)] of
        [] -> Errors;
        Left -> Left
    end.

is_summary(#{line := nil, message := Message}) -> binary:match(Message, <<"(errors have been logged)">>) =/= nomatch;
is_summary(_Error) -> false.

warnings(#{compile_warnings := Compile, runtime_warnings := Runtime}, Root) ->
    warnings(Compile ++ Runtime, Root);
warnings(Warnings, Root) ->
    [sbx_diagnostic:from_elixir(warning, Warning, Root) || Warning <- Warnings].

read(Module, Ebin) ->
    {ok, Beam} = file:read_file(filename:join(Ebin, sbx_scratch:name(Module))),
    Beam.

compiled(Source, File, Beams) ->
    Defined = [Module || Module <- sbx_tracer:defined(File), is_map_key(Module, Beams)],
    #{compile := Compile} = Uses = sbx_tracer:uses(File),
    {Behaviours, Resources} = lists:unzip([attributes(map_get(Module, Beams)) || Module <- Defined]),
    Uses#{
        file => Source,
        modules => [{Module, map_get(Module, Beams)} || Module <- Defined],
        compile := lists:usort(lists:append(Behaviours) ++ with_derivers(Compile)),
        resources => lists:usort([unicode:characters_to_list(Path) || Path <- lists:append(Resources)])
    }.

%% Deriving a protocol runs code of its implementation for Any.
with_derivers(Modules) ->
    Derivers = [binary_to_atom(<<(atom_to_binary(Module))/binary, ".Any">>) || Module <- Modules, is_protocol(Module)],
    [Deriver || Deriver <- Derivers, erlang:module_loaded(Deriver)] ++ Modules.

is_protocol(Module) ->
    erlang:function_exported(Module, '__protocol__', 1).

attributes(Beam) ->
    {ok, {_Module, [{attributes, Attributes}]}} = beam_lib:chunks(Beam, [attributes]),
    {
        lists:append([Modules || {behaviour, Modules} <- Attributes]),
        lists:append([Paths || {external_resource, Paths} <- Attributes])
    }.
