%% A VM that sleeps takes longer to wake up than to answer. So one that is asked again and again, as the daemon tells it,
%% stays awake for a moment after each answer. The VM's own busy waiting is too short for that, and nodes that idle would
%% pay for it at each beat.
-module(sbx_busy_wait).

-export([start_link/0, wait/1, reductions/0]).

-define(WAIT_MAX_US, 1000).
%% A whole turn. The VM looks for input after every second one, whatever else it has to do.
-define(TURN_REDUCTIONS, 4000).

%% With a low priority: what there is to do goes before it, but for a turn now and then. Others ask for reductions from then on.
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

%% What the VM has done, without what was done to stay awake.
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

%% Anybody could ask for it.
until(Us) ->
    now_us() + min(Us, ?WAIT_MAX_US).

note_reductions() ->
    true = ets:insert(?MODULE, process_info(self(), reductions)),
    ok.

now_us() ->
    erlang:monotonic_time(microsecond).
