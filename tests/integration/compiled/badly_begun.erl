%% A supervisor whose init returns what none does.
-module(badly_begun).
-behaviour(supervisor).

-export([start_link/0, init/1]).

start_link() ->
    supervisor:start_link(?MODULE, []).

init([]) ->
    rubbish.
