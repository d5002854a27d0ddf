%%% Keeps the VM awake for a moment after an answer, when the daemon says that more calls are likely
%%% to follow.
%%%
%%% A sleeping VM takes longer to wake up than to answer. The VM's own busy-wait is too short to
%%% help, and idle nodes would pay for it at each beat.
-module(sbx_busy_wait).

-export([start_link/0, wait/1, reductions/0]).

-define(WAIT_MAX_US, 1000).
%% A whole time slice. The VM polls for input after every second one.
-define(TURN_REDUCTIONS, 4000).

%% The process runs at low priority: other processes run before it, except for a time slice now and
%% then. It returns once reductions/0 can be called.
-spec start_link() -> pid().
start_link() ->
    Parent = self(),
    Pid = spawn_opt(fun() -> init(Parent) end, [link, {message_queue_data, off_heap}]),
    receive
        {Pid, ready} -> Pid
    end.

init(Parent) ->
    register(?MODULE, self()),
    ?MODULE = ets:new(?MODULE, [named_table, protected]),
    true = ets:insert(?MODULE, {reductions, 0}),
    Parent ! {self(), ready},
    normal = process_flag(priority, low),
    sleep().

-spec wait(integer()) -> ok.
wait(0) ->
    ok;
wait(Us) ->
    ?MODULE ! {?MODULE, wait, Us},
    ok.

%% The reductions of the VM, without those of busy-waiting.
-spec reductions() -> integer().
reductions() ->
    {All, _} = erlang:statistics(reductions),
    All - ets:lookup_element(?MODULE, reductions, 2).

sleep() ->
    ok = note_reductions(),
    receive
        {?MODULE, wait, Us} when is_integer(Us) -> stay_awake(until(Us));
        _Stray -> sleep()
    end.

stay_awake(Until) ->
    true = erlang:bump_reductions(?TURN_REDUCTIONS),
    true = erlang:yield(),
    receive
        {?MODULE, wait, Us} when is_integer(Us) ->
            ok = note_reductions(),
            stay_awake(until(Us));
        _Stray ->
            stay_or_sleep(Until)
    after 0 ->
        stay_or_sleep(Until)
    end.

stay_or_sleep(Until) ->
    case now_us() < Until of
        true -> stay_awake(Until);
        false -> sleep()
    end.

%% The application could send this message too, so the time is bounded.
until(Us) ->
    now_us() + min(Us, ?WAIT_MAX_US).

note_reductions() ->
    true = ets:insert(?MODULE, process_info(self(), reductions)),
    ok.

now_us() ->
    erlang:monotonic_time(microsecond).
