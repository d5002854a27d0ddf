-module(guilty_remote).
-export([run/1]).
-finding("run/1 call rpc:call/4 distribution").

run(Node) -> rpc:call(Node, erlang, halt, []).
