-module(innocent_variables).
-export([run/3]).

run(Os, File, Code) -> {os, Os, file, File, code, Code}.
