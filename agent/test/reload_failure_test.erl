%%% Tests every way in which a reload can fail. Afterwards the old code runs with the old state, and
%%% the error gives the reason.
-module(reload_failure_test).

-include_lib("eunit/include/eunit.hrl").

-define(SAME, "code_change(_, S, _) -> {ok, S}.\n").

bare_node_test() ->
    Vm = vm:start(#{}),
    runner:steps(Vm, [
        fun busy/1, fun old_code/1, fun closure/1, fun plain/1, fun conflict/1, fun raises/1, fun garbage/1,
        fun hangs/1, fun invalid/1, fun on_load/1, fun bad_supervisor/1, fun crash_in_probation/1,
        fun crash_at_once/1
    ]),
    ending:by_death_of("sbx_outbox", Vm).

%% Two versions of one server; the old one is loaded.
versions(Vm, Name, More) ->
    V1 = reloads:start_modules(Vm, reloads:server(Name, one, ["f() -> 1.\n", ?SAME])),
    {V1, reloads:compile(reloads:server(Name, two, ["f() -> 2.\n", More]))}.

is_as_before(Vm, Module, State) ->
    ?assertEqual(1, reloads:eval(Vm, "~tp:f()", [Module])),
    ?assertEqual(State, reloads:eval(Vm, "gen_server:call(~tp, get)", [Module])).

%% The busy process is not suspended later, and the idle one is running.
busy(Vm) ->
    {V1, V2} = versions(Vm, "busy", ?SAME),
    _ = reloads:start_modules(Vm, reloads:supervisor("busy_sup", [{it, busy, 1}])),
    _ = reloads:spawn_supervisor(Vm, busy_sup),
    {ok, _} = vm:eval(Vm, "{ok, P} = gen_server:start({local, idle}, busy, 2, []), ok"),
    {ok, _} = vm:eval(Vm, "gen_server:cast(busy, fun(S) -> receive go_on -> S end end)"),
    {error, Error} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{suspend_timeout_ms => 60}),
    ?assertMatch(#{kind := reload, step := suspend, module := <<"busy">>, process := <<"<0.", _/binary>>}, Error),
    ?assertEqual(2, reloads:eval(Vm, "gen_server:call(idle, get)")),
    ?assertMatch([{it, _, worker, _}], reloads:eval(Vm, "supervisor:which_children(busy_sup)")),
    ?assertEqual(go_on, reloads:eval(Vm, "busy ! go_on")),
    is_as_before(Vm, busy, 1),
    ?assertEqual(0, reloads:eval(Vm, "element(2, process_info(whereis(busy), message_queue_len))")),
    ?assertMatch({ok, _}, reloads:reload(Vm, reloads:change(V1, V2, 2))).

%% A process that never leaves the version before the last.
old_code(Vm) ->
    Text = fun(N) ->
        io_lib:format(
            "-module(lingers).\n-export([loop/0, f/0]).\nloop() -> receive stop -> ok; _ -> loop() end, f().\n"
            "f() -> ~b.\n", [N]
        )
    end,
    [V1, V2, V3] = [reloads:compile(Text(N)) || N <- [1, 2, 3]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    Pid = reloads:eval(Vm, "spawn(lingers, loop, [])"),
    {ok, #{warnings := [Warning]}} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertMatch({_, _}, binary:match(Warning, <<"lingers">>)),
    Written = list_to_binary(pid_to_list(Pid)),
    Entries = reloads:change(V2, V3, 3),
    {error, Refused} = reloads:reload(Vm, Entries, #{on_busy => refuse}),
    [#{how := stack, pid := Holder}] = maps:get(holders, Refused),
    ?assertMatch(#{step := old_code, module := <<"lingers">>}, Refused),
    ?assertEqual(tl(string:lexemes(Written, ".")), tl(string:lexemes(Holder, "."))),
    ?assertMatch({error, #{step := old_code}}, reloads:reload(Vm, Entries, #{on_busy => wait, busy_timeout_ms => 50})),
    ?assertEqual(2, reloads:eval(Vm, "lingers:f()")),
    ?assertMatch({ok, _}, reloads:reload(Vm, Entries, #{on_busy => kill})),
    ?assertEqual(3, reloads:eval(Vm, "lingers:f()")),
    %% A process that leaves during the wait.
    ok = reloads:eval(Vm, "register(leaving, spawn(lingers, loop, [])), ok"),
    {ok, _} = reloads:reload(Vm, reloads:change(V3, V1, 4)),
    _ = reloads:eval(Vm, "erlang:send_after(50, whereis(leaving), stop), ok"),
    ?assertMatch({ok, _}, reloads:reload(Vm, reloads:change(V1, V2, 5), #{on_busy => wait, busy_timeout_ms => 5000})).

%% A closure of a version that has to be purged is found in a state, in a dictionary, in a table.
closure(Vm) ->
    {V1, V2} = versions(Vm, "closes", ?SAME),
    V3 = reloads:compile(reloads:server("closes", three, ["f() -> 3.\n", ?SAME])),
    Made = reloads:compile("-module(maker).\n-export([make/1]).\nmake(X) -> fun() -> X end.\n"),
    Made2 = reloads:compile("-module(maker).\n-export([make/1]).\nmake(X) -> fun() -> {x, X} end.\n"),
    Made3 = reloads:compile("-module(maker).\n-export([make/1]).\nmake(X) -> fun() -> {y, X} end.\n"),
    {ok, _} = reloads:reload(Vm, reloads:new(Made)),
    reloads:spawn_server(Vm, closes, 0),
    ok = reloads:eval(Vm, "gen_server:call(closes, {become, {here, maker:make(1)}})"),
    {ok, _} = reloads:reload(Vm, reloads:change(Made, Made2, 2)),
    {error, Error} = reloads:reload(Vm, reloads:change(Made2, Made3, 3)),
    ?assertMatch(#{step := busy, module := <<"maker">>, holders := [#{how := closure, where := state}]}, Error),
    ?assertEqual(1, reloads:eval(Vm, "{here, F} = gen_server:call(closes, get), F()")),
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    {ok, _} = reloads:reload(Vm, reloads:change(V2, V3, 3)),
    %% Closures are told apart after changes in both directions.
    Kept = "gen_server:call(closes, {become, {here, maker:make(1)}})",
    ok = reloads:eval(Vm, "gen_server:call(closes, {become, none})"),
    {ok, _} = reloads:reload(Vm, reloads:change(Made2, Made3, 3), #{settle => revert}),
    ok = reloads:eval(Vm, Kept),
    {ok, _} = reloads:reload(Vm, reloads:change(Made2, Made3, 3), #{settle => revert}),
    ?assertEqual({x, 1}, reloads:eval(Vm, "{here, F} = gen_server:call(closes, get), F()")),
    ok = reloads:eval(Vm, "gen_server:call(closes, {become, none})"),
    ?assertMatch({ok, _}, reloads:reload(Vm, reloads:change(Made2, Made3, 3))).

%% A process without system messages gets none, and the warning names it.
plain(Vm) ->
    Text = "-module(plain).\n-export([loop/0, f/0]).\nloop() -> receive stop -> ok end, plain:f().\nf() -> ~b.\n",
    [V1, V2] = [reloads:compile(io_lib:format(Text, [N])) || N <- [1, 2]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    _ = reloads:eval(Vm, "register(plainly, spawn(plain, loop, []))"),
    {ok, #{processes := [], warnings := [Warning]}} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertMatch({_, _}, binary:match(Warning, <<"takes no system messages">>)),
    ?assertEqual({message_queue_len, 0}, reloads:eval(Vm, "process_info(whereis(plainly), message_queue_len)")).

conflict(Vm) ->
    {V1, V2} = versions(Vm, "twice", ?SAME),
    {Sentinel, More} = reloads:sentinel(Vm),
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2) ++ More, #{settle => none, id => <<"first">>}),
    ?assertMatch({error, #{kind := conflict}}, reloads:reload(Vm, reloads:change(V2, V1, 3))),
    {ok, State} = vm:call(Vm, code_state, #{}),
    ?assertMatch(#{transaction := #{id := <<"first">>, phase := <<"probation">>}}, State),
    reloads:revert(Vm, Sentinel, <<"first">>),
    is_settled(Vm, <<"first">>, rolled_back, 1),
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{id => <<"second">>}),
    is_settled(Vm, <<"second">>, committed, 2).

is_settled(Vm, Id, Outcome, Version) ->
    {ok, #{modules := Modules} = Settled} = vm:call(Vm, code_state, #{}),
    ?assertMatch(#{transaction := nil, last := #{id := Id, outcome := Outcome}}, Settled),
    ?assertMatch([#{version := Version}], [M || #{module := <<"twice">>} = M <- Modules]).

raises(Vm) ->
    {V1, V2} = versions(Vm, "raises", "code_change(_, 5, _) -> error(not_this_one); code_change(_, S, _) -> {ok, "
        "{new, S}}.\n"),
    reloads:spawn_server(Vm, raises, 5),
    {ok, _} = vm:eval(Vm, "{ok, P} = gen_server:start({local, other}, raises, 6, []), ok"),
    {error, Error} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertMatch(#{step := migrate, module := <<"raises">>, process := <<"<0.", _/binary>>}, Error),
    ?assertMatch({_, _}, binary:match(maps:get(message, Error), <<"not_this_one">>)),
    is_as_before(Vm, raises, 5),
    ?assertEqual(6, reloads:eval(Vm, "gen_server:call(other, get)")).

garbage(Vm) ->
    {V1, V2} = versions(Vm, "garbage", "code_change(_, S, _) -> {perhaps, S}.\n"),
    reloads:spawn_server(Vm, garbage, 5),
    {error, Error} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertMatch(#{step := migrate, message := <<_/binary>>}, Error),
    ?assertMatch({_, _}, binary:match(maps:get(message, Error), <<"{perhaps,5} instead of {ok, State}">>)),
    Expression = #{kind => expression, language => erlang, code => <<"fun(_, _, _) -> exit(no) end">>},
    Migrated = reloads:reload(Vm, reloads:change(V1, V2, 2), #{migrations => #{<<"*">> => Expression}}),
    ?assertMatch({error, #{step := migrate}}, Migrated),
    NoFunction = Expression#{code => <<"not_a_function">>},
    ?assertMatch(
        {error, #{step := migrate, module := <<"garbage">>}},
        reloads:reload(Vm, reloads:change(V1, V2, 2), #{migrations => #{<<"garbage">> => NoFunction}})
    ),
    is_as_before(Vm, garbage, 5).

%% The process that hangs has to be killed. Its successor gets its state.
hangs(Vm) ->
    {V1, V2} = versions(Vm, "hangs", "code_change(_, _, _) -> receive never -> ok end.\n"),
    _ = reloads:start_modules(Vm, reloads:supervisor("hangs_sup", [{it, hangs, 0}])),
    _ = reloads:spawn_supervisor(Vm, hangs_sup),
    ok = reloads:eval(Vm, "gen_server:call(hangs, {become, {a, state}})"),
    {error, Error} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{migrate_timeout_ms => 60}),
    ?assertMatch(#{step := migrate, module := <<"hangs">>}, Error),
    is_as_before(Vm, hangs, {a, state}).

invalid(Vm) ->
    {V1, V2} = versions(Vm, "first_of_two", ?SAME),
    {W1, [{second_of_two, Beam}]} = versions(Vm, "second_of_two", ?SAME),
    reloads:spawn_server(Vm, first_of_two, 5),
    Torn = [{second_of_two, binary:part(Beam, 0, byte_size(Beam) div 2)}],
    {error, Error} = reloads:reload(Vm, reloads:change(V1, V2, 2) ++ reloads:change(W1, Torn, 2)),
    ?assertMatch(#{step := load, module := <<"second_of_two">>}, Error),
    is_as_before(Vm, first_of_two, 5),
    ?assertMatch({error, #{step := load}}, reloads:reload(Vm, reloads:new([{lists, Beam}]))).

on_load(Vm) ->
    {V1, V2} = versions(Vm, "beside_on_load", ?SAME),
    reloads:spawn_server(Vm, beside_on_load, 5),
    Text = fun(N, Body) ->
        reloads:compile(io_lib:format(
            "-module(loads).\n-on_load(go/0).\n-export([f/0]).\ngo() -> ~ts.\nf() -> ~b.\n", [Body, N]))
    end,
    L1 = Text(1, "ok"),
    {ok, _} = reloads:reload(Vm, reloads:new(L1)),
    ?assertEqual(1, reloads:eval(Vm, "loads:f()")),
    Try = fun(L2) -> reloads:reload(Vm, reloads:change(V1, V2, 2) ++ reloads:change(L1, L2, 2),
        #{migrate_timeout_ms => 60}) end,
    ?assertMatch({error, #{step := on_load, module := <<"loads">>}}, Try(Text(2, "failed"))),
    is_as_before(Vm, beside_on_load, 5),
    ?assertEqual(1, reloads:eval(Vm, "loads:f()")),
    ?assertMatch({error, #{step := on_load, module := <<"loads">>}}, Try(Text(2, "receive never -> ok end"))),
    is_as_before(Vm, beside_on_load, 5),
    ?assertEqual(1, reloads:eval(Vm, "loads:f()")),
    ?assertMatch({ok, _}, Try(Text(3, "ok"))),
    ?assertEqual(3, reloads:eval(Vm, "loads:f()")).

%% A bad spec changes nothing. A new child that does not start takes everything back.
bad_supervisor(Vm) ->
    {V1, V2} = versions(Vm, "below", ?SAME),
    S1 = reloads:start_modules(Vm, reloads:supervisor("above", [{a, below, 1}])),
    _ = reloads:spawn_supervisor(Vm, above),
    ok = reloads:eval(Vm, "gen_server:call(below, {become, changed})"),
    Bad = reloads:compile("-module(above).\n-export([init/1]).\ninit(_) -> {ok, {#{}, [not_a_spec]}}.\n"),
    {error, Error} = reloads:reload(Vm, reloads:change(V1, V2, 2) ++ reloads:change(S1, Bad, 2)),
    ?assertMatch(#{step := supervisor, module := <<"above">>}, Error),
    is_as_before(Vm, below, changed),
    %% The second child would take the first one's name.
    Clash = reloads:compile(reloads:supervisor("above", [{a, below, 1}, {b, below, 2}])),
    {error, Started} = reloads:reload(Vm, reloads:change(V1, V2, 2) ++ reloads:change(S1, Clash, 2)),
    ?assertMatch(#{step := supervisor}, Started),
    is_as_before(Vm, below, changed),
    ?assertMatch([{a, _, _, _}], reloads:eval(Vm, "supervisor:which_children(above)")).

%% New code that crashes is taken back with everything it did.
crash_in_probation(Vm) ->
    {V1, V2} = versions(Vm, "crashes", "code_change(_, S, _) -> {ok, {migrated, S}}.\n"),
    {W1, W2} = versions(Vm, "survives", "code_change(_, S, _) -> {ok, {migrated, S}}.\n"),
    S1 = reloads:start_modules(Vm, reloads:supervisor("probation_sup", [{c, crashes, 0}, {s, survives, 0}])),
    S2 = reloads:compile(reloads:supervisor("probation_sup", [{c, crashes, 0}, {n, added, 0}])),
    N2 = reloads:compile(reloads:server("added", one, ["f() -> 2.\n", ?SAME])),
    _ = reloads:spawn_supervisor(Vm, probation_sup),
    [ok = reloads:eval(Vm, "gen_server:call(~ts, {become, {was, ~ts}})", [Name, Name]) || Name <- [crashes, survives]],
    Entries = lists:append([reloads:change(O, N, 2) || {O, N} <- [{V1, V2}, {W1, W2}, {S1, S2}]]) ++ reloads:new(N2),
    {ok, Result} = reloads:reload(Vm, Entries, #{settle => none, id => <<"bad">>}),
    ?assertMatch(
        [#{id := <<"s">>, change := stopped}, #{id := <<"n">>, change := started}], maps:get(children, Result)
    ),
    ?assertEqual({migrated, {was, crashes}}, reloads:eval(Vm, "gen_server:call(crashes, get)")),
    ?assertEqual(undefined, reloads:eval(Vm, "whereis(survives)")),
    ?assertEqual(ok, reloads:eval(Vm, "gen_server:cast(crashes, fun(_) -> error(boom) end)")),
    Settled = vm:event(Vm, reload_settled),
    ?assertMatch(#{id := <<"bad">>, outcome := rolled_back, module := <<"crashes">>}, Settled),
    ?assertMatch({_, _}, binary:match(maps:get(reason, Settled), <<"boom">>)),
    is_as_before(Vm, crashes, {was, crashes}),
    is_as_before(Vm, survives, {was, survives}),
    ?assertEqual({undefined, false}, reloads:eval(Vm, "{whereis(added), erlang:module_loaded(added)}")),
    ?assertEqual([c, s], reloads:eval(Vm, "lists:sort([Id || {Id, _, _, _} <- "
        "supervisor:which_children(probation_sup)])")).

%% The process crashes in its first callback and would after every start. Its supervisor must not
%% give up before the old code is back.
crash_at_once(Vm) ->
    Text = fun(Vsn, Info) ->
        io_lib:format(
            "-module(ticks).\n-vsn(~b).\n-export([start_link/1, init/1, handle_call/3, handle_cast/2, "
            "handle_info/2]).\n"
            "start_link(S) -> gen_server:start_link({local, ticks}, ticks, S, []).\n"
            "init(S) -> erlang:send_after(1, self(), tick), {ok, S}.\n"
            "handle_call(get, _, S) -> {reply, S, S};\n"
            "handle_call(after_a_tick, _, S) -> receive tick -> self() ! tick end, {reply, S + 1, S + 1}.\n"
            "handle_cast(_, S) -> {noreply, S}.\n"
            "handle_info(tick, S) -> erlang:send_after(1, self(), tick), ~ts.\n", [Vsn, Info])
    end,
    V1 = reloads:start_modules(Vm, Text(1, "{noreply, S + 1}")),
    V2 = reloads:compile(Text(2, "error({first, S})")),
    _ = reloads:start_modules(Vm, "-module(tick_sup).\n-export([init/1]).\n"
        "init(_) -> {ok, {#{intensity => 3, period => 5}, [#{id => t, start => {ticks, start_link, [1000]}}]}}.\n"),
    Supervisor = reloads:spawn_supervisor(Vm, tick_sup),
    Before = reloads:eval(Vm, "gen_server:call(ticks, after_a_tick)"),
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{settle => none, id => <<"at once">>}),
    ?assertMatch(#{outcome := rolled_back, module := <<"ticks">>}, vm:event(Vm, reload_settled)),
    ?assertEqual(Supervisor, reloads:eval(Vm, "whereis(tick_sup)")),
    ?assert(Before > 1000 andalso reloads:eval(Vm, "gen_server:call(ticks, get)") >= Before).
