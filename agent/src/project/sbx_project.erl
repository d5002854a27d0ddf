%%% Describes a project: its applications with their sources and options, in the order of
%%% compilation. It compiles nothing; sbx_compile does.
-module(sbx_project).

-export([discover/1, sources/1, options/2, is_elixir/1, order/1, new_app/2, template/1, beams/1]).

-export_type([app/0, project/0]).

-type app() :: #{
    name := atom(),
    dir := file:filename(),
    elixir := [file:filename()],
    erlang := [file:filename()],
    %% Of these, those that are compiled before the others, in this order.
    first := [file:filename()],
    %% .yrl and .xrl
    grammars := [file:filename()],
    include := [file:filename()],
    erlang_options := [term()],
    elixir_options := [{atom(), term()}],
    %% The properties of its resource file without `modules`.
    properties := [{atom(), term()}],
    %% Other applications of the project that are compiled before it.
    needs := [atom()],
    %% Modules that are compiled already.
    prebuilt := [file:filename()],
    %% What mix.exs says, which sources can read: its module, its configuration and the environment.
    mix := #{module := module(), config := [{atom(), term()}], env := atom()} | none,
    %% The names of Mix's compilers, in their order.
    compilers := [atom()],
    %% Mix's record of it, where it is a dependency.
    dependency := map() | none,
    %% Whether it is the project's own, and no dependency of another author.
    is_own := boolean()
}.

-type project() :: #{
    root := file:filename(),
    apps := [app()],
    main := atom() | nil,
    %% The module whose main/1 is a program.
    program => module(),
    %% Of a Mix project.
    mix_env => atom(),
    config := [{atom(), [{atom(), term()}]}],
    %% What is evaluated in the sandbox, before the application starts.
    runtime := none | map(),
    problems := [sbx_diagnostic:diagnostic()],
    %% Whether the project does not say how it starts, so that a supervisor may be guessed.
    loose := boolean(),
    %% The files that describe the project, and missing files that would change the description.
    described_by := [file:filename()],
    %% Whether protocols may be consolidated.
    consolidate := boolean(),
    %% Files of protocols that are consolidated already.
    consolidated => [file:filename()],
    %% Dependencies that are listed and missing.
    missing := [atom()]
}.

-spec discover(map()) -> project().
discover(Args) ->
    Root = sbx_files:normal(unicode:characters_to_list(maps:get(source, Args))),
    Name = project_name(maps:get(name, Args, nil), Root),
    ok = sbx_files:hand_over([unicode:characters_to_list(Dir) || Dir <- maps:get(with, Args, [])]),
    case maps:get(kind, Args) of
        mix -> sbx_project_mix:discover(Root, Args);
        rebar3 -> sbx_project_rebar:discover(Root, Name, Args);
        ebin -> ebin(Root, Name);
        release -> sbx_project_release:discover(Root);
        compiled -> sbx_project_compiled:discover(Root);
        folder -> folder(Root, Name);
        file -> single(Root, unicode:characters_to_list(maps:get(file, Args)))
    end.

project_name(nil, Root) -> filename:basename(Root);
project_name(Name, _Root) -> unicode:characters_to_list(Name).

