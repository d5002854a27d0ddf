%%% Runs the tests of the given modules, a few at a time, each in a process of its own with a
%%% deadline. Those whose names end in _long_test are left to `make test-long`.
-module(runner).

-export([main/1, main/2, steps/2]).

-define(AT_ONCE, 4).
-define(DEADLINE_MS, 25000).

main(Modules) ->
    main(Modules, ?DEADLINE_MS).

main(Modules, DeadlineMs) ->
    persistent_term:put(?MODULE, DeadlineMs),
    _ = test_dir:root(), % before there are several who would make it
    ok = build:start(),
    All = [{Module, Name} || Module <- Modules, {Name, 0} <- Module:module_info(exports), is_test(Name)],
    {Left, Tests} = lists:partition(fun({_Module, Name}) -> is_left(Name) end, All),
    Results = run(Tests, [], []),
    ok = build:stop(),
    test_dir:remove_all(),
    Failed = [Result || {_, {failed, _}} = Result <- Results],
    io:format("~b passed, ~b failed~n", [length(Results) - length(Failed), length(Failed)]),
    Left =:= [] orelse io:format("left to make test-long: ~b~n", [length(Left)]),
    erlang:halt(min(1, length(Failed))).

%% Runs the steps of a test that share a node. A failure names its step.
steps(Vm, Steps) ->
    lists:foreach(fun(Step) -> step(Vm, Step) end, Steps).

step(Vm, Step) ->
    try
        Step(Vm)
    catch
        Class:Reason:Stack ->
            {name, Name} = erlang:fun_info(Step, name),
            erlang:raise(Class, {step, Name, Reason}, Stack)
    end.

is_test(Name) ->
    lists:suffix("_test", atom_to_list(Name)).

is_left(Name) ->
    os:getenv("TESTS_AT_LENGTH") =:= false andalso lists:suffix("_long_test", atom_to_list(Name)).

run([], [], Results) ->
    Results;
run([Test | Tests], Running, Results) when length(Running) < ?AT_ONCE ->
    run(Tests, [start(Test) | Running], Results);
run(Tests, Running, Results) ->
    receive
        {'DOWN', Monitor, process, _Pid, Reason} ->
            {value, {Monitor, Test, Begin}, Rest} = lists:keytake(Monitor, 1, Running),
            run(Tests, Rest, [report(Test, Begin, Reason) | Results])
    end.

start({Module, Name} = Test) ->
    {Pid, Monitor} = spawn_monitor(fun() -> Module:Name() end),
    {ok, _} = timer:kill_after(persistent_term:get(?MODULE), Pid),
    {Monitor, Test, erlang:monotonic_time(millisecond)}.

report({Module, Name} = Test, Begin, normal) ->
    io:format("ok      ~ts:~ts (~b ms)~n", [Module, Name, erlang:monotonic_time(millisecond) - Begin]),
    {Test, passed};
report({Module, Name} = Test, _Begin, Reason) ->
    io:format("FAILED  ~ts:~ts~n~tp~n", [Module, Name, Reason]),
    {Test, {failed, Reason}}.
