-module(guilty_child_built).
-export([init/1]).
-finding("init/1 child_spec os:cmd os_command").
-behaviour(supervisor).

init(Command) ->
    Child = #{id => Command, start => {os, cmd, [Command]}},
    {ok, {#{}, [Child]}}.
