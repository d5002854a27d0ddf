%% A node for the pool: what compiling needs is loaded, and has run once, before a project comes.
-module(sbx_warm_up).

-export([run/1]).

-spec run(map()) -> sbx_call:result().
run(_Args) -> {ok, #{}}.
