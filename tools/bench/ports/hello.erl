%% A small HTTP server: on a sandbox's loopback, and the same on the host's.
-module(hello).
-behaviour(supervisor).
-export([start_link/0, init/1, listen/1, main/1, accept/1]).

-define(ANSWER, <<"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\nHello, world!">>).

start_link() -> supervisor:start_link({local, ?MODULE}, ?MODULE, []).

init([]) -> {ok, {#{}, [#{id => server, start => {?MODULE, listen, [4000]}}]}}.

main([Port]) ->
    {ok, _Server} = listen(list_to_integer(atom_to_list(Port))),
    receive stop -> ok end.

listen(Port) ->
    Options = [binary, {active, false}, {packet, http_bin}, {reuseaddr, true}, {nodelay, true}, {backlog, 1024},
               {ip, {127, 0, 0, 1}}],
    {ok, Listener} = gen_tcp:listen(Port, Options),
    {ok, spawn_link(fun() -> [spawn_link(?MODULE, accept, [Listener]) || _ <- lists:seq(1, 16)], receive stop -> ok end end)}.

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Server = spawn(fun() -> receive go -> serve(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Server),
    Server ! go,
    accept(Listener).

serve(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, http_eoh} -> _ = gen_tcp:send(Socket, ?ANSWER), serve(Socket);
        {ok, _Line} -> serve(Socket);
        {error, _} -> gen_tcp:close(Socket)
    end.
