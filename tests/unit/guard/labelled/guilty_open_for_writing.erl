-module(guilty_open_for_writing).
-export([run/1]).
-finding("run/1 call file:open/2 file_write").

run(Path) -> file:open(Path, [append]).
