-module(guilty_cmd_in_closure).
-export([run/1]).
-finding("run/1 call os:cmd/1 os_command").

run(Commands) -> lists:map(fun(C) -> {C, os:cmd(C)} end, Commands).
