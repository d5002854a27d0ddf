%% Keeps the counter running.
-module(counter_sup).
-behaviour(supervisor).

-export([start_link/0]).
-export([init/1]).

-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Initial = application:get_env(counter_erl, initial, 0),
    Flags = #{strategy => one_for_one, intensity => 3, period => 5},
    Children = [#{id => counter, start => {counter, start_link, [Initial]}}],
    {ok, {Flags, Children}}.
