%%% Tests evaluating, printing and logging.
-module(eval_test).

-include_lib("eunit/include/eunit.hrl").

%% One time slice of busy-waiting takes 4,000 reductions. Without busy-waiting the process takes a
%% few hundred in its life.
-define(MANY_REDUCTIONS, 100000).

%% Elixir comes last: the first Elixir expression starts it.
bare_node_test() ->
    Vm = vm:start(#{}),
    erlang(Vm),
    kept(Vm),
    busy_wait(Vm),
    output(Vm),
    captured(Vm),
    bounds(Vm),
    deadlines(Vm),
    elixir(Vm),
    log(Vm),
    compilers_parts_exist(Vm),
    ending:in_silence("sbx_busy_wait", Vm).

%% A wrong name would be left out silently. Only compiler nodes have Mix on their path.
compilers_parts_exist(Vm) ->
    Missing = "[Part || Part <- sbx_compile_parts:erlang() ++ sbx_compile_parts:elixir(),
        code:which(Part) =:= non_existing, string:prefix(atom_to_list(Part), \"Elixir.Mix\") =:= nomatch]",
    ?assertMatch({ok, #{term := []}}, vm:eval(Vm, Missing)).

erlang(Vm) ->
    ?assertMatch({ok, #{term := 3, text := <<"3">>, duration_us := _}}, vm:eval(Vm, "X = 1, X + 2")),
    ?assertMatch({ok, #{term := 3}}, vm:eval(Vm, "1 + 2.")),
    ?assertMatch({ok, #{text := <<"{ok,[<<\"å\"/utf8>>]}"/utf8>>}}, vm:eval(Vm, "{ok, [<<\"å\"/utf8>>]}")),
    ?assertMatch(
        {error, #{kind := syntax, message := <<"line 1: syntax error before: ", _/binary>>}}, vm:eval(Vm, "1 +")
    ),
    ?assertMatch({error, #{kind := syntax}}, vm:eval(Vm, "\"open")),
    ?assertMatch({error, #{kind := syntax}}, vm:eval(Vm, "")),
    {error, Error} = vm:eval(Vm, "1 / 0"),
    ?assertMatch(#{kind := exception, class := error}, Error),
    ?assertMatch(#{message := <<"exception error: an error occurred", _/binary>>}, Error),
    ?assertMatch({error, #{kind := exception, class := throw}}, vm:eval(Vm, "throw(ball)")),
    ?assertMatch({error, #{kind := exception, class := exit}}, vm:eval(Vm, "exit(enough)")),
    ?assertMatch({error, #{kind := killed}}, vm:eval(Vm, "exit(self(), kill)")),
    {error, #{stacktrace := Stack}} = vm:eval(Vm, "lists:nth(9, [1])"),
    ?assertMatch({_, _}, binary:match(Stack, <<"lists">>)),
    ?assertEqual(nomatch, binary:match(Stack, <<"sbx_">>)).

%% An expression that was evaluated before is parsed already. The number of kept expressions is
%% bounded, and the application can't write them.
kept(Vm) ->
    Kept = fun() -> {ok, #{term := Count}} = vm:eval(Vm, "ets:info(sbx_eval, size)"), Count end,
    Twice = fun(Code) -> [Answer, Answer] = [vm:eval(Vm, Code) || _ <- [once, again]], Answer end,
    [?assertMatch({ok, #{term := N}}, vm:eval(Vm, integer_to_list(N) ++ " + 0")) || N <- lists:seq(1, 40)],
    ?assert(lists:member(Kept(), lists:seq(1, 16))),
    Before = Kept(),
    ?assertMatch({ok, #{term := 101}}, vm:eval(Vm, lists:flatten(lists:duplicate(100, "1 + ")) ++ "1")),
    ?assertEqual(Before, Kept()),
    ?assertMatch({ok, #{term := 1}}, vm:eval(Vm, "ets:info(sbx_eval, size), 1")),
    ?assertEqual(Before + 1, Kept()),
    Parses = fun() -> {ok, #{term := Term}} = vm:eval(Vm, "erlang:module_loaded(erl_parse)"), Term end,
    ?assert(Parses()),
    {ok, _} = vm:eval(Vm, "true = code:delete(erl_parse), code:purge(erl_parse)"),
    ?assertNot(Parses()),
    ?assertMatch({error, #{kind := syntax}}, Twice("1 +")),
    [
        ?assertMatch({error, #{kind := exception}}, Twice(Code))
     || Code <- ["ets:insert(sbx_eval, {a, b})", "ets:rename(sbx_eval, c)", "ets:delete(sbx_eval)"]
    ],
    {ok, _} = vm:eval(Vm, "sbx_agent ! {sbx_agent, parsed, 1, make_ref(), <<\"five\">>, [{integer, 1, 5}]}"),
    [?assertMatch({ok, #{term := five}}, vm:eval(Vm, "five")) || _ <- [once, again]].

%% The VM busy-waits when it is told to. That counts neither as the application's work nor delays
%% it.
busy_wait(Vm) ->
    ?assert(busy_waited(Vm) < ?MANY_REDUCTIONS),
    ?assert(await_busy_wait(Vm, 10000)),
    ?assert(value(Vm, "element(1, statistics(reductions)) - sbx_busy_wait:reductions()") >= ?MANY_REDUCTIONS),
    ?assertEqual({priority, low}, value(Vm, "process_info(whereis(sbx_busy_wait), priority)")),
    ?assertMatch({error, #{kind := exception}}, vm:eval(Vm, "ets:insert(sbx_busy_wait, {reductions, 0})")),
    _ = value(Vm,
        "[sbx_busy_wait ! Word || Word <- [stray | [{sbx_busy_wait, wait, Us} || Us <- [150, 1 bsl 64, soon]]]]"),
    {ok, #{processes := Top}} = vm:call(Vm, top, #{by => reductions, count => 1000}),
    ?assertEqual([], [Process || #{name := <<"sbx_busy_wait">>} = Process <- Top]),
    ?assertNotEqual([], [Process || #{name := <<"sbx_agent">>} = Process <- Top]).

await_busy_wait(_Vm, 0) ->
    false;
await_busy_wait(Vm, Tries) ->
    {ok, _} = vm:call(Vm, eval, #{language => erlang, code => <<"ok">>, timeout_ms => 5000, busy_wait_us => 150}),
    busy_waited(Vm) >= ?MANY_REDUCTIONS orelse await_busy_wait(Vm, Tries - 1).

busy_waited(Vm) ->
    value(Vm, "ets:lookup_element(sbx_busy_wait, reductions, 2)").

value(Vm, Code) ->
    {ok, #{term := Term}} = vm:eval(Vm, Code),
    Term.

elixir(Vm) ->
    ?assertMatch({ok, #{term := #{a := 1}, text := <<"%{a: 1}">>}}, vm:eval(Vm, elixir, "%{a: 1}")),
    ?assertMatch({ok, #{term := [1, 4, 9]}}, vm:eval(Vm, elixir, "for x <- 1..3 do\n  x * x\nend")),
    {error, Error} = vm:eval(Vm, elixir, "raise ArgumentError, \"no\""),
    ?assertMatch(#{kind := exception, class := error, message := <<"** (ArgumentError) no">>}, Error),
    ?assertMatch({error, #{message := <<"** (throw) :ball">>}}, vm:eval(Vm, elixir, "throw(:ball)")),
    ?assertMatch({error, #{message := <<"** (exit) :enough">>}}, vm:eval(Vm, elixir, "exit(:enough)")),
    ?assertMatch({error, #{message := <<"** (TokenMissingError)", _/binary>>}}, vm:eval(Vm, elixir, "fn ->")),
    ?assertMatch(
        {error, #{message := <<"** (CompileError) eval:2: undefined function nope/1", _/binary>>}},
        vm:eval(Vm, elixir, "x = 1\nnope(x)")
    ),
    ?assert(vm:no_event(Vm, output)),
    %% What is no error is printed, as it is elsewhere.
    ?assertMatch({ok, #{term := 3}}, vm:eval(Vm, elixir, "x = 1; (fn unused -> 3 end).(x)")),
    ?assertMatch({_, _}, binary:match(vm:event(Vm, output), <<"unused">>)),
    vm:drop_events(Vm).

bounds(Vm) ->
    Long = #{language => erlang, code => <<"timer:sleep(infinity)">>, timeout_ms => 30},
    ?assertMatch({error, #{kind := timeout, message := <<"no result within 30 ms">>}}, vm:call(Vm, eval, Long)),
    {ok, Large} = vm:eval(Vm, "erlang:make_tuple(2500000, 1)"),
    ?assertNot(is_map_key(term, Large)),
    ?assert(byte_size(maps:get(text, Large)) =< 1048576 + 4),
    %% Small in memory, endless when printed.
    Shared = #{
        language => erlang,
        code => <<"lists:foldl(fun(_, L) -> [L | L] end, [], lists:seq(1, 200))">>,
        timeout_ms => 300
    },
    ?assertMatch({error, #{kind := timeout}}, vm:call(Vm, eval, Shared)),
    ?assertEqual({ok, #{}}, vm:call(Vm, beat, #{})).

%% One timer serves all calls. Each call ends at its own time, in whatever order they came.
deadlines(Vm) ->
    Endless = #{language => erlang, code => <<"timer:sleep(infinity)">>},
    Sleep = fun(Id, Ms) -> vm:send_call(Vm, Id, eval, Endless#{timeout_ms => Ms}) end,
    [Second, Never, First, Third] = [erlang:unique_integer([positive]) || _ <- lists:seq(1, 4)],
    [Sleep(Id, Ms) || {Id, Ms} <- [{Second, 60}, {Never, 60000}, {First, 30}, {Third, 90}]],
    {ok, _} = vm:eval(Vm, "sbx_agent ! {timeout, make_ref(), alarm}"),
    Text = fun(Id) -> {error, #{kind := timeout, message := Message}} = vm:reply(Vm, Id), Message end,
    Late = [Text(Id) || Id <- [First, Second, Third]],
    ?assertEqual([<<"no result within ", Ms/binary, " ms">> || Ms <- [<<"30">>, <<"60">>, <<"90">>]], Late),
    vm:cancel(Vm, Never),
    ?assertMatch({error, #{kind := timeout}}, vm:call(Vm, eval, Endless#{timeout_ms => 30})),
    ?assertMatch({ok, #{term := 0}}, vm:eval(Vm, "length(sbx_agent:call_pids()) - 1")).

output(Vm) ->
    {ok, _} = vm:eval(Vm, "io:format(\"~ts ~p~n\", [[229], 1])"),
    ?assertEqual(<<"å 1\n"/utf8>>, vm:event(Vm, output)),
    {ok, _} = vm:eval(Vm, "io:put_chars(standard_error, \"err\")"),
    ?assertEqual(<<"err">>, vm:event(Vm, output)),
    ?assertMatch({ok, #{term := eof}}, vm:eval(Vm, "io:get_line(\"? \")")),
    ?assertMatch({ok, #{term := {ok, 120}}}, vm:eval(Vm, "io:columns()")),
    ?assertMatch({ok, #{term := ok}}, vm:eval(Vm, "io:setopts([{encoding, latin1}])")),
    ?assertMatch({ok, #{term := [_ | _]}}, vm:eval(Vm, "io:getopts()")),
    {ok, _} = vm:eval(Vm, "[io:put_chars(user, [C]) || C <- \"one\"]"),
    ?assertEqual(<<"one">>, vm:output(Vm, 3)),
    %% More output than the buffer holds: the printing process is slowed down and nothing is lost.
    {ok, _} = vm:eval(Vm, "[io:put_chars(binary:copy(<<\"y\">>, 1000)) || _ <- lists:seq(1, 500)], ok"),
    ?assertEqual(binary:copy(<<"y">>, 500000), vm:output(Vm, 500000)),
    {ok, _} = vm:eval(Vm, "io:put_chars(lists:duplicate(100000, 16#e5))"),
    ?assertEqual(binary:copy(<<"å"/utf8>>, 100000), vm:output(Vm, 200000)).

%% What an evaluation prints is part of its answer, and so is what processes print that it starts.
captured(Vm) ->
    Eval = fun(Code) -> vm:call(Vm, eval, vm:eval_args(erlang, Code)) end,
    ?assertMatch({ok, #{output := <<>>, text := <<"1">>}}, Eval("1")),
    ?assertMatch({ok, #{output := <<"a\nb">>}}, Eval("io:put_chars(\"a\\n\"), io:put_chars(standard_error, \"b\")")),
    Child = "{P, M} = spawn_monitor(fun() -> io:put_chars(\"child\") end), receive {'DOWN', M, _, P, _} -> ok end",
    ?assertMatch({ok, #{output := <<"child">>}}, Eval(Child)),
    ?assertMatch({error, #{kind := exception, output := <<"soon">>}}, Eval("io:put_chars(\"soon\"), error(bad)")),
    Late = (vm:eval_args(erlang, "io:put_chars(\"late\"), timer:sleep(infinity)"))#{timeout_ms := 50},
    ?assertMatch({error, #{kind := timeout, output := <<"late">>}}, vm:call(Vm, eval, Late)),
    %% What has no room in the answer goes to the log.
    Much = "[io:put_chars(binary:copy(<<\"x\">>, 65536)) || _ <- lists:seq(1, 17)], ok",
    {ok, #{output := Kept}} = Eval(Much),
    ?assertEqual(1048576, byte_size(Kept)),
    ?assertEqual(binary:copy(<<"x">>, 65536), vm:output(Vm, 65536)),
    %% So does what a process prints after the evaluation that started it.
    {ok, _} = Eval(
        "Eval = self(), spawn(fun() -> M = monitor(process, Eval), "
        "receive {'DOWN', M, _, _, _} -> io:put_chars(\"after\") end end)"
    ),
    ?assertEqual(<<"after">>, vm:event(Vm, output)),
    ?assertMatch({ok, #{term := 1}}, Eval("ets:info(sbx_capture, size)")).

log(Vm) ->
    {ok, _} = vm:eval(Vm, "logger:error(\"bad ~p\", [thing])"),
    ?assertMatch(#{level := error, text := <<"bad thing">>, pid := <<"<", _/binary>>}, vm:event(Vm, log)),
    {ok, _} = vm:eval(Vm, "logger:error(\"here\", #{mfa => {m, f, 1}, line => 7, pid => not_a_pid})"),
    Here = vm:event(Vm, log),
    ?assertMatch(#{text := <<"here">>, function := <<"m:f/1">>, line := 7}, Here),
    ?assertNot(is_map_key(pid, Here)),
    {ok, _} = vm:eval(Vm, elixir, "require Logger; Logger.info(\"hello\")"),
    ?assertMatch(#{level := info, text := <<"hello">>}, vm:event(Vm, log)),
    ?assert(vm:no_event(Vm, output)).
