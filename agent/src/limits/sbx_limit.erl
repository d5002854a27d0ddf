%%% Bounds the number of the application's processes. A process at maximum priority polls it, often
%%% while the node is busy and rarely while it is idle (sbx_poll_backoff), and kills the newest
%%% processes above the limit. Each pass in a row keeps fewer of the processes that started since
%%% the limit was last kept, so that a spawning process is soon killed.
%%%
%%% The VM also sends its crash reports to this process. A bomb that fills the process table goes on
%%% crashing and spawning, and its reports would fill the memory before the logger's turn comes. So
%%% the first report triggers a check, and none is passed on while there are too many processes.
-module(sbx_limit).

-export([start_link/0, set/1, change/1, look/0, with_extra/2, count/0, may_wait/1]).

-define(IDLE_MS, 200).
-define(BUSY_MS, 10).
%% The interval while there are fewer than half as many processes as allowed.
-define(FAR_MS, 20).
%% The pause between two passes, in which killed processes get their turn to end.
-define(PASS_MS, 2).
%% More reductions than this between two checks mean that a process may be spawning.
-define(BUSY_REDUCTIONS, 20000).
-define(EVENT_EVERY_MS, 1000).
%% How long it may wait until the other schedulers have stopped.
-define(STOP_MAX_MS, 10000).
%% After this many passes in a row, the spawning process must be older than the last good check.
-define(SPARING_PASSES, 8).
-define(IS_REPORT(Message), element(1, Message) =:= log).

-record(state, {
    limit :: pos_integer(),
    %% How many processes of the limit are for the agent's own work.
    extra = 0 :: integer(),
    baseline :: #{pid() => []},
    %% The processes at the last check that found no more than allowed.
    last_within = [] :: [pid()],
    %% Processes that were killed and have not had their turn to end yet.
    dying = #{} :: #{pid() => []},
    reductions = 0 :: integer(),
    %% The time until the next check, if the node is idle.
    idle_wait_ms = ?IDLE_MS :: pos_integer(),
    passes = 0 :: non_neg_integer(),
    told_at :: integer(),
    %% A count that was found too soon after the last event.
    untold = none :: none | non_neg_integer()
}).

-spec start_link() -> pid().
start_link() ->
    spawn_opt(
        fun() ->
            register(?MODULE, self()),
            ?MODULE = ets:new(?MODULE, [named_table, protected]),
            unlimited()
        end,
        [link, {priority, max}, {message_queue_data, off_heap}]
    ).

%% The processes that run now are the node's own. From here on, Limit more may run; `nil` means any
%% number.
-spec set(pos_integer() | nil) -> ok.
set(Limit) -> ask(set, Limit).

%% Sets another limit for the running application.
-spec change(pos_integer()) -> ok.
change(Limit) -> ask(change, Limit).

%% Looks now, and not when it is due: `over` if there are more processes than may run.
-spec look() -> within | over.
look() -> ask(look, nil).

ask(What, Limit) ->
    Monitor = monitor(process, ?MODULE),
    ?MODULE ! {?MODULE, What, Limit, self(), Monitor},
    receive
        {Monitor, Answer} ->
            demonitor(Monitor, [flush]),
            Answer
    end.

%% Runs a function of the agent that makes the VM start Count processes. They don't count as the
%% application's.
-spec with_extra(non_neg_integer(), fun(() -> Result)) -> Result.
with_extra(Count, Function) ->
    ?MODULE ! {?MODULE, extra, Count},
    try
        Function()
    after
        ?MODULE ! {?MODULE, extra, -Count}
    end.

%% The number of the application's processes, including those that are about to end.
-spec count() -> non_neg_integer().
count() ->
    case ets:lookup(?MODULE, baseline) of
        [{baseline, Baseline}] -> max(0, erlang:system_info(process_count) - Baseline - length(sbx_agent:call_pids()));
        [] -> 0
    end.

