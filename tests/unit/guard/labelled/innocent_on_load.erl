-module(innocent_on_load).
-export([answer/0]).
-on_load(load/0).

load() -> persistent_term:put(?MODULE, 42).

answer() -> persistent_term:get(?MODULE).
