%%% Describes Mix projects as Mix itself sees them: Mix loads mix.exs and finds the dependencies that
%%% the project needs in its environment. Each application is asked for its own configuration in
%%% turn, as when Mix compiles it.
-module(sbx_project_mix).

-export([discover/2, inside/2, forget/0]).

%% Of a dependency's status: that no other one fits, in Mix's own words.
-define(CONFLICTS, [diverged, divergedreq, divergedonly, divergedtargets, overridden, nomatchvsn]).
-define(OTHERS, "\nhint: `sandbox toolchains` lists what there is, and --toolchain NAME takes one of those").

-spec discover(file:filename(), map()) -> sbx_project:project().
discover(Root, Args) ->
    ok = forget(),
    ok = sbx_scratch:forget_descriptions(),
    ok = sbx_mix:start(sbx_scratch:build_path(), environment(maps:get(mix_env, Args, nil))),
    ok = file:set_cwd(Root),
    Required = 'Elixir.Code':required_files(),
    try
        Project = described(Root),
        Read = 'Elixir.Code':required_files() -- Required,
        ok = 'Elixir.Code':unrequire_files(Read),
        with_read(Project, [text(Path) || Path <- Read])
    catch
        throw:Thrown ->
            throw(Thrown);
        Class:Reason:Stack ->
            throw({diagnostics, [sbx_diagnostic:from_script("mix.exs", {Class, Reason, Stack}, Root)]})
    end.

%% The daemon checks the name.
environment(nil) -> nil;
environment(Name) -> binary_to_atom(Name).

