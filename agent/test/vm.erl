%%% A node for a test: a VM with the service's command line but without a jail, and the daemon's end
%%% of its control channel. The process that starts a node gets the node's frames and makes its
%%% calls.
-module(vm).

-export([write_boot_file/1, start/1, stop/1, hangup/1, abandon/1, accept/1, reject/1, stop_reading/1]).
-export([call/3, call/4, send_call/4, send_bytes/2, cancel/2, reply/2, reply/3]).
-export([event/2, event/3, left_output/1, no_event/2, drop_events/1, output/2, exit_status/1]).
-export([os_pid/1, hello/1, dir/1, eval/2, eval/3, eval_args/2, eval_later/2]).

-define(DEADLINE_MS, 10000).
%% A node whose test failed ends by itself after this time.
-define(GRACE_MS, "3000").
-define(SECRET, <<"a secret of sixty-four characters">>).

-record(vm, {
    dir :: file:filename(),
    listener :: gen_tcp:socket(),
    port :: port(),
    socket = none :: none | gen_tcp:socket(),
    hello = #{} :: map()
}).

%% Runs once per build: all nodes use the same file.
write_boot_file([Path]) ->
    Arguments = common_arguments() ++
        ["-boot", filename:join([code:root_dir(), "bin", "start_clean"]), "-noshell", "-pa", ebin()] ++
        [Word || Dir <- elixir_dirs(), Word <- ["-pa", Dir]] ++ ["-s", "sbx_boot", "main"],
    Port = open_port({spawn_executable, beam()}, [{args, Arguments}, {env, environment([])}, exit_status, binary]),
    {0, Output} = collect(Port, <<>>),
    [<<"SBXBOOT ", Encoded/binary>> | Facts] = binary:split(Output, <<"\n">>, [global, trim]),
    true = lists:any(fun(Line) -> binary:match(Line, <<"OTP_RELEASE ">>) =:= {0, 12} end, Facts),
    ok = file:write_file(Path, base64:decode(Encoded)).

collect(Port, Output) ->
    receive
        {Port, {data, Bytes}} -> collect(Port, <<Output/binary, Bytes/binary>>);
        {Port, {exit_status, Status}} -> {Status, Output}
    after ?DEADLINE_MS -> error(boot_file_timeout)
    end.

%% Options: env, schedulers (or AGENT_SCHEDULERS of the environment), arguments, grace_ms, accept
%% (default true: wait until the node serves).
start(Options) ->
    Dir = test_dir:new(),
    {ok, Listener} = listen(Dir),
    Env = environment([
        {"SANDBOX_CONTROL", socket_path(Dir)},
        {"SANDBOX_SECRET", binary_to_list(?SECRET)},
        {"SANDBOX_GRACE_MS", maps:get(grace_ms, Options, ?GRACE_MS)}
        | maps:get(env, Options, [])
    ]),
    Port = open_port({spawn_executable, beam()}, [
        {args, arguments(Options)}, {env, Env}, {cd, Dir}, exit_status, binary, stderr_to_stdout
    ]),
    Vm = #vm{dir = Dir, listener = Listener, port = Port},
    case maps:get(accept, Options, true) of
        true -> accept(Vm);
        false -> Vm
    end.

%% The command line of README.md, word for word.
arguments(Options) ->
    tuning(Options) ++ common_arguments() ++
        ["-boot", filename:rootname(os:getenv("AGENT_BOOT_FILE")), "-noshell", "-noinput", "-user", "sbx_io"].

