-module(guilty_cmd_applied).
-export([run/1]).
-finding("run/1 call os:cmd os_command").

run(Arguments) -> apply(os, cmd, Arguments).
