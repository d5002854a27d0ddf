-module(guilty_cmd_spawned).
-export([run/1]).
-finding("run/1 call os:cmd os_command").

run(Arguments) -> spawn(os, cmd, Arguments).
