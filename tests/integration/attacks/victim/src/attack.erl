%% What hostile code does, so that the tables of attacks have only to name it.
-module(attack).

-export([
    writable/0, fill/1, fill_inodes/1, follow_link/2, hard_link/1,
    foreign_processes/0, environment/0, signal_everything/1,
    shell/1, run_again/0, spin/0, stop_spinning/0,
    say/1, say_hello/1, say_truncated/0, replay_hello/1, aftermath/0, pass_descriptor/0, dial_daemon/1,
    dial/2, dial_abstract/1, listen/0, packet_socket/0,
    native/0, native_copy/1, call/2
]).

-define(SOCKET, "/sandbox/control/agent.sock").

%% Files

%% Whatever can be written to outside /data and /tmp, in all that can be seen.
writable() ->
    Roots = ["/", "/app", "/sandbox", "/sandbox/control", "/sandbox/boot", "/sandbox/ebin", "/usr", "/usr/lib", "/lib",
             "/bin", "/etc", "/dev", "/dev/shm", "/root", "/run", "/var", "/home", "/mnt", "/proc", "/proc/1",
             "/proc/self", "/proc/self/fd", "/proc/sys", "/sys", "/sys/fs/cgroup", "/app/victim", "/app/victim/ebin"],
    [Path || Path <- Roots, file:write_file(filename:join(Path, "x"), "x") =:= ok] ++
        [Path || Path <- existing(), not lists:prefix("/data/", Path), can_write(Path)].

existing() ->
    [code:which(attack), "/sandbox/boot/node.boot", code:which(lists), "/proc/sys/kernel/core_pattern",
     "/proc/sysrq-trigger", "/proc/1/mem", "/proc/self/oom_score_adj", "/proc/self/uid_map", "/proc/sys/vm/drop_caches"].

%% Opening is enough to tell, where writing would harm.
can_write(Path) ->
    case file:open(Path, [raw, write, read, binary]) of
        {ok, File} -> file:close(File), not lists:prefix("/proc/self", Path);
        {error, _} -> false
    end.

fill(Dir) ->
    Block = binary:copy(<<"x">>, 262144),
    Path = filename:join(Dir, "fill"),
    {ok, File} = file:open(Path, [raw, write, binary]),
    Reason = fill(File, Block, 4096),
    file:close(File),
    file:delete(Path),
    Reason.

fill(_File, _Block, 0) -> no_end;
fill(File, Block, Left) ->
    case file:write(File, Block) of
        ok -> fill(File, Block, Left - 1);
        Error -> Error
    end.

%% Links have inodes of their own, and are made by one call. What is made stays.
fill_inodes(Dir) ->
    make_links(filename:join(Dir, "link"), 1000000).

make_links(_Path, 0) -> no_end;
make_links(Path, N) ->
    case prim_file:make_symlink("x", Path ++ integer_to_list(N)) of
        ok -> make_links(Path, N - 1);
        Error -> Error
    end.

follow_link(Target, Link) ->
    ok = file:make_symlink(Target, Link),
    Read = file:read_file(Link),
    file:delete(Link),
    Read.

hard_link(Target) ->
    file:make_link(Target, "/data/hard").

%% Processes

%% What runs in our view of the machine and isn't ours; `true` says that we did see something.
foreign_processes() ->
    {ok, Names} = file:list_dir("/proc"),
    Commands = [Comm || [C | _] = Pid <- Names, C >= $0, C =< $9, {ok, Comm} <- [file:read_file(["/proc/", Pid, "/comm"])]],
    Own = [<<"sandbox-init\n">>, <<"beam.smp\n">>, <<"erl_child_setup\n">>],
    {lists:member(<<"beam.smp\n">>, Commands), Commands -- Own}.

environment() ->
    {ok, Environment} = file:read_file("/proc/self/environ"),
    maps:from_list([list_to_tuple(binary:split(Pair, <<"=">>)) || Pair <- binary:split(Environment, <<0>>, [global, trim])]).

%% kill(2) of each; the errors' numbers.
signal_everything(Pids) ->
    lists:usort([call(kill, [Pid, 9]) || Pid <- Pids]).

%% Where the shell is refused at once, its port may be gone before os:cmd has spoken to it: that is an error, or an exit
%% signal of the port's.
shell(Command) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit(try {said, os:cmd(Command)} catch error:badarg -> refused end) end),
    receive
        {'DOWN', Monitor, process, Pid, {said, Text}} -> Text;
        {'DOWN', Monitor, process, Pid, _Refused} -> []
    end.

%% The VM's own program once more, by way of its helper.
run_again() ->
    Port = open_port({spawn_executable, os:getenv("BINDIR") ++ "/beam.smp"}, [exit_status, {args, ["-h"]}]),
    receive {Port, {exit_status, Status}} -> {refused, Status =/= 0} after 5000 -> ran end.

spin() ->
    [register(list_to_atom("spinner" ++ integer_to_list(N)), spawn(fun spinning/0)) || N <- lists:seq(1, 8)],
    ok.

spinning() ->
    spinning().

stop_spinning() ->
    [exit(whereis(list_to_atom("spinner" ++ integer_to_list(N))), kill) || N <- lists:seq(1, 8)],
    ok.

%% The control channel

