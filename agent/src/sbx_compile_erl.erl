%% Compiles an application's Erlang: grammars first, then modules, those that others are compiled with before the rest.
-module(sbx_compile_erl).

-export([compile/3]).

%% A warning is told, not a reason to refuse; and told once.
-define(IGNORED_OPTIONS, [warnings_as_errors, report, report_errors, report_warnings]).

-type outcome() :: {ok, Warnings :: diagnostics()} | {error, Errors :: diagnostics(), Warnings :: diagnostics()}.
-type diagnostics() :: [sbx_diagnostic:diagnostic()].

-spec compile(sbx_project:app(), file:filename(), file:filename()) -> outcome().
compile(#{erlang := [], grammars := []}, _Ebin, _Root) ->
    {ok, []};
compile(#{erlang := Sources, grammars := Grammars} = App, Ebin, Root) ->
    {Generated, GrammarOutcome} = grammars(Grammars, Ebin, Root),
    Options = options(App, Ebin),
    Waves = [fun() -> wave(Files, Options, Root) end || Files <- waves(Sources ++ Generated)],
    run([fun() -> GrammarOutcome end | Waves], []).

%% A wave that fails ends it: the next would only repeat its errors.
run([], Warnings) ->
    {ok, Warnings};
run([Step | Steps], Before) ->
    case Step() of
        {ok, Warnings} -> run(Steps, Before ++ Warnings);
        {error, Errors, Warnings} -> {error, Errors, Before ++ Warnings}
    end.

options(#{include := Include, erlang_options := Options}, Ebin) ->
    Kept = [Option || Option <- Options, not lists:member(Option, ?IGNORED_OPTIONS)],
    [return, debug_info, {outdir, Ebin} | [{i, Dir} || Dir <- Include]] ++ Kept.

%% Parse transforms and behaviours of the project's own have to be there when the modules that use them are compiled.
waves(Sources) ->
    Modules = [{list_to_atom(filename:basename(Source, ".erl")), Source} || Source <- Sources],
    Used = lists:usort(lists:append([used_by(Source) || Source <- Sources])),
    {First, Rest} = lists:partition(fun({Module, _}) -> lists:member(Module, Used) end, Modules),
    [[Source || {_, Source} <- Wave] || Wave <- [First, Rest], Wave =/= []].

used_by(Source) ->
    {ok, Text} = file:read_file(Source),
    Pattern = "(?:parse_transform|behaviou?r)\\s*[,(]\\s*'?([a-z][A-Za-z0-9_@]*)",
    case re:run(Text, Pattern, [global, {capture, all_but_first, binary}]) of
        {match, Found} -> [binary_to_atom(Name) || [Name] <- Found];
        nomatch -> []
    end.

wave(Sources, Options, Root) ->
    Results = sbx_parallel:map(fun(Source) -> compile:file(Source, Options) end, Sources),
    outcome([result(Result, Root) || Result <- Results]).

result({ok, _Module, Warnings}, Root) ->
    {[], sbx_diagnostic:from_erlang(warning, Warnings, Root)};
result({ok, _Module}, _Root) ->
    {[], []};
result({error, Errors, Warnings}, Root) ->
    {sbx_diagnostic:from_erlang(error, Errors, Root), sbx_diagnostic:from_erlang(warning, Warnings, Root)};
result({crashed, Reason}, Root) ->
    {[sbx_diagnostic:new(compile, nil, nil, io_lib:format("the compiler crashed: ~tp", [Reason]), Root)], []}.

outcome(Results) ->
    {Errors, Warnings} = lists:unzip(Results),
    case lists:append(Errors) of
        [] -> {ok, lists:append(Warnings)};
        All -> {error, All, lists:append(Warnings)}
    end.

%% Grammars become modules beside the compiled ones, never in the project.
grammars(Grammars, Ebin, Root) ->
    Results = [grammar(Grammar, Ebin) || Grammar <- Grammars],
    {[File || {ok, File, _} <- Results], outcome([grammar_result(Result, Root) || Result <- Results])}.

grammar(Grammar, Ebin) ->
    Extension = filename:extension(Grammar),
    Target = filename:join(filename:dirname(Ebin), filename:basename(Grammar, Extension) ++ ".erl"),
    case Extension of
        ".yrl" -> yecc:file(Grammar, [return, {parserfile, Target}]);
        ".xrl" -> leex:file(Grammar, [return, {scannerfile, Target}])
    end.

grammar_result({ok, _File, Warnings}, Root) -> {[], sbx_diagnostic:from_erlang(warning, Warnings, Root)};
grammar_result(Failure, Root) -> result(Failure, Root).
