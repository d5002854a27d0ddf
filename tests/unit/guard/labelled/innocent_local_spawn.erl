-module(innocent_local_spawn).
-export([run/1]).

run(Fun) ->
    spawn_monitor(Fun),
    spawn(?MODULE, run, [Fun]).
