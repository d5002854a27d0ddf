-module(guilty_cmd_made_fun).
-export([run/0]).
-finding("run/0 reference os:cmd/1 os_command").

run() -> erlang:make_fun(os, cmd, 1).
