%% The agent: a kernel process of the node's boot script, so its death is the VM's. Dials the daemon's socket, proves
%% itself with the node's secret, and serves calls. It only moves frames: everything that takes time or may fail runs in
%% a process of its own, so that a beat is always answered.
-module(sbx_agent).

-export([start_link/0, call_pids/0]).
-export([init/1]).

-include("sbx.hrl").

-define(DIAL_TIMEOUT_MS, 1000).
-define(SEND_TIMEOUT_MS, 30000).
-define(BACKOFF_MIN_MS, 50).
-define(BACKOFF_MAX_MS, 1000).
-define(DRAIN_POLL_MS, 20).
-define(CALLS_MAX, 64).
%% A VM that has done less between two beats has idled; then only some of the beats look whether all is well.
-define(QUIET_REDUCTIONS, 1000).
-define(QUIET_BEATS_MAX, 3).
%% Past this many bytes waiting in the socket, events are held back: only replies still go.
-define(EVENT_QUEUE_MAX_BYTES, 262144).
%% A frame is read at once up to this size; the rest of a longer one takes another turn through the VM's poller.
-define(READ_BYTES, 32768).
-define(SOCKET_OPTIONS,
    [
        binary,
        {packet, 4},
        {buffer, ?READ_BYTES},
        %% The daemon has few calls under way at once. A socket that is told of each frame to expect is waited for by a
        %% thread of its own, which wakes the scheduler: this one the scheduler waits for itself.
        {active, true},
        {high_watermark, 1048576},
        {send_timeout, ?SEND_TIMEOUT_MS},
        {send_timeout_close, true}
    ]
).

%% Only the call's process knows the proof that it has answered.
-record(call, {
    pid :: pid(),
    monitor :: reference(),
    proof :: reference(),
    timeout_ms :: timeout(),
    due :: integer() | infinity,
    busy_wait_us :: integer()
}).

-record(state, {
    parent :: pid(),
    path :: string(),
    secret :: binary(),
    grace_ms :: pos_integer(),
    phase = boot :: boot | disconnected | greeting | serving,
    socket = none :: none | gen_tcp:socket(),
    disconnected_since :: integer(),
    backoff_ms = ?BACKOFF_MIN_MS :: pos_integer(),
    outbox :: pid(),
    %% Processes of ours that the node can't do without: their death is the agent's.
    vital :: [pid()],
    %% The one item that the outbox waits to see taken.
    held = none :: none | {atom(), term()},
    calls = #{} :: #{integer() => #call{}},
    %% When the calls' deadlines are looked at next. It stays when a call ends in time: setting and taking back a timer for
    %% each took longer than many a call.
    alarm = none :: none | {reference(), integer()},
    %% Of all processes, at the last beat, and how many beats in a row found that nothing had been done.
    reductions = 0 :: integer(),
    quiet_beats = 0 :: non_neg_integer(),
    %% Modules, when a call last counted them.
    loaded = 0 :: non_neg_integer()
}).

-spec start_link() -> {ok, pid()}.
start_link() ->
    proc_lib:start_link(?MODULE, init, [self()]).

%% The processes of calls under way, and of a reload: ours, not the application's.
-spec call_pids() -> [pid()].
call_pids() ->
    [Pid || {Pid} <- ets:tab2list(?MODULE)] ++ sbx_reload:helpers().

