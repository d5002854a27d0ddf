%%% Finds files in a project. The walk follows links to files, never to folders: a project may link
%%% to itself.
-module(sbx_files).

-include_lib("kernel/include/file.hrl").

-export([find/2, regular/1, find_own/2, find_in/2, relative/2, seen_from/2, inside/2, hand_over/1, normal/1, subdirs/1, is_dir/1]).

-define(FILES_MAX, 50000).
%% Folders without the project's own sources: build products, fetched dependencies, tests.
-define(NOT_OWN, ["_build", "_checkouts", "deps", "node_modules", "test", "ebin", "priv"]).

%% Files below Dir with one of the extensions, sorted by name.
-spec find(file:filename(), [string()]) -> [file:filename()].
find(Dir, Extensions) ->
    find(Dir, Extensions, []).

%% The same in a folder that may hold more than sources.
-spec find_own(file:filename(), [string()]) -> [file:filename()].
find_own(Dir, Extensions) ->
    find(Dir, Extensions, ?NOT_OWN).

find(Dir, Extensions, Skipped) ->
    {Found, _Left} = walk(Dir, Skipped, {[], ?FILES_MAX}),
    lists:sort([File || File <- Found, lists:member(filename:extension(File), Extensions)]).

%% The same below each of these folders. A file may be listed among them.
-spec find_in([file:filename()], [string()]) -> [file:filename()].
find_in(Paths, Extensions) ->
    lists:usort(lists:append([find_at(Path, Extensions) || Path <- Paths])).

find_at(Path, Extensions) ->
    case filelib:is_regular(Path) of
        true -> [Path || lists:member(filename:extension(Path), Extensions)];
        false -> find(Path, Extensions)
    end.

%% All regular files below Dir, and no links.
-spec regular(file:filename()) -> [file:filename()].
regular(Dir) ->
    {Found, _Left} = walk(Dir, [], {[], ?FILES_MAX}),
    [File || File <- Found, is_regular(File)].

is_regular(File) ->
    case file:read_link_info(File, [raw]) of
        {ok, #file_info{type = regular}} -> true;
        _ -> false
    end.

walk(Dir, Skipped, Acc) ->
    case file:list_dir(Dir) of
        {ok, Names} -> lists:foldl(fun(Name, In) -> visit(Dir, Name, Skipped, In) end, Acc, Names -- Skipped);
        {error, _Reason} -> Acc
    end.

visit(_Dir, _Name, _Skipped, {_Found, 0}) ->
    throw({project, <<"the project has too many files">>});
visit(_Dir, "." ++ _, _Skipped, Acc) ->
    Acc;
visit(Dir, Name, Skipped, {Found, Left}) ->
    Path = filename:join(Dir, Name),
    case file:read_link_info(Path, [raw, {time, posix}]) of
        {ok, #file_info{type = regular}} ->
            {[Path | Found], Left - 1};
        {ok, #file_info{type = directory}} ->
            walk(Path, Skipped, {Found, Left - 1});
        {ok, #file_info{type = symlink}} ->
            {[Path || filelib:is_regular(Path, prim_file)] ++ Found, Left - 1};
        _ ->
            {Found, Left}
    end.

%% Notes the folders besides the project's own that may be read. Their files are named as the project
%% sees them.
-spec hand_over([file:filename()]) -> ok.
hand_over(Dirs) ->
    Dirs =:= handed_over() orelse persistent_term:put(?MODULE, Dirs),
    ok.

handed_over() ->
    persistent_term:get(?MODULE, []).

is_handed_over(Path) ->
    lists:any(fun(Dir) -> Path =:= Dir orelse lists:prefix(Dir ++ "/", Path) end, handed_over()).

%% Path as the project sees it: "." for Root itself, and Path unchanged where it lies elsewhere.
-spec relative(file:filename(), file:filename()) -> file:filename().
relative(Root, Root) ->
    ".";
relative(Path, Root) ->
    case lists:prefix(Root ++ "/", Path) of
        true ->
            lists:nthtail(length(Root) + 1, Path);
        false ->
            case is_handed_over(Path) of
                true -> seen_from(Path, Root);
                false -> Path
            end
    end.

%% The same, wherever the path leads.
-spec seen_from(file:filename(), file:filename()) -> file:filename().
seen_from(Path, Root) ->
    climb(filename:split(Path), filename:split(Root)).

climb([Name | Path], [Name | Root]) -> climb(Path, Root);
climb(Path, Root) -> filename:join([".." || _ <- Root] ++ Path).

%% The paths below Root and the folders that were handed over with it, as the project sees them.
-spec inside([file:filename()], file:filename()) -> [file:filename()].
inside(Paths, Root) ->
    [relative(Path, Root) || Path <- Paths, lists:prefix(Root ++ "/", Path) orelse is_handed_over(Path)].

%% Removes . and .. from an absolute path.
-spec normal(file:filename()) -> file:filename().
normal(Path) ->
    filename:join(lists:reverse(lists:foldl(fun step/2, [], filename:split(Path)))).

step(".", Before) -> Before;
step("..", [_Root] = Before) -> Before;
step("..", [_Dir | Before]) -> Before;
step(Name, Before) -> [Name | Before].

-spec subdirs(file:filename()) -> [file:filename()].
subdirs(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} -> [Path || Name <- lists:sort(Names), Path <- [filename:join(Dir, Name)], is_dir(Path)];
        {error, _Reason} -> []
    end.

-spec is_dir(file:filename()) -> boolean().
is_dir(Path) ->
    filelib:is_dir(Path).
