%% How those who watch the node's limits wait while it idles: each time longer, until nothing but the daemon's beat has
%% them look, so that a thousand idle nodes leave the machine alone and a VM wakes up once for all that it has to do.
%% What the daemon asks for may be work: it wakes those who wait for long.
-module(sbx_poll_backoff).

-export([next_wait/3, reset/1, wake/1, wake_all/0, check_all/0]).

%% More than from one beat at which the agent looks around to the next; without a daemon, how long it is between two looks.
-define(LONGEST_MS, 25600).

%% For a watcher that is about to wait so long: how long it will wait the next time. Who waits longer than at first is asleep,
%% and only such are woken: wakes without end would put off the next look as long. Each watcher has a table of its own, named
%% as it is.
-spec next_wait(atom(), pos_integer(), pos_integer()) -> pos_integer().
next_wait(Watcher, WaitMs, FirstMs) ->
    _ = WaitMs > FirstMs andalso ets:insert(Watcher, {asleep}),
    min(2 * WaitMs, ?LONGEST_MS).

-spec reset(atom()) -> true.
reset(Watcher) ->
    ets:delete(Watcher, asleep).

%% Look soon, and often from then on; also one that has slept for a moment only.
-spec wake(atom()) -> ok.
wake(Watcher) ->
    Watcher ! {?MODULE, wake},
    ok.

-spec wake_all() -> ok.
wake_all() ->
    tell_all(wake).

%% Look now, and sleep on if all is well.
-spec check_all() -> ok.
check_all() ->
    tell_all(look).

tell_all(Word) ->
    [Watcher ! {?MODULE, Word} || Watcher <- [sbx_limit, sbx_quota], ets:member(Watcher, asleep)],
    ok.
