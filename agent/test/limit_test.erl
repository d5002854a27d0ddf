%%% Tests that a fork bomb of processes is contained and that the agent goes on answering.
-module(limit_test).

-include_lib("eunit/include/eunit.hrl").

-define(BOMB, "F = fun(G) -> spawn(fun() -> G(G) end), G(G) end, spawn(fun() -> F(F) end), ok").

%% One node runs all steps, each with a new limit. The endless bomb comes last.
limited_node_test() -> limited(#{}).

limited_node_of_several_schedulers_long_test() -> limited(#{schedulers => 4}).

limited(Options) ->
    Vm = vm:start(Options),
    Empty = #{apps => [], app => nil, supervisor => nil, elixir => false, config => nil, processes => 50},
    ?assertMatch({ok, #{supervisor_pid := nil}}, vm:call(Vm, start, Empty)),
    Steps = [
        fun many/1, fun extra/1, fun crashes/1, fun starved/1, fun bomb_in_a_call/1, fun flooded/1, fun bomb/1
    ],
    lists:foreach(fun(Step) -> runner:steps(Vm, [fun limit_anew/1, Step]) end, Steps),
    vm:stop(Vm).

%% Processes that the step before left count as the node's own.
limit_anew(Vm) ->
    vm:drop_events(Vm),
    ?assertMatch({ok, #{term := ok}}, vm:eval(Vm, "sbx_limit:set(50)")).

bomb(Vm) ->
    %% The process that starts the bomb may be killed too.
    _ = vm:eval(Vm, ?BOMB),
    #{limit := 50, count := Count} = vm:event(Vm, process_limit),
    ?assert(Count > 50),
    [?assertEqual({ok, #{}}, vm:call(Vm, beat, #{}, 2000)) || _ <- lists:seq(1, 10)],
    ?assertMatch(ok, settles(Vm, 50)).

%% The call's own process does not count as the application's. What it spawns is killed until its
%% deadline.
bomb_in_a_call(Vm) ->
    Code = <<"F = fun(G) -> spawn(fun() -> receive stop -> ok end end), G(G) end, F(F)">>,
    vm:send_call(Vm, 1, eval, #{language => erlang, code => Code, timeout_ms => 150}),
    #{limit := 50} = vm:event(Vm, process_limit),
    [?assertEqual({ok, #{}}, vm:call(Vm, beat, #{}, 2000)) || _ <- lists:seq(1, 10)],
    %% Without a free process, spawn raises before the deadline.
    {error, #{kind := Kind}} = vm:reply(Vm, 1),
    ?assert(Kind =:= timeout orelse Kind =:= exception),
    ?assertEqual(ok, settles(Vm, 50)).

%% Processes that the VM starts for the agent don't count: all of them live through a check.
extra(Vm) ->
    Code =
        "sbx_limit:with_extra(100, fun() ->"
        "  Pids = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 100)],"
        "  Work = fun() -> element(2, process_info(whereis(sbx_limit), reductions)) end,"
        "  Before = Work(),"
        "  Looked = fun(F) -> Work() > Before orelse F(F) end,"
        "  true = Looked(Looked),"
        "  Alive = length([Pid || Pid <- Pids, is_process_alive(Pid)]),"
        "  [exit(Pid, kill) || Pid <- Pids],"
        "  Alive"
        " end)",
    ?assertMatch({ok, #{term := 100}}, vm:eval(Vm, Code)),
    many(Vm).

%% A killed process that has no turn to end is not replaced by an older one. High-priority processes
%% keep all others from their turns here, as a starved machine does. The second check that is due
%% proves that the first one has seen them within the limit.
starved(Vm) ->
    Code =
        "process_flag(priority, max),"
        "Spin = fun(F) -> receive stop -> ok after 0 -> F(F) end end,"
        "Holders = [spawn_opt(fun() -> receive go -> Spin(Spin) end end, [monitor, {priority, high}])"
        "           || _ <- lists:seq(1, erlang:system_info(schedulers_online))],"
        "1 = erlang:trace(whereis(sbx_limit), true, ['receive']),"
        "Checks = fun(_, 0) -> still_there;"
        "            (F, N) ->"
        "                receive"
        "                    {'DOWN', _, _, _, Why} -> Why;"
        "                    {trace, _, 'receive', {timeout, _, look}} -> F(F, N - 1)"
        "                end"
        "         end,"
        "still_there = Checks(Checks, 2),"
        "[Pid ! go || {Pid, _} <- Holders],"
        "[spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 100)],"
        "Outcome = Checks(Checks, 30),"
        "1 = erlang:trace(whereis(sbx_limit), false, ['receive']),"
        "[Pid ! stop || {Pid, _} <- Holders],"
        "Outcome",
    ?assertMatch({ok, #{term := still_there}}, vm:eval(Vm, Code)),
    #{limit := 50} = vm:event(Vm, process_limit),
    ?assertEqual(ok, settles(Vm, 50)).

%% A flood of messages to the limiter does not help.
flooded(Vm) ->
    Flood = "F = fun(G) -> sbx_limit ! junk, G(G) end, register(flooder, spawn(fun() -> F(F) end))",
    Many = "[spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 200)], ok",
    {ok, _} = vm:eval(Vm, [Flood, ", ", Many]),
    #{limit := 50} = vm:event(Vm, process_limit),
    %% The flooder may have been among the killed processes.
    _ = vm:eval(Vm, "exit(whereis(flooder), kill)"),
    ?assertEqual(ok, settles(Vm, 50)).

%% Polls the node until few enough processes are left.
settles(_Vm, 0) ->
    too_many;
settles(Vm, Left) ->
    case vm:call(Vm, info, #{}) of
        {ok, #{processes := Processes}} when Processes =< 50 -> ok;
        _BusyOrKilled -> settles(Vm, Left - 1)
    end.

%% Idle processes are killed down to the limit, and the oldest stay.
many(Vm) ->
    Many = "[spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 500)]",
    {ok, #{term := Pids}} = vm:eval(Vm, Many),
    #{limit := 50} = vm:event(Vm, process_limit),
    ?assertEqual(ok, settles(Vm, 50)),
    [_, Number | _] = string:lexemes(pid_to_list(hd(Pids)), "."),
    ?assertMatch({ok, #{term := true}}, vm:eval(Vm, "is_process_alive(list_to_pid(\"<0." ++ Number ++ ".0>\"))")).

%% Crash reports of too many processes would fill the memory, so they are dropped. Others are passed
%% on.
crashes(Vm) ->
    %% The limiter is suspended until all have crashed, so that there are too many processes when it
    %% handles the first report. Its own timer is among its messages too.
    {ok, _} = vm:eval(Vm,
        "erlang:suspend_process(whereis(sbx_limit)), "
        "Sleepers = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 200)], "
        "[spawn(fun() -> error(one_of_many) end) || _ <- lists:seq(1, 20)], "
        "Reported = fun(F) -> "
        "    {_, Messages} = process_info(whereis(sbx_limit), messages), "
        "    length([1 || M <- Messages, element(1, M) =:= log]) =:= 20 orelse receive after 1 -> F(F) end "
        "end, "
        "Reported(Reported), "
        "persistent_term:put(many, Sleepers), "
        "erlang:resume_process(whereis(sbx_limit)), ok"),
    #{limit := 50} = vm:event(Vm, process_limit),
    ?assertEqual(ok, settles(Vm, 50)),
    %% With one more process than those that are left, there would be too many again.
    {ok, _} = vm:eval(Vm,
        "[receive {'DOWN', M, _, _, _} -> ok end || P <- persistent_term:get(many), "
        "    M <- [monitor(process, P)], exit(P, kill)], ok"),
    {ok, _} = vm:eval(Vm, "spawn(fun() -> error(alone) end), ok"),
    IsOfOne = fun(#{text := Text}) -> binary:match(Text, <<"alone">>) =/= nomatch end,
    #{level := error} = vm:event(Vm, log, IsOfOne),
    %% Other schedulers may end the killed processes before the limiter gets to all reports.
    {ok, #{term := Schedulers}} = vm:eval(Vm, "erlang:system_info(schedulers_online)"),
    ?assert(Schedulers > 1 orelse vm:no_event(Vm, log)).