unlimited() ->
    receive
        {?MODULE, look, nil, From, Reference} ->
            From ! {Reference, within},
            unlimited();
        {?MODULE, _SetOrChange, Limit, From, Reference} ->
            set(Limit, From, Reference);
        Report when ?IS_REPORT(Report) ->
            pass_on(Report),
            unlimited();
        _Stray ->
            unlimited()
    end.

set(Limit, From, Reference) ->
    Baseline = processes() -- sbx_agent:call_pids(),
    true = ets:insert(?MODULE, {baseline, length(Baseline)}),
    _ = erlang:system_flag(system_logger, self()),
    From ! {Reference, ok},
    case Limit of
        nil -> unlimited();
        _ -> watch(new(Limit, Baseline), ?BUSY_MS)
    end.

new(Limit, Baseline) ->
    #state{limit = Limit, baseline = maps:from_keys(Baseline, []), told_at = now_ms() - ?EVENT_EVERY_MS}.

%% A separate timer, not the receive's timeout: every stray message would restart that one, and a
%% flood would keep it from firing.
watch(State, WaitMs) ->
    await(State, erlang:start_timer(WaitMs, self(), look)).

await(State, Timer) ->
    receive
        {timeout, Timer, look} -> look(State);
        {?MODULE, set, Limit, From, Reference} ->
            _ = erlang:cancel_timer(Timer),
            set(Limit, From, Reference);
        {?MODULE, change, Limit, From, Reference} -> change(Limit, From, Reference, State, Timer);
        {?MODULE, look, nil, From, Reference} -> asked(From, Reference, State, Timer);
        {?MODULE, extra, Count} when is_integer(Count) -> await(extra(Count, State), Timer);
        {sbx_poll_backoff, Word} when
            Word =:= wake orelse Word =:= look, State#state.idle_wait_ms > ?IDLE_MS
        ->
            woken(Word, State, Timer);
        Report when ?IS_REPORT(Report) -> reported(Report, State, Timer);
        _Stray -> await(State, Timer)
    end.

