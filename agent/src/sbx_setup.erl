%% What is done once, when the VM has booted and before the daemon is told so.
-module(sbx_setup).

-export([run/0]).

-spec run() -> ok.
run() ->
    true = group_leader(whereis(user), self()),
    ok = sbx_io:take_standard_error(),
    ok = sbx_log:install(),
    ok = start_elixir(os:getenv("SANDBOX_ELIXIR", "0")),
    collect_garbage().

start_elixir("1") ->
    sbx_elixir:start();
start_elixir(_No) ->
    ok.

%% Booting leaves garbage in the long-lived processes that an idle node would keep for good.
collect_garbage() ->
    lists:foreach(fun erlang:garbage_collect/1, processes()).
