%%% Back-off for the processes that poll the node's limits. While the node is idle each wait is
%%% longer than the last, until only the daemon's beat triggers a check. So a thousand idle nodes
%%% hardly use the machine. A call of the daemon may be work, so it wakes the processes that wait
%%% for long.
-module(sbx_poll_backoff).

-export([next_wait/3, reset/1, wake/1, wake_all/0, check_all/0]).

%% Longer than the time between two beats at which the agent checks. Without a daemon, it is the
%% interval between two checks.
-define(LONGEST_MS, 25600).

%% Returns the wait after one of WaitMs. A watcher that waits longer than FirstMs is marked as
%% asleep in its table, which has the watcher's name. Only such watchers are woken: endless wakes
%% would postpone the next check for ever.
-spec next_wait(atom(), pos_integer(), pos_integer()) -> pos_integer().
next_wait(Watcher, WaitMs, FirstMs) ->
    _ = WaitMs > FirstMs andalso ets:insert(Watcher, {asleep}),
    min(2 * WaitMs, ?LONGEST_MS).

-spec reset(atom()) -> true.
reset(Watcher) ->
    ets:delete(Watcher, asleep).

%% Makes a watcher check soon and poll often from then on, even if it has just begun to wait.
-spec wake(atom()) -> ok.
wake(Watcher) ->
    Watcher ! {?MODULE, wake},
    ok.

-spec wake_all() -> ok.
wake_all() ->
    tell_all(wake).

%% Makes the watchers check now. They wait on if they find no activity.
-spec check_all() -> ok.
check_all() ->
    tell_all(look).

tell_all(Word) ->
    [Watcher ! {?MODULE, Word} || Watcher <- [sbx_limit, sbx_quota], ets:member(Watcher, asleep)],
    ok.