with_read(#{described_by := Described} = Project, Read) ->
    Project#{described_by := lists:usort(Read ++ Described)}.

-spec forget() -> ok.
forget() ->
    sbx_mix:forget().

%% The project itself stays on Mix's stack, below the dependency that is asked or compiled.
described(Root) ->
    _ = sbx_elixir:with_errors(fun() -> 'Elixir.Code':compile_file(binary(mix_file(Root))) end),
    _ = 'Elixir.Mix.Project':'get!'(),
    Config = 'Elixir.Mix.Project':config(),
    ok = check_version(Config),
    {Environment, Runtime, Read} = configuration(Root, Config),
    ok = sbx_config:apply(Environment),
    Deps = 'Elixir.Mix.Dep':load_and_cache(),
    Told = sbx_mix_shell:take(),
    Missing = [Dep || #{status := {unavailable, _}} = Dep <- Deps],
    Conflicts = [Dep || #{status := Status} = Dep <- Deps, is_conflict(Status)],
    Names = [Name || #{app := Name} <- Missing],
    Apps = lists:append([dependency(Dep, Names) || Dep <- Deps -- Missing]),
    {Own, Main} = own(Root, Config, Deps, Names, Apps),
    #{
        root => Root,
        apps => Apps ++ Own,
        main => Main,
        mix_env => 'Elixir.Mix':env(),
        config => Environment,
        runtime => Runtime,
        problems =>
            [missing(Dep, Root) || Dep <- Missing] ++ [conflict(Dep, Root) || Dep <- Conflicts] ++
                requirements(Deps, Apps, Root) ++ versions(Apps) ++ unbuilt(Apps ++ Own, Root) ++ told(Told, Root),
        loose => false,
        described_by => lists:append([described_by(Dep) || Dep <- Deps]) ++ own_files(Root, Config) ++ Read,
        consolidate => proplists:get_value(consolidate_protocols, Config, true),
        missing => Names
    }.

own_files(Root, Config) ->
    Lock = filename:absname(text(proplists:get_value(lockfile, Config, <<"mix.lock">>)), Root),
    [mix_file(Root), filename:join(Root, "VERSION"), Lock].

mix_file(Dir) ->
    filename:join(Dir, "mix.exs").

%% Mix's own check comes with tasks that also load what was built before.
check_version(Config) ->
    case lists:keyfind(elixir, 1, Config) of
        {elixir, Requirement} when is_binary(Requirement) ->
            case fits(Requirement) of
                true ->
                    ok;
                false ->
                    #{message := Message} = Error = 'Elixir.Mix.ElixirVersionError':exception([
                        {target, name_of(Config)}, {expected, Requirement}, {actual, 'Elixir.System':version()}
                    ]),
                    error(Error#{message := <<Message/binary, ?OTHERS>>})
            end;
        _ ->
            ok
    end.

name_of(Config) ->
    case proplists:get_value(app, Config) of
        nil -> 'Elixir.Mix.Project':get();
        App -> App
    end.

fits(Requirement) ->
    case 'Elixir.Version':parse_requirement(Requirement) of
        {ok, Parsed} -> 'Elixir.Version':'match?'('Elixir.System':version(), Parsed);
        error -> 'Elixir.Mix':raise(<<"Invalid Elixir version requirement ", Requirement/binary, " in mix.exs file">>)
    end.

configuration(Root, Config) ->
    File = filename:absname(text(proplists:get_value(config_path, Config, <<"config/config.exs">>)), Root),
    try
        Env = 'Elixir.Mix':env(),
        {Compiled, Read} = sbx_config:elixir(File, Env),
        {Runtime, Named} = sbx_config:runtime(File, Env),
        {Compiled, Runtime, Read ++ Named}
    catch
        Class:Reason:Stack ->
            throw({diagnostics, [sbx_diagnostic:from_script(File, {Class, Reason, Stack}, Root)]})
    end.

%% The project's own applications: itself, or an umbrella's members, which Mix has as dependencies.

own(Root, Config, Deps, Missing, Apps) ->
    case proplists:get_value(apps_path, Config) of
        undefined ->
            App = sbx_mix_app:describe(Root, Missing),
            #{name := Name} = App,
            Known = [Known || #{name := Known} <- Apps],
            Needs = [Dep || #{app := Dep, top_level := true} <- Deps, lists:member(Dep, Known)],
            {[App#{needs := Needs, is_own := true}], Name};
        _Path ->
            umbrella([Name || #{name := Name, is_own := true} <- Apps], Apps, Root)
    end.

%% Several applications that no other needs: one more application, without code, needs them all.
umbrella(Members, Apps, Root) ->
    Needed = lists:append([Needs || #{needs := Needs} <- Apps]),
    case [Name || Name <- Members, not lists:member(Name, Needed)] of
        [Name] ->
            {[], Name};
        Roots ->
            App = sbx_project:new_app(umbrella, Root),
            Properties = [{applications, [kernel, stdlib | lists:sort(Roots)]}],
            {[App#{properties := Properties, needs := Roots, is_own := true}], umbrella}
    end.

%% Dependencies

dependency(#{opts := Options, manager := Manager, deps := Children} = Dep, Missing) ->
    Needs = [Name || #{app := Name} <- Children, not lists:member(Name, Missing)],
    IsOwn = proplists:get_value(from_umbrella, Options, false),
    [
        App#{needs := Needs, is_own := IsOwn}
     || App <- by(Manager, proplists:get_value(compile, Options, true), Dep, Missing)
    ].

by(_Manager, false, Dep, _Missing) ->
    prebuilt(Dep);
by(mix, _Compile, Dep, Missing) ->
    in_dependency(Dep, fun() ->
        case 'Elixir.Mix.Project':'umbrella?'() of
            %% Its members are dependencies of their own.
            true -> [];
            false -> [(sbx_mix_app:describe(dir(Dep), Missing))#{dependency := Dep}]
        end
    end);
by(rebar3, _Compile, #{app := Name, extra := Config} = Dep, _Missing) ->
    [sbx_project_rebar:app(dir(Dep), Name, Config)];
by(_MakeOrNone, _Compile, #{app := Name} = Dep, _Missing) ->
    [sbx_project_rebar:app(dir(Dep), Name)].

%% A dependency that is not to be compiled may hold modules all the same, or only other files.
prebuilt(#{app := Name} = Dep) ->
    App = sbx_project_rebar:app(dir(Dep), Name),
    case sbx_project:beams(filename:join(dir(Dep), "ebin")) of
        [] -> [];
        Beams -> [App#{erlang := [], elixir := [], grammars := [], prebuilt := Beams}]
    end.

dir(#{opts := Options}) ->
    text(proplists:get_value(dest, Options)).

%% A file that is added may change which tool a dependency belongs to.
described_by(#{manager := mix} = Dep) ->
    [mix_file(dir(Dep))];
described_by(#{status := {unavailable, _}} = Dep) ->
    [mix_file(dir(Dep)), filename:join(dir(Dep), "rebar.config")];
described_by(Dep) ->
    [mix_file(dir(Dep)) | sbx_project_rebar:described_by(dir(Dep))].

in_dependency(Dep, Fun) ->
    'Elixir.Mix.Dep.Loader':with_system_env(Dep, fun() ->
        'Elixir.Mix.Dep':in_dependency(Dep, fun(_Module) -> Fun() end)
    end).

%% Runs Fun as Mix would while it compiles the application: sources may ask for the project, its
%% environment and its dependencies.
-spec inside(sbx_project:app(), fun(() -> Result)) -> Result.
inside(#{dependency := none}, Fun) -> Fun();
inside(#{dependency := Dep}, Fun) -> in_dependency(Dep, Fun).

%% Problems

is_conflict(Status) ->
    is_tuple(Status) andalso lists:member(element(1, Status), ?CONFLICTS).

%% Tools for developers are often listed and rarely vendored. The project runs without them.
missing(#{app := Name, opts := Options, scm := Scm} = Dep, Root) ->
    Dir = sbx_files:relative(dir(Dep), Root),
    Diagnostic = sbx_diagnostic:dependency("~ts", [absent(Name, Scm, Dir, Root)]),
    case proplists:get_value(runtime, Options, true) =:= false orelse is_tool(proplists:get_value(only, Options)) of
        true -> Diagnostic#{kind := warning};
        false -> Diagnostic
    end.

is_tool(undefined) -> false;
is_tool(Only) when is_atom(Only) -> Only =/= prod;
is_tool(Only) -> not lists:member(prod, Only).

absent(Name, 'Elixir.Mix.SCM.Path', "/" ++ _ = Dir, Root) ->
    Seen = sbx_files:seen_from(Dir, Root),
    io_lib:format(
        "the dependency ~ts lies outside the project, in ~ts, which was not handed over. Hand it over with --with ~ts",
        [Name, Seen, Seen]
    );
absent(Name, 'Elixir.Mix.SCM.Path', Dir, _Root) ->
    io_lib:format("the dependency ~ts is not in the project: there is no folder ~ts", [Name, Dir]);
absent(Name, _Scm, Dir, _Root) ->
    io_lib:format(
        "the dependency ~ts is not in the project: it was looked for in ~ts. Nothing is fetched; run `mix deps.get` "
        "before, or put it inside the project",
        [Name, Dir]
    ).

conflict(Dep, Root) ->
    sbx_diagnostic:dependency("~ts", [sbx_diagnostic:without_root('Elixir.Mix.Dep':format_status(Dep), Root)]).

%% Mix compares versions once it has compiled the dependencies. Here they are known before.
requirements(Deps, Apps, Root) ->
    Versions = maps:from_list([{Name, Version} || App <- Apps, {Name, Version} <- version(App)]),
    Overridden = [Name || #{app := Name, opts := Options} <- Deps, proplists:get_value(override, Options, false)],
    ByName = maps:from_list([{Name, Dep} || #{app := Name} = Dep <- Deps]),
    Own = [Dep#{status := {nomatchvsn, Version}} || Dep <- Deps, Version <- mismatch(Dep, Versions)],
    Others = [
        (map_get(Name, ByName))#{status := {divergedreq, Version, Child}}
     || #{deps := Children} <- Deps,
        #{app := Name} = Child <- Children,
        is_map_key(Name, ByName) andalso not lists:member(Name, Overridden),
        Version <- mismatch(Child, Versions)
    ],
    Worst = maps:from_list([{Name, Dep} || #{app := Name} = Dep <- Own ++ Others]),
    [conflict(Dep, Root) || Dep <- maps:values(Worst)].

version(#{name := Name, properties := Properties}) ->
    case proplists:get_value(vsn, Properties) of
        [_ | _] = Version -> [{Name, unicode:characters_to_binary(Version)}];
        _ -> []
    end.

%% Without a version of three numbers nothing can be compared.
mismatch(#{app := Name, requirement := Requirement}, Versions) ->
    case Versions of
        #{Name := Version} ->
            case 'Elixir.Mix.Dep.Loader':vsn_match(Requirement, Version, Name) of
                {ok, false} -> [Version];
                _ -> []
            end;
        _ ->
            []
    end.

%% Mix warns of dependencies that ask for another Elixir.
versions(Apps) ->
    [
        (sbx_diagnostic:dependency(
            "the dependency ~ts requires Elixir ~ts, and this is ~ts", [Name, Requirement, 'Elixir.System':version()]
        ))#{kind := warning}
     || #{name := Name, is_own := false, mix := #{config := Config}} <- Apps,
        {elixir, Requirement} <- [lists:keyfind(elixir, 1, Config)],
        is_binary(Requirement),
        not fits(Requirement)
    ].

%% Native code is built outside. What lies in priv is used, and what Mix built into its own folder.
unbuilt(Apps, Root) ->
    [
        (sbx_diagnostic:dependency(
            "the compiler ~ts of ~ts runs programs, so it is not run here, and there is no library yet in priv of ~ts or "
            "in ~ts/priv. Build it with `~tsmix compile`",
            [Compiler, Name, Name, built(Name), environment_words()]
        ))#{kind := warning}
     || #{name := Name, dir := Dir} = App <- Apps,
        Compiler <- sbx_mix_compilers:native(App),
        lists:all(
            fun(Parent) -> filelib:wildcard("priv/**/*.so", Parent) =:= [] end, [Dir, filename:join(Root, built(Name))]
        )
    ].

built(Name) ->
    filename:join(["_build", 'Elixir.Mix':env(), "lib", Name]).

environment_words() ->
    case 'Elixir.Mix':env() of
        dev -> "";
        Env -> ["MIX_ENV=", atom_to_list(Env), " "]
    end.

told(Messages, Root) ->
    [
        (sbx_diagnostic:dependency("~ts", [sbx_diagnostic:without_root(Message, Root)]))#{kind := warning}
     || Message <- Messages
    ].

text(Chars) ->
    unicode:characters_to_list(Chars).

binary(Chars) ->
    unicode:characters_to_binary(Chars).
