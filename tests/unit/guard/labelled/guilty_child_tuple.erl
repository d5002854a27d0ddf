-module(guilty_child_tuple).
-export([init/1]).
-finding("init/1 child_spec os:cmd/1 os_command").
-behaviour(supervisor).

init([]) ->
    {ok, {{one_for_one, 1, 5}, [{touch, {os, cmd, ["true"]}, permanent, 5000, worker, [os]}]}}.
