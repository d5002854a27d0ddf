%% Keeps a state that a neighbour must not reach: the attacked application has one process.
-module(victim_sup).
-behaviour(supervisor).

-export([start_link/0, init/1]).

start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

init([]) ->
    {ok, {#{}, [#{id => victim_counter, start => {victim_counter, start_link, []}}]}}.
