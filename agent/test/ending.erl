%%% The ways in which a node ends by itself. Each test ends its node in one of them, so that no node
%%% is booted only for that.
-module(ending).

-export([by_death_of/2, by_suspension_of/2, in_silence/2, in_order/1, by_grace/1]).

%% This many beats in a row don't check an idle node.
-define(QUIET_BEATS, 3).

-include_lib("eunit/include/eunit.hrl").

%% Killing any vital process of the agent ends the VM.
by_death_of(Name, Vm) ->
    Code = iolist_to_binary(["exit(whereis(", Name, "), kill)"]),
    vm:send_call(Vm, 1, eval, #{language => erlang, code => Code, timeout_ms => 5000}),
    ?assertNotEqual(0, vm:exit_status(Vm)),
    vm:stop(Vm).

%% Suspending one ends the VM too, at the next beat that checks: one with `look`, or one of several
%% beats of an idle node.
by_suspension_of(Name, Vm) ->
    by_suspension_of(Name, [#{look => true}], Vm).

%% A call or much work makes the next beat check in any case. That beat has to come before the
%% suspension, which the node reports by a file.
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

%% A node that stops in order exits with status 0.
in_order(Vm) ->
    {ok, _} = vm:eval(Vm, "init:stop()"),
    ?assertEqual(0, vm:exit_status(Vm)),
    vm:stop(Vm).

%% No daemon comes within the grace period.
by_grace(Vm) ->
    Alone = vm:abandon(Vm),
    ?assertEqual(0, vm:exit_status(Alone)),
    vm:stop(Alone).
