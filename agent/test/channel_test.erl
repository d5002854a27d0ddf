%%% Tests the control channel: greeting, parallel calls, cancelling, and a daemon that goes away.
-module(channel_test).

-include_lib("eunit/include/eunit.hrl").

%% One node serves all steps that leave it unchanged: booting it takes longer than any of them.
serving_test() ->
    Vm = vm:start(#{}),
    Steps = [
        fun greets/1,
        fun beats/1,
        fun refuses_what_it_does_not_know/1,
        fun forgets_the_secret/1,
        fun tells_about_itself/1,
        fun beats_while_calls_run/1,
        fun kills_a_cancelled_call/1,
        fun ends_a_late_call_that_says_it_has_answered/1,
        fun beats_in_a_flood/1
    ],
    runner:steps(Vm, Steps),
    ending:by_suspension_of("sbx_limit", survives_a_bad_frame(keeps_output(
        redials(redials_when_a_late_call_finds_nobody(redials_when_its_port_is_closed(redials_when_nobody_reads(Vm))))
    ))).

greets(Vm) ->
    ?assertMatch(#{otp := _, erts := _, elixir := nil, state := idle}, vm:hello(Vm)).

beats(Vm) ->
    ?assertEqual({ok, #{}}, vm:call(Vm, beat, #{})).

refuses_what_it_does_not_know(Vm) ->
    ?assertMatch({error, #{kind := unknown_call}}, vm:call(Vm, nonsense, #{})),
    ?assertMatch({error, #{kind := badarg, message := <<"eval:", _/binary>>}}, vm:call(Vm, eval, #{})).

forgets_the_secret(Vm) ->
    ?assertMatch({ok, #{term := false}}, vm:eval(Vm, "os:getenv(\"SANDBOX_SECRET\")")),
    ?assertMatch({ok, #{term := []}}, vm:eval(Vm, "element(2, process_info(whereis(sbx_agent), messages))")).

tells_about_itself(Vm) ->
    {ok, Info} = vm:call(Vm, info, #{}),
    ?assertMatch(#{processes := 0, app_pid := nil, supervisor_pid := nil, modules := []}, Info),
    ?assert(maps:get(memory_bytes, Info) > 1000000),
    ?assert(maps:get(atoms, Info) > 1000),
    ?assert(maps:get(uptime_ms, Info) > 0).

%% The agent's own process answers beats while calls run, however many.
beats_while_calls_run(Vm) ->
    fill(Vm, lists:seq(1, 64)),
    ?assertMatch({error, #{kind := busy}}, vm:eval(Vm, "1")),
    [vm:cancel(Vm, Id) || Id <- lists:seq(1, 64)],
    ?assertMatch({ok, #{term := 2}}, vm:eval(Vm, "1 + 1")).

%% A call that has answered counts for a moment longer, so one that was refused is sent again.
fill(_Vm, []) ->
    ok;
fill(Vm, Ids) ->
    Sleep = #{language => erlang, code => <<"timer:sleep(infinity)">>, timeout_ms => 60000},
    [vm:send_call(Vm, Id, eval, Sleep) || Id <- Ids],
    ?assertEqual({ok, #{}}, vm:call(Vm, beat, #{})),
    fill(Vm, [Id || Id <- Ids, is_refused(Vm, Id)]).

%% The agent sends a refusal itself, so it has come before a later beat's answer.
is_refused(Vm, Id) ->
    try vm:reply(Vm, Id, 0) of
        {error, #{kind := busy}} -> true
    catch
        error:{no_such_frame, _} -> false
    end.

kills_a_cancelled_call(Vm) ->
    Code = <<"register(victim, self()), io:format(\"up\"), timer:sleep(infinity)">>,
    vm:send_call(Vm, 1, eval, #{language => erlang, code => Code, timeout_ms => 60000, capture => false}),
    <<"up">> = vm:event(Vm, output),
    vm:cancel(Vm, 1),
    Gone = "(fun F() -> case whereis(victim) of undefined -> gone; _ -> erlang:yield(), F() end end)()",
    ?assertMatch({ok, #{term := gone}}, vm:eval(Vm, Gone)).

ends_a_late_call_that_says_it_has_answered(Vm) ->
    Code = <<
        "[sbx_agent ! {sbx_agent, answered, Id, make_ref()} || Id <- lists:seq(1, 1000)], "
        "register(liar, self()), timer:sleep(infinity)"
    >>,
    Late = #{language => erlang, code => Code, timeout_ms => 100},
    ?assertMatch({error, #{kind := timeout}}, vm:call(Vm, eval, Late)),
    ?assertMatch({ok, #{term := undefined}}, vm:eval(Vm, "whereis(liar)")).

beats_in_a_flood(Vm) ->
    Flood =
        "F = fun(G) -> sbx_agent ! {junk, self()}, sbx_app ! junk, sbx_limit ! junk, G(G) end,"
        "Pids = [spawn(fun() -> F(F) end) || _ <- lists:seq(1, 4)],"
        "register(dam, spawn(fun() -> receive close -> [exit(Pid, kill) || Pid <- Pids] end end)), ok",
    {ok, _} = vm:eval(Vm, Flood),
    [?assertEqual({ok, #{}}, vm:call(Vm, beat, #{}, 2000)) || _ <- lists:seq(1, 5)],
    {ok, _} = vm:eval(Vm, "dam ! close").

redials(Vm) ->
    {ok, #{term := Pid}} = vm:eval(Vm, "P = spawn(fun() -> receive stop -> ok end end), P"),
    Without = vm:hangup(Vm),
    ok = vm:reject(Without),
    Again = vm:accept(Without),
    ?assert(maps:get(uptime_ms, vm:hello(Again)) >= maps:get(uptime_ms, vm:hello(Vm))),
    Alive = io_lib:format("is_process_alive(list_to_pid(\"~ts\"))", [pid_text(Pid)]),
    ?assertMatch({ok, #{term := true}}, vm:eval(Again, Alive)),
    Again.

%% A socket that failed to send reports that only to the sender, which is a call's process.
redials_when_nobody_reads(Vm) ->
    {ok, _} = vm:eval(Vm, [
        "[inet:setopts(P, [{send_timeout, 20}]) || P <- erlang:ports(),",
        "erlang:port_info(P, connected) =:= {connected, whereis(sbx_agent)}]"
    ]),
    ok = vm:stop_reading(Vm),
    Large = #{language => erlang, code => <<"erlang:make_tuple(1000000, 1)">>, timeout_ms => 60000},
    vm:send_call(Vm, 7, eval, Large),
    vm:send_call(Vm, 8, eval, Large),
    Again = vm:accept(Vm),
    ?assertEqual({ok, #{}}, vm:call(Again, beat, #{})),
    Again.

%% The application closes the agent's port while no call is under way. Then the socket sends no
%% message.
redials_when_its_port_is_closed(Vm) ->
    {ok, #{term := _}} = vm:eval(Vm, [
        "spawn(fun() -> {_, M} = spawn_monitor(fun() -> receive after 20 -> ok end end), "
        "receive {'DOWN', M, _, _, _} -> ok end,",
        "[port_close(P) || P <- erlang:ports(), "
        "erlang:port_info(P, connected) =:= {connected, whereis(sbx_agent)}] end)"
    ]),
    Again = vm:accept(Vm),
    ?assertEqual({ok, #{}}, vm:call(Again, beat, #{})),
    Again.

%% A beat finds a late call after the port was closed. The agent can report neither, and goes on.
redials_when_a_late_call_finds_nobody(Vm) ->
    Sleep = #{language => erlang, code => <<"timer:sleep(infinity)">>, timeout_ms => 50},
    vm:send_call(Vm, 7, eval, Sleep),
    %% The call's process sends the answer itself while the agent is suspended.
    {ok, _} = vm:eval(Vm, [
        "Agent = whereis(sbx_agent), Me = self(),"
        "spawn(fun() -> erlang:suspend_process(Agent), Me ! still, receive after 100 -> ok end,"
        "[port_close(P) || P <- erlang:ports(), erlang:port_info(P, connected) =:= {connected, Agent}],"
        "erlang:resume_process(Agent) end), receive still -> ok end"
    ]),
    try
        vm:send_call(Vm, 8, beat, #{})
    catch
        error:_ -> ok % a busy machine may be too late
    end,
    Again = vm:accept(Vm),
    ?assertEqual({ok, #{}}, vm:call(Again, beat, #{})),
    Again.

%% A remote pid prints with the node's number in front. Inside the node that number is 0.
pid_text(Pid) ->
    [_ | Rest] = string:split(pid_to_list(Pid), "."),
    ["<0." | Rest].

%% Output without a daemon: the next daemon gets the last 64 KiB and the number of dropped bytes.
keeps_output(Vm) ->
    vm:eval_later(Vm, "[io:put_chars(binary:copy(<<\"x\">>, 1000)) || _ <- lists:seq(1, 200)], io:put_chars(\"end\")"),
    Again = vm:accept(vm:hangup(Vm)),
    Output = vm:output(Again, 65536),
    ?assertMatch({_, _}, binary:match(Output, <<" bytes dropped\n">>)),
    ?assertEqual(<<"end">>, binary:part(Output, byte_size(Output), -3)),
    Again.

survives_a_bad_frame(Vm) ->
    vm:send_bytes(Vm, <<"not a term">>),
    Again = vm:accept(Vm),
    ?assertEqual({ok, #{}}, vm:call(Again, beat, #{})),
    Again.
