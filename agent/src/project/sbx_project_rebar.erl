%%% Describes rebar3 projects, and any folder in the layout of OTP applications: src, include, an
%%% .app.src. It does not need rebar3.
-module(sbx_project_rebar).

-export([discover/2, app/2, described_by/1]).

-define(DEPENDENCY_DIRS, ["_checkouts", "deps", "_build/default/lib", "vendor"]).

-spec discover(file:filename(), string()) -> sbx_project:project().
discover(Root, Name) ->
    Config = config(Root),
    Options = proplists:get_value(erl_opts, Config, []),
    Own = [app(Dir, sbx_app_file:safe_name(own_name(Dir, Root, Name)), Options) || Dir <- app_dirs(Root, Config)],
    {Deps, Problems} = dependencies(Root, Config),
    Apps = sbx_project:order(linked(Own ++ Deps)),
    {Environment, Read} = sbx_config:erlang(Root),
    #{
        root => Root,
        apps => Apps,
        main => main(Own),
        config => Environment,
        runtime => none,
        problems => Problems,
        loose => lists:all(fun(#{properties := Properties}) -> Properties =:= [] end, Own),
        described_by => lists:usort(lists:append([described_by(Dir) || Dir <- [Root | dirs(Apps)]]) ++ Read),
        consolidate => true,
        missing => []
    }.

dirs(Apps) ->
    [Dir || #{dir := Dir} <- Apps].

own_name(Root, Root, Name) -> Name;
own_name(Dir, _Root, _Name) -> filename:basename(Dir).

config(Dir) ->
    case file:consult(filename:join(Dir, "rebar.config")) of
        {ok, Terms} ->
            Terms;
        {error, enoent} ->
            [];
        {error, {Line, Module, Description}} ->
            File = filename:join(Dir, "rebar.config"),
            throw({diagnostics, [sbx_diagnostic:new(syntax, File, Line, Module:format_error(Description), Dir)]});
        {error, Reason} ->
            throw({project, unicode:characters_to_binary(["rebar.config: ", file:format_error(Reason)])})
    end.

%% The root itself, and the applications of a project with several.
app_dirs(Root, Config) ->
    Patterns = proplists:get_value(project_app_dirs, Config, ["apps/*", "lib/*", "."]),
    Dirs = lists:append([filelib:wildcard(Pattern, Root) || Pattern <- Patterns]),
    lists:usort([Dir || Sub <- Dirs, Dir <- [dir(Root, Sub)], is_app(Dir)]).

dir(Root, ".") -> Root;
dir(Root, Sub) -> filename:join(Root, Sub).

is_app(Dir) ->
    sbx_files:find(filename:join(Dir, "src"), [".erl", ".src", ".xrl", ".yrl"]) =/= [].

%% A dependency, with its own options.
-spec app(file:filename(), atom()) -> sbx_project:app().
app(Dir, Name) ->
    app(Dir, Name, proplists:get_value(erl_opts, config(Dir), [])).

app(Dir, Name, Options) ->
    Src = filename:join(Dir, "src"),
    Ebin = filename:join(Dir, "ebin"),
    {AppName, Properties} = described(Src, Ebin, Name),
    Sources = sbx_files:find(Src, [".erl"]),
    (sbx_project:new_app(AppName, Dir))#{
        erlang := Sources,
        elixir := sbx_files:find(filename:join(Dir, "lib"), [".ex"]),
        grammars := sbx_files:find(Src, [".yrl", ".xrl"]),
        include := lists:usort([filename:join(Dir, "include"), Src | [filename:dirname(File) || File <- Sources]]),
        erlang_options := Options,
        properties := Properties,
        prebuilt := prebuilt(Sources, Ebin)
    }.

described(Src, Ebin, Name) ->
    case descriptions(Src, Ebin) of
        [File | _] -> sbx_project:template(File);
        [] -> {Name, []}
    end.

%% A dependency may come as compiled modules only.
prebuilt([], Ebin) -> sbx_project:beams(Ebin);
prebuilt(_Sources, _Ebin) -> [].

%% The files that describe the application in a folder.
-spec described_by(file:filename()) -> [file:filename()].
described_by(Dir) ->
    [filename:join(Dir, "rebar.config") | descriptions(filename:join(Dir, "src"), filename:join(Dir, "ebin"))].

descriptions(Src, Ebin) ->
    filelib:wildcard(filename:join(Src, "*.app.src")) ++ filelib:wildcard(filename:join(Ebin, "*.app")).

dependencies(Root, Config) ->
    Names = [dependency_name(Dep) || Dep <- proplists:get_value(deps, Config, [])],
    lists:foldl(fun(Name, Acc) -> add_dependency(Name, Root, Acc) end, {[], []}, Names).

dependency_name(Name) when is_atom(Name) -> Name;
dependency_name(Dep) -> element(1, Dep).

add_dependency(Name, Root, {Apps, Problems}) ->
    Candidates = [filename:join([Root, Parent, Name]) || Parent <- ?DEPENDENCY_DIRS],
    case [Dir || Dir <- Candidates, sbx_files:is_dir(Dir)] of
        [Dir | _] ->
            dependencies_of(Dir, Root, {[app(Dir, Name) | Apps], Problems});
        [] ->
            Problem = sbx_diagnostic:dependency(
                "the dependency ~ts is not in the project: it was looked for in ~ts. Nothing is fetched; put it there",
                [Name, lists:join(", ", ?DEPENDENCY_DIRS)]
            ),
            {Apps, [Problem | Problems]}
    end.

%% The dependencies of a dependency are expected beside it.
dependencies_of(Dir, Root, {Apps, _} = Found) ->
    Known = [Name || #{name := Name} <- Apps],
    Names = [dependency_name(Dep) || Dep <- proplists:get_value(deps, config(Dir), [])],
    lists:foldl(fun(Name, Acc) -> add_dependency(Name, Root, Acc) end, Found, Names -- Known).

%% The resource file lists the applications that an application needs.
linked(Apps) ->
    Names = [Name || #{name := Name} <- Apps],
    [App#{needs := [Need || Need <- listed(App), lists:member(Need, Names)]} || App <- Apps].

listed(#{properties := Properties}) ->
    proplists:get_value(applications, Properties, []) ++ proplists:get_value(included_applications, Properties, []).

%% Of several applications, the one that no other needs.
main([]) ->
    nil;
main([#{name := Name}]) ->
    Name;
main(Own) ->
    Needed = lists:append([listed(App) || App <- Own]),
    Roots = [App || #{name := Name} = App <- Own, not lists:member(Name, Needed)],
    Started = [App || #{properties := Properties} = App <- Roots, lists:keymember(mod, 1, Properties)],
    case {Roots, Started} of
        {[#{name := Name}], _} -> Name;
        {_, [#{name := Name}]} -> Name;
        _ -> nil
    end.
