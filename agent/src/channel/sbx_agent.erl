%%% The agent's main process: it connects to the daemon's socket, proves itself with the node's
%%% secret, and serves calls. It is a kernel process of the boot script, so its death ends the VM.
%%%
%%% It only moves frames. Everything that takes time or may fail runs in a process of its own, so
%%% that a beat is always answered.
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
%% A VM that has done fewer reductions between two beats was idle. Only every fourth beat checks an
%% idle node.
-define(QUIET_REDUCTIONS, 1000).
-define(QUIET_BEATS_MAX, 3).
%% Events are held back while more than this many bytes wait in the socket. Replies are still sent.
-define(EVENT_QUEUE_MAX_BYTES, 262144).
%% One read takes a frame of up to this size. The rest of a longer frame waits for another turn of
%% the VM's poller.
-define(READ_BYTES, 32768).
-define(SOCKET_OPTIONS,
    [
        binary,
        {packet, 4},
        {buffer, ?READ_BYTES},
        %% Active mode: the scheduler itself polls an active socket. With {active, once} a separate
        %% poll thread waits for it and has to wake the scheduler. The daemon has few calls under
        %% way at once, so the mailbox stays short.
        {active, true},
        {high_watermark, 1048576},
        {send_timeout, ?SEND_TIMEOUT_MS},
        {send_timeout_close, true}
    ]
).

%% The proof is known to the call's process alone, so no other process can claim to have answered.
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
    %% Processes that the node can't work without: the agent ends when one of them does.
    vital :: [pid()],
    %% The one item that the agent has got from the outbox and not sent yet.
    held = none :: none | {atom(), term()},
    calls = #{} :: #{integer() => #call{}},
    %% When the deadlines of calls are checked next. The timer is kept when a call ends in time: to
    %% set and cancel one for each call took longer than many calls.
    alarm = none :: none | {reference(), integer()},
    %% The reductions of all processes at the last beat, and the number of idle beats since the last
    %% check.
    reductions = 0 :: integer(),
    quiet_beats = 0 :: non_neg_integer(),
    %% The number of loaded modules, when a call last counted them.
    loaded = 0 :: non_neg_integer()
}).

-spec start_link() -> {ok, pid()}.
start_link() ->
    proc_lib:start_link(?MODULE, init, [self()]).

%% The processes of calls under way and of a reload, which don't count as the application's.
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
    ok = sbx_capture:open(),
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
    [
        Module:start_link()
     || Module <- [sbx_busy_wait, sbx_app, sbx_limit, sbx_process_scan, sbx_quota, sbx_reload, sbx_reload_timers]
    ].

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

%% One receive takes every message: stray messages are dropped at once, so a flood of them is never
%% searched.
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
            %% Without a daemon there are no beats.
            loop(dial(look_around_seldom(State)));
        {?MODULE, welcome_late, Socket} when State#state.phase =:= greeting ->
            loop(disconnected(State));
        {'EXIT', Socket, _Reason} ->
            %% The application closed the agent's port. No other message would tell.
            loop(disconnected(State));
        {'EXIT', Pid, Reason} ->
            loop(exited(Pid, Reason, State));
        _Stray ->
            loop(State)
    end.

%% When the VM stops in order, the exit signal comes from the process that booted it, which is our
%% parent.
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

%% A stopped daemon sends its welcome when it continues, and one that ends closes the connection. To
%% dial again meanwhile would leave the daemon a row of connections that said hello and closed.
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
    true = ets:delete_all_objects(sbx_capture),
    Since =
        case Phase of
            serving ->
                %% From now on no beat tells the watchers of limits to check.
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

%% The daemon asks for a check when it sees work that takes no reductions.
beat(#{look := true}, State) -> look_around(State);
beat(_Args, State) -> look_around_seldom(State).

%% A check wakes a process for each watcher. With a thousand idle nodes that is most of what they
%% use.
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

%% A suspended process does nothing, so it counts as dead.
awake(Vital) ->
    IsSuspended = fun(Pid) ->
        process_info(Pid, status) =:= {status, suspended} andalso not sbx_limit:may_wait(Pid)
    end,
    case lists:filter(IsSuspended, Vital) of
        [] -> ok;
        [Pid | _] -> exit({suspended, Pid})
    end.

answer(Id, Result, State) ->
    send(sbx_call:frame(Id, Result), State).

%% A frame handled before this one may have ended the connection.
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
                busy_wait_us = maps:get(busy_wait_us, Args, 0)
            },
            Begun = State#state{calls = Calls#{Id => Call}, quiet_beats = ?QUIET_BEATS_MAX},
            set_alarm(Due, overdue(Now, Begun))
    catch
        error:system_limit -> answer(Id, sbx_call:failure(busy, "the node has no process left", []), State)
    end.

due(_Now, infinity) -> infinity;
due(Now, TimeoutMs) -> Now + TimeoutMs.

%% Makes sure that the timer fires by Due.
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

%% The application may have found the timer's reference and cancelled it. So a deadline that has
%% passed is also noticed by the next frame.
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
        #{Id := #call{pid = Pid, timeout_ms = TimeoutMs}} ->
            {error, Error} = sbx_call:failure(timeout, "no result within ~b ms", [TimeoutMs]),
            Frame = sbx_call:frame(Id, {error, sbx_eval:with_output(Pid, Error)}),
            send(Frame, cancel(Id, State));
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

%% Keeps the parsed expressions for the next evaluation of the same text.
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
    true = ets:delete(sbx_capture, Pid),
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
