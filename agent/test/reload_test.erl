%%% Changes running code in every kind of process, with its state. The failures are in
%%% reload_failure_test.
-module(reload_test).

-include_lib("eunit/include/eunit.hrl").

-define(SAME, "code_change(_, S, _) -> {ok, S}.\n").

bare_node_test() ->
    Vm = vm:start(#{}),
    runner:steps(Vm, [
        fun servers/1, fun every_state/1, fun migrations/1, fun machines/1, fun handlers/1, fun special/1,
        fun supervisors/1, fun restarts_what_changed/1, fun comes_and_goes/1, fun deleted_with_processes/1,
        fun way_back/1, fun dry/1, fun dry_on_probation/1, fun following/1, fun many/1, fun latecomers/1,
        fun records/1
    ]),
    ending:in_order(daemon_leaves(Vm)).

%% The state goes through code_change once, with its old vsn, and the process is the same.
servers(Vm) ->
    V1 = reloads:start_modules(Vm, reloads:server("counter", one, ["f() -> 1.\n", ?SAME])),
    V2 = reloads:compile(reloads:server("counter", two, "f() -> 2.\ncode_change(V, S, []) -> {ok, {V, S}}.")),
    Pid = reloads:spawn_server(Vm, counter, 7),
    {ok, Result} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertMatch(
        #{
            modules := [#{module := <<"counter">>, from_version := 1, to_version := 2}],
            processes := [#{module := <<"counter">>, migrated := true}], warnings := []
        },
        Result
    ),
    ?assertEqual({one, 7}, reloads:eval(Vm, "gen_server:call(counter, get)")),
    ?assertEqual(Pid, reloads:eval(Vm, "whereis(counter)")),
    ?assertEqual(2, reloads:eval(Vm, "counter:f()")).

%% Every kind of state is the same afterwards, also when the reload is taken back.
every_state(Vm) ->
    States = [
        "0", "#{a => #{b => [1, {2, <<3>>}]}}", "#{'__struct__' => shapes, x => 1}", "{record, 1, \"text\"}",
        "queue:from_list([1, 2])", "make_ref()", "self()", "fun lists:map/2", "ets:new(t, [public])",
        "binary:copy(<<7>>, 100000)", "maps:from_list([{N, [N]} || N <- lists:seq(1, 30000)])"
    ],
    V1 = reloads:start_modules(Vm, reloads:server("shapes", one, ["f() -> 1.\n", ?SAME])),
    V2 = reloads:compile(reloads:server("shapes", two, ["f() -> 2.\n", ?SAME])),
    [
        reloads:eval(Vm, "{ok, P} = gen_server:start({local, ~ts}, shapes, 0, []), "
            "gen_server:call(P, {become, gen_server:call(P, {apply, fun(_) -> ~ts end})}), put(x, 1), "
            "persistent_term:put(~ts, gen_server:call(P, get)), ok", [name(N), State, name(N)])
     || {N, State} <- numbered(States)
    ],
    AsBefore = fun() ->
        [
            ?assertEqual({N, true}, {N, reloads:eval(Vm, "persistent_term:get(~ts) =:= gen_server:call(~ts, get)",
                [name(N), name(N)])})
         || {N, _} <- numbered(States)
        ]
    end,
    {ok, #{processes := Processes}} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{settle => revert}),
    ?assertEqual(length(States), length(Processes)),
    AsBefore(),
    ?assertEqual(1, reloads:eval(Vm, "shapes:f()")),
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    AsBefore(),
    %% The agent leaves nothing behind in the processes.
    ?assertEqual(
        lists:duplicate(length(States), 2),
        reloads:eval(Vm, "[length(element(2, process_info(whereis(N), dictionary))) || N <- [~ts]]",
            [lists:join(", ", [name(N) || {N, _} <- numbered(States)])])
    ),
    reloads:eval(Vm, "[begin persistent_term:erase(N), gen_server:stop(N) end || N <- [~ts]], ok",
        [lists:join(", ", [name(N) || {N, _} <- numbered(States)])]).

name(N) -> "shape_" ++ integer_to_list(N).
numbered(List) -> lists:zip(lists:seq(1, length(List)), List).

%% The caller's migration gets the daemon's version numbers, for one module or for all.
migrations(Vm) ->
    Text = fun(Vsn) -> reloads:server("given", Vsn, "f() -> 1.\ncode_change(_, _, _) -> error(not_asked).\n") end,
    [V1, V2, V3] = [reloads:compile(Text(Vsn)) || Vsn <- [one, two, three]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    reloads:spawn_server(Vm, given, 1),
    Expression = #{kind => expression, language => erlang, code => <<"fun(S, Old, New) -> #{s => S, v => {Old, New}} "
        "end">>},
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{migrations => #{<<"given">> => Expression}}),
    ?assertEqual(#{s => 1, v => {1, 2}}, reloads:eval(Vm, "gen_server:call(given, get)")),
    Migrate = reloads:compile("-module(moves).\n-export([up/3]).\nup(#{s := S}, _, 3) -> #{t => S}.\n"),
    Function = #{kind => function, module => <<"moves">>, function => <<"up">>},
    {ok, Result} = reloads:reload(Vm, reloads:change(V2, V3, 3) ++ reloads:new(Migrate),
        #{migrations => #{<<"*">> => Function}}),
    ?assertMatch([#{missing := [<<"s">>, <<"v">>], added := [<<"t">>], module := <<"given">>}],
        maps:get(shapes, Result)),
    ?assertEqual(#{t => 1}, reloads:eval(Vm, "gen_server:call(given, get)")).

%% A state machine keeps its timers and asks again for the callback mode.
machines(Vm) ->
    Text = fun(Vsn, Mode, More) ->
        io_lib:format(
            "-module(machine).\n-vsn(~tp).\n-behaviour(gen_statem).\n"
            "-export([init/1, callback_mode/0, handle_event/4, on/3, code_change/4]).\n"
            "init(D) -> {ok, on, D, [{state_timeout, 100, ring}]}.\ncallback_mode() -> ~ts.\n"
            "handle_event({call, F}, get, S, D) -> {keep_state_and_data, [{reply, F, {S, D}}]};\n"
            "handle_event(state_timeout, ring, _, {To, _}) -> To ! rang, keep_state_and_data.\n"
            "on(T, E, D) -> handle_event(T, E, on, D).\n~ts\n", [Vsn, Mode, More])
    end,
    V1 = reloads:compile(Text(one, "handle_event_function", "code_change(_, S, D, _) -> {ok, S, D}.")),
    V2 = reloads:compile(Text(two, "state_functions", "code_change(V, S, {T, D}, _) -> {ok, S, {T, {V, D}}}.")),
    V3 = reloads:compile(Text(three, "state_functions", "code_change(V, S, {T, D}, _) -> {ok, S, {T, {V, D}}}.")),
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    vm:send_call(Vm, 77, eval, #{language => erlang, timeout_ms => 5000, code =>
        <<"{ok, _} = gen_statem:start({local, machine}, machine, {self(), 1}, []), receive rang -> rang end">>}),
    ?assertEqual(true, reloads:eval(Vm, "Up = fun(F) -> whereis(machine) =/= undefined orelse F(F) end, Up(Up)")),
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{settle => revert}),
    ?assertMatch({on, {_, 1}}, reloads:eval(Vm, "gen_statem:call(machine, get)")),
    {ok, #{processes := [#{migrated := true}]}} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    {ok, _} = reloads:reload(Vm, reloads:change(V2, V3, 3)),
    ?assertMatch({on, {_, {two, {one, 1}}}}, reloads:eval(Vm, "gen_statem:call(machine, get)")),
    ?assertMatch({ok, #{term := rang}}, vm:reply(Vm, 77)).

handlers(Vm) ->
    Text = fun(Vsn, Change) ->
        io_lib:format(
            "-module(handler).\n-vsn(~tp).\n-behaviour(gen_event).\n"
            "-export([init/1, handle_event/2, handle_call/2, code_change/3]).\n"
            "init(S) -> {ok, S}.\nhandle_event(E, S) -> {ok, [E | S]}.\nhandle_call(get, S) -> {ok, S, S}.\n~ts\n",
            [Vsn, Change])
    end,
    V1 = reloads:compile(Text(one, ?SAME)),
    V2 = reloads:compile(Text(two, "code_change(V, S, _) -> {ok, [V | S]}.")),
    V3 = reloads:compile(Text(three, "code_change(_, _, _) -> error(no).")),
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    ok = reloads:eval(Vm, "{ok, M} = gen_event:start({local, manager}), gen_event:add_handler(M, {handler, 1}, [a]), "
        "gen_event:add_handler(M, {handler, 2}, [b])"),
    {ok, #{processes := Processes}} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertMatch([#{module := <<"handler">>, migrated := true}], Processes),
    Get = fun(N) -> reloads:eval(Vm, "gen_event:call(manager, {handler, ~b}, get)", [N]) end,
    ?assertEqual([[one, a], [one, b]], [Get(1), Get(2)]),
    ?assertMatch({error, #{step := migrate}}, reloads:reload(Vm, reloads:change(V2, V3, 3))),
    {ok, _} = reloads:reload(Vm, reloads:change(V2, V1, 3), #{settle => revert}),
    ok = reloads:eval(Vm, "gen_event:sync_notify(manager, e)"),
    ?assertEqual([[e, one, a], [e, one, b]], [Get(1), Get(2)]).

%% A process that implements the protocol by itself.
special(Vm) ->
    Text = fun(Vsn, Change) ->
        io_lib:format(
            "-module(special).\n-vsn(~tp).\n-export([start/0, init/1, system_continue/3, system_terminate/4, "
            "system_code_change/4]).\n"
            "start() -> proc_lib:start(special, init, [self()]).\n"
            "init(P) -> register(special, self()), proc_lib:init_ack(P, {ok, self()}), loop(P, 0).\n"
            "loop(P, S) -> receive {get, F} -> F ! {state, S}, loop(P, S);\n"
            " {system, F, R} -> sys:handle_system_msg(R, F, P, special, [], S) end.\n"
            "system_continue(P, _, S) -> loop(P, S).\nsystem_terminate(R, _, _, _) -> exit(R).\n~ts\n", [Vsn, Change])
    end,
    V1 = reloads:compile(Text(one, "system_code_change(S, _, _, _) -> {ok, S}.")),
    V2 = reloads:compile(Text(two, "system_code_change(S, special, V, _) -> {ok, {V, S}}.")),
    V3 = reloads:compile(Text(three, "system_code_change(_, _, _, _) -> {error, no}.")),
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    {ok, _} = reloads:eval(Vm, "special:start()"),
    Get = fun() -> reloads:eval(Vm, "special ! {get, self()}, receive {state, S} -> S end") end,
    {ok, #{warnings := []}} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertEqual({one, 0}, Get()),
    ?assertMatch({error, #{step := migrate}}, reloads:reload(Vm, reloads:change(V2, V3, 3))),
    ?assertEqual({one, 0}, Get()).

%% Unchanged children keep their processes, added ones start, removed ones stop; init/1 runs once.
supervisors(Vm) ->
    W = lists:append([
        reloads:compile(reloads:server(Name, one, ["f() -> 1.\n", ?SAME])) || Name <- ["stays", "leaves", "comes"]
    ]),
    Nested = fun(Children) ->
        ["-module(top).\n-export([init/1]).\ninit(_) -> {ok, {#{}, [#{id => inner, type => supervisor, start => "
            "{supervisor, start_link, [inner, []]}}]}}.\n",
         reloads:supervisor("inner", Children)]
    end,
    S1 = reloads:compile(Nested([{stays, stays, 1}, {leaves, leaves, 2}])),
    S2 = reloads:compile(Nested([{stays, stays, 9}, {comes, comes, 3}])),
    {ok, _} = reloads:reload(Vm, reloads:new(W ++ S1)),
    _ = reloads:spawn_supervisor(Vm, top),
    Stays = reloads:eval(Vm, "whereis(stays)"),
    {ok, Result} = reloads:reload(Vm, reloads:change(S1, S2, 2)),
    ?assertMatch(
        [
            #{change := stopped, id := <<"leaves">>},
            #{change := pending, id := <<"stays">>},
            #{change := started, id := <<"comes">>}
        ],
        maps:get(children, Result)
    ),
    ?assertEqual(2, reloads:eval(Vm, "counters:get(persistent_term:get(inits), 1)")),
    ?assertEqual({Stays, undefined}, reloads:eval(Vm, "{whereis(stays), whereis(leaves)}")),
    ?assertEqual(3, reloads:eval(Vm, "gen_server:call(comes, get)")),
    %% A pending change applies at the next start.
    Again = "Old = whereis(stays), exit(Old, kill), Up = fun(F) -> "
        "case whereis(stays) of Pid when is_pid(Pid), Pid =/= Old -> Pid; "
        "_ -> F(F) end end, Up(Up), gen_server:call(stays, get)",
    ?assertEqual(9, reloads:eval(Vm, Again)).

restarts_what_changed(Vm) ->
    W = reloads:compile(reloads:server("settings", one, ["f() -> 1.\n", ?SAME])),
    S1 = reloads:compile(reloads:supervisor("settings_sup", [{it, settings, 1}])),
    S2 = reloads:compile(reloads:supervisor("settings_sup", [{it, settings, 2}])),
    {ok, _} = reloads:reload(Vm, reloads:new(W ++ S1)),
    _ = reloads:spawn_supervisor(Vm, settings_sup),
    ok = reloads:eval(Vm, "gen_server:call(settings, {become, grown})"),
    {ok, #{children := [#{change := restarted}]}} =
        reloads:reload(Vm, reloads:change(S1, S2, 2), #{restart_changed => true, settle => revert}),
    ?assertEqual(grown, reloads:eval(Vm, "gen_server:call(settings, get)")),
    {ok, _} = reloads:reload(Vm, reloads:change(S1, S2, 2), #{restart_changed => true}),
    ?assertEqual(2, reloads:eval(Vm, "gen_server:call(settings, get)")).

%% New modules are gone after a revert, and deleted ones come back.
comes_and_goes(Vm) ->
    A = reloads:compile("-module(coming).\n-export([f/0]).\nf() -> 1.\n"),
    {ok, _} = reloads:reload(Vm, reloads:new(A), #{settle => revert}),
    ?assertEqual(false, reloads:eval(Vm, "erlang:module_loaded(coming)")),
    {ok, _} = reloads:reload(Vm, reloads:new(A)),
    {ok, _} = reloads:reload(Vm, reloads:delete(A, 2), #{settle => revert}),
    ?assertEqual(1, reloads:eval(Vm, "coming:f()")),
    {ok, _} = reloads:reload(Vm, reloads:delete(A, 2)),
    ?assertEqual(false, reloads:eval(Vm, "erlang:module_loaded(coming)")),
    %% A module on the code path would be loaded again.
    [{_, Beam}] = B = reloads:compile("-module(on_path).\n-export([f/0]).\nf() -> 1.\n"),
    test_dir:write_bytes(filename:join(vm:dir(Vm), "ebin/on_path.beam"), Beam),
    ?assertEqual({true, 1}, reloads:eval(Vm, "{code:add_patha(\"ebin\"), on_path:f()}")),
    {ok, _} = reloads:reload(Vm, reloads:delete(B, 2)),
    ?assertMatch({'EXIT', {undef, _}}, reloads:eval(Vm, "catch on_path:f()")).

%% A module that is deleted while a process runs it: nothing changes, unless its supervisor ends the
%% process, and no process breaks later.
deleted_with_processes(Vm) ->
    Till = reloads:compile(reloads:server("till", one, ["f() -> 1.\n", ?SAME])),
    Cash = reloads:compile(reloads:server("cash", one, ["f() -> 2.\n", ?SAME])),
    S1 = reloads:compile(reloads:supervisor("till_sup", [{it, till, 1}])),
    S2 = reloads:compile(reloads:supervisor("till_sup", [{it, cash, 1}])),
    S3 = reloads:compile(reloads:supervisor("till_sup", [])),
    {ok, _} = reloads:reload(Vm, reloads:new(Till ++ S1)),
    _ = reloads:spawn_supervisor(Vm, till_sup),
    ok = reloads:eval(Vm, "gen_server:call(till, {become, grown})"),
    Renamed = reloads:new(Cash) ++ reloads:change(S1, S2, 2) ++ reloads:delete(Till, 2),
    {error, #{message := Message}} = reloads:reload(Vm, Renamed),
    ?assertMatch(<<"a process runs a module that is deleted (till)", _/binary>>, Message),
    ?assertEqual(grown, reloads:eval(Vm, "gen_server:call(till, get)")),
    %% With its child restarted the module may go. What takes that back leaves no process of the new.
    {ok, _} = reloads:reload(Vm, Renamed, #{restart_changed => true, settle => revert}),
    ?assertEqual(grown, reloads:eval(Vm, "gen_server:call(till, get)")),
    ?assertEqual(undefined, reloads:eval(Vm, "whereis(cash)")),
    {ok, _} = reloads:reload(Vm, reloads:change(S1, S3, 2) ++ reloads:delete(Till, 2)),
    ?assertEqual(undefined, reloads:eval(Vm, "whereis(till)")).

%% The newer code migrates the state down before it is replaced.
way_back(Vm) ->
    V1 = reloads:compile(reloads:server("back", one, ["f() -> 1.\n", ?SAME])),
    V2 = reloads:compile(reloads:server("back", two,
        "f() -> 2.\ncode_change({down, one}, {new, S}, _) -> {ok, S};\ncode_change(one, S, _) -> {ok, {new, S}}.\n")),
    V3 = reloads:compile(reloads:server("back", three, "f() -> 3.\ncode_change(two, S, _) -> {ok, {newer, S}}.\n")),
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    reloads:spawn_server(Vm, back, 1),
    Get = fun() -> {reloads:eval(Vm, "back:f()"), reloads:eval(Vm, "gen_server:call(back, get)")} end,
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    {ok, _} = reloads:reload(Vm, reloads:change(V2, V3, 3)),
    ?assertEqual({3, {newer, {new, 1}}}, Get()),
    %% The third version knows no way back: the kept state is used, and without one the reload is
    %% refused.
    {ok, _} = vm:eval(Vm, "{ok, _} = gen_server:start({local, younger}, back, 5, []), ok"),
    Down = #{direction => down},
    {error, Refused} = reloads:reload(Vm, reloads:change(V3, V2, 2, 3), Down),
    ?assertMatch(#{step := migrate, module := <<"back">>}, Refused),
    ?assertMatch({_, _}, binary:match(maps:get(message, Refused), <<"no way back">>)),
    ?assertEqual({3, {newer, {new, 1}}}, Get()),
    ok = reloads:eval(Vm, "gen_server:stop(younger)"),
    {ok, _} = reloads:reload(Vm, reloads:change(V3, V2, 2, 3), Down),
    ?assertEqual({2, {new, 1}}, Get()),
    {ok, _} = reloads:reload(Vm, reloads:change(V2, V1, 1, 2), Down),
    ?assertEqual({1, 1}, Get()).

dry(Vm) ->
    V1 = reloads:compile(reloads:server("rehearsed", one, ["f() -> 1.\n", ?SAME])),
    V2 = reloads:compile(reloads:server("rehearsed", two, ["f() -> 2.\n", ?SAME])),
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    reloads:spawn_server(Vm, rehearsed, 1),
    {ok, Result} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{dry_run => true}),
    ?assertMatch(#{status := dry_run, processes := [#{module := <<"rehearsed">>}], pause_us := 0}, Result),
    ?assertEqual(1, reloads:eval(Vm, "rehearsed:f()")).

%% A dry run leaves the reload on probation, which can still be taken back. Processes that hold old
%% code are not touched.
dry_on_probation(Vm) ->
    Text = fun(N) -> reloads:server("rehearsing", N, ["f() -> fun() -> ", integer_to_list(N), " end.\n", ?SAME]) end,
    [V1, V2, V3] = [reloads:compile(Text(N)) || N <- [1, 2, 3]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    reloads:spawn_server(Vm, rehearsing, 1),
    Hold =
        "S = self(), register(holder, spawn(fun() -> put(f, rehearsing:f()), S ! holds, "
        "receive From -> From ! {made, (get(f))()} end end)), receive holds -> ok end",
    ok = reloads:eval(Vm, Hold),
    {Sentinel, More} = reloads:sentinel(Vm),
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2) ++ More, #{id => <<"on trial">>, settle => none}),
    Rehearse = fun() -> reloads:reload(Vm, reloads:change(V2, V3, 3), #{dry_run => true}) end,
    ?assertMatch({error, #{step := busy, holders := [_ | _]}}, Rehearse()),
    ?assertEqual(1, reloads:eval(Vm, "holder ! self(), receive {made, N} -> N end")),
    ?assertMatch({ok, #{status := dry_run, processes := [#{module := <<"rehearsing">>}]}}, Rehearse()),
    {ok, #{transaction := Transaction}} = vm:call(Vm, code_state, #{}),
    ?assertMatch(#{id := <<"on trial">>, phase := <<"probation">>}, Transaction),
    ?assertEqual(2, reloads:eval(Vm, "(rehearsing:f())()")),
    reloads:revert(Vm, Sentinel, <<"on trial">>),
    ?assertEqual(1, reloads:eval(Vm, "(rehearsing:f())()")).

%% A reload on probation is committed when another follows it. One that was taken back has no
%% followers.
following(Vm) ->
    [V1, V2, V3, V4] = [reloads:compile(reloads:server("queued", N, ["f() -> 1.\n", ?SAME])) || N <- [1, 2, 3, 4]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    reloads:spawn_server(Vm, queued, 1),
    {Sentinel, More} = reloads:sentinel(Vm),
    {ok, _} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{id => <<"first">>, settle => none}),
    ?assertMatch({error, _}, reloads:reload(Vm, reloads:change(V2, V3, 3), #{follows => <<"another">>})),
    Next = #{id => <<"second">>, follows => <<"first">>, settle => none},
    {ok, #{processes := [_, _]}} = reloads:reload(Vm, reloads:change(V2, V3, 3) ++ More, Next),
    reloads:revert(Vm, Sentinel, <<"second">>),
    ?assertMatch({error, _}, reloads:reload(Vm, reloads:change(V2, V4, 4, 2), #{follows => <<"second">>})),
    {ok, #{modules := Modules}} = vm:call(Vm, code_state, #{}),
    ?assertMatch([2], [Version || #{module := <<"queued">>, version := Version} <- Modules]).

%% One process calls another throughout the reloads: no process waits for ever, and no call is lost.
many(Vm) ->
    Text = fun(Vsn) ->
        reloads:server("chain", Vsn, "f() -> " ++ atom_to_list(Vsn) ++ ".\ncode_change(_, S, _) -> {ok, S}.\n")
    end,
    [V1, V2] = [reloads:compile(Text(Vsn)) || Vsn <- [one, two]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    _ = reloads:eval(Vm, "[{ok, _} = gen_server:start({local, N}, chain, N, []) || N <- [front, behind]], "
        "register(caller, spawn(fun() -> L = fun(L, C) -> receive {stop, F} -> F ! {calls, C} after 0 -> "
        "front = gen_server:call(front, {apply, fun(S) -> behind = gen_server:call(behind, get), S end}), L(L, C + "
        "1) end end, L(L, 0) end))"),
    {Last, _} = lists:foldl(
        fun(N, {Old, New}) -> {ok, _} = reloads:reload(Vm, reloads:change(Old, New, N)), {New, Old} end, {V1, V2},
            lists:seq(2, 11)
    ),
    ?assertEqual(V1, Last),
    ?assert(reloads:eval(Vm, "caller ! {stop, self()}, receive {calls, C} -> C end") > 10).

%% A process that started after the first search is found by the second, whether identifiers still
%% ascend or the process table was filled in between, or before. Many processes start and end, so
%% that the next ones take slots all over the table.
latecomers(Vm) ->
    _ = reloads:start_modules(Vm, reloads:server("late", one, ["f() -> 1.\n", ?SAME])),
    Missed = reloads:eval(Vm,
        "Sleep = fun() -> receive after infinity -> ok end end,"
        "Many = fun(N) -> [exit(spawn(Sleep), kill) || _ <- lists:seq(1, N)] end,"
        "Look = fun(Between) ->"
        "    #{seen := Seen} = sbx_reload_users:find([late]),"
        "    Many(Between),"
        "    Late = [element(2, gen_server:start(late, 0, [])) || _ <- lists:seq(1, 20)],"
        "    #{users := Users} = sbx_reload_users:find_newer(Seen, [late]),"
        "    [exit(Pid, kill) || Pid <- Late],"
        "    length(Late -- [element(2, User) || User <- Users])"
        "end,"
        "lists:sum([Look(N) || N <- [0, 3000 | lists:duplicate(20, 500)]])"),
    ?assertEqual(0, Missed).

%% Before the code is loaded, a daemon that disconnects cancels the reload. After that the reload
%% goes on by itself.
daemon_leaves(Vm) ->
    V1 = reloads:compile(reloads:server("left", one, ["f() -> 1.\n", ?SAME])),
    V2 = reloads:compile(reloads:server("left", two, ["f() -> 2.\n", ?SAME])),
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    reloads:spawn_server(Vm, left, 1),
    ok = reloads:eval(Vm, "gen_server:cast(left, fun(S) -> receive go_on -> S end end)"),
    Args = #{id => <<"alone">>, modules => reloads:change(V1, V2, 2), suspend_timeout_ms => 5000, probation_ms => 200},
    vm:send_call(Vm, 5, reload, Args),
    Suspending = "W = fun(F) -> case process_info(whereis(left), message_queue_len) of {_, 0} -> F(F); _ -> ok end "
        "end, W(W)",
    ok = reloads:eval(Vm, Suspending),
    _ = vm:eval_later(Vm, "left ! go_on"),
    Back = vm:accept(vm:hangup(Vm)),
    ?assertMatch({ok, #{last := #{outcome := failed}}}, settled(Back)),
    ?assertEqual(1, reloads:eval(Back, "left:f()")),
    {ok, _} = vm:call(Back, reload, Args),
    Again = vm:accept(vm:hangup(Back)),
    ?assertMatch(#{id := <<"alone">>, outcome := committed}, vm:event(Again, reload_settled)),
    ?assertEqual({2, 1}, {reloads:eval(Again, "left:f()"), reloads:eval(Again, "gen_server:call(left, get)")}),
    Again.

settled(Vm) ->
    case vm:call(Vm, code_state, #{}) of
        {ok, #{transaction := nil}} = State -> State;
        _ -> settled(Vm)
    end.

%% A record of a server's own module that lies in its state, by itself or deeper. The migration that
%% the warning tells fits as it is, also for a module whose code stays.
records(Vm) ->
    Text = fun(Fields) ->
        ["-module(till).\n-record(till, {", Fields, "}).\n-behaviour(gen_server).\n"
            "-export([init/1, handle_call/3, handle_cast/2, new/0]).\n"
            "new() -> #till{coins = [1]}.\ninit(S) -> {ok, S}.\nhandle_call(get, _, S) -> {reply, S, S}.\n"
            "handle_cast(_, S) -> {noreply, S}.\n"]
    end,
    [V1, V2] = [reloads:compile(Text(Fields)) || Fields <- ["name, coins = []", "name, count = 'no one', coins = []"]],
    {ok, _} = reloads:reload(Vm, reloads:new(V1)),
    _ = reloads:eval(Vm, "{ok, P} = gen_server:start({local, alone}, till, till:new(), []), P"),
    _ = reloads:eval(Vm, "{ok, P} = gen_server:start({local, bank}, till, till:new(), []), P"),
    %% Not a server, but it has the record too. It is not asked.
    ok = reloads:eval(Vm, "T = till:new(), register(holder, spawn(fun() -> receive T -> ok end end)), ok"),
    {ok, #{warnings := [Would | _]}} = reloads:reload(Vm, reloads:change(V1, V2, 2), #{dry_run => true}),
    ?assertEqual(<<"#till{} of till gained count; 2 processes would lack it">>, Would),
    {ok, #{warnings := [Told, Line] = Warnings}} = reloads:reload(Vm, reloads:change(V1, V2, 2)),
    ?assertEqual(<<"#till{} of till gained count; 2 processes lack it">>, Told),
    ?assertEqual(
        <<"to migrate such states: --migrate 'till=fun(State, _, _) -> "
            "{till, element(2, State), '\\''no one'\\'', element(3, State)} end'">>, Line
    ),
    {ok, Migrated} = reloads:reload(Vm, [], #{migrations => reloads:pasted(erlang, Warnings)}),
    ?assertMatch(#{modules := [], processes := [#{migrated := true}, #{migrated := true}], warnings := []}, Migrated),
    ?assertEqual({till, undefined, 'no one', [1]}, reloads:eval(Vm, "gen_server:call(alone, get)")),
    %% Nothing lacks it any more. A migration that no process uses is told, and changes nothing.
    Absent = #{<<"absent">> => map_get(<<"till">>, reloads:pasted(erlang, Warnings))},
    {ok, #{status := no_change, warnings := [Unused]}} = reloads:reload(Vm, [], #{migrations => Absent}),
    ?assertEqual(<<"the migration for absent was not used: no process has that callback module">>, Unused),
    ?assertEqual(true, reloads:eval(Vm, "is_process_alive(whereis(holder))")).