%% Bytes from a stranger; what the daemon does with the connection.
say(Bytes) ->
    {ok, Socket} = gen_tcp:connect({local, ?SOCKET}, 0, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, Bytes),
    Answer = gen_tcp:recv(Socket, 0, 5000),
    gen_tcp:close(Socket),
    Answer.

say_hello(Secret) ->
    say(framed({hello, 1, Secret, #{}})).

say_truncated() ->
    {ok, Socket} = gen_tcp:connect({local, ?SOCKET}, 0, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, <<1000:32, 131, 104>>),
    gen_tcp:close(Socket).

%% What the agent itself said at the beginning, once more, and then a frame of ours; until the agent has dialled again.
%% In a process of its own, since a call does not outlive the channel it came by.
replay_hello(Term) ->
    register(attacker, spawn(fun() -> {error, closed} = said_to_us(say_with_secret(Term)) end)).

%% Nothing of that is still to come. This call may be lost itself, while it is.
aftermath() ->
    Monitor = monitor(process, attacker),
    receive {'DOWN', Monitor, process, _Pid, _Reason} -> still_here end.

said_to_us(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, _Bytes} -> said_to_us(Socket);
        Error -> Error
    end.

say_with_secret(Term) ->
    Hello = framed({hello, 1, maps:get(<<"SANDBOX_SECRET">>, environment()), #{}}),
    {ok, Socket} = gen_tcp:connect({local, ?SOCKET}, 0, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, [Hello, framed(Term)]),
    Socket.

%% The message has the last reference. Where there is no network, any descriptor must do.
pass_descriptor() ->
    {ok, Socket} = socket:open(local, stream),
    ok = socket:connect(Socket, #{family => local, path => ?SOCKET}),
    Passed = try lingering() catch _:_ -> Socket end,
    {ok, Fd} = socket:getopt(Passed, otp, fd),
    Rights = #{level => socket, type => rights, data => <<Fd:32/native>>},
    Answer = socket:sendmsg(Socket, #{iov => [<<0>>], ctrl => [Rights]}),
    %% What was refused would hold up this VM alone.
    Answer =:= ok orelse socket:setopt(Passed, socket, linger, #{onoff => false, linger => 0}),
    Answer.

lingering() ->
    {ok, Listener} = socket:open(inet, stream),
    ok = socket:bind(Listener, #{family => inet, addr => loopback, port => 0}),
    ok = socket:setopt(Listener, socket, rcvbuf, 4096),
    ok = socket:listen(Listener),
    {ok, Address} = socket:sockname(Listener),
    {ok, Socket} = socket:open(inet, stream),
    ok = socket:setopt(Socket, socket, sndbuf, 4096),
    ok = socket:connect(Socket, Address),
    ok = socket:setopt(Socket, socket, linger, #{onoff => true, linger => 30}),
    fill_buffer(Socket, binary:copy(<<0>>, 65536)).

fill_buffer(Socket, Bytes) ->
    case socket:send(Socket, Bytes, 50) of
        ok -> fill_buffer(Socket, Bytes);
        _Full -> Socket
    end.

%% Where the queue is full the VM believes to be connected: only what can be sent shows that it is.
dial_daemon(Times) ->
    dial_daemon(Times, 2000).

dial_daemon(0, _Patience) ->
    ok;
dial_daemon(_Times, 0) ->
    too_slow;
dial_daemon(Times, Patience) ->
    {ok, Socket} = gen_tcp:connect({local, ?SOCKET}, 0, []),
    IsDialled = gen_tcp:send(Socket, <<0>>) =:= ok,
    gen_tcp:close(Socket),
    case IsDialled of
        true ->
            dial_daemon(Times - 1, Patience);
        false ->
            receive after 1 -> ok end,
            dial_daemon(Times, Patience - 1)
    end.

framed(Term) ->
    Binary = term_to_binary(Term),
    <<(byte_size(Binary)):32, Binary/binary>>.

%% The network

dial(Address, Port) ->
    case gen_tcp:connect(Address, Port, [{active, false}], 1000) of
        {ok, _Socket} -> reached;
        Error -> Error
    end.

dial_abstract(Name) ->
    case gen_tcp:connect({local, <<0, Name/binary>>}, 0, [{active, false}], 1000) of
        {ok, _Socket} -> reached;
        Error -> Error
    end.

%% The port stays open in a process of its own.
listen() ->
    Caller = self(),
    spawn(fun() ->
        {ok, Socket} = gen_tcp:listen(0, [{ip, any}]),
        Caller ! {listening, inet:port(Socket)},
        receive never -> ok end
    end),
    receive {listening, {ok, Port}} -> Port after 2000 -> none end.

packet_socket() ->
    socket:open(17, raw, {raw, 768}).

%% Native code

%% Of the application's own; that it is there already is as good.
native() ->
    native(library()).

native(Path) ->
    case attack_nif:load(Path) of
        ok -> ok;
        {error, {reload, _}} -> ok;
        {error, {upgrade, _}} -> ok;
        {error, {Reason, _Text}} -> {error, Reason}
    end.

library() ->
    filename:join(code:priv_dir(victim), "attack_nif").

%% From where we may write.
native_copy(Dir) ->
    Path = filename:join(Dir, "attack_nif"),
    {ok, _} = file:copy(library() ++ ".so", Path ++ ".so"),
    Loaded = native(Path),
    file:delete(Path ++ ".so"),
    Loaded.

call(Name, Arguments) ->
    ok = native(),
    attack_nif:syscall(Name, Arguments).
