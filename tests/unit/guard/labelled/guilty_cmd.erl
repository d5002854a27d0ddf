-module(guilty_cmd).
-export([run/1]).
-finding("run/1 call os:cmd/1 os_command").

run(Command) -> os:cmd(Command).
