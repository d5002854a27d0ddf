%% Echoes what a client says, and bids farewell to one that has said all; and talks to others.
-module(door).
-behaviour(supervisor).
-export([start_link/0, init/1, listen/0, accept/1, ask/2]).

start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).

init([]) ->
    {ok, {#{}, [#{id => server, start => {?MODULE, listen, []}}, #{id => echo, start => {erlang, apply, [fun udp/0, []]}}]}}.

listen() ->
    {ok, Listener} = gen_tcp:listen(4000, [binary, {active, false}, {reuseaddr, true}, {ip, {127, 0, 0, 1}},
                                           {exit_on_close, false}, {backlog, 512}]),
    {ok, spawn_link(fun() -> [spawn_link(?MODULE, accept, [Listener]) || _ <- lists:seq(1, 4)], receive stop -> ok end end)}.

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Server = spawn(fun() -> receive go -> echo(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Server),
    Server ! go,
    accept(Listener).

echo(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> ok = gen_tcp:send(Socket, Bytes), echo(Socket);
        {error, _} -> gen_tcp:send(Socket, <<"bye">>), gen_tcp:close(Socket)
    end.

udp() ->
    {ok, spawn_link(fun() -> {ok, Socket} = gen_udp:open(4001, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
                             udp(Socket) end)}.

udp(Socket) ->
    {ok, {Address, Port, Bytes}} = gen_udp:recv(Socket, 0),
    ok = gen_udp:send(Socket, Address, Port, Bytes),
    udp(Socket).

%% What a service answers: its words, or why there are none.
ask(Host, Port) ->
    case gen_tcp:connect(Host, Port, [binary, {active, false}], 3000) of
        {ok, Socket} ->
            _ = gen_tcp:send(Socket, <<"hello">>),
            Answer = gen_tcp:recv(Socket, 0, 3000),
            gen_tcp:close(Socket),
            words(Answer);
        Refused ->
            words(Refused)
    end.

words({ok, Words}) -> binary_to_atom(Words);
words({error, econnreset}) -> closed;
words({error, Why}) -> Why.
