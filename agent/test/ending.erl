%% The ways a node ends by itself. A test that is done with its node lets it end in one of them, so that none is booted
%% only for that.
-module(ending).

-export([by_death_of/2, by_suspension_of/2, in_order/1, by_grace/1]).

%% Of an idle node's, so many in a row look at nothing.
-define(QUIET_BEATS, 3).

-include_lib("eunit/include/eunit.hrl").

%% Killing any part of the agent ends the VM: nothing runs unwatched.
by_death_of(Name, Vm) ->
    Code = iolist_to_binary(["exit(whereis(", Name, "), kill)"]),
    vm:send_call(Vm, 1, eval, #{language => erlang, code => Code, timeout_ms => 5000}),
    ?assertNotEqual(0, vm:exit_status(Vm)),
    vm:stop(Vm).

%% So does suspending one, with the next beat that looks.
by_suspension_of(Name, Vm) ->
    Suspend = ["spawn(fun() -> erlang:suspend_process(whereis(", Name, ")), receive never -> ok end end)"],
    {ok, _} = vm:eval(Vm, lists:flatten(Suspend)),
    [vm:send_call(Vm, 1000 + Id, beat, #{}) || Id <- lists:seq(0, ?QUIET_BEATS)],
    ?assertNotEqual(0, vm:exit_status(Vm)),
    vm:stop(Vm).

%% Stopped in order, it ends with success.
in_order(Vm) ->
    {ok, _} = vm:eval(Vm, "init:stop()"),
    ?assertEqual(0, vm:exit_status(Vm)),
    vm:stop(Vm).

%% No daemon comes within its grace.
by_grace(Vm) ->
    Alone = vm:abandon(Vm),
    ?assertEqual(0, vm:exit_status(Alone)),
    vm:stop(Alone).
