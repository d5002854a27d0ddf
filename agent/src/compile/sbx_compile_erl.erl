%%% Compiles an application's Erlang files: grammars first, then the modules that other modules need
%%% for their compilation, then the rest. The preprocessor reads a file once. Its forms name the
%%% included headers and are then compiled.
-module(sbx_compile_erl).

-export([compile/3]).

%% Warnings are reported once, and never make a compilation fail.
-define(IGNORED_OPTIONS, [warnings_as_errors, report, report_errors, report_warnings]).

-type compiled() :: #{
    file := file:filename(),
    modules := [{module(), binary()}],
    %% Parse transforms and behaviours.
    compile := [module()],
    includes := [file:filename()]
}.

%% Sources are absolute paths of .erl, .yrl or .xrl files.
-spec compile(sbx_project:app(), [file:filename()], file:filename()) ->
    {[compiled()], [sbx_diagnostic:diagnostic()]}.
compile(_App, [], _Root) ->
    {[], []};
compile(#{name := Name, grammars := Generating} = App, Sources, Root) ->
    ok = sbx_compile_parts:load(erlang),
    {Grammars, Modules} = lists:partition(fun(Source) -> lists:member(Source, Generating) end, Sources),
    {Generated, GrammarWarnings} = grammars(Grammars, filename:dirname(sbx_scratch:ebin(Name)), Root),
    Options = options(App),
    Inputs = [{Source, Source} || Source <- Modules] ++ Generated,
    {Compiled, Warnings} = in_waves(first(Inputs, App), {Name, Options, Root}, {[], GrammarWarnings}),
    {[after_first(One, App) || One <- Compiled], Warnings}.

%% What comes first may run while the others are compiled.
after_first(Compiled, #{first := []}) ->
    Compiled;
after_first(#{file := File, compile := Used} = Compiled, #{first := First}) ->
    case lists:member(File, First) of
        true -> Compiled;
        false -> Compiled#{compile := lists:usort([module_of(Path) || Path <- First] ++ Used)}
    end.

in_waves([], _How, Result) ->
    Result;
in_waves([Wave | Later], {Name, Options, Root} = How, {Done, Warnings}) ->
    {Compiled, Deferred, More} = wave(Wave, Options, Root, Warnings),
    lists:foreach(fun(One) -> store(Name, One) end, Compiled),
    in_waves([Deferred || Deferred =/= []] ++ Later, How, {Done ++ Compiled, Warnings ++ More}).

store(Name, #{file := File, modules := [{Module, Beam}]}) ->
    ok = sbx_tracer:defines(File, Module),
    ok = sbx_scratch:put(Name, Module, Beam).

options(#{include := Include, erlang_options := Options}) ->
    Kept = [Option || Option <- Options, not lists:member(Option, ?IGNORED_OPTIONS)],
    [return, debug_info | [{i, Dir} || Dir <- Include]] ++ Kept.

%% Waves: what rebar.config says comes first does; parse transforms and behaviours have to be compiled
%% before the modules that use them.

first(Inputs, #{first := First}) ->
    {Before, After} = lists:partition(fun({File, _Path}) -> lists:member(File, First) end, Inputs),
    [[Input] || File <- First, {Source, _Path} = Input <- Before, Source =:= File] ++ [W || W <- waves(After), W =/= []].

waves([_] = Inputs) ->
    [Inputs];
waves(Inputs) ->
    Named = [{module_of(Path), Input} || {_File, Path} = Input <- Inputs],
    Modules = maps:from_list(Named),
    Uses = maps:map(fun(_Module, {_File, Path}) -> [M || M <- used_by(Path), is_map_key(M, Modules)] end, Modules),
    levels(Named, Uses, #{}).

%% A level has the modules that need only finished ones. The compiler reports cycles.
levels([], _Uses, _Done) ->
    [];
levels(Named, Uses, Done) ->
    IsDone = fun(Used) -> is_map_key(Used, Done) end,
    IsReady = fun({Module, _Input}) -> lists:all(IsDone, map_get(Module, Uses) -- [Module]) end,
    case lists:partition(IsReady, Named) of
        {[], Circle} ->
            [[Input || {_, Input} <- Circle]];
        {Now, Later} ->
            [[Input || {_, Input} <- Now] | levels(Later, Uses, maps:merge(Done, maps:from_list(Now)))]
    end.

used_by(Path) ->
    {ok, Text} = file:read_file(Path),
    Pattern = "(?:parse_transform|behaviou?r)\\s*[,(]\\s*'?([a-z][A-Za-z0-9_@]*)",
    case re:run(Text, Pattern, [global, {capture, all_but_first, binary}]) of
        {match, Found} -> [binary_to_atom(Name) || [Name] <- Found];
        nomatch -> []
    end.

wave(All, Options, Root, Before) ->
    Tried = lists:zip(All, sbx_parallel:map(fun({_File, Path}) -> compile_source(Path, Options) end, All)),
    {Deferred, Kept} = deferred(Tried, [module_of(Path) || {_File, Path} <- All]),
    {Inputs, Results} = lists:unzip(Kept),
    {Errors, Warnings} = lists:unzip([told(Result, Root) || Result <- Results]),
    %% Checked before any module is loaded. The compiler has refused modules whose name differs from
    %% their file's.
    case lists:append(Errors) ++ sbx_diagnostic:reserved([named(Input) || Input <- Inputs], Root) of
        [] ->
            Compiled = [compiled(Input, Result) || {Input, Result} <- Kept],
            {Compiled, [Input || {Input, _Result} <- Deferred], lists:append(Warnings)};
        Failed ->
            throw({failed, Failed, Before ++ lists:append(Warnings)})
    end.

%% A header may name a parse transform that is compiled in the same wave. Its modules wait for that.
deferred(Tried, Modules) ->
    case lists:partition(fun({_Input, Result}) -> awaits(Result, Modules) end, Tried) of
        {_All, []} -> {[], Tried};
        Parted -> Parted
    end.

awaits({error, Errors, _Warnings}, Modules) ->
    lists:any(
        fun({_File, Infos}) ->
            lists:any(
                fun
                    ({_, compile, {undef_parse_transform, Module}}) -> lists:member(Module, Modules);
                    (_Other) -> false
                end,
                Infos
            )
        end,
        Errors
    );
awaits(_Result, _Modules) ->
    false.

named({File, Path}) -> {module_of(Path), File}.

module_of(Path) -> list_to_atom(filename:basename(Path, ".erl")).

compiled({File, _Path}, {ok, Compiled, _Warnings}) ->
    Compiled#{file => File}.

told({ok, _Compiled, Warnings}, Root) ->
    {[], sbx_diagnostic:from_erlang(warning, Warnings, Root)};
told({error, Errors, Warnings}, Root) ->
    {sbx_diagnostic:from_erlang(error, Errors, Root), sbx_diagnostic:from_erlang(warning, Warnings, Root)};
told({crashed, Reason}, Root) ->
    {[sbx_diagnostic:new(compile, nil, nil, io_lib:format("the compiler crashed: ~tp", [Reason]), Root)], []}.

%% One source

%% Does what compile:file/2 does, to the byte, but gives access to the forms.
-spec compile_source(file:filename(), [term()]) -> {ok, map(), list()} | {error, list(), list()}.
compile_source(Path, Options) ->
    case read(Path, Options) of
        {ok, Forms, Chunks} -> compile_forms(Path, Forms, [{source, Path} | Chunks] ++ Options);
        {error, Info} -> {error, [{Path, [Info]}], []}
    end.

compile_forms(Path, Forms, Options) ->
    case compile_parsed(Path, Forms, Options) of
        {ok, Module, Beam, Warnings} ->
            Name = filename:basename(Path, ".erl"),
            case Name =:= atom_to_list(Module) of
                true -> {ok, (facts(Forms, Options))#{modules => [{Module, Beam}]}, Warnings};
                false -> {error, [{Path, [{none, compile, {module_name, Module, Name}}]}], Warnings}
            end;
        {error, Errors, Warnings} ->
            {error, Errors, Warnings}
    end.

%% If a source turns columns off itself, only the compiler's own parser leaves them out.
compile_parsed(Path, Forms, Options) ->
    Said = lists:append([listed(Value) || {attribute, _, compile, Value} <- Forms]),
    case lists:keymember(error_location, 1, Said) of
        true -> compile:noenv_file(Path, [binary | [Option || Option <- Options, not is_ours(Option)]]);
        false -> compile:noenv_forms(Forms, Options)
    end.

is_ours({source, _Path}) -> true;
is_ours({extra_chunks, _Chunks}) -> true;
is_ours(_Option) -> false.

listed(Options) when is_list(Options) -> Options;
listed(Option) -> [Option].

read(Path, Options) ->
    case reserved_words(Options) of
        {ok, Words} ->
            parsed(epp:parse_file(Path, epp_options(Path, Options) ++ Words));
        {error, {Module, Reason}} ->
            {error, {none, Module, Reason}}
    end.

epp_options(Path, Options) ->
    [
        {includes, [".", filename:dirname(Path) | [Dir || {i, Dir} <- Options, is_list(Dir)]]},
        {source_name, Path},
        {deterministic, lists:member(deterministic, Options)},
        {macros, [macro(Option) || Option <- Options, is_macro(Option)]},
        {default_encoding, utf8},
        {location, location(Options)},
        extra
    ].

is_macro({d, _Name}) -> true;
is_macro({d, _Name, _Value}) -> true;
is_macro(_Option) -> false.

macro({d, Name}) -> Name;
macro({d, Name, Value}) -> {Name, Value}.

location(Options) ->
    case proplists:get_value(error_location, Options, column) of
        column -> {1, 1};
        line -> 1
    end.

%% Since OTP 25 a source may change which words are reserved.
reserved_words(Options) ->
    case has_features() of
        false ->
            {ok, []};
        true ->
            case erl_features:keyword_fun(Options, fun erl_scan:f_reserved_word/1) of
                {ok, {Features, Function}} -> {ok, [{features, Features}, {reserved_word_fun, Function}]};
                {error, _} = Error -> Error
            end
    end.

has_features() ->
    {module, erl_scan} = code:ensure_loaded(erl_scan),
    erlang:function_exported(erl_scan, f_reserved_word, 1).

parsed({ok, Forms, Extra}) ->
    {ok, Forms, features_chunk(proplists:get_value(features, Extra))};
parsed({error, Reason}) ->
    {error, {none, compile, {epp, Reason}}}.

features_chunk(undefined) -> [];
features_chunk(Used) -> [{extra_chunks, [{<<"Meta">>, term_to_binary([{enabled_features, Used}])}]}].

facts(Forms, Options) ->
    Told = lists:append([wanted(Name, Value) || {attribute, _, Name, Value} <- Forms]),
    #{
        compile => lists:usort([Module || {parse_transform, Module} <- Options] ++ [Module || {uses, Module} <- Told]),
        includes => lists:usort([File || {read, File} <- Told])
    }.

wanted(file, {File, _Line}) -> [{read, File}];
wanted(Name, Module) when is_atom(Module), (Name =:= behaviour orelse Name =:= behavior) -> [{uses, Module}];
wanted(compile, Options) -> [{uses, Module} || {parse_transform, Module} <- listed(Options)];
wanted(_Name, _Value) -> [].

%% Grammars, and an escript's text, become modules in the scratch folder, never in the project.

grammars(Grammars, Dir, Root) ->
    Results = [{Grammar, grammar(Grammar, Dir)} || Grammar <- Grammars],
    {Errors, Warnings} = lists:unzip([told_grammar(Result, Root) || {_, Result} <- Results]),
    case lists:append(Errors) of
        [] -> {[{Grammar, element(2, Result)} || {Grammar, Result} <- Results], lists:append(Warnings)};
        All -> throw({failed, All, lists:append(Warnings)})
    end.

grammar(Grammar, Dir) ->
    Extension = filename:extension(Grammar),
    Target = filename:join(Dir, filename:basename(Grammar, Extension) ++ ".erl"),
    case Extension of
        ".yrl" -> yecc:file(Grammar, [return, {parserfile, Target}]);
        ".xrl" -> leex:file(Grammar, [return, {scannerfile, Target}]);
        _Escript -> {ok, sbx_escript:write_module(Grammar, Dir), []}
    end.

told_grammar({ok, _File, Warnings}, Root) -> {[], sbx_diagnostic:from_erlang(warning, Warnings, Root)};
told_grammar(Failure, Root) -> told(Failure, Root).
