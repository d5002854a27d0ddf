-module(guilty_port).
-export([run/1]).
-finding("run/1 call erlang:open_port/2 ports").

run(Program) -> open_port({spawn_executable, Program}, [binary]).
