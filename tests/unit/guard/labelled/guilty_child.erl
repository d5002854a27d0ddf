-module(guilty_child).
-export([init/1]).
-finding("init/1 child_spec os:cmd/1 os_command").
-behaviour(supervisor).

init([]) ->
    Child = #{id => touch, start => {os, cmd, ["touch /tmp/here"]}},
    {ok, {#{}, [Child]}}.
