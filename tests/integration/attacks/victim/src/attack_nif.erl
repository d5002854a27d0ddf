%% Native code of the application's own: raw system calls, past everything the VM would check.
-module(attack_nif).

-export([load/1, syscall/2, occupy/0]).

%% The library's path without its extension.
load(Path) ->
    erlang:load_nif(Path, 0).

%% {ok, Result} or {error, Errno} of a call by name; arguments are integers and binaries.
syscall(_Name, _Arguments) ->
    erlang:nif_error(not_loaded).

%% Never gives the scheduler back.
occupy() ->
    erlang:nif_error(not_loaded).
