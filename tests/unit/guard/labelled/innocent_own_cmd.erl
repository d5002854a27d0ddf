-module(innocent_own_cmd).
-export([cmd/1, run/0]).

cmd(Text) -> {os, Text}.

run() -> cmd("os:cmd(\"rm\")").
