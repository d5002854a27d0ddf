-module(guilty_connect).
-export([run/1]).
-finding("run/1 call gen_tcp:connect/3 network_client").

run(Host) -> gen_tcp:connect(Host, 80, []).