%% All files of the application that can be compiled.
-spec sources(app()) -> [file:filename()].
sources(#{elixir := Elixir, erlang := Erlang, grammars := Grammars, prebuilt := Prebuilt}) ->
    Grammars ++ Erlang ++ Elixir ++ Prebuilt.

%% Whether any of its sources or compiled modules is Elixir.
-spec is_elixir(app()) -> boolean().
is_elixir(#{elixir := Elixir, prebuilt := Prebuilt}) ->
    Elixir =/= [] orelse lists:any(fun(File) -> lists:prefix("Elixir.", filename:basename(File)) end, Prebuilt).

%% The compiled modules in a folder.
-spec beams(file:filename()) -> [file:filename()].
beams(Dir) ->
    [filename:join(Dir, File) || File <- lists:sort(filelib:wildcard("*.beam", Dir))].

%% A digest of everything besides the sources that decides how they are compiled. The daemon
%% compares it.
-spec options(app(), file:filename()) -> binary().
options(#{include := Include, needs := Needs, dependency := Dependency} = App, Root) ->
    Dirs = [sbx_files:relative(Dir, Root) || Dir <- Include],
    Said = [map_get(Key, App) || Key <- [erlang_options, elixir_options, mix]],
    erlang:md5(term_to_binary(comparable({Dirs, Said, lists:sort(Needs), variables(Dependency)}), [deterministic])).

%% Environment variables that a dependency is compiled with.
variables(#{system_env := Variables}) -> Variables;
variables(_None) -> [].

%% A function in mix.exs is a different term at each evaluation.
comparable([Head | Tail]) -> [comparable(Head) | comparable(Tail)];
comparable(Tuple) when is_tuple(Tuple) -> list_to_tuple(comparable(tuple_to_list(Tuple)));
comparable(Map) when is_map(Map) -> maps:from_list(comparable(maps:to_list(Map)));
comparable(Fun) when is_function(Fun) -> function;
comparable(Term) when is_pid(Term); is_port(Term); is_reference(Term) -> identity;
comparable(Term) -> Term.

-spec new_app(atom(), file:filename()) -> app().
new_app(Name, Dir) ->
    #{
        name => Name,
        dir => Dir,
        elixir => [],
        erlang => [],
        first => [],
        grammars => [],
        include => [],
        erlang_options => [],
        elixir_options => [],
        properties => [],
        needs => [],
        prebuilt => [],
        mix => none,
        compilers => [],
        dependency => none,
        is_own => true
    }.

%% A folder of sources without a build tool.
folder(Root, Name) ->
    Files = sbx_files:find_own(Root, [".ex", ".erl", ".hrl", ".yrl", ".xrl", ".src"]),
    Of = fun(Extensions) -> [File || File <- Files, lists:member(filename:extension(File), Extensions)] end,
    Templates = Of([".src"]),
    {AppName, Properties} =
        case Templates of
            [Template | _] -> template(Template);
            [] -> {sbx_app_file:safe_name(Name), []}
        end,
    App = (new_app(AppName, Root))#{
        elixir := Of([".ex"]),
        erlang := Of([".erl"]),
        grammars := Of([".yrl", ".xrl"]),
        include := lists:usort([filename:dirname(File) || File <- Of([".hrl", ".erl"])]),
        properties := Properties
    },
    loose(Root, App, Templates).

single(Root, File) ->
    Path = filename:join(Root, File),
    case sbx_escript:is_escript(Path) of
        true -> sbx_escript:discover(Root, Path);
        false -> single_source(Root, File, Path)
    end.

single_source(Root, File, Path) ->
    App = new_app(sbx_app_file:safe_name(filename:rootname(filename:basename(File))), Root),
    loose(
        Root,
        case filename:extension(File) of
            ".erl" -> App#{erlang := [Path], include := [Root]};
            ".beam" -> App#{prebuilt := [Path]};
            Grammar when Grammar =:= ".yrl"; Grammar =:= ".xrl" -> App#{grammars := [Path]};
            _Elixir -> App#{elixir := [Path]}
        end,
        []
    ).

loose(Root, #{name := Name} = App, Files) ->
    {Config, Read} = sbx_config:erlang(Root),
    #{
        root => Root,
        apps => [App],
        main => Name,
        config => Config,
        runtime => none,
        problems => [],
        loose => true,
        described_by => Files ++ Read,
        consolidate => true,
        missing => []
    }.

%% Compiled modules in the folder itself or in its `ebin`.
ebin(Root, Name) ->
    Dir = hd([Dir || Dir <- [Root, filename:join(Root, "ebin")], filelib:wildcard("*.beam", Dir) =/= []] ++ [Root]),
    Descriptions = [filename:join(Dir, File) || File <- filelib:wildcard("*.app", Dir)],
    {AppName, Properties} =
        case Descriptions of
            [File | _] -> template(File);
            [] -> {sbx_app_file:safe_name(Name), []}
        end,
    App = (new_app(AppName, app_dir(Dir)))#{prebuilt := beams(Dir), properties := Properties},
    (loose(Root, App, Descriptions))#{loose := Properties =:= []}.

app_dir(Dir) ->
    case filename:basename(Dir) of
        "ebin" -> filename:dirname(Dir);
        _ -> Dir
    end.

-spec template(file:filename()) -> {atom(), [{atom(), term()}]}.
template(File) ->
    case sbx_app_file:read(File) of
        {ok, {application, Name, Properties}} -> {Name, Properties};
        {error, Why} -> throw({project, unicode:characters_to_binary([filename:basename(File), " ", Why])})
    end.

%% Each application comes after those it needs. A cycle keeps the order in which it was found.
-spec order([app()]) -> [app()].
order(Apps) ->
    ByName = maps:from_list([{Name, App} || #{name := Name} = App <- Apps]),
    {Ordered, _Seen} = lists:foldl(fun(App, Acc) -> place(App, ByName, Acc) end, {[], #{}}, Apps),
    lists:reverse(Ordered).

place(#{name := Name, needs := Needs} = App, ByName, {Ordered, Seen}) ->
    case Seen of
        #{Name := _} ->
            {Ordered, Seen};
        _ ->
            Needed = [maps:get(Need, ByName) || Need <- Needs, is_map_key(Need, ByName)],
            {Before, SeenAll} = lists:foldl(
                fun(Other, Acc) -> place(Other, ByName, Acc) end, {Ordered, Seen#{Name => true}}, Needed
            ),
            {[App | Before], SeenAll}
    end.
