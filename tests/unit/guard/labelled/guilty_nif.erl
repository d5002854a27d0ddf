-module(guilty_nif).
-export([answer/0]).
-finding("load/0 call erlang:load_nif/2 nif").
-on_load(load/0).

load() -> erlang:load_nif("answer", 0).

answer() -> erlang:nif_error(not_loaded).
