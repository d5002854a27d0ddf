%% How long those who watch the node's limits wait before they look again while it idles: each time longer, so that a
%% thousand idle nodes leave the machine alone, and at moments that they share, so that the VM wakes up once for all of
%% them. What the daemon asks for may be work: it wakes those who wait for long.
-module(sbx_doze).

-export([longer/1, start_timer/1, fall_asleep/1, wake_up/1, wake_all/0]).

-define(LONGEST_MS, 3200).

-spec longer(pos_integer()) -> pos_integer().
longer(WaitMs) ->
    min(2 * WaitMs, ?LONGEST_MS).

%% Sends {timeout, Timer, look} at the next multiple of the time.
-spec start_timer(pos_integer()) -> reference().
start_timer(WaitMs) ->
    Now = erlang:monotonic_time(millisecond),
    Passed = (Now rem WaitMs + WaitMs) rem WaitMs,
    erlang:start_timer(Now - Passed + WaitMs, self(), look, [{abs, true}]).

%% Each watcher has a table of its own, named as it is.
-spec fall_asleep(atom()) -> true.
fall_asleep(Watcher) ->
    ets:insert(Watcher, {asleep}).

-spec wake_up(atom()) -> true.
wake_up(Watcher) ->
    ets:delete(Watcher, asleep).

-spec wake_all() -> ok.
wake_all() ->
    [Watcher ! {?MODULE, wake} || Watcher <- [sbx_limit, sbx_quota], ets:member(Watcher, asleep)],
    ok.
