-module(innocent_atoms).
-export([run/1]).

run(os) -> cmd;
run(file) -> {file, open, []};
run(_) -> {os, cmd, ["looks like a start, and is data"]}.
