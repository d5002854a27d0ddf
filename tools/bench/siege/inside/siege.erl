%% What hostile code in a `medium` sandbox does to the daemon's end of agent.sock. Each attack goes on for as long as it
%% is told, in a process of its own, since a call does not outlive the channel it came by.
-module(siege).
-behaviour(supervisor).

-export([start_link/0, init/1]).
-export([attack/2, rests/0, attempts/0]).

-define(SOCKET, "/sandbox/control/agent.sock").
-define(LINGER_S, 1).
-define(STRANGERS, 4).
-define(KEYS, 980000).

start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

init([]) ->
    persistent_term:put(?MODULE, counters:new(2, [])),
    {ok, {#{}, []}}.

-spec attack(atom(), pos_integer()) -> ok.
attack(What, LengthMs) ->
    Until = erlang:monotonic_time(millisecond) + LengthMs,
    Caller = self(),
    Pid = spawn(fun() ->
        register(attacker, self()),
        Weapon = weapon(What),
        Caller ! {ready, self()},
        go_on(What, Weapon, Until)
    end),
    receive {ready, Pid} -> ok after 20000 -> late end.

-spec rests() -> boolean().
rests() ->
    whereis(attacker) =:= undefined.

%% How many there were, and how many failed.
-spec attempts() -> [non_neg_integer()].
attempts() ->
    Counters = persistent_term:get(?MODULE),
    [counters:get(Counters, 1), counters:get(Counters, 2)].

go_on(What, Weapon, Until) ->
    case erlang:monotonic_time(millisecond) < Until of
        true ->
            attempt(What, Weapon),
            go_on(What, Weapon, Until);
        false ->
            ok
    end.

attempt(What, Weapon) ->
    Counters = persistent_term:get(?MODULE),
    counters:add(Counters, 1, 1),
    try strike(What, Weapon)
    catch _:_ -> counters:add(Counters, 2, 1), timer:sleep(1)
    end.

%% What takes long to make is made once, before the window.
weapon(wide_map) -> frame(wide_event(?KEYS));
weapon(dial_hello) -> framed({hello, 1, crypto_free_secret(), #{}});
weapon(_) -> none.

crypto_free_secret() ->
    binary:copy(<<"x">>, 32).

strike(dial_byte, none) -> dial_and_say(<<0>>);
strike(dial_hello, Hello) -> dial_and_say(Hello);
strike(wide_map, Frame) -> forge(Frame);
strike(descriptors, none) -> pass_descriptor().

%% Dials

dial() ->
    {ok, Socket} = gen_tcp:connect({local, ?SOCKET}, 0, [binary, {active, false}], 1000),
    Socket.

dial_and_say(Bytes) ->
    Socket = dial(),
    _ = gen_tcp:send(Socket, Bytes),
    gen_tcp:close(Socket).

%% A forged agent: the real one has lost its connection by then, and dials again when ours is closed.

forge(Frame) ->
    Socket = dial(),
    ok = gen_tcp:send(Socket, framed({hello, 1, secret(), #{}})),
    {ok, _Welcome} = gen_tcp:recv(Socket, 4, 5000),
    ok = gen_tcp:send(Socket, Frame),
    _ = gen_tcp:recv(Socket, 0, 200),
    gen_tcp:close(Socket).

secret() ->
    {ok, Environment} = file:read_file("/proc/self/environ"),
    [Secret] = [Value || <<"SANDBOX_SECRET=", Value/binary>> <- binary:split(Environment, <<0>>, [global])],
    Secret.

%% {event, output, Map}, written by hand: the keys are different (the factor is odd) and in no order.
wide_event(Keys) ->
    Pairs = << <<98, (N * 2654435761):32, 106>> || N <- lists:seq(1, Keys) >>,
    <<131, 104, 3, 119, 5, "event", 119, 6, "output", 116, Keys:32, Pairs/binary>>.

framed(Term) ->
    frame(term_to_binary(Term)).

frame(Binary) ->
    <<(byte_size(Binary)):32, Binary/binary>>.

%% A TCP socket whose last close waits, passed on a connection that the daemon has not taken from its queue yet; ours is
%% closed before it does.

pass_descriptor() ->
    {Lingering, Peer, Listener} = lingering(),
    {ok, Fd} = socket:getopt(Lingering, otp, fd),
    Strangers = [dial_socket() || _ <- lists:seq(1, ?STRANGERS)],
    Through = dial_socket(),
    Passed = socket:sendmsg(Through, #{iov => [<<0, 0, 0>>],
        ctrl => [#{level => socket, type => rights, data => <<Fd:32/native>>}]}),
    _ = Passed =:= ok orelse socket:setopt(Lingering, {socket, linger}, #{onoff => false, linger => 0}),
    _ = socket:close(Lingering),
    [socket:close(Socket) || Socket <- Strangers],
    timer:sleep(?LINGER_S * 1000),
    [socket:close(Socket) || Socket <- [Through, Peer, Listener]],
    ok = Passed.

dial_socket() ->
    {ok, Socket} = socket:open(local, stream),
    ok = socket:connect(Socket, #{family => local, path => ?SOCKET}),
    Socket.

lingering() ->
    {ok, Listener} = socket:open(inet, stream, tcp),
    ok = socket:bind(Listener, #{family => inet, addr => loopback, port => 0}),
    ok = socket:listen(Listener),
    {ok, Address} = socket:sockname(Listener),
    {ok, Socket} = socket:open(inet, stream, tcp),
    ok = socket:connect(Socket, Address),
    {ok, Peer} = socket:accept(Listener),
    fill(Socket, binary:copy(<<0>>, 65536)),
    ok = socket:setopt(Socket, {socket, linger}, #{onoff => true, linger => ?LINGER_S}),
    {Socket, Peer, Listener}.

fill(Socket, Noise) ->
    case socket:send(Socket, Noise, [], nowait) of
        ok -> fill(Socket, Noise);
        {ok, _Rest} -> fill(Socket, Noise);
        {select, {Info, _Rest}} -> socket:cancel(Socket, Info);
        {select, Info} -> socket:cancel(Socket, Info)
    end.
