%%% Describes rebar3 projects, and any folder in the layout of OTP applications: src, include, an
%%% .app.src. rebar3 reads the configurations where the host has it, and sbx_rebar_config otherwise.
-module(sbx_project_rebar).

-export([discover/3, app/2, app/3, described_by/1]).

-define(DEPENDENCY_DIRS, ["_checkouts", "deps", "_build/default/lib", "vendor"]).

-spec discover(file:filename(), string(), map()) -> sbx_project:project().
discover(Root, Name, Args) ->
    Profile = profile(maps:get(mix_env, Args, nil)),
    case lists:any(fun filelib:is_regular/1, sbx_rebar_config:files(Root)) andalso sbx_rebar:is_there() of
        true -> sbx_rebar:inside(Root, fun() -> discover(sbx_rebar, Root, Name, Profile) end);
        false -> discover(sbx_rebar_config, Root, Name, Profile)
    end.

discover(Reader, Root, Name, Profile) ->
    #{config := Config} = Read = Reader:project(Root, Profile),
    Own = own(Read, Root, Name, Profile),
    {Deps, Missing} = dependencies(Root, Reader, Read, Profile),
    Apps = sbx_project:order(linked(Own ++ Deps)),
    {Environment, Files} = sbx_config:erlang(Root),
    #{
        root => Root,
        apps => Apps,
        main => main(Own),
        config => Environment,
        runtime => none,
        problems => hooks([Config | [Its || {_, _, Its} <- maps:get(apps, Read)]]) ++ unread(Reader, Config) ++ Missing,
        loose => lists:all(fun(#{properties := Properties}) -> Properties =:= [] end, Own),
        described_by => lists:usort(lists:append([described_by(Dir) || Dir <- [Root | dirs(Apps)]]) ++ Files),
        consolidate => true,
        missing => []
    }.

%% The daemon checks the name. A profile's dependencies lie in a folder of their own.
profile(nil) -> nil;
profile(Name) -> binary_to_atom(Name).

hooks(Configs) ->
    case lists:usort(lists:append([sbx_rebar_config:hooks(Config) || Config <- Configs])) of
        [] ->
            [];
        Hooks ->
            warning(
                "rebar.config has ~ts run when it compiles, which is not done here: it would run programs. Where the "
                "project needs what that makes, run `rebar3 compile` before",
                [lists:join(", ", Hooks)]
            )
    end.

unread(sbx_rebar, _Config) ->
    [];
unread(sbx_rebar_config, Config) ->
    case sbx_rebar_config:unread(Config) of
        [] ->
            [];
        Keys ->
            Names = lists:join(", ", [atom_to_list(Key) || Key <- Keys]),
            warning("rebar.config has ~ts, which only rebar3 heeds, and this host has none: install rebar3", [Names])
    end.

warning(Format, Arguments) ->
    [(sbx_diagnostic:dependency(Format, Arguments))#{kind := warning}].

dirs(Apps) ->
    [Dir || #{dir := Dir} <- Apps].

own_name(Root, Root, Name) -> sbx_app_file:safe_name(Name);
own_name(Dir, _Root, _Name) -> sbx_app_file:safe_name(filename:basename(Dir)).

own(#{apps := [], config := Config}, Root, Name, Profile) ->
    [own(Dir, own_name(Dir, Root, Name), Root, Config, Profile) || Dir <- app_dirs(Root, Config)];
own(#{apps := Found}, _Root, _Name, _Profile) ->
    [app(Dir, Name, Config) || {Dir, Name, Config} <- Found].

own(Root, Name, Root, Config, _Profile) -> app(Root, Name, Config);
own(Dir, Name, _Root, Config, Profile) -> app(Dir, Name, sbx_rebar_config:for_app(Dir, Config, Profile)).

%% The root itself, and the applications of a project with several.
app_dirs(Root, Config) ->
    Patterns = proplists:get_value(project_app_dirs, Config, ["apps/*", "lib/*", "."]),
    Dirs = lists:append([filelib:wildcard(Pattern, Root) || Pattern <- Patterns]),
    lists:usort([Dir || Sub <- Dirs, Dir <- [dir(Root, Sub)], is_app(Dir, Config)]).

dir(Root, ".") -> Root;
dir(Root, Sub) -> filename:join(Root, Sub).

is_app(Dir, Config) ->
    lists:any(
        fun({Sub, _Depth}) -> sbx_files:find(filename:join(Dir, Sub), [".erl", ".src", ".xrl", ".yrl"]) =/= [] end,
        sbx_rebar_config:source_dirs(Config)
    ).

%% A dependency, with its own options.
-spec app(file:filename(), atom()) -> sbx_project:app().
app(Dir, Name) ->
    app(Dir, Name, sbx_rebar_config:read(Dir, nil)).

-spec app(file:filename(), atom(), [term()]) -> sbx_project:app().
app(Dir, Name, Config) ->
    Ebin = filename:join(Dir, "ebin"),
    Dirs = [{filename:join(Dir, Sub), Depth} || {Sub, Depth} <- sbx_rebar_config:source_dirs(Config)],
    {AppName, Properties} = described([Source || {Source, _} <- Dirs], Ebin, Name),
    Sources = find(Dirs, [".erl"]),
    (sbx_project:new_app(AppName, Dir))#{
        erlang := Sources,
        first := [filename:join(Dir, File) || File <- proplists:get_value(erl_first_files, Config, [])],
        elixir := sbx_files:find(filename:join(Dir, "lib"), [".ex"]),
        grammars := find(Dirs, [".yrl", ".xrl"]),
        include := include(Dir, Dirs, Sources),
        erlang_options := sbx_rebar_config:options(Config),
        properties := Properties,
        prebuilt := prebuilt(Sources, Ebin)
    }.

include(Dir, Dirs, Sources) ->
    Own = [filename:join(Dir, "include") | [Source || {Source, _} <- Dirs]],
    lists:usort(Own ++ [filename:dirname(File) || File <- Sources]).

find(Dirs, Extensions) ->
    lists:usort(lists:append([in_depth(Dir, Depth, sbx_files:find(Dir, Extensions)) || {Dir, Depth} <- Dirs])).

in_depth(_Dir, all, Files) -> Files;
in_depth(Dir, top, Files) -> [File || File <- Files, filename:dirname(File) =:= Dir].

described(Sources, Ebin, Name) ->
    case descriptions(Sources, Ebin) of
        [File | _] -> sbx_project:template(File);
        [] -> {Name, []}
    end.

%% A dependency may come as compiled modules only.
prebuilt([], Ebin) -> sbx_project:beams(Ebin);
prebuilt(_Sources, _Ebin) -> [].

%% The files that describe the application in a folder.
-spec described_by(file:filename()) -> [file:filename()].
described_by(Dir) ->
    sbx_rebar_config:files(Dir) ++ descriptions([filename:join(Dir, "src")], filename:join(Dir, "ebin")).

descriptions(Sources, Ebin) ->
    lists:append([filelib:wildcard(filename:join(Dir, "*.app.src")) || Dir <- Sources]) ++
        filelib:wildcard(filename:join(Ebin, "*.app")).

dependencies(Root, Reader, #{config := Config} = Read, Profile) ->
    Found = #{root => Root, by => {Reader, Read}, dirs => dependency_dirs(Profile), apps => [], problems => []},
    #{apps := Apps, problems := Problems} = lists:foldl(fun add_dependency/2, Found, names(Config)),
    {Apps, Problems}.

dependency_dirs(nil) -> ?DEPENDENCY_DIRS;
dependency_dirs(Profile) -> ?DEPENDENCY_DIRS ++ [filename:join(["_build", Profile, "lib"])].

names(Config) ->
    [dependency_name(Dep) || Dep <- proplists:get_value(deps, Config, [])].

%% rebar3 takes what a dependency's lock lists, where names are binaries.
dependency_name(Name) when is_atom(Name) -> Name;
dependency_name(Name) when is_binary(Name) -> binary_to_atom(Name);
dependency_name(Dep) -> dependency_name(element(1, Dep)).

add_dependency(Name, #{root := Root, dirs := Parents} = Found) ->
    Candidates = [filename:join([Root, Parent, Name]) || Parent <- Parents],
    case [Dir || Dir <- Candidates, sbx_files:is_dir(Dir)] of
        [Dir | _] -> add_found(Name, Dir, Found);
        [] -> add_missing(Name, Found)
    end.

%% The dependencies of a dependency are expected beside it.
add_found(Name, Dir, #{apps := Apps, by := {Reader, Read}} = Found) ->
    Config = Reader:dependency(Dir, Name, Read),
    App = (app(Dir, Name, Config))#{is_own := false},
    Known = [Other || #{name := Other} <- [App | Apps]],
    lists:foldl(fun add_dependency/2, Found#{apps := [App | Apps]}, names(Config) -- Known).

add_missing(Name, #{dirs := Parents, problems := Problems} = Found) ->
    Problem = sbx_diagnostic:dependency(
        "the dependency ~ts is not in the project: it was looked for in ~ts. Nothing is fetched; run "
        "`rebar3 get-deps` before, or put it there",
        [Name, lists:join(", ", Parents)]
    ),
    Found#{problems := [Problem | Problems]}.

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
