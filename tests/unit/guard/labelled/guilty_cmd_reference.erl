-module(guilty_cmd_reference).
-export([run/1]).
-finding("run/1 reference os:cmd/1 os_command").

run(Commands) -> lists:map(fun os:cmd/1, Commands).
