%% The supervisor of a project that comes as compiled modules only.
-module(compiled).
-behaviour(supervisor).

-export([start_link/0, init/1]).

start_link() ->
    supervisor:start_link(?MODULE, []).

init([]) ->
    {ok, {#{}, []}}.
