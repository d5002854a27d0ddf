%%% Runs an application's start/2 again to learn the argument of its supervisor, without starting
%%% the supervisor. A process runs it at low priority, and this process traces it at the highest:
%%% what start/2 starts is killed before its first turn.
-module(sbx_reload_start).

-export([argument/4]).

-define(LIST_FORM, 'Elixir.Supervisor.Default').

-spec argument(module(), term(), pid(), timeout()) -> {ok, term()} | {error, binary()}.
argument(Module, Arguments, Master, TimeoutMs) ->
    Priority = process_flag(priority, max),
    %% With more schedulers, a started process could run at once.
    _ = erlang:system_flag(multi_scheduling, block_normal),
    try
        traced(Module, Arguments, Master, TimeoutMs)
    after
        _ = erlang:trace_pattern({supervisor, start_link, '_'}, false, [global]),
        _ = erlang:system_flag(multi_scheduling, unblock_normal),
        process_flag(priority, Priority)
    end.

traced(Module, Arguments, Master, TimeoutMs) ->
    Start = fun() ->
        receive
            start -> exit({returned, returned(Module, Arguments)})
        end
    end,
    {Runner, Monitor} = spawn_opt(Start, [monitor, {priority, low}]),
    sbx_reload:helper(Runner),
    true = group_leader(Master, Runner),
    1 = erlang:trace(Runner, true, [call, procs]),
    _ = erlang:trace_pattern({supervisor, start_link, '_'}, true, [global]),
    Runner ! start,
    Timer = erlang:start_timer(TimeoutMs, self(), ?MODULE),
    await(Runner, Monitor, Timer, {error, <<"start/2 started no supervisor with a list">>}).

%% What the application's callback returned, or how it failed, as `application_master` sees it.
returned(Module, Arguments) ->
    try
        Module:start(normal, Arguments)
    catch
        throw:Thrown -> Thrown;
        exit:Reason -> {'EXIT', Reason};
        error:Reason:Stack -> {'EXIT', {Reason, Stack}}
    end.

await(Runner, Monitor, Timer, Result) ->
    receive
        {trace, Runner, call, {supervisor, start_link, Arguments}} ->
            await(Runner, Monitor, Timer, captured(lists:nthtail(length(Arguments) - 2, Arguments), Runner, Result));
        {trace, Runner, spawn, Child, _Function} when element(1, Result) =:= ok ->
            exit(Child, kill),
            await(Runner, Monitor, Timer, Result);
        {trace, Runner, _, _} ->
            await(Runner, Monitor, Timer, Result);
        {trace, Runner, _, _, _} ->
            await(Runner, Monitor, Timer, Result);
        {timeout, Timer, ?MODULE} ->
            exit(Runner, kill),
            await(Runner, Monitor, none, {error, <<"start/2 did not return in time">>});
        {'DOWN', Monitor, process, Runner, Reason} ->
            _ = Timer =:= none orelse erlang:cancel_timer(Timer),
            ended(Result, Reason)
    end.

captured([?LIST_FORM, Argument], Runner, _Result) ->
    exit(Runner, kill),
    {ok, Argument};
captured(_Other, _Runner, Result) ->
    Result.

ended({error, _}, {returned, {'EXIT', Reason}}) -> {error, sbx_reload_text:text("~ts", [sbx_reason:exit_text(Reason)])};
ended(Result, _Reason) -> Result.
