%% A supervisor whose start returns no pid.
-module(no_pid).
-behaviour(supervisor).

-export([start_link/0, init/1]).

start_link() ->
    rubbish.

init([]) ->
    ignore.
