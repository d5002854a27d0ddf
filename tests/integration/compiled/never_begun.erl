%% A supervisor whose init never returns.
-module(never_begun).
-behaviour(supervisor).

-export([start_link/0, init/1]).

start_link() ->
    supervisor:start_link(?MODULE, []).

init([]) ->
    timer:sleep(infinity).
