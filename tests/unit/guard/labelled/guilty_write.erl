-module(guilty_write).
-export([run/2]).
-finding("run/2 call file:write_file/2 file_write").

run(Path, Data) -> file:write_file(Path, Data).
