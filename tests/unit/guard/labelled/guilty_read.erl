-module(guilty_read).
-export([passwords/0]).
-finding("passwords/0 call file:read_file/1 file_read").

passwords() -> file:read_file("/etc/shadow").
