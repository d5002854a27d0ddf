%% The ways a node ends by itself. A test that is done with its node lets it end in one of them, so that none is booted
%% only for that.
-module(ending).

-export([by_death_of/2, by_suspension_of/2, in_silence/2, in_order/1, by_grace/1]).

%% Of an idle node's, so many in a row look at nothing.
-define(QUIET_BEATS, 3).

-include_lib("eunit/include/eunit.hrl").

%% Killing any part of the agent ends the VM: nothing runs unwatched.
by_death_of(Name, Vm) ->
    Code = iolist_to_binary(["exit(whereis(", Name, "), kill)"]),
    vm:send_call(Vm, 1, eval, #{language => erlang, code => Code, timeout_ms => 5000}),
    ?assertNotEqual(0, vm:exit_status(Vm)),
    vm:stop(Vm).

%% So does suspending one, with the next beat that looks: one that says so, or one of several of an idle node's.
by_suspension_of(Name, Vm) ->
    by_suspension_of(Name, [#{look => true}], Vm).

%% A call, or much work, makes the next beat look in any case: that one has to come before the suspension, which is told
%% by a file that the node makes.
by_suspension_of(Name, Beats, Vm) ->
    Suspend = [
        "spawn(fun() -> timer:sleep(100), erlang:suspend_process(whereis(", Name, ")), ",
        "prim_file:make_dir(\"still\"), timer:sleep(infinity) end)"
    ],
    {ok, _} = vm:eval(Vm, lists:flatten(Suspend)),
    {ok, #{}} = vm:call(Vm, beat, #{}),
    ok = await_folder(filename:join(vm:dir(Vm), "still"), 1000),
    [vm:send_call(Vm, 1000 + Id, beat, Beat) || {Id, Beat} <- lists:enumerate(Beats)],
    ?assertNotEqual(0, vm:exit_status(Vm)),
    vm:stop(Vm).

await_folder(Path, Tries) when Tries > 0 ->
    case filelib:is_dir(Path) of
        true -> ok;
        false -> receive after 5 -> await_folder(Path, Tries - 1) end
    end.

in_silence(Name, Vm) ->
    by_suspension_of(Name, [#{} || _ <- lists:seq(0, ?QUIET_BEATS)], Vm).

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
