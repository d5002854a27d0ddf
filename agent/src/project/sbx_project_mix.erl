%%% Describes Mix projects. It evaluates mix.exs and looks for dependencies on disk; it fetches and
%%% compiles nothing.
-module(sbx_project_mix).

-export([discover/1, inside/2, forget/0]).

-define(ENV, dev).

-spec discover(file:filename()) -> sbx_project:project().
discover(Root) ->
    ok = forget(),
    ok = start_mix(),
    #{config := Config} = Top = load(Root, Root),
    Lists = #{problems => [], missing => [], described_by => []},
    Found = apps(Top, Lists#{root => Root, deps_path => deps_path(Top), apps => #{}}),
    #{apps := Apps, problems := Problems, described_by := Described} = Found,
    {Main, Extra} = main(members(Top), Apps, Root),
    {Environment, Read} = configuration(Root, Config),
    #{
        root => Root,
        apps => sbx_project:order(maps:values(Apps)) ++ Extra,
        main => Main,
        config => Environment,
        problems => lists:reverse(Problems),
        loose => false,
        described_by => lists:usort(maps:get(files, Top) ++ Described ++ Read),
        consolidate => proplists:get_value(consolidate_protocols, Config, true),
        missing => maps:get(missing, Found)
    }.

%% Mix is installed beside Elixir, in a folder that is not on the code path of other nodes.
start_mix() ->
    ok = sbx_elixir:need("a Mix project"),
    Libraries = filename:dirname(code:lib_dir(elixir)),
    [code:add_pathz(filename:join([Libraries, App, "ebin"])) || App <- ["mix", "eex", "ex_unit"]],
    {ok, _} = application:ensure_all_started(mix),
    'Elixir.Mix':env(?ENV),
    ok.

