-module(innocent_supervisor).
-export([init/1]).
-behaviour(supervisor).

init([]) ->
    Child = #{id => server, start => {innocent_server, start_link, []}},
    {ok, {#{}, [Child]}}.
