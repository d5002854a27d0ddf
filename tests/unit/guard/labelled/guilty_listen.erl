-module(guilty_listen).
-export([run/0]).
-finding("run/0 call gen_tcp:listen/2 network_server").
-finding("run/0 call gen_tcp:accept/1 network_server").

run() ->
    {ok, Socket} = gen_tcp:listen(8080, []),
    gen_tcp:accept(Socket).
