%%% Copies a project's files to the node's disk for a task of Mix, and tells which of them the task
%%% wrote. The copies go with the node.
-module(sbx_mix_tree).

-export([copy/3, tell/1, changed/1]).
-export_type([tree/0]).

-include_lib("kernel/include/file.hrl").

-record(tree, {
    root :: file:filename(),
    %% The size of each file by its path below the root; `link` for one that is not copied.
    files :: #{file:filename() => non_neg_integer() | link}
}).
-opaque tree() :: #tree{}.

%% A larger file is a link to the project's own, which can be read but not written.
-define(COPIED_MAX_BYTES, 65536).
%% The time that every copy is given: a file that is written later has another.
-define(COPIED_AT, 946684800).
-define(NAMES_TOLD, 5).

%% Copies all of From to To. The project is the folder Place in both. Throws {start, Text}.
-spec copy(file:filename(), file:filename(), file:filename()) -> tree().
copy(From, To, Place) ->
    Files = below(From, To, "", #{}),
    #tree{root = filename:join(To, Place), files = maps:fold(fun(Path, Size, In) -> inside(Place, Path, Size, In) end, #{}, Files)}.

inside(Place, Path, Size, Files) ->
    case string:prefix(Path, Place ++ "/") of
        nomatch -> Files;
        Rest -> Files#{Rest => Size}
    end.

below(From, To, Path, Files) ->
    {ok, Names} = prim_file:list_dir(joined(From, Path)),
    lists:foldl(fun(Name, In) -> entry(From, To, joined(Path, Name), In) end, Files, Names).

joined("", Name) -> Name;
joined(Path, "") -> Path;
joined(Path, Name) -> Path ++ "/" ++ Name.

entry(From, To, Path, Files) ->
    [Source, Target] = [joined(From, Path), joined(To, Path)],
    case prim_file:read_link_info(Source, [{time, posix}]) of
        {ok, #file_info{type = directory}} ->
            ok = done(prim_file:make_dir(Target)),
            below(From, To, Path, Files);
        {ok, #file_info{type = regular, size = Size}} when Size =< ?COPIED_MAX_BYTES ->
            {ok, Content} = prim_file:read_file(Source),
            ok = done(prim_file:write_file(Target, Content)),
            ok = done(prim_file:write_file_info(Target, #file_info{mtime = ?COPIED_AT, atime = ?COPIED_AT}, [{time, posix}])),
            Files#{Path => byte_size(Content)};
        {ok, #file_info{type = regular}} ->
            ok = done(prim_file:make_symlink(Source, Target)),
            Files#{Path => link}
    end.

done(ok) -> ok;
done({error, enospc}) -> throw({start, <<"the project's files do not fit into the sandbox's disk: give it more with --disk">>});
done({error, Reason}) -> throw({start, unicode:characters_to_binary(io_lib:format("copying the project: ~ts", [file:format_error(Reason)]))}).

%% Prints one line if the task wrote or removed something.
-spec tell(tree()) -> ok.
tell(Tree) ->
    case changed(Tree) of
        [] -> ok;
        Changed -> io:put_chars(standard_error, line(Changed))
    end.

%% The files that were written, made or removed since, by their paths below the project's folder.
-spec changed(tree()) -> [file:filename()].
changed(#tree{root = Root, files = Before}) ->
    Now = present(Root, "", #{}),
    Written = [Path || {Path, State} <- maps:to_list(Now), State =/= maps:get(Path, Before, none)],
    lists:sort(Written ++ maps:keys(maps:without(maps:keys(Now), Before))).

line(Changed) ->
    {Told, Others} = lists:split(min(?NAMES_TOLD, length(Changed)), Changed),
    More = [io_lib:format(" and ~b more", [length(Others)]) || Others =/= []],
    io_lib:format("sandbox: the task wrote to a copy of the project, and nothing of it is kept: ~ts~ts~n", [
        lists:join(", ", Told), More
    ]).

present(Root, Path, Files) ->
    case prim_file:list_dir(joined(Root, Path)) of
        {ok, Names} -> lists:foldl(fun(Name, In) -> state(Root, joined(Path, Name), In) end, Files, Names);
        {error, _Reason} -> Files
    end.

state(Root, Path, Files) ->
    case prim_file:read_link_info(joined(Root, Path), [{time, posix}]) of
        {ok, #file_info{type = directory}} -> present(Root, Path, Files);
        {ok, #file_info{type = regular, size = Size, mtime = ?COPIED_AT}} -> Files#{Path => Size};
        {ok, #file_info{type = symlink}} -> Files#{Path => link};
        {ok, #file_info{}} -> Files#{Path => new};
        {error, _Reason} -> Files
    end.
