%% Changing running code: what goes well. The failures are in reload_failure_test.
-module(reload_test).

-include_lib("eunit/include/eunit.hrl").

bare_node_test() ->
    Vm = vm:start(#{}),
    servers(Vm),
    vm:stop(Vm).

%% The state goes through code_change, once, with the vsn it had; the process is the same.
servers(Vm) ->
    V1 = reloads:start_modules(Vm, reloads:server("counter", one, "f() -> 1.\ncode_change(_, S, _) -> {ok, S}.")),
    V2 = reloads:compile(reloads:server("counter", two, "f() -> 2.\ncode_change(V, S, []) -> {ok, {V, S}}.")),
    Pid = reloads:spawn_server(Vm, counter, 7),
    {ok, Result} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertMatch(
        #{
            modules := [#{module := <<"counter">>, from_version := 1, to_version := 2}],
            processes := [#{module := <<"counter">>, migrated := true}], warnings := []
        },
        Result
    ),
    ?assertEqual({one, 7}, reloads:eval(Vm, "gen_server:call(counter, get)")),
    ?assertEqual(Pid, reloads:eval(Vm, "whereis(counter)")),
    ?assertEqual(2, reloads:eval(Vm, "counter:f()")).