-spec init(pid()) -> no_return().
init(Parent) ->
    process_flag(trap_exit, true),
    process_flag(priority, max),
    process_flag(message_queue_data, off_heap),
    process_flag(sensitive, true),
    register(?MODULE, self()),
    ?MODULE = ets:new(?MODULE, [named_table, protected]),
    sbx_eval = ets:new(sbx_eval, [named_table, protected]),
    Outbox = sbx_outbox:start_link(self()),
    State = #state{
        parent = Parent,
        path = os:getenv("SANDBOX_CONTROL", "/sandbox/control/agent.sock"),
        secret = list_to_binary(os:getenv("SANDBOX_SECRET", "")),
        grace_ms = list_to_integer(os:getenv("SANDBOX_GRACE_MS", "600000")),
        disconnected_since = now_ms(),
        outbox = Outbox,
        vital = [Outbox | start_vital()]
    },
    os:unsetenv("SANDBOX_SECRET"),
    proc_lib:init_ack(Parent, {ok, self()}),
    await_boot(),
    garbage_collect(),
    loop(dial(State#state{phase = disconnected})).

start_vital() ->
    [Module:start_link() || Module <- [sbx_busy_wait, sbx_app, sbx_limit, sbx_process_scan, sbx_quota, sbx_reload]].

%% gen_tcp, the code server and `user` exist only once the boot script has ended.
await_boot() ->
    case init:notify_when_started(self()) of
        started -> ok;
        ok -> receive {init, started} -> ok end
    end,
    {Pid, Monitor} = spawn_monitor(fun sbx_setup:run/0),
    receive
        {'DOWN', Monitor, process, Pid, normal} -> ok;
        {'DOWN', Monitor, process, Pid, Reason} -> exit({setup, Reason})
    end.

%% One receive takes any message there is: a flood of strays is thrown away in passing, never searched.
loop(#state{socket = Socket} = State) ->
    receive
        {tcp, Socket, Frame} ->
            loop(frame(Frame, State));
        {tcp_closed, Socket} ->
            loop(disconnected(State));
        {tcp_error, Socket, _Reason} ->
            loop(disconnected(State));
        {?MODULE, answered, Id, Proof} ->
            loop(answered(Id, Proof, State));
        {?MODULE, parsed, Id, Proof, Code, Expressions} ->
            loop(parsed(Id, Proof, Code, Expressions, State));
        {?MODULE, loaded, Count} when is_integer(Count) ->
            loop(State#state{loaded = Count});
        {timeout, Timer, alarm} when Timer =:= element(1, State#state.alarm) ->
            loop(late_calls(State#state{alarm = none}));
        {'DOWN', Monitor, process, Pid, Reason} ->
            loop(call_down(Pid, Monitor, Reason, State));
        {?MODULE, event, Outbox, Kind, Data} when Outbox =:= State#state.outbox ->
            loop(release(State#state{held = {Kind, Data}}));
        {?MODULE, release} ->
            loop(release(State));
        {?MODULE, dial} when State#state.phase =:= disconnected ->
            %% Without a daemon nobody sends beats.
            loop(dial(look_around_seldom(State)));
        {?MODULE, welcome_late, Socket} when State#state.phase =:= greeting ->
            loop(disconnected(State));
        {'EXIT', Socket, _Reason} ->
            %% Somebody closed our port behind our back: nothing else would tell.
            loop(disconnected(State));
        {'EXIT', Pid, Reason} ->
            loop(exited(Pid, Reason, State));
        _Stray ->
            loop(State)
    end.

%% When the VM stops in order, init speaks with the voice of the process that booted it: our parent.
exited(Parent, Reason, #state{parent = Parent}) ->
    exit(Reason);
exited(Pid, Reason, #state{vital = Vital} = State) ->
    case lists:member(Pid, Vital) of
        true -> exit({Pid, Reason});
        false -> State
    end.

%% Connecting

dial(#state{path = Path} = State) ->
    case gen_tcp:connect({local, Path}, 0, ?SOCKET_OPTIONS, ?DIAL_TIMEOUT_MS) of
        {ok, Socket} -> greet(State#state{socket = Socket, phase = greeting});
        {error, _Reason} -> dial_later(State)
    end.

%% A daemon that is stopped welcomes us later, and one that ends closes the connection. Dialling again meanwhile would
%% leave it one connection after the other that says hello and is gone.
greet(#state{socket = Socket, secret = Secret, disconnected_since = Since, grace_ms = Grace} = State) ->
    _ = erlang:send_after(max(0, Since + Grace - now_ms()), self(), {?MODULE, welcome_late, Socket}),
    case gen_tcp:send(Socket, term_to_binary({hello, ?PROTOCOL, Secret, sbx_info:hello()})) of
        ok -> State;
        {error, _Reason} -> disconnected(State)
    end.

disconnected(#state{phase = Phase, socket = Socket, calls = Calls} = State) ->
    _ = is_port(Socket) andalso gen_tcp:close(Socket),
    maps:foreach(fun(_Id, #call{pid = Pid}) -> exit(Pid, kill) end, Calls),
    true = ets:delete_all_objects(?MODULE),
    Since =
        case Phase of
            serving ->
                %% From now on they have to look by themselves.
                ok = sbx_poll_backoff:wake_all(),
                now_ms();
            _ ->
                State#state.disconnected_since
        end,
    dial_later(State#state{phase = disconnected, socket = none, calls = #{}, disconnected_since = Since}).

dial_later(#state{disconnected_since = Since, grace_ms = Grace, backoff_ms = Backoff} = State) ->
    case Since + Grace - now_ms() of
        Left when Left =< 0 ->
            erlang:halt(0, [{flush, false}]);
        Left ->
            _ = erlang:send_after(min(Left, Backoff), self(), {?MODULE, dial}),
            State#state{backoff_ms = min(2 * Backoff, ?BACKOFF_MAX_MS)}
    end.

%% Frames

frame(Frame, State) ->
    try binary_to_term(Frame) of
        Term -> message(Term, State)
    catch
        error:badarg -> disconnected(State)
    end.

message({welcome, ?PROTOCOL}, #state{phase = greeting} = State) ->
    release(State#state{phase = serving, backoff_ms = ?BACKOFF_MIN_MS});
message({call, Id, beat, Args}, #state{phase = serving} = State) ->
    answer(Id, {ok, #{}}, beat(Args, overdue(now_ms(), State)));
message({call, Id, Op, Args}, #state{phase = serving} = State) ->
    call(Id, Op, Args, State);
message({cancel, Id}, #state{phase = serving} = State) ->
    cancel(Id, State);
message(_Other, State) ->
    disconnected(State).

%% The daemon knows of work that takes no reductions.
beat(#{look := true}, State) -> look_around(State);
beat(_Args, State) -> look_around_seldom(State).

%% Looking wakes up a process for each organ: with a thousand idle nodes, that is most of what they take.
look_around_seldom(#state{reductions = Before, quiet_beats = Quiet} = State) ->
    Reductions = sbx_busy_wait:reductions(),
    case Reductions - Before < ?QUIET_REDUCTIONS andalso Quiet < ?QUIET_BEATS_MAX of
        true -> State#state{reductions = Reductions, quiet_beats = Quiet + 1};
        false -> look_around(State)
    end.

look_around(#state{vital = Vital} = State) ->
    ok = awake(Vital),
    ok = sbx_poll_backoff:check_all(),
    State#state{reductions = sbx_busy_wait:reductions(), quiet_beats = 0}.

%% An organ that is suspended says nothing and does nothing, like a dead one.
awake(Vital) ->
    case [Pid || Pid <- Vital, process_info(Pid, status) =:= {status, suspended}] of
        [] -> ok;
        [Pid | _] -> exit({suspended, Pid})
    end.

answer(Id, Result, State) ->
    send(sbx_call:frame(Id, Result), State).

%% What came before it may have ended the connection.
send(_Frame, #state{socket = none} = State) ->
    State;
send(Frame, #state{socket = Socket} = State) ->
    case gen_tcp:send(Socket, Frame) of
        ok -> State;
        {error, _Reason} -> disconnected(State)
    end.

%% Calls

call(Id, _Op, _Args, #state{calls = Calls} = State) when map_size(Calls) >= ?CALLS_MAX ->
    answer(Id, sbx_call:failure(busy, "~b calls are under way", [?CALLS_MAX]), State);
call(Id, Op, Args, #state{socket = Socket, calls = Calls, loaded = Loaded} = State) ->
    _ = Op =:= info orelse sbx_poll_backoff:wake_all(),
    Proof = make_ref(),
    try sbx_call:start(self(), Socket, {Id, Proof}, Op, Args, Loaded) of
        {Pid, Monitor} ->
            true = ets:insert(?MODULE, {Pid}),
            TimeoutMs = sbx_call:timeout_ms(Op, Args),
            Now = now_ms(),
            Due = due(Now, TimeoutMs),
            Call = #call{
                pid = Pid,
                monitor = Monitor,
                proof = Proof,
                timeout_ms = TimeoutMs,
                due = Due,
                busy_wait_us = maps:get(linger_us, Args, 0)
            },
            Begun = State#state{calls = Calls#{Id => Call}, quiet_beats = ?QUIET_BEATS_MAX},
            set_alarm(Due, overdue(Now, Begun))
    catch
        error:system_limit -> answer(Id, sbx_call:failure(busy, "the node has no process left", []), State)
    end.

due(_Now, infinity) -> infinity;
due(Now, TimeoutMs) -> Now + TimeoutMs.

%% So that it goes off then, or sooner.
set_alarm(infinity, State) ->
    State;
set_alarm(Due, #state{alarm = {_Timer, At}} = State) when At =< Due ->
    State;
set_alarm(Due, State) ->
    Silent = take_back_alarm(State),
    Silent#state{alarm = {erlang:start_timer(Due, self(), alarm, [{abs, true}]), Due}}.

take_back_alarm(#state{alarm = none} = State) ->
    State;
take_back_alarm(#state{alarm = {Timer, _At}} = State) ->
    ok = erlang:cancel_timer(Timer, [{async, true}, {info, false}]),
    State#state{alarm = none}.

%% One that should have gone off by now may never do so: the application may have found its reference.
overdue(Now, #state{alarm = {_Timer, At}} = State) when At < Now ->
    late_calls(take_back_alarm(State));
overdue(_Now, State) ->
    State.

late_calls(#state{calls = Calls} = State) ->
    Now = now_ms(),
    Late = [Id || {Id, #call{due = Due}} <- maps:to_list(Calls), Due =< Now],
    #state{calls = Left} = Told = lists:foldl(fun late/2, State, Late),
    set_alarm(lists:min([infinity | [Due || #call{due = Due} <- maps:values(Left)]]), Told).

late(Id, #state{calls = Calls} = State) ->
    case Calls of
        #{Id := #call{timeout_ms = TimeoutMs}} ->
            Error = sbx_call:failure(timeout, "no result within ~b ms", [TimeoutMs]),
            send(sbx_call:frame(Id, Error), cancel(Id, State));
        _ ->
            State
    end.

answered(Id, Proof, #state{calls = Calls} = State) ->
    case Calls of
        #{Id := #call{proof = Proof, busy_wait_us = BusyWaitUs}} ->
            ok = sbx_busy_wait:wait(BusyWaitUs),
            forget(Id, State);
        _ ->
            State
    end.

%% For the next time.
parsed(Id, Proof, Code, Expressions, #state{calls = Calls} = State) ->
    case Calls of
        #{Id := #call{proof = Proof}} -> ok = sbx_eval:keep(Code, Expressions);
        _ -> ok
    end,
    State.

cancel(Id, #state{calls = Calls} = State) ->
    case Calls of
        #{Id := #call{pid = Pid}} ->
            exit(Pid, kill),
            forget(Id, State);
        _ ->
            State
    end.

call_down(Pid, Monitor, Reason, #state{calls = Calls} = State) ->
    case [Id || {Id, #call{pid = Caller, monitor = Own}} <- maps:to_list(Calls), {Caller, Own} =:= {Pid, Monitor}] of
        [Id] ->
            Error = sbx_call:failure(killed, "the call's process ended: ~tp", [Reason]),
            send(sbx_call:frame(Id, Error), forget(Id, State));
        [] ->
            State
    end.

forget(Id, #state{calls = Calls} = State) ->
    {#call{pid = Pid, monitor = Monitor}, Rest} = maps:take(Id, Calls),
    demonitor(Monitor, [flush]),
    true = ets:delete(?MODULE, Pid),
    State#state{calls = Rest}.

%% Events

release(#state{held = none} = State) ->
    State;
release(#state{phase = serving, socket = Socket, held = {Kind, Data}, outbox = Outbox} = State) ->
    case erlang:port_info(Socket, queue_size) of
        {queue_size, Waiting} when Waiting > ?EVENT_QUEUE_MAX_BYTES ->
            _ = erlang:send_after(?DRAIN_POLL_MS, self(), {?MODULE, release}),
            State;
        _ ->
            case send(term_to_binary({event, Kind, Data}), State) of
                #state{phase = serving} = Sent ->
                    Outbox ! {?MODULE, taken},
                    Sent#state{held = none};
                Disconnected ->
                    Disconnected
            end
    end;
release(State) ->
    State.

now_ms() ->
    erlang:monotonic_time(millisecond).
