-module(guilty_open_for_reading).
-export([run/1]).
-finding("run/1 call file:open/2 file_read").

run(Path) -> file:open(Path, [read, binary]).
