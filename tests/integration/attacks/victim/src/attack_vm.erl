%% What hostile code does to its own VM, to the agent in it, and on the agent's connection. It needs nothing else, so
%% that a project which never gets beyond it has little to compile.
-module(attack_vm).

-export([
    spawn_bomb/0, burst_unwatched/0, atoms/0, greed/0, heap/0, binaries/0, messages/0,
    replace_agent/0, replace_agent_twice/0, suspend/1, kill/1,
    through_agent/1, frame_header/1, truncate_frame/0, flood/0, drop_channel/0
]).

%% What the daemon lets a node send at once and in the long run.
-define(BURST_BYTES, (32 bsl 20)).
-define(BYTES_PER_MS, 8192).
-define(FAR_BYTES, (4 bsl 20)).
-define(FLOOD_MAX_MS, 10000).

%% Exhausting

spawn_bomb() ->
    spawn(fun bomb/0),
    ok.

bomb() ->
    spawn(fun bomb/0),
    spawn(fun bomb/0),
    receive stop -> ok end.

%% First silence the process that counts.
burst_unwatched() ->
    true = suspend(sbx_limit),
    [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 1000)],
    ok.

atoms() -> atoms(0).

atoms(N) ->
    _ = binary_to_atom(integer_to_binary(N)),
    atoms(N + 1).

%% As a careless process would.
greed() -> greed([]).

greed(List) -> greed([make_ref() | List]).

%% Two gibibytes of heap at once, of which only what is written to is there: no collector has to move any of it. The
%% bound on heaps is the VM's own, and a process may lift it for itself.
heap() ->
    _ = process_flag(max_heap_size, 0),
    _ = process_flag(min_heap_size, 1 bsl 28),
    true = garbage_collect(),
    fill_heap([]).

fill_heap(Tuples) ->
    fill_heap([erlang:make_tuple(16#3fffff, x) | Tuples]).

binaries() ->
    Bytes = 1 bsl 30,
    byte_size(<<1:(Bytes * 8)>>).

messages() ->
    Sink = spawn_opt(fun() -> receive never -> ok end end, [{message_queue_data, off_heap}]),
    messages(Sink, lists:seq(1, 10000)).

%% The limiter may still be at work on an earlier attack, and take the new process for one of its.
messages(Sink, Message) ->
    Sink ! Message,
    case is_process_alive(Sink) of
        true -> messages(Sink, Message);
        false -> messages()
    end.

%% The agent

replace_agent() ->
    {ok, Beam} = file:read_file(code:which(impostors)),
    Renamed = binary:replace(Beam, <<"impostors">>, <<"sbx_agent">>, [global]),
    _ = code:unstick_mod(sbx_agent),
    code:load_binary(sbx_agent, "sbx_agent.beam", Renamed).

%% The second time, what runs the oldest code is killed.
replace_agent_twice() ->
    {replace_agent(), replace_agent()}.

suspend(Name) ->
    %% In a process that stays: its end would resume the other. It leaves our code, since that may be purged.
    Caller = self(),
    spawn(fun() ->
        Caller ! {suspended, erlang:suspend_process(whereis(Name))},
        timer:sleep(infinity)
    end),
    receive {suspended, Suspended} -> Suspended end.

kill(Name) ->
    exit(whereis(Name), kill).

%% The agent's connection

agent_port() ->
    Agent = whereis(sbx_agent),
    [Port] = [Port || Port <- erlang:ports(), erlang:port_info(Port, connected) =:= {connected, Agent}],
    Port.

%% A frame of these bytes, as if the agent had sent it. What the port itself takes differs between releases of OTP.
through_agent(Bytes) ->
    gen_tcp:send(agent_port(), Bytes).

frame_header(Size) ->
    Port = agent_port(),
    ok = inet:setopts(Port, [{packet, raw}]),
    gen_tcp:send(Port, <<Size:32>>).

%% The next frame is taken for the rest of this one.
truncate_frame() ->
    Port = agent_port(),
    ok = inet:setopts(Port, [{packet, raw}]),
    Next = term_to_binary({event, output, <<>>}),
    gen_tcp:send(Port, [<<4:32, 131, (byte_size(Next)):32>>, Next]).

%% Small frames: what waits to be sent is charged to us. Until it is more than may come at once and since, by far; who
%% reads slower than that is not flooded, so it is nothing that takes long to read.
flood() ->
    Frame = term_to_binary({event, noise, binary:copy(<<"x">>, 65536)}),
    flood(agent_port(), Frame, 0, now_ms()).

flood(Port, Frame, Sent, Since) ->
    _ = gen_tcp:send(Port, Frame),
    Elapsed = now_ms() - Since,
    case Sent > ?BURST_BYTES + Elapsed * ?BYTES_PER_MS + ?FAR_BYTES orelse Elapsed > ?FLOOD_MAX_MS of
        true -> ok;
        false -> flood(Port, Frame, Sent + byte_size(Frame), Since)
    end.

now_ms() ->
    erlang:monotonic_time(millisecond).

drop_channel() ->
    port_close(agent_port()).
