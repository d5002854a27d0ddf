%%% Bounds what the application takes of its VM besides processes: atoms, ETS tables and their
%%% memory, ports, sockets, message queues and heaps. A process at maximum priority polls them,
%%% often while the node is busy and rarely while it is idle (sbx_poll_backoff). It reports every
%%% excess to the daemon. Where the policy of a limit is to kill, it first kills the process that
%%% has most.
%%%
%%% This process asks no other process, since one that never gets its turn would block it.
%%% sbx_process_scan does that. The VM itself bounds heaps.
-module(sbx_quota).

-export([start_link/0, start/1, change/1, relieve/1, baseline/1, reported/1, ets_memory_bytes/0, sockets/0]).

-export_type([limits/0]).

-define(IDLE_MS, 400).
-define(BUSY_MS, 40).
%% The interval while nothing has reached half of its limit.
-define(FAR_MS, 80).
%% Killed processes get their turn to end before the next count.
-define(PASS_MS, 2).
-define(BUSY_REDUCTIONS, 20000).
%% To list one table or port takes about a microsecond. So checks take a twentieth of the time,
%% however many there are.
-define(LISTED_PER_MS, 50).
-define(EVENT_EVERY_MS, 1000).

%% Limits by their name with its unit; 0 or absent means unlimited. `kill` lists the limits whose policy is to kill.
-type limits() :: #{atom() => non_neg_integer() | [atom()]}.

-record(state, {
    limits = #{} :: limits(),
    %% What the node has without the application.
    baseline = #{} :: #{atom() => non_neg_integer()},
    own = [] :: [pid()],
    reductions = 0 :: integer(),
    %% The time until the next check, if the node is idle.
    idle_wait_ms = ?IDLE_MS :: pos_integer(),
    %% Atoms are never freed. So only a process that makes new ones is killed, and after a kill,
    %% this many atoms are needed for the next.
    atoms_threshold = 0 :: non_neg_integer(),
    %% The number of atoms when the search for the process that makes them began; `none` without a
    %% search.
    atoms_search = none :: none | non_neg_integer(),
    %% Whether sbx_process_scan is looking for the process with most sockets.
    is_searching = false :: boolean(),
    told = #{} :: #{atom() => integer()}
}).