tuning(#{arguments := Words}) ->
    Words;
tuning(Options) ->
    Count = maps:get(schedulers, Options, os:getenv("AGENT_SCHEDULERS", "1")),
    ["-S", lists:concat([Count, ":", Count])] ++ string:lexemes(
        "-SDcpu 1:1 -SDio 1 -A 1 -sbwt none -sbwtdcpu none -sbwtdio none -P 2048 -Q 1024 -hpds 1 "
        "-fnu -pc unicode -Bi",
        " "
    ).

common_arguments() ->
    Root = code:root_dir(),
    ["--", "-root", Root, "-bindir", bin_dir(), "-progname", "erl", "--", "-home", "/tmp", "--"].

environment(More) ->
    Ours = [
        {"BINDIR", bin_dir()}, {"TZ", "UTC"}, {"HOME", "/tmp"}, {"MALLOC_MMAP_THRESHOLD_", "16384"},
        {"ERL_CRASH_DUMP_SECONDS", "0"} | More
    ],
    Inherited = [hd(string:split(Line, "=")) || Line <- os:getenv()],
    [{Name, false} || Name <- Inherited, not lists:keymember(Name, 1, Ours)] ++ Ours.

bin_dir() -> filename:join(code:root_dir(), "erts-" ++ erlang:system_info(version) ++ "/bin").
beam() -> filename:join(bin_dir(), "beam.smp").
ebin() -> filename:dirname(code:which(sbx_agent)).

elixir_dirs() ->
    case os:find_executable("elixir") of
        false -> [];
        Path ->
            {ok, Real} = real_path(Path),
            [filename:join([filename:dirname(filename:dirname(Real)), "lib", "elixir", "ebin"])]
    end.

real_path(Path) ->
    case file:read_link(Path) of
        {ok, Target} -> {ok, filename:absname(Target, filename:dirname(Path))};
        {error, _} -> {ok, Path}
    end.

listen(Dir) ->
    _ = file:delete(socket_path(Dir)),
    gen_tcp:listen(0, [binary, {ifaddr, {local, socket_path(Dir)}}, {packet, 4}, {active, false}]).

socket_path(Dir) -> filename:join(Dir, "agent.sock").

%% Takes the node's next connection and greets it.
accept(Vm) ->
    {Socket, Info} = greeted(Vm),
    welcome(Vm, Socket, Info).

welcome(#vm{socket = Before} = Vm, Socket, Info) ->
    %% An ended connection that is not read keeps a scheduler of this VM busy.
    _ = Before =/= none andalso gen_tcp:close(Before),
    ok = gen_tcp:send(Socket, term_to_binary({welcome, 1})),
    ok = inet:setopts(Socket, [{active, true}]),
    Vm#vm{socket = Socket, hello = Info}.

%% Takes the node's next connection and closes it without a welcome.
reject(Vm) ->
    {Socket, _Info} = greeted(Vm),
    gen_tcp:close(Socket).

greeted(#vm{listener = Listener}) ->
    {ok, Socket} = gen_tcp:accept(Listener, ?DEADLINE_MS),
    {ok, Frame} = gen_tcp:recv(Socket, 0, ?DEADLINE_MS),
    {hello, 1, ?SECRET, Info} = binary_to_term(Frame),
    {Socket, Info}.

%% The daemon stops reading.
stop_reading(#vm{socket = Socket}) ->
    inet:setopts(Socket, [{active, false}]).

%% The daemon dies with its connection and its socket. A new one binds when eval_later's code has
%% run.
hangup(#vm{dir = Dir} = Vm) ->
    Alone = abandon(Vm),
    await_later(Dir),
    {ok, Again} = listen(Alone#vm.dir),
    Alone#vm{listener = Again}.

%% The daemon dies and no other comes.
abandon(#vm{socket = Socket, listener = Listener} = Vm) ->
    gen_tcp:close(Listener),
    _ = Socket =/= none andalso gen_tcp:close(Socket),
    Vm#vm{socket = none}.

stop(#vm{port = Port, listener = Listener, socket = Socket, dir = Dir} = Vm) ->
    Pid = os_pid(Vm),
    _ = Pid =/= undefined andalso os:cmd("kill -KILL " ++ integer_to_list(Pid)),
    _ = Pid =/= undefined andalso exit_status(Vm),
    close_port(Port),
    gen_tcp:close(Listener),
    _ = Socket =/= none andalso gen_tcp:close(Socket),
    ok = file:del_dir_r(Dir).

%% The port may have closed itself with its program.
close_port(Port) ->
    try
        port_close(Port)
    catch
        error:badarg -> true
    end.

call(Vm, Op, Args) ->
    call(Vm, Op, Args, ?DEADLINE_MS).

%% A test chooses small numbers itself for the calls that it sends without waiting.
call(Vm, Op, Args, DeadlineMs) ->
    Id = 1000000 + erlang:unique_integer([positive]),
    send_call(Vm, Id, Op, Args),
    reply(Vm, Id, DeadlineMs).

send_call(#vm{socket = Socket}, Id, Op, Args) ->
    ok = gen_tcp:send(Socket, term_to_binary({call, Id, Op, Args})).

send_bytes(#vm{socket = Socket}, Bytes) ->
    ok = gen_tcp:send(Socket, Bytes).

cancel(#vm{socket = Socket}, Id) ->
    ok = gen_tcp:send(Socket, term_to_binary({cancel, Id})).

reply(Vm, Id) ->
    reply(Vm, Id, ?DEADLINE_MS).

reply(Vm, Id, DeadlineMs) ->
    frame(Vm, fun({reply, I, Result}) when I =:= Id -> {found, Result}; (_) -> other end, DeadlineMs).

event(Vm, Kind) ->
    event(Vm, Kind, fun(_Data) -> true end).

event(Vm, Kind, Wanted) ->
    Match = fun
        ({event, K, Data}) when K =:= Kind ->
            case Wanted(Data) of
                true -> {found, Data};
                false -> other
            end;
        (_) ->
            other
    end,
    frame(Vm, Match, ?DEADLINE_MS).

%% Joins output events until there are Size bytes.
output(Vm, Size) ->
    output(Vm, Size, <<>>).

output(_Vm, Size, Got) when byte_size(Got) >= Size -> Got;
output(Vm, Size, Got) -> output(Vm, Size, <<Got/binary, (event(Vm, output))/binary>>).

%% All output of a node that has ended, in pieces.
left_output(#vm{socket = Socket} = Vm) ->
    receive
        {tcp, Socket, Bytes} ->
            self() ! {pending, Socket, binary_to_term(Bytes)},
            left_output(Vm);
        {tcp_closed, Socket} ->
            [Data || {event, output, Data} <- pending(Vm)]
    after ?DEADLINE_MS -> error(still_connected)
    end.

no_event(Vm, Kind) ->
    Seen = [Frame || {event, K, _} = Frame <- pending(Vm), K =:= Kind],
    Seen =:= [].

%% Drops the events so far, so that the next step does not take them for its own.
drop_events(#vm{socket = Socket} = Vm) ->
    {ok, #{}} = call(Vm, beat, #{}),
    [forget(Socket, Frame) || {event, _, _} = Frame <- pending(Vm)],
    ok.

%% Frames that no step has asked for yet wait in the mailbox.
frame(#vm{socket = Socket} = Vm, Match, DeadlineMs) ->
    End = erlang:monotonic_time(millisecond) + DeadlineMs,
    case search(pending(Vm), Match) of
        {found, Found, Frame} ->
            forget(Socket, Frame),
            Found;
        none ->
            next_frame(Vm, Match, End)
    end.

next_frame(#vm{socket = Socket} = Vm, Match, End) ->
    receive
        {tcp, Socket, Bytes} ->
            Frame = binary_to_term(Bytes),
            case Match(Frame) of
                {found, Found} ->
                    Found;
                other ->
                    self() ! {pending, Socket, Frame},
                    next_frame(Vm, Match, End)
            end;
        {tcp_closed, Socket} ->
            error(node_hung_up)
    after max(0, End - erlang:monotonic_time(millisecond)) -> error({no_such_frame, pending(Vm)})
    end.

pending(#vm{socket = Socket}) ->
    {messages, Messages} = process_info(self(), messages),
    [Frame || {pending, S, Frame} <- Messages, S =:= Socket].

forget(Socket, Frame) ->
    receive
        {pending, Socket, Frame} -> ok
    end.

search([], _Match) ->
    none;
search([Frame | Rest], Match) ->
    case Match(Frame) of
        {found, Found} -> {found, Found, Frame};
        other -> search(Rest, Match)
    end.

exit_status(#vm{port = Port}) ->
    receive
        {Port, {exit_status, Status}} -> Status
    after ?DEADLINE_MS -> error(node_lives)
    end.

os_pid(#vm{port = Port}) ->
    case erlang:port_info(Port, os_pid) of
        {os_pid, Pid} -> Pid;
        undefined -> undefined
    end.

hello(#vm{hello = Info}) -> Info.
dir(#vm{dir = Dir}) -> Dir.

eval(Vm, Code) ->
    eval(Vm, erlang, Code).

%% What the code prints comes as events.
eval(Vm, Language, Code) ->
    call(Vm, eval, maps:merge(eval_args(Language, Code), #{capture => false})).

eval_args(Language, Code) ->
    #{language => Language, code => unicode:characters_to_binary(Code), timeout_ms => 5000}.

%% Code that runs in the node after the agent has noticed that the daemon is gone, and before the
%% next one comes. Files signal that, since there is no other channel.
eval_later(#vm{dir = Dir} = Vm, Code) ->
    ok = file:write_file(filename:join(Dir, "later"), ""),
    Wait =
        "Wait = fun(F) -> Sockets = [Port || Port <- erlang:ports(), "
        "erlang:port_info(Port, connected) =:= {connected, whereis(sbx_agent)}], "
        "case filelib:is_file(\"gone\") andalso Sockets =:= [] of "
        "true -> ok; false -> receive after 2 -> F(F) end end end",
    {ok, _} = eval(Vm, ["spawn(fun() -> ", Wait, ", Wait(Wait), ", Code, ", file:delete(\"later\") end)"]).

await_later(Dir) ->
    Gone = filename:join(Dir, "gone"),
    ok = file:write_file(Gone, ""),
    await_no_file(filename:join(Dir, "later"), erlang:monotonic_time(millisecond) + ?DEADLINE_MS),
    ok = file:delete(Gone).

await_no_file(File, End) ->
    case filelib:is_file(File) of
        false -> ok;
        true ->
            erlang:monotonic_time(millisecond) < End orelse error({still_there, File}),
            receive after 2 -> await_no_file(File, End) end
    end.
