-module(guilty_remote_spawn).
-export([run/2]).
-finding("run/2 call erlang:spawn/2 distribution").

run(Node, Fun) -> spawn(Node, Fun).
