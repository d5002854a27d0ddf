%%% The directories of one test run, all below one that the runner removes at the end.
-module(test_dir).

-export([root/0, new/0, write/2, write_bytes/2, remove_all/0]).

root() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            Root = filename:join(os:getenv("TMPDIR", "/tmp"), "sandbox-agent-" ++ os:getpid()),
            ok = file:make_dir(Root),
            persistent_term:put(?MODULE, Root),
            Root;
        Root ->
            Root
    end.

new() ->
    Dir = filename:join(root(), integer_to_list(erlang:unique_integer([positive]))),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    Dir.

%% Writes [{RelativePath, Text}] below Dir.
write(Dir, Files) ->
    lists:foreach(
        fun({Name, Text}) ->
            Path = filename:join(Dir, Name),
            ok = filelib:ensure_dir(Path),
            ok = file:write_file(Path, unicode:characters_to_binary(Text))
        end,
        Files
    ),
    Dir.

write_bytes(Path, Bytes) ->
    ok = filelib:ensure_dir(Path),
    ok = file:write_file(Path, Bytes).

remove_all() ->
    case persistent_term:get(?MODULE, none) of
        none -> ok;
        Root -> file:del_dir_r(Root)
    end.
