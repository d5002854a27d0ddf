%% Staying awake for a moment after an answer.
-module(linger_test).

-include_lib("eunit/include/eunit.hrl").

%% A turn of lingering is 4,000; without any it does a few hundred in its life.
-define(MANY_REDUCTIONS, 100000).

%% It lingers where it is told to, which counts neither as work of the application's nor keeps anybody from it.
node_test() ->
    Vm = vm:start(#{}),
    ?assert(lingered(Vm) < ?MANY_REDUCTIONS),
    ?assert(await_lingering(Vm, 10000)),
    ?assert(value(Vm, "element(1, statistics(reductions)) - sbx_linger:reductions()") >= ?MANY_REDUCTIONS),
    ?assertEqual({priority, low}, value(Vm, "process_info(whereis(sbx_linger), priority)")),
    ?assertMatch({error, #{kind := exception}}, vm:eval(Vm, "ets:insert(sbx_linger, {reductions, 0})")),
    _ = value(Vm, "[sbx_linger ! Word || Word <- [stray, {sbx_linger, linger, 150}, {sbx_linger, linger, 1 bsl 64}, {sbx_linger, linger, soon}]]"),
    ending:in_silence("sbx_linger", Vm).

await_lingering(_Vm, 0) ->
    false;
await_lingering(Vm, Tries) ->
    {ok, _} = vm:call(Vm, eval, #{language => erlang, code => <<"ok">>, timeout_ms => 5000, linger_us => 150}),
    lingered(Vm) >= ?MANY_REDUCTIONS orelse await_lingering(Vm, Tries - 1).

lingered(Vm) ->
    value(Vm, "ets:lookup_element(sbx_linger, reductions, 2)").

value(Vm, Code) ->
    {ok, #{term := Term}} = vm:eval(Vm, Code),
    Term.