%% Runs Fun while Mix.Project knows the application's project, since sources may read their version
%% from it.
-spec inside(sbx_project:app(), fun(() -> Result)) -> Result.
inside(#{mix := none}, Fun) ->
    Fun();
inside(#{mix := {Module, _Config}, name := Name, dir := Dir}, Fun) ->
    'Elixir.Mix.Project':push(Module, unicode:characters_to_binary(mix_file(Dir)), Name),
    try
        Fun()
    after
        'Elixir.Mix.Project':pop()
    end.

%% Unloads the modules of evaluated mix.exs files, so that they are evaluated anew.
-spec forget() -> ok.
forget() ->
    Modules = persistent_term:get(?MODULE, []),
    lists:foreach(fun sbx_scratch:unload/1, Modules),
    _ = persistent_term:erase(?MODULE),
    ok.

remember(Modules) ->
    persistent_term:put(?MODULE, Modules ++ persistent_term:get(?MODULE, [])).

%% Evaluates mix.exs in Dir.
load(Dir, Root) ->
    ok = file:set_cwd(Dir),
    File = mix_file(Dir),
    Required = 'Elixir.Code':required_files(),
    try
        Compiled = sbx_elixir:with_errors(fun() -> 'Elixir.Code':compile_file(unicode:characters_to_binary(File)) end),
        ok = remember([Defined || {Defined, _Beam} <- Compiled]),
        Module = 'Elixir.Mix.Project':'get!'(),
        Config = 'Elixir.Mix.Project':config(),
        Properties =
            case erlang:function_exported(Module, application, 0) of
                true -> Module:application();
                false -> []
            end,
        Read = [text(Path) || Path <- 'Elixir.Code':required_files() -- Required],
        'Elixir.Code':unrequire_files([unicode:characters_to_binary(Path) || Path <- Read]),
        #{dir => Dir, module => Module, config => Config, application => Properties, files => [File | Read]}
    catch
        Class:Reason:Stack ->
            throw({diagnostics, [sbx_diagnostic:from_exception("mix.exs", {Class, Reason, Stack}, Dir, Root)]})
    after
        'Elixir.Mix.Project':pop(),
        file:set_cwd(Root)
    end.

deps_path(#{dir := Dir, config := Config}) ->
    filename:absname(text(proplists:get_value(deps_path, Config, <<"deps">>)), Dir).

%% An umbrella has no code of its own, only applications.
members(#{dir := Dir, config := Config}) ->
    case proplists:get_value(apps_path, Config) of
        undefined -> {single, proplists:get_value(app, Config)};
        Path -> {umbrella, [Sub || Sub <- sbx_files:subdirs(filename:join(Dir, text(Path))), is_mix(Sub)]}
    end.

is_mix(Dir) ->
    filelib:is_regular(mix_file(Dir)).

mix_file(Dir) ->
    filename:join(Dir, "mix.exs").

apps(#{dir := Dir, config := Config} = Loaded, #{root := Root} = Found) ->
    case members(Loaded) of
        {single, _App} -> add_app(Loaded, Found);
        {umbrella, Dirs} ->
            WithDeps = add_deps(Dir, Config, Found),
            lists:foldl(fun(Sub, Acc) -> add_app(load(Sub, Root), Acc) end, WithDeps, Dirs)
    end.

add_app(#{dir := Dir, config := Config} = Loaded, #{apps := Apps} = Found) ->
    Name = proplists:get_value(app, Config),
    case is_map_key(Name, Apps) of
        true ->
            Found;
        false ->
            App = app(Name, Loaded),
            Read = maps:get(files, Loaded) ++ maps:get(described_by, Found),
            add_deps(Dir, Config, Found#{apps := Apps#{Name => App}, described_by := Read})
    end.

app(Name, #{dir := Dir, module := Module, config := Config, application := Application}) ->
    Elixir = paths(Dir, Config, elixirc_paths, [<<"lib">>]),
    Erlang = paths(Dir, Config, erlc_paths, [<<"src">>]),
    Include = filename:join(Dir, text(proplists:get_value(erlc_include_path, Config, <<"include">>))),
    Deps = [Dep || Dep <- deps(Config), is_needed(Dep)],
    (sbx_project:new_app(Name, Dir))#{
        elixir := sbx_files:find_in(Elixir, [".ex"]),
        erlang := sbx_files:find_in(Erlang, [".erl"]),
        grammars := sbx_files:find_in(Erlang, [".yrl", ".xrl"]),
        include := [Include | Erlang],
        erlang_options := proplists:get_value(erlc_options, Config, []),
        elixir_options := proplists:get_value(elixirc_options, Config, []),
        properties := properties(Config, Application, Deps),
        needs := [DepName || {DepName, _Options} <- Deps],
        mix := {Module, Config}
    }.

paths(Dir, Config, Key, Default) ->
    [filename:join(Dir, text(Path)) || Path <- proplists:get_value(Key, Config, Default)].

%% The resource file's properties, as Mix makes them.
properties(Config, Application, Deps) ->
    Applications =
        case lists:keyfind(applications, 1, Application) of
            {applications, Listed} -> Listed;
            false -> proplists:get_value(extra_applications, Application, []) ++ runtime_deps(Deps)
        end,
    Names = [optional(App) || App <- [kernel, stdlib, elixir] ++ Applications],
    [
        {vsn, text(proplists:get_value(version, Config, <<"0.1.0">>))},
        {description, text(proplists:get_value(description, Config, <<>>))},
        {applications, unique(Names)}
        | [Property || {Key, _} = Property <- Application, not lists:member(Key, [extra_applications, applications])]
    ].

unique(Names) ->
    lists:reverse(
        lists:foldl(
            fun(Name, Seen) ->
                case lists:member(Name, Seen) of
                    true -> Seen;
                    false -> [Name | Seen]
                end
            end,
            [],
            Names
        )
    ).

optional({App, _Mode}) -> App;
optional(App) -> App.

runtime_deps(Deps) ->
    [Name || {Name, Options} <- Deps, is_set(runtime, Options), is_set(app, Options)].

is_set(Key, Options) ->
    proplists:get_value(Key, Options, true) =/= false.

%% Dependencies

deps(Config) ->
    [dep(Dep) || Dep <- proplists:get_value(deps, Config, [])].

dep({Name, Requirement}) when is_binary(Requirement) -> {Name, []};
dep({Name, Options}) when is_list(Options) -> {Name, Options};
dep({Name, _Requirement, Options}) -> {Name, Options};
dep(Name) when is_atom(Name) -> {Name, []}.

%% Whether the dependency is for this environment, not for tests or others.
is_needed({_Name, Options}) ->
    case proplists:get_value(only, Options, ?ENV) of
        Env when is_atom(Env) -> Env =:= ?ENV;
        Envs -> lists:member(?ENV, Envs)
    end.

add_deps(Dir, Config, Found) ->
    lists:foldl(fun(Dep, Acc) -> add_dep(Dep, Dir, Acc) end, Found, [Dep || Dep <- deps(Config), is_needed(Dep)]).

add_dep({Name, Options}, Dir, #{root := Root, apps := Apps} = Found) ->
    DepDir = dep_dir(Name, Options, Dir, Found),
    case {is_map_key(Name, Apps), sbx_files:is_dir(DepDir), is_mix(DepDir)} of
        {true, _, _} -> Found;
        {false, false, _} -> missing(Name, Options, DepDir, Found);
        {false, true, true} -> add_app(load(DepDir, Root), Found);
        {false, true, false} -> add_rebar_app(Name, DepDir, Found)
    end.

%% A mix.exs added to the folder would change the description.
add_rebar_app(Name, Dir, #{apps := Apps, described_by := Described} = Found) ->
    Files = [mix_file(Dir) | sbx_project_rebar:described_by(Dir)],
    Found#{apps := Apps#{Name => sbx_project_rebar:app(Dir, Name)}, described_by := Files ++ Described}.

dep_dir(Name, Options, Dir, #{deps_path := DepsPath}) ->
    case {proplists:get_value(path, Options), proplists:get_value(in_umbrella, Options, false)} of
        {undefined, true} -> filename:join(filename:dirname(Dir), Name);
        {undefined, false} -> filename:join(DepsPath, Name);
        {Path, _} -> normal(filename:absname(text(Path), Dir))
    end.

normal(Path) ->
    text('Elixir.Path':expand(unicode:characters_to_binary(Path))).

%% Tools for developers are often listed and rarely vendored. The project runs without them.
missing(Name, Options, Dir, #{root := Root, problems := Problems, described_by := Described} = Before) ->
    Found = Before#{
        missing := [Name | maps:get(missing, Before)],
        described_by := [mix_file(Dir), filename:join(Dir, "rebar.config") | Described]
    },
    Diagnostic = sbx_diagnostic:dependency(
        "the dependency ~ts is not in the project: it was looked for in ~ts. Nothing is fetched; run `mix deps.get` "
        "before, or put it inside the project",
        [Name, sbx_files:relative(Dir, Root)]
    ),
    case not is_set(runtime, Options) orelse proplists:is_defined(only, Options) of
        true -> Found#{problems := [Diagnostic#{kind := warning} | Problems]};
        false -> Found#{problems := [Diagnostic | Problems]}
    end.

%% The application to start

main({single, Name}, _Apps, _Root) ->
    {Name, []};
main({umbrella, Dirs}, Apps, Root) ->
    Members = [Name || #{name := Name, dir := Dir} <- maps:values(Apps), lists:member(Dir, Dirs)],
    Needed = lists:append([Needs || #{needs := Needs} <- maps:values(Apps)]),
    case [Name || Name <- Members, not lists:member(Name, Needed)] of
        [Name] -> {Name, []};
        Roots -> umbrella(Roots, Root)
    end.

%% Several applications that no other needs: one more application, without code, needs them all.
umbrella(Roots, Root) ->
    App = sbx_project:new_app(umbrella, Root),
    {umbrella, [App#{properties := [{applications, [kernel, stdlib | lists:sort(Roots)]}], needs := Roots}]}.

configuration(Root, Config) ->
    File = filename:absname(text(proplists:get_value(config_path, Config, <<"config/config.exs">>)), Root),
    try
        sbx_config:elixir(File, ?ENV)
    catch
        Class:Reason:Stack ->
            throw({diagnostics, [sbx_diagnostic:from_exception(File, {Class, Reason, Stack}, Root, Root)]})
    end.

text(Chars) ->
    unicode:characters_to_list(Chars).
