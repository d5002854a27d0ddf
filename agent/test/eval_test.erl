%% Evaluating, printing and logging.
-module(eval_test).

-include_lib("eunit/include/eunit.hrl").

%% Elixir comes last: it starts with the first expression of its.
bare_node_test() ->
    Vm = vm:start(#{}),
    erlang(Vm),
    output(Vm),
    bounds(Vm),
    elixir(Vm),
    log(Vm),
    compilers_parts_exist(Vm),
    ending:by_death_of("sbx_agent", Vm).

%% A name that is wrong would be left out in silence. Mix is on compilers' paths only.
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

elixir(Vm) ->
    ?assertMatch({ok, #{term := #{a := 1}, text := <<"%{a: 1}">>}}, vm:eval(Vm, elixir, "%{a: 1}")),
    ?assertMatch({ok, #{term := [1, 4, 9]}}, vm:eval(Vm, elixir, "for x <- 1..3 do\n  x * x\nend")),
    {error, Error} = vm:eval(Vm, elixir, "raise ArgumentError, \"no\""),
    ?assertMatch(#{kind := exception, class := error, message := <<"** (ArgumentError) no">>}, Error),
    ?assertMatch({error, #{message := <<"** (throw) :ball">>}}, vm:eval(Vm, elixir, "throw(:ball)")),
    ?assertMatch({error, #{message := <<"** (exit) :enough">>}}, vm:eval(Vm, elixir, "exit(:enough)")),
    ?assertMatch({error, #{message := <<"** (TokenMissingError)", _/binary>>}}, vm:eval(Vm, elixir, "fn ->")),
    ?assertMatch({error, #{message := <<"** (CompileError)", _/binary>>}}, vm:eval(Vm, elixir, "nope()")).

bounds(Vm) ->
    Long = #{language => erlang, code => <<"timer:sleep(infinity)">>, timeout_ms => 30},
    ?assertMatch({error, #{kind := timeout, message := <<"no result within 30 ms">>}}, vm:call(Vm, eval, Long)),
    {ok, Large} = vm:eval(Vm, "binary:copy(<<1>>, 5000000)"),
    ?assertNot(is_map_key(term, Large)),
    ?assert(byte_size(maps:get(text, Large)) =< 1048576 + 4),
    %% Small in memory, endless when written out.
    Shared = #{
        language => erlang,
        code => <<"lists:foldl(fun(_, L) -> [L | L] end, [], lists:seq(1, 200))">>,
        timeout_ms => 300
    },
    ?assertMatch({error, #{kind := timeout}}, vm:call(Vm, eval, Shared)),
    ?assertEqual({ok, #{}}, vm:call(Vm, beat, #{})).

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
    %% More than the buffer holds: the printer is slowed down, nothing is lost.
    {ok, _} = vm:eval(Vm, "[io:put_chars(binary:copy(<<\"y\">>, 1000)) || _ <- lists:seq(1, 500)], ok"),
    ?assertEqual(binary:copy(<<"y">>, 500000), vm:output(Vm, 500000)),
    {ok, _} = vm:eval(Vm, "io:put_chars(lists:duplicate(100000, 16#e5))"),
    ?assertEqual(binary:copy(<<"å"/utf8>>, 100000), vm:output(Vm, 200000)).

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
