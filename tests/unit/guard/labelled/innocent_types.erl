-module(innocent_types).
-export([run/1]).
-export_type([handle/0]).
-type handle() :: file:io_device() | gen_tcp:socket() | rpc:key().
-spec run(handle()) -> handle().

run(Socket) -> Socket.
