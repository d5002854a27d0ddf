%% Compiles an application's Elixir.
-module(sbx_compile_ex).

-export([compile/3]).

-spec compile(sbx_project:app(), file:filename(), file:filename()) ->
    {ok, [sbx_diagnostic:diagnostic()]} | {error, [sbx_diagnostic:diagnostic()], [sbx_diagnostic:diagnostic()]}.
compile(#{elixir := []}, _Ebin, _Root) ->
    {ok, []};
compile(#{elixir := Sources, elixir_options := Options}, Ebin, Root) ->
    ok = sbx_elixir:need("the project"),
    %% A module of the project may have the name of one that this node has.
    Kept = [Option || {Key, _} = Option <- Options, Key =/= warnings_as_errors],
    'Elixir.Code':compiler_options([{ignore_module_conflict, true} | Kept]),
    Files = [unicode:characters_to_binary(Source) || Source <- Sources],
    Answer = 'Elixir.Kernel.ParallelCompiler':compile_to_path(
        Files, unicode:characters_to_binary(Ebin), [{return_diagnostics, true}]
    ),
    outcome(Answer, Root).

outcome({ok, _Modules, Warnings}, Root) ->
    {ok, warnings(Warnings, Root)};
outcome({error, Errors, Warnings}, Root) ->
    {error, [sbx_diagnostic:from_elixir(error, Error, Root) || Error <- Errors], warnings(Warnings, Root)}.

warnings(#{compile_warnings := Compile, runtime_warnings := Runtime}, Root) ->
    warnings(Compile ++ Runtime, Root);
warnings(Warnings, Root) ->
    [sbx_diagnostic:from_elixir(warning, Warning, Root) || Warning <- Warnings].
