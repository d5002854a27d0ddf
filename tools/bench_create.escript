#!/usr/bin/env escript
%% What one does without sandboxes: another VM started by this one, and a call into it. Does what each line of its input
%% asks, and prints microseconds. Without epmd, which would stay behind: ERL_FLAGS has the port of the one other node.
-mode(compile).

main([]) ->
    {ok, _} = net_kernel:start(bench@localhost, #{name_domain => shortnames, dist_listen => false}),
    erlang:set_cookie(benchmark),
    {ok, _Peer, Node} = peer:start_link(#{
        name => other, host => "localhost", connection => standard_io, args => ["-setcookie", "benchmark"]
    }),
    pong = net_adm:ping(Node),
    loop(Node).

loop(Node) ->
    case io:get_line("") of
        eof -> ok;
        Line -> io:format("~.1f~n", [answer(string:trim(Line), Node)]), loop(Node)
    end.

answer("peer", _Node) ->
    Begun = now_ns(),
    {ok, Peer, _} = peer:start_link(#{connection => standard_io}),
    Took = now_ns() - Begun,
    ok = peer:stop(Peer),
    Took / 1000;
answer("erpc", Node) ->
    Begun = now_ns(),
    3 = erpc:call(Node, erlang, '+', [1, 2]),
    (now_ns() - Begun) / 1000.

now_ns() ->
    erlang:monotonic_time(nanosecond).
