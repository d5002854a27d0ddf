%% Bounds the application's processes. A process at maximum priority looks at their number, often while the node is busy
%% and hardly while it idles (sbx_poll_backoff), and kills the newest above the limit. Passes in a row keep fewer and fewer of those that
%% came since all was well, so that what goes on spawning is among the killed before long.
%%
%% It is also where the VM reports processes that crash. A bomb that fills the table between two looks goes on crashing
%% and spawning: the reports would fill the memory while who writes them waits for its turn. Here the first is a reason
%% to look at once, and none is passed on while there are too many processes.
-module(sbx_limit).

-export([start_link/0, set/1, change/1, with_extra/2, count/0]).

-define(IDLE_MS, 200).
-define(BUSY_MS, 10).
%% While there are less than half as many as allowed.
-define(FAR_MS, 20).
%% The node sleeps between two passes so that killed processes get to die.
-define(PASS_MS, 2).
%% More reductions than this within one look mean that somebody may be spawning.
-define(BUSY_REDUCTIONS, 20000).
-define(EVENT_EVERY_MS, 1000).
%% After so many passes in a row, who goes on spawning has been there before.
-define(SPARING_PASSES, 8).
-define(IS_REPORT(Message), element(1, Message) =:= log).

-record(state, {
    limit :: pos_integer(),
    %% How many of those are not the application's.
    extra = 0 :: integer(),
    baseline :: #{pid() => []},
    %% What ran when there were last no more than allowed.
    last_within = [] :: [pid()],
    %% What was told to end, and has not had its turn for that yet.
    dying = #{} :: #{pid() => []},
    reductions = 0 :: integer(),
    %% Until the next look, if the node idles.
    idle_wait_ms = ?IDLE_MS :: pos_integer(),
    passes = 0 :: non_neg_integer(),
    told_at :: integer(),
    %% What was found too shortly after what was told before.
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

%% What runs now is the node's own; from here on, N more may run. `nil`: any number.
-spec set(pos_integer() | nil) -> ok.
set(Limit) -> ask(set, Limit).

%% Another number for those that run already.
-spec change(pos_integer()) -> ok.
change(Limit) -> ask(change, Limit).

ask(What, Limit) ->
    Monitor = monitor(process, ?MODULE),
    ?MODULE ! {?MODULE, What, Limit, self(), Monitor},
    receive
        {Monitor, ok} ->
            demonitor(Monitor, [flush]),
            ok
    end.

%% Run a function of the agent's that has the VM start so many processes for it: they are not the application's.
-spec with_extra(non_neg_integer(), fun(() -> Result)) -> Result.
with_extra(Count, Function) ->
    ?MODULE ! {?MODULE, extra, Count},
    try
        Function()
    after
        ?MODULE ! {?MODULE, extra, -Count}
    end.

%% The application's processes, those about to end included.
-spec count() -> non_neg_integer().
count() ->
    case ets:lookup(?MODULE, baseline) of
        [{baseline, Baseline}] -> max(0, erlang:system_info(process_count) - Baseline - length(sbx_agent:call_pids()));
        [] -> 0
    end.

unlimited() ->
    receive
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

%% A timer of its own, not the receive's: every stray message would start that anew, and a flood stop it.
watch(State, WaitMs) ->
    await(State, erlang:start_timer(WaitMs, self(), look)).

await(State, Timer) ->
    receive
        {timeout, Timer, look} -> look(State);
        {?MODULE, set, Limit, From, Reference} -> set(Limit, From, Reference);
        {?MODULE, change, Limit, From, Reference} -> change(Limit, From, Reference, State, Timer);
        {?MODULE, extra, Count} when is_integer(Count) -> await(extra(Count, State), Timer);
        {sbx_poll_backoff, Word} when
            Word =:= wake orelse Word =:= look, State#state.idle_wait_ms > ?IDLE_MS
        ->
            woken(Word, State, Timer);
        Report when ?IS_REPORT(Report) -> reported(Report, State, Timer);
        _Stray -> await(State, Timer)
    end.

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

%% To where the VM would have sent it, which may be gone for a moment.
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
            %% What works may take more than processes; who watches that looks less often.
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

%% What was killed before counts no more: on a starved machine it has had no turn to die since, and others would be
%% killed in its place.
pass(#state{baseline = Baseline, dying = Before} = State) ->
    Own = [Pid || Pid <- processes() -- sbx_agent:call_pids(), not is_map_key(Pid, Baseline)],
    {Dying, Living} = lists:partition(fun(Pid) -> is_map_key(Pid, Before) end, Own),
    {Suspects, Keep} = suspects(Living, State),
    case length(Suspects) > Keep of
        true ->
            Killed = lists:nthtail(Keep, lists:sort(Suspects)),
            lists:foreach(fun(Pid) -> exit(Pid, kill) end, Killed),
            Passed = State#state{passes = State#state.passes + 1, dying = maps:from_keys(Killed ++ Dying, [])},
            watch(tell(length(Own), Passed), ?PASS_MS);
        false ->
            watch(State, ?PASS_MS)
    end.

%% Who may have to go, and how many of them stay: in the first pass as many as are allowed, then half of those, and so on.
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
