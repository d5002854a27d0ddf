-module(guilty_cmd_later).
-export([run/1]).
-finding("run/1 call os:cmd os_command").

run(Arguments) -> timer:apply_after(1000, os, cmd, Arguments).