-spec start_link() -> pid().
start_link() ->
    spawn_opt(
        fun() ->
            register(?MODULE, self()),
            ?MODULE = ets:new(?MODULE, [named_table, protected]),
            await(#state{}, none)
        end,
        [link, {priority, max}, {message_queue_data, off_heap}]
    ).

%% What exists now is the node's own. From here on, the limits apply to what is added.
-spec start(limits()) -> ok.
start(Limits) -> ask({start, Limits}).

%% Sets other limits for the running application.
-spec change(limits()) -> ok.
change(Limits) -> ask({change, Limits}).

%% The kernel bounds the network but does not know Erlang processes. Kills the process that has most
%% sockets, or whose sockets carried most traffic. Returns the number of killed processes.
-spec relieve(connections | network_rate | network_total) -> 0 | 1.
relieve(Limit) -> ask({relieve, Limit}).

ask(Request) ->
    Monitor = monitor(process, ?MODULE),
    ?MODULE ! {?MODULE, Request, self(), Monitor},
    receive
        {Monitor, Answer} ->
            demonitor(Monitor, [flush]),
            Answer
    end.

%% How much of a limit's resource is the node's own.
-spec baseline(atom()) -> non_neg_integer().
baseline(Limit) ->
    case ets:lookup(?MODULE, Limit) of
        [{Limit, Count}] -> Count;
        [] -> 0
    end.

%% The VM's report of a process that it killed for its heap, passed on by sbx_limit.
-spec reported(tuple()) -> ok.
reported({log, _Level, _Format, [Pid, Max, Size, true | _], _Meta}) when
    is_pid(Pid), is_integer(Max), is_integer(Size)
->
    ?MODULE ! {?MODULE, heap, Pid, Max, Size},
    ok;
reported(_Report) ->
    ok.

await(State, Timer) ->
    receive
        {timeout, Timer, look} -> look(State);
        {?MODULE, Request, From, Reference} -> await(serve(Request, From, Reference, State), again(Timer));
        {sbx_poll_backoff, Word} when
            Word =:= wake orelse Word =:= look, State#state.idle_wait_ms > ?IDLE_MS
        ->
            woken(Word, State, Timer);
        {?MODULE, heap, Pid, Max, Size} -> await(heap(Pid, Max, Size, State), Timer);
        {sbx_process_scan, long_queues, Longest, Max, Pids} -> await(long_queues(Longest, Max, Pids, State), Timer);
        {sbx_process_scan, busiest, Pid} -> await(kill_maker_of_atoms(Pid, State), Timer);
        {sbx_process_scan, holder, Pid} -> await(kill_holder_of_sockets(Pid, State), Timer);
        _Stray -> await(State, Timer)
    end.

again(none) -> erlang:start_timer(?BUSY_MS, self(), look);
again(Timer) -> Timer.

%% Limits

serve({start, Limits}, From, Reference, State) ->
    Baseline = [{Limit, count(Limit)} || Limit <- [ets_tables, ets_memory_bytes, vm_ports, sockets]],
    true = ets:insert(?MODULE, Baseline),
    serve({change, Limits}, From, Reference, State#state{baseline = maps:from_list(Baseline), own = processes()});
serve({relieve, Limit}, From, Reference, State) ->
    From ! {Reference, kill_largest_holder(held(Limit), State)},
    State;
serve({change, Limits}, From, Reference, State) ->
    ok = bound_heaps(maps:get(heap_bytes, Limits, 0)),
    From ! {Reference, ok},
    State#state{limits = Limits, atoms_threshold = count(atoms)}.

%% Applies to processes that start from now on. Running ones keep their bound.
bound_heaps(Bytes) ->
    Words = Bytes div erlang:system_info(wordsize),
    _ = erlang:system_flag(max_heap_size, #{size => Words, kill => true, error_logger => Words > 0}),
    ok.

count(atoms) -> erlang:system_info(atom_count);
count(ets_tables) -> length(ets:all());
count(ets_memory_bytes) -> ets_memory_bytes();
count(vm_ports) -> length(erlang:ports());
count(sockets) -> sockets().

-spec ets_memory_bytes() -> non_neg_integer().
ets_memory_bytes() ->
    max(0, erlang:memory(ets) - sbx_eval:kept_bytes()).

%% Sockets that are ports, and those of the `socket` module.
-spec sockets() -> non_neg_integer().
sockets() ->
    length(socket_ports()) + plain_sockets().

socket_ports() ->
    [Port || Port <- erlang:ports(), is_socket(Port)].

is_socket(Port) ->
    case erlang:port_info(Port, name) of
        {name, [_, _, _ | "_inet"]} -> true;
        {name, "sctp_inet"} -> true;
        _Other -> false
    end.

plain_sockets() ->
    try prim_socket:info() of
        #{counters := #{num_sockets := Count}} -> Count;
        _None -> 0
    catch
        _:_ -> 0
    end.

%% Looking

look(#state{reductions = Before} = State) ->
    Reductions = sbx_busy_wait:reductions(),
    Looked = State#state{reductions = Reductions},
    case Reductions - Before > ?BUSY_REDUCTIONS of
        true -> look_closely(busy(Looked));
        false -> idle(Looked)
    end.

idle(#state{idle_wait_ms = WaitMs} = State) ->
    wait(State#state{idle_wait_ms = sbx_poll_backoff:next_wait(?MODULE, WaitMs, ?IDLE_MS)}, WaitMs).

woken(Word, State, Timer) ->
    _ = erlang:cancel_timer(Timer),
    case Word of
        wake -> wait(busy(State), ?BUSY_MS);
        look -> look(State)
    end.

busy(State) ->
    true = sbx_poll_backoff:reset(?MODULE),
    State#state{idle_wait_ms = ?IDLE_MS}.

look_closely(State) ->
    ok = sbx_process_scan:find_long_queues(maps:get(message_queue, State#state.limits, 0), State#state.own),
    {Distance, Checked} = lists:foldl(fun check/2, {far, State}, [atoms, ets_tables, ets_memory_bytes, vm_ports, sockets]),
    PauseMs = (count(ets_tables) + count(vm_ports)) div ?LISTED_PER_MS,
    wait(Checked, max(pause_ms(Distance), PauseMs)).

pause_ms(far) -> ?FAR_MS;
pause_ms(near) -> ?BUSY_MS;
pause_ms(over) -> ?PASS_MS.

wait(State, WaitMs) ->
    await(State, erlang:start_timer(WaitMs, self(), look)).

check(Limit, {Distance, #state{limits = Limits} = State}) ->
    case maps:get(Limit, Limits, 0) of
        0 -> {Distance, State};
        Max -> check(Limit, above_baseline(Limit, State), Max, Distance, State)
    end.

check(Limit, Count, Max, Distance, State) ->
    case Count > max(Max, threshold(Limit, State)) of
        true -> {over, exceeded(Limit, Count, Max, State)};
        false when 2 * Count > Max, Distance =:= far -> {near, State};
        false -> {Distance, State}
    end.

above_baseline(Limit, #state{baseline = Baseline}) ->
    count(Limit) - maps:get(Limit, Baseline, 0).

threshold(atoms, #state{atoms_threshold = Threshold}) -> Threshold;
threshold(_Limit, _State) -> 0.

exceeded(atoms, Count, Max, State) ->
    Searching = search_atom_maker(State#state{atoms_threshold = Count + max(1, Max div 20)}),
    tell(atoms, Count, Max, 0, Searching);
exceeded(sockets, Count, Max, State) ->
    case plain_sockets() * 2 > Count of
        true -> tell(sockets, Count, Max, 0, search_socket_holder(State));
        false -> tell(sockets, Count, Max, kill_holder(sockets, State), State)
    end;
exceeded(Limit, Count, Max, State) ->
    tell(Limit, Count, Max, kill_holder(Limit, State), State).

kills(Limit, #state{limits = Limits}) ->
    lists:member(Limit, maps:get(kill, Limits, [])).

%% Killing

kill_holder(Limit, State) ->
    case kills(Limit, State) of
        true -> kill_largest_holder(held(Limit), State);
        false -> 0
    end.

kill_largest_holder(Held, State) ->
    case holder(Held, State) of
        Pid when is_pid(Pid) ->
            exit(Pid, kill),
            1;
        none ->
            0
    end.

held(ets_tables) -> [{ets:info(Table, owner), 1} || Table <- ets:all()];
held(ets_memory_bytes) -> [{ets:info(Table, owner), ets:info(Table, memory)} || Table <- ets:all()];
held(vm_ports) -> owners(erlang:ports());
held(Limit) when Limit =:= sockets; Limit =:= connections -> owners(socket_ports());
held(Limit) when Limit =:= network_rate; Limit =:= network_total ->
    [{Pid, octets(Port)} || Port <- socket_ports(), {connected, Pid} <- [erlang:port_info(Port, connected)]].

octets(Port) ->
    try inet:getstat(Port, [recv_oct, send_oct]) of
        {ok, Counts} -> lists:sum([Count || {_Way, Count} <- Counts]);
        _Closed -> 0
    catch
        _:_ -> 0
    end.

owners(Ports) -> [{Owner, 1} || Port <- Ports, {connected, Owner} <- [erlang:port_info(Port, connected)]].

%% The application's process that has most. The node's own processes are never killed, whatever they
%% were given.
holder(Held, #state{own = Own}) ->
    Sums = lists:foldl(fun add/2, #{}, Held),
    case lists:reverse(lists:keysort(2, maps:to_list(maps:without(Own ++ sbx_reload:helpers(), Sums)))) of
        [{Pid, Most} | _] when Most > 0 -> Pid;
        _None -> none
    end.

add({Pid, Count}, Sums) when is_pid(Pid), is_integer(Count) ->
    maps:update_with(Pid, fun(Sum) -> Sum + Count end, Count, Sums);
add(_Gone, Sums) ->
    Sums.

%% One search at a time: a result that comes after the process has ended would hit another one.
search_atom_maker(#state{atoms_search = none, own = Own} = State) ->
    case kills(atoms, State) of
        true ->
            ok = sbx_process_scan:find_busiest(Own),
            State#state{atoms_search = count(atoms)};
        false ->
            State
    end;
search_atom_maker(State) ->
    State.

kill_maker_of_atoms(Pid, #state{atoms_search = Before} = State) ->
    _ = is_pid(Pid) andalso is_integer(Before) andalso count(atoms) > Before andalso exit(Pid, kill),
    State#state{atoms_search = none}.

%% Only the owners know their sockets of the `socket` module, so they have to be asked.
search_socket_holder(#state{is_searching = false, own = Own} = State) ->
    Kills = kills(sockets, State),
    _ = Kills andalso sbx_process_scan:find_holder(Own),
    State#state{is_searching = Kills};
search_socket_holder(State) ->
    State.

%% Kills the owner unless the sockets have been closed meanwhile.
kill_holder_of_sockets(Pid, #state{limits = Limits, baseline = Baseline} = State) ->
    Max = maps:get(sockets, Limits, 0) + maps:get(sockets, Baseline, 0),
    _ = is_pid(Pid) andalso count(sockets) > Max andalso exit(Pid, kill),
    State#state{is_searching = false}.

long_queues(Longest, Max, Pids, State) ->
    Kills = kills(message_queue, State),
    [exit(Pid, kill) || Pid <- Pids, Kills],
    tell(message_queue, Longest, Max, case Kills of true -> length(Pids); false -> 0 end, State).

heap(_Pid, Max, Size, State) ->
    Word = erlang:system_info(wordsize),
    tell(heap_bytes, Size * Word, Max * Word, 1, State).

%% Events, each limit at most once a second

tell(Limit, Count, Max, Killed, #state{told = Told} = State) ->
    Now = erlang:monotonic_time(millisecond),
    case Told of
        #{Limit := At} when Now - At < ?EVENT_EVERY_MS ->
            State;
        _ ->
            sbx_outbox:post(limit, #{limit => Limit, count => Count, max => Max, killed => Killed}),
            State#state{told = Told#{Limit => Now}}
    end.
