%% A supervisor whose init raises.
-module(raises).
-behaviour(supervisor).

-export([start_link/0, init/1]).

start_link() ->
    supervisor:start_link(?MODULE, []).

init([]) ->
    error(on_purpose).
