%%% Scans the application's processes for sbx_quota: which message queues are too long, which
%%% process is busiest, and which has most sockets.
%%%
%%% Each process is asked by a signal, which a process may answer late or never. So a separate
%%% process runs one scan at a time.
-module(sbx_process_scan).

-export([start_link/0, find_long_queues/2, find_busiest/1, find_holder/1]).

%% How long reductions are counted to find the busiest process.
-define(COUNT_MS, 2).
-define(SCAN_EVERY_MS, 50).
%% To ask one process takes about four microseconds. So scans take a twentieth of the time, however
%% many processes there are.
-define(PROCESSES_PER_MS, 12).

-spec start_link() -> pid().
start_link() ->
    spawn_opt(
        fun() ->
            register(?MODULE, self()),
            loop(now_ms())
        end,
        [link, {priority, max}, {message_queue_data, off_heap}]
    ).

%% Reports longer queues to sbx_quota and returns at once. A request that comes too soon after a
%% scan is dropped.
-spec find_long_queues(non_neg_integer(), [pid()]) -> ok.
find_long_queues(0, _Own) ->
    ok;
find_long_queues(Max, Own) ->
    ?MODULE ! {?MODULE, find_long_queues, Max, Own},
    ok.

-spec find_busiest([pid()]) -> ok.
find_busiest(Own) ->
    ?MODULE ! {?MODULE, busiest, Own},
    ok.

%% Finds the process with most sockets of the `socket` module.
-spec find_holder([pid()]) -> ok.
find_holder(Own) ->
    ?MODULE ! {?MODULE, holder, Own},
    ok.

loop(NotBefore) ->
    receive
        {?MODULE, find_long_queues, Max, Own} ->
            case now_ms() >= NotBefore of
                true -> loop(scan(Max, Own));
                false -> loop(NotBefore)
            end;
        {?MODULE, busiest, Own} ->
            busiest(Own),
            loop(NotBefore);
        {?MODULE, holder, Own} ->
            holder(Own),
            loop(NotBefore);
        _Stray ->
            loop(NotBefore)
    end.

%% Returns when the next scan may begin.
scan(Max, Own) ->
    Queues = values(message_queue_len, Own),
    case [Queue || {_Pid, Length} = Queue <- Queues, Length > Max] of
        [] ->
            ok;
        Long ->
            {Pids, Lengths} = lists:unzip(Long),
            sbx_quota ! {?MODULE, long_queues, lists:max(Lengths), Max, Pids}
    end,
    now_ms() + max(?SCAN_EVERY_MS, length(Queues) div ?PROCESSES_PER_MS).

busiest(Own) ->
    Before = maps:from_list(values(reductions, Own)),
    receive after ?COUNT_MS -> ok end,
    Done = [{Count - maps:get(Pid, Before, 0), Pid} || {Pid, Count} <- values(reductions, Own)],
    sbx_quota ! {?MODULE, busiest, most(Done)}.

%% A socket of the `socket` module monitors its owner. The VM shows such a monitor as a reference.
holder(Own) ->
    Held = [{length(lists:filter(fun is_reference/1, Watchers)), Pid} || {Pid, Watchers} <- values(monitored_by, Own)],
    sbx_quota ! {?MODULE, holder, most(Held)}.

most(Counts) ->
    case lists:reverse(lists:sort(Counts)) of
        [{Count, Pid} | _] when Count > 0 -> Pid;
        _None -> none
    end.

%% The application's processes. Calls under way are included, since an evaluation is one.
values(Item, Own) ->
    [{Pid, Value} || Pid <- (processes() -- Own) -- sbx_reload:helpers(), {_, Value} <- [process_info(Pid, Item)]].

now_ms() ->
    erlang:monotonic_time(millisecond).
