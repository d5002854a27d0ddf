#!/usr/bin/env escript
%% What one does without sandboxes: other VMs started by this one, and calls into them. Does what each line of its input
%% asks, and prints milliseconds. Without epmd, which would stay behind: ERL_FLAGS has the port of the one other node.
-mode(compile).

main([]) ->
    loop(none, []).

loop(Node, Peers) ->
    case io:get_line("") of
        eof ->
            stop(Peers);
        Line ->
            {Took, NextNode, NextPeers} = answer(words(Line), Node, Peers),
            io:format("~.4f~n", [Took / 1.0e6]),
            loop(NextNode, NextPeers)
    end.

%% A VM that has started others reads binaries.
words(Line) ->
    string:lexemes(string:trim(unicode:characters_to_list(Line)), " ").

answer(["peer"], Node, Peers) ->
    Begun = now_ns(),
    {ok, Peer, _} = peer:start_link(#{connection => standard_io}),
    Took = now_ns() - Begun,
    ok = peer:stop(Peer),
    {Took, Node, Peers};
answer(["erpc"], none, Peers) ->
    answer(["erpc"], other_node(), Peers);
answer(["erpc"], Node, Peers) ->
    3 = erpc:call(Node, erlang, '+', [1, 2]),
    Begun = now_ns(),
    3 = erpc:call(Node, erlang, '+', [1, 2]),
    {now_ns() - Begun, Node, Peers};
answer(["peers", Count, Kind], Node, []) ->
    Begun = now_ns(),
    Self = self(),
    Holders = [spawn_link(fun() -> hold_peer(Self, Kind) end) || _ <- lists:seq(1, list_to_integer(Count))],
    [receive {Holder, started} -> ok end || Holder <- Holders],
    {now_ns() - Begun, Node, Holders};
answer(["stop"], Node, Peers) ->
    Begun = now_ns(),
    stop(Peers),
    {now_ns() - Begun, Node, []}.

other_node() ->
    {ok, _} = net_kernel:start(bench@localhost, #{name_domain => shortnames, dist_listen => false}),
    erlang:set_cookie(benchmark),
    {ok, _Peer, Node} = peer:start_link(#{
        name => other, host => "localhost", connection => standard_io, args => ["-setcookie", "benchmark"]
    }),
    pong = net_adm:ping(Node),
    Node.

hold_peer(Parent, Kind) ->
    {ok, Peer, _} = peer:start_link(#{connection => standard_io, args => paths(Kind), wait_boot => 60000}),
    Kind =:= "elixir" andalso ({ok, _} = peer:call(Peer, application, ensure_all_started, [logger], 60000)),
    Parent ! {self(), started},
    receive
        {stop, From} ->
            ok = peer:stop(Peer),
            From ! {self(), stopped}
    end.

paths("erlang") -> [];
paths("elixir") -> ["-pa" | filelib:wildcard(os:getenv("ELIXIR_LIB") ++ "/{elixir,logger}/ebin")].

stop(Peers) ->
    [Peer ! {stop, self()} || Peer <- Peers],
    [receive {Peer, stopped} -> ok end || Peer <- Peers],
    ok.

now_ns() ->
    erlang:monotonic_time(nanosecond).
