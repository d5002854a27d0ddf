%%% Describes a folder of compiled applications, each with an `ebin`, as Mix and rebar3 leave it below
%%% `_build`, or as `lib` of a release is.
-module(sbx_project_compiled).

-export([discover/1, app/2, is_installed/1, roots/1, consolidated/1, described_by/1]).

%% Elixir's applications that are on no node's code path, so a project's own copy of them is used.
-define(NOT_ON_PATH, [iex, mix, ex_unit]).

-spec discover(file:filename()) -> sbx_project:project().
discover(Root) ->
    Found = lists:append([found(Dir) || Parent <- [Root, filename:join(Root, "lib")], Dir <- sbx_files:subdirs(Parent)]),
    Apps = [App || #{name := Name} = App <- Found, not is_installed(Name)],
    Apps =:= [] andalso fail("none of the applications in it is one that the toolchain does not have", []),
    ok = no_twins([Name || #{name := Name} <- Apps]),
    {Main, Problems} = main(startable(roots(Apps))),
    #{
        root => Root,
        apps => Apps,
        main => Main,
        config => [],
        runtime => none,
        problems => Problems,
        loose => false,
        described_by => described_by(Apps),
        consolidate => true,
        consolidated => consolidated([filename:join(Dir, "consolidated") || #{dir := Dir} <- Apps]),
        missing => []
    }.

found(Dir) ->
    case filelib:wildcard("*.app", filename:join(Dir, "ebin")) of
        [File | _] -> [app(list_to_atom(filename:rootname(File)), Dir)];
        [] -> []
    end.

%% The application in a folder that has `ebin/NAME.app`.
-spec app(atom(), file:filename()) -> sbx_project:app().
app(Name, Dir) ->
    Ebin = filename:join(Dir, "ebin"),
    case sbx_project:template(resource_file(Name, Ebin)) of
        {Name, Properties} ->
            (sbx_project:new_app(Name, Dir))#{properties := Properties, prebuilt := sbx_project:beams(Ebin)};
        {Other, _Properties} ->
            fail("~ts.app describes the application ~ts", [Name, Other])
    end.

resource_file(Name, Ebin) ->
    filename:join(Ebin, atom_to_list(Name) ++ ".app").

-spec described_by([sbx_project:app()]) -> [file:filename()].
described_by(Apps) ->
    [resource_file(Name, filename:join(Dir, "ebin")) || #{name := Name, dir := Dir} <- Apps].

%% Whether sandboxes have the application from the toolchain: one of OTP fits its own ERTS alone, and the
%% agent runs on the toolchain's Elixir.
-spec is_installed(atom()) -> boolean().
is_installed(Name) ->
    case lists:member(Name, ?NOT_ON_PATH) orelse code:lib_dir(Name) of
        true -> false;
        {error, bad_name} -> false;
        Dir -> not lists:prefix(sbx_scratch:build_path(), Dir)
    end.

no_twins(Names) ->
    case Names -- lists:usort(Names) of
        [] -> ok;
        [Name | _] -> fail("the application ~ts is in it twice, maybe in two versions", [Name])
    end.

%% The applications that no other one needs.
-spec roots([sbx_project:app()]) -> [sbx_project:app()].
roots(Apps) ->
    Needed = lists:append([needed(App) || App <- Apps]),
    [App || #{name := Name} = App <- Apps, not lists:member(Name, Needed)].

needed(#{properties := Properties}) ->
    lists:append([proplists:get_value(Key, Properties, []) || Key <- [applications, included_applications]]).

startable(Apps) ->
    [Name || #{name := Name, properties := Properties} <- Apps, lists:keymember(mod, 1, Properties)].

main([Name]) ->
    {Name, []};
main([]) ->
    {nil, []};
main(Names) ->
    Problem = sbx_diagnostic:dependency(
        "several of the applications can be started: ~ts. None is, unless --app names it",
        [lists:join(", ", [atom_to_list(Name) || Name <- Names])]
    ),
    {nil, [Problem#{kind := warning}]}.

%% The files of consolidated protocols in these folders, without Elixir's own: those fit only the Elixir
%% that they were made with.
-spec consolidated([file:filename()]) -> [file:filename()].
consolidated(Dirs) ->
    Installed = sbx_toolchain:names(),
    [
        File
     || Dir <- Dirs, File <- sbx_project:beams(Dir), not lists:member(filename:basename(File, ".beam"), Installed)
    ].

-spec fail(io:format(), [term()]) -> no_return().
fail(Format, Arguments) ->
    throw({project, unicode:characters_to_binary(io_lib:format(Format, Arguments))}).