asked(From, Reference, #state{limit = Limit} = State, Timer) ->
    From ! {Reference, case count() > Limit of true -> over; false -> within end},
    _ = erlang:cancel_timer(Timer),
    look(State).

extra(Count, #state{limit = Limit, extra = Extra} = State) ->
    State#state{limit = max(1, Limit + Count), extra = Extra + Count}.

change(Limit, From, Reference, #state{extra = Extra} = State, Timer) ->
    From ! {Reference, ok},
    await(State#state{limit = Limit + Extra}, Timer).

reported(Report, #state{limit = Limit, passes = Passes} = State, Timer) ->
    case count() > Limit of
        true when Passes =:= 0 ->
            _ = erlang:cancel_timer(Timer),
            pass(State);
        true ->
            await(State, Timer);
        false ->
            pass_on(Report),
            await(State, Timer)
    end.

%% Passes the report to the process that the VM would have sent it to, which may be missing for a
%% moment.
pass_on(Report) ->
    ok = sbx_quota:reported(Report),
    case whereis(logger_proxy) of
        undefined -> ok;
        Proxy -> Proxy ! Report
    end.

look(Before) ->
    #state{limit = Limit} = State = tell_late(Before),
    case count() > Limit of
        true -> pass(State);
        false -> watch_on(State#state{passes = 0, dying = #{}, last_within = processes()})
    end.

watch_on(#state{reductions = Before} = State) ->
    Reductions = sbx_busy_wait:reductions(),
    Looked = State#state{reductions = Reductions},
    case Reductions - Before > ?BUSY_REDUCTIONS of
        true ->
            %% A busy application may reach other limits, which sbx_quota polls less often.
            _ = State#state.idle_wait_ms > ?IDLE_MS andalso sbx_poll_backoff:wake(sbx_quota),
            watch(busy(Looked), pause_ms(Looked));
        false ->
            idle(Looked)
    end.

pause_ms(#state{limit = Limit, last_within = LastWithin, baseline = Baseline}) ->
    case 2 * (length(LastWithin) - map_size(Baseline)) < Limit of
        true -> ?FAR_MS;
        false -> ?BUSY_MS
    end.

idle(#state{idle_wait_ms = WaitMs} = State) ->
    watch(State#state{idle_wait_ms = sbx_poll_backoff:next_wait(?MODULE, WaitMs, ?IDLE_MS)}, WaitMs).

woken(Word, State, Timer) ->
    _ = erlang:cancel_timer(Timer),
    case Word of
        wake -> watch(busy(State), ?BUSY_MS);
        look -> look(State)
    end.

busy(State) ->
    true = sbx_poll_backoff:reset(?MODULE),
    State#state{idle_wait_ms = ?IDLE_MS}.

pass(State) ->
    watch(alone(fun() -> kill_newest(State) end), ?PASS_MS).

%% On other schedulers a bomb would meanwhile spawn more than this process kills, so they are stopped.
alone(Function) ->
    case erlang:system_info(schedulers_online) of
        1 ->
            Function();
        _Several ->
            true = ets:insert(?MODULE, {others_stopped, now_ms()}),
            _ = erlang:system_flag(multi_scheduling, block_normal),
            try
                Function()
            after
                _ = erlang:system_flag(multi_scheduling, unblock_normal),
                true = ets:insert(?MODULE, {others_stopped, now_ms()})
            end
    end.

%% Whether it was just seen while it waited for other schedulers: the VM shows it as suspended then.
-spec may_wait(pid()) -> boolean().
may_wait(Pid) ->
    case whereis(?MODULE) =:= Pid andalso ets:lookup(?MODULE, others_stopped) of
        [{others_stopped, Since}] -> now_ms() - Since < ?STOP_MAX_MS;
        _ -> false
    end.

%% Processes that were killed before don't count: on a starved machine they have had no turn to end,
%% and others would be killed in their place.
kill_newest(#state{baseline = Baseline, dying = Before} = State) ->
    Own = [Pid || Pid <- processes() -- sbx_agent:call_pids(), not is_map_key(Pid, Baseline)],
    {Dying, Living} = lists:partition(fun(Pid) -> is_map_key(Pid, Before) end, Own),
    {Suspects, Keep} = suspects(Living, State),
    case length(Suspects) > Keep of
        true ->
            Killed = lists:nthtail(Keep, lists:sort(Suspects)),
            lists:foreach(fun(Pid) -> exit(Pid, kill) end, Killed),
            Passed = State#state{passes = State#state.passes + 1, dying = maps:from_keys(Killed ++ Dying, [])},
            tell(length(Own), Passed);
        false ->
            State
    end.

%% Returns the candidates for killing and how many of them stay: as many as are allowed in the first
%% pass, then half of those, and so on.
suspects(Living, #state{limit = Limit, last_within = LastWithin, passes = Passes}) when Passes < ?SPARING_PASSES ->
    Newcomers = Living -- LastWithin,
    {Newcomers, max(0, Limit - (length(Living) - length(Newcomers))) bsr Passes};
suspects(Living, #state{limit = Limit}) when length(Living) =< Limit ->
    {[], 0};
suspects(Living, #state{limit = Limit, passes = Passes}) ->
    {Living, Limit bsr (Passes - ?SPARING_PASSES)}.

tell(Count, #state{limit = Limit, told_at = ToldAt} = State) ->
    case now_ms() - ToldAt >= ?EVENT_EVERY_MS of
        true ->
            sbx_outbox:post(process_limit, #{count => Count, limit => Limit}),
            State#state{told_at = now_ms(), untold = none};
        false ->
            State#state{untold = Count}
    end.

tell_late(#state{untold = none} = State) -> State;
tell_late(#state{untold = Count} = State) -> tell(Count, State).

now_ms() ->
    erlang:monotonic_time(millisecond).
