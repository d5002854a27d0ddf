%% Starts the supervisor of the application that attacks run in.
-module(victim_app).
-behaviour(application).

-export([start/2, stop/1]).

start(_Type, _Args) ->
    victim_sup:start_link().

stop(_State) ->
    ok.
