%%% Reloads under load and with many processes, which take too long for every test run.
-module(reload_stress_test).

-include_lib("eunit/include/eunit.hrl").

-define(SAME, "code_change(_, S, _) -> {ok, S}.\n").

%% Senders cast and call without pause: nothing is lost, handled twice or out of order, and no call
%% times out. A server keeps the last number of each sender, and how often the next was not the one
%% after it.
storm_test() ->
    Vm = vm:start(#{}),
    Text = fun(N) ->
        io_lib:format(
            "-module(storm).\n-vsn(~b).\n-export([init/1, handle_call/3, handle_cast/2, code_change/3]).\n"
            "init(_) -> {ok, {#{}, 0}}.\n"
            "handle_call({S, N}, _, State) -> {reply, N, next(S, N, State)};\n"
            "handle_call(get, _, State) -> {reply, State, State}.\n"
            "handle_cast({S, N}, State) -> {noreply, next(S, N, State)}.\n"
            "next(S, N, {Last, Wrong}) -> case maps:get(S, Last, 0) of\n"
            " Before when Before + 1 =:= N -> {Last#{S => N}, Wrong}; _ -> {Last#{S => N}, Wrong + 1} end.\n"
            "code_change(_, S, _) -> {ok, S}.\n", [N])
    end,
    [V1, V2] = [reloads:compile(Text(N)) || N <- [1, 2]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    ok = reloads:eval(Vm,
        "Servers = [begin {ok, P} = gen_server:start(storm, [], []), P end || _ <- lists:seq(1, 100)], "
        "persistent_term:put(servers, list_to_tuple(Servers)), "
        "Send = fun(Me) -> T = persistent_term:get(servers), "
        " L = fun(L, N) -> receive {stop, F} -> F ! {sent, Me, N} after 0 -> "
        "  [gen_server:cast(P, {Me, 2 * N + 1}) || P <- Servers], "
        "  X = element(1 + (N rem 100), T), "
        "  [case P of X -> M = gen_server:call(P, {Me, 2 * N + 2}); _ -> gen_server:cast(P, {Me, 2 * N + 2}) end || "
        "P <- Servers, M <- [2 * N + 2]], "
        "  L(L, N + 1) end end, L(L, 0) end, "
        "persistent_term:put(senders, [spawn(fun() -> Send(Me) end) || Me <- lists:seq(1, 8)]), ok"),
    {_, _, Pauses} = lists:foldl(
        fun(N, {Old, New, Pauses}) ->
            {ok, #{pause_us := Pause, processes := Processes}} =
                reloads:reload(Vm, reloads:change(Old, New, N), #{on_busy => wait, busy_timeout_ms => 5000,
                    suspend_timeout_ms => 5000}),
            ?assertEqual(100, length(Processes)),
            {New, Old, [Pause | Pauses]}
        end, {V1, V2, []}, lists:seq(2, 201)
    ),
    Sent = reloads:eval(Vm, "[begin M = monitor(process, P), P ! {stop, self()}, receive {sent, Me, N} -> {Me, 2 * "
        "N}; {'DOWN', M, _, _, R} -> {P, R} end end "
        "|| P <- persistent_term:get(senders)]"),
    States = reloads:eval(Vm, "[gen_server:call(P, get, infinity) || P <- "
        "tuple_to_list(persistent_term:get(servers))]"),
    Expected = maps:from_list(Sent),
    ?assert(lists:all(fun({Last, Wrong}) -> {Last, Wrong} =:= {Expected, 0} end, States)),
    io:format("storm: ~b messages, pauses median ~b us, worst ~b us~n",
        [100 * lists:sum([N || {_, N} <- Sent]), lists:nth(100, lists:sort(Pauses)), lists:max(Pauses)]),
    vm:stop(Vm).

%% The pause of the same work done by hand in the node, without any of the guarantees. It is
%% compiled, as the agent is.
-define(BY_HAND,
    "-module(by_hand).\n-export([change/3]).\n"
    "change(Pids, Module, Beam) -> code:purge(Module), Began = erlang:monotonic_time(microsecond), "
    "[ok = sys:suspend(P) || P <- Pids], {module, _} = code:load_binary(Module, \"x\", Beam), "
    "[ok = sys:change_code(P, Module, one, []) || P <- Pids], [ok = sys:resume(P) || P <- Pids], "
    "erlang:monotonic_time(microsecond) - Began.\n").

by_hand(Vm, Module, Beam) ->
    reloads:eval(Vm, "by_hand:change(persistent_term:get(pids), ~tp, base64:decode(<<\"~ts\">>))",
        [Module, base64:encode(Beam)]).

many(Vm, Module, Count) ->
    reloads:eval(Vm, "persistent_term:put(pids, [begin {ok, P} = gen_server:start(~tp, 0, []), P end || _ <- "
        "lists:seq(1, ~b)]), ok", [Module, Count]).

compare(Vm, Name, Count, Rounds) ->
    Text = fun(N) -> reloads:server(Name, N, ["f() -> ", integer_to_list(N), ".\n", ?SAME]) end,
    Module = list_to_atom(Name),
    [V1, V2] = [reloads:compile(Text(N)) || N <- [1, 2]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    ok = many(Vm, Module, Count),
    Hand = [
        by_hand(Vm, Module, proplists:get_value(Module, V))
     || _ <- lists:seq(1, Rounds), V <- [V2, V1]
    ],
    Ours = [
        begin
            {ok, Result} = reloads:reload(Vm, reloads:change(Old, New, 2, 1), #{direction => Direction}),
            Result
        end
     || _ <- lists:seq(1, Rounds), {Old, New, Direction} <- [{V1, V2, up}, {V2, V1, down}]
    ],
    Median = fun(List) -> lists:nth((length(List) + 1) div 2, lists:sort(List)) end,
    {Up, Down} = halves(Ours),
    #{
        hand => Median(Hand),
        pause => Median([P || #{pause_us := P} <- Up]),
        whole => Median([D || #{duration_us := D} <- Up]),
        down_pause => Median([P || #{pause_us := P} <- Down]),
        down_whole => Median([D || #{duration_us := D} <- Down])
    }.

halves([]) -> {[], []};
halves([A, B | Rest]) -> {As, Bs} = halves(Rest), {[A | As], [B | Bs]}.

%% Ten times up and down again: twelve modules that call each other in cycles, with correct states
%% at every step.
ten_versions_test() ->
    Vm = vm:start(#{}),
    Versions = [lists:append([reloads:compile(circle(M, N)) || M <- lists:seq(1, 12)]) || N <- lists:seq(1, 11)],
    {ok, _} = reloads:reload(Vm, reloads:new(hd(Versions))),
    ok = reloads:eval(Vm, "[{ok, _} = (list_to_atom(\"circle_\" ++ integer_to_list(M))):start() || M <- lists:seq(1, "
        "12)], ok"),
    Numbered = lists:zip(lists:seq(1, 11), Versions),
    Up = lists:zip(lists:droplast(Numbered), tl(Numbered)),
    [step(Vm, From, To, up) || {From, To} <- Up],
    [step(Vm, From, To, down) || {To, From} <- lists:reverse(Up)],
    vm:stop(Vm).

step(Vm, {OldVersion, Old}, {Version, New}, Direction) ->
    {ok, #{processes := Processes}} =
        reloads:reload(Vm, reloads:change(Old, New, Version, OldVersion), #{direction => Direction}),
    ?assertEqual(12, length([P || #{migrated := true} = P <- Processes])),
    Expected = {lists:seq(Version, 1, -1), 12 * Version},
    States = "[gen_server:call(list_to_atom(\"circle_\" ++ integer_to_list(M)), get) || M <- lists:seq(1, 12)]",
    ?assertEqual(lists:duplicate(12, Expected), reloads:eval(Vm, States)).

%% A server whose answer takes all twelve modules, once around.
circle(M, N) ->
    Next = M rem 12 + 1,
    io_lib:format(
        "-module(circle_~b).\n-vsn(~b).\n-export([start/0, around/1, init/1, handle_call/3, handle_cast/2, "
        "code_change/3]).\n"
        "start() -> gen_server:start({local, circle_~b}, circle_~b, [], []).\n"
        "init(_) -> {ok, [1]}.\nhandle_call(get, _, S) -> {reply, {S, around(12)}, S}.\n"
        "handle_cast(_, S) -> {noreply, S}.\n"
        "around(0) -> 0;\naround(Left) -> ~b + circle_~b:around(Left - 1).\n"
        "code_change({down, _}, [_ | S], _) -> {ok, S};\ncode_change(_, S, _) -> {ok, [~b | S]}.\n",
        [M, N, M, M, N, Next, N]
    ).

%% Servers that a supervisor starts without pause, also during a reload: each has the state of the
%% code it runs.
newcomers_test() ->
    Vm = vm:start(#{}),
    Text = fun(N) ->
        io_lib:format(
            "-module(newcomer).\n-vsn(~b).\n-export([start_link/0, init/1, handle_call/3, handle_cast/2, "
            "code_change/3]).\n"
            "start_link() -> gen_server:start_link(newcomer, [], []).\ninit(_) -> {ok, ~b}.\n"
            "handle_call(get, _, S) -> {reply, {S, ~b}, S}.\nhandle_cast(_, S) -> {noreply, S}.\n"
            "code_change(_, _, _) -> {ok, ~b}.\n", [N, N, N, N])
    end,
    Versions = [reloads:compile(Text(N)) || N <- lists:seq(1, 60)],
    {ok, _} = reloads:reload(Vm, reloads:new(hd(Versions))),
    _ = reloads:start_modules(Vm,
        "-module(nursery).\n-export([init/1]).\ninit(_) -> {ok, {#{strategy => simple_one_for_one}, "
        "[#{id => x, restart => temporary, start => {newcomer, start_link, []}}]}}.\n"),
    _ = reloads:spawn_supervisor(Vm, nursery),
    ok = reloads:eval(Vm,
        "Start = fun(Start, N) -> {ok, P} = supervisor:start_child(nursery, []), "
        " N rem 5 =:= 0 andalso receive after 1 -> ok end, "
        " N rem 300 =:= 299 andalso [gen_server:stop(Q) || {_, Q, _, _} <- supervisor:which_children(nursery), Q =/= "
        "P], "
        " Start(Start, N + 1) end, spawn(fun() -> Start(Start, 0) end), ok"),
    lists:foreach(
        fun(N) ->
            Entries = reloads:change(lists:nth(N - 1, Versions), lists:nth(N, Versions), N),
            {ok, #{warnings := []}} = reloads:reload(Vm, Entries),
            States = reloads:eval(Vm, "[catch gen_server:call(P, get) || {_, P, _, _} <- "
                "supervisor:which_children(nursery)]"),
            ?assertEqual([], [State || {S, F} = State <- States, S =/= F, S =/= 'EXIT'])
        end,
        lists:seq(2, 60)
    ),
    vm:stop(Vm).

%% A state that is too large to be copied stays in its process.
large_state_test() ->
    Vm = vm:start(#{}),
    [V1, V2, V3] = [
        reloads:compile(reloads:server("large", N, ["f() -> ", integer_to_list(N), ".\n", Change]))
     || {N, Change} <- [{1, ?SAME}, {2, ?SAME}, {3, "code_change(_, _, _) -> error(no).\n"}]
    ],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    reloads:spawn_server(Vm, large, 0),
    ok = reloads:eval(Vm, "gen_server:call(large, {become, gen_server:call(large, {apply, fun(_) -> "
        "maps:from_list([{N, {N, [N]}} || N <- lists:seq(1, 200000)]) end})})"),
    Hash = fun() -> reloads:eval(Vm, "gen_server:call(large, {apply, fun erlang:phash2/1})") end,
    Before = Hash(),
    {ok, #{pause_us := Pause}} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    io:format("200,000 entries: pause ~b us~n", [Pause]),
    {error, #{step := migrate}} = reloads:reload(Vm, reloads:change(V2, V3, 3)),
    {ok, _} = reloads:reload(Vm, reloads:change(V2, V1, 3), #{settle => revert}),
    ?assertEqual(Before, Hash()),
    vm:stop(Vm).

%% The search for closures among many processes and objects: how long it takes, and how long an
%% application's process waits for its turn meanwhile.
searched_test() ->
    Vm = vm:start(#{arguments => string:lexemes("-S 1:1 -SDcpu 1:1 -SDio 1 -A 1 -sbwt none -P 262144 -fnu -pc "
        "unicode -Bi", " ")}),
    Text = "-module(many).\n-export([make/1, init/1, handle_call/3, handle_cast/2, plain/0, waits/1]).\n"
        "make(X) -> fun() -> X end.\ninit(S) -> {ok, S}.\nhandle_call(_, _, S) -> {reply, ok, S}.\n"
        "handle_cast(_, S) -> {noreply, S}.\nplain() -> receive stop -> ok end.\n"
        "waits(Max) -> T = erlang:monotonic_time(microsecond), receive {stop, P} -> P ! Max after 1 ->\n"
        "    waits(max(Max, erlang:monotonic_time(microsecond) - T)) end.\n",
    Beam = reloads:beam(Text),
    {ok, _} = reloads:reload(Vm, reloads:new([{many, Beam}])),
    %% A checksum that no closure has: the search looks everywhere.
    Search = io_lib:format(
        "P = spawn(many, waits, [0]), {Before, _} = statistics(runtime), {Us, []} = timer:tc(fun() -> "
        "[Place || #{how := closure} = Place <- sbx_reload_closures:search([{many, <<0:128>>, ~w}])] end), "
        "{After, _} = statistics(runtime), P ! {stop, self()}, "
        "receive Wait -> {Us div 1000, After - Before, Wait div 1000} end", [sbx_reload_old_code:closures(Beam)]
    ),
    Slow = fun(Code) ->
        Args = #{language => erlang, code => unicode:characters_to_binary(Code), timeout_ms => 60000},
        {ok, #{term := Term}} = vm:call(Vm, eval, Args, 65000),
        Term
    end,
    Measure = fun(What) -> io:format("~ts: {search, of it processor, longest wait} ~p ms~n", [What, Slow(Search)]) end,
    _ = reloads:eval(Vm, Search),
    Measure("no processes"),
    ok = Slow("[gen_server:start(many, N, []) || N <- lists:seq(1, 10000)], ok"),
    Measure("10,000 servers"),
    ok = Slow("[spawn(many, plain, []) || _ <- lists:seq(1, 90000)], ok"),
    Measure("and 90,000 other processes"),
    ok = Slow("T = ets:new(large, [public, {heir, whereis(init), []}]), "
        "[ets:insert(T, {N, {item, N}}) || N <- lists:seq(1, 1000000)], ok"),
    Measure("and a table of 1,000,000 objects"),
    vm:stop(Vm).

compared_test() ->
    Vm = vm:start(#{arguments => string:lexemes("-S 1:1 -SDcpu 1:1 -SDio 1 -A 1 -sbwt none -P 262144 -fnu -pc "
        "unicode -Bi", " ")}),
    _ = reloads:start_modules(Vm, ?BY_HAND),
    io:format("1 server: ~p~n", [compare(Vm, "alone", 1, 20)]),
    io:format("1,000 servers: ~p~n", [compare(Vm, "thousand", 1000, 10)]),
    ok = reloads:eval(Vm, "[spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 100000)], ok"),
    io:format("10 of 101,000: ~p~n", [compare(Vm, "few", 10, 3)]),
    vm:stop(Vm).
