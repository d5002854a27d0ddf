-module(guilty_child_tuple_built).
-export([init/1]).
-finding("init/1 child_spec os:cmd os_command").
-behaviour(supervisor).

init(Command) ->
    {ok, {{one_for_one, 1, 5}, [{Command, {os, cmd, [Command]}, temporary, 5000, worker, [os]}]}}.
