%% Compares the C code with the VM: random terms go through the codec, and what comes back must be the same term, byte
%% for byte as term_to_binary writes it, and the same text as io_lib and Elixir's inspect give.
%%
%% erl +pc unicode -noinput -pa ELIXIR_EBIN -run differential main CODEC [COUNT [SEED]]
-module(differential).

-export([main/1]).

main([Codec | Options]) ->
    {ok, _} = application:ensure_all_started(elixir),
    {Count, Seed} = options(Options),
    rand:seed(exsss, Seed),
    Directory = temporary_directory(),
    Terms = [{Term, encode(Term)} || Term <- fixed() ++ random_terms(Count)],
    Passed =
        try
            check(Codec, Directory, Terms)
        catch
            throw:failed -> false
        after
            file:del_dir_r(Directory)
        end,
    halt(
        case Passed of
            true -> 0;
            false -> 1
        end
    ).

options([]) -> {2000, 25};
options([Count]) -> {list_to_integer(Count), 25};
options([Count, Seed]) -> {list_to_integer(Count), list_to_integer(Seed)}.

temporary_directory() ->
    Base = os:getenv("TMPDIR", "/tmp"),
    Directory = filename:join(Base, "term-differential-" ++ os:getpid()),
    ok = file:make_dir(Directory),
    Directory.

check(Codec, Directory, Terms) ->
    Input = filename:join(Directory, "terms"),
    Output = filename:join(Directory, "answers"),
    ok = file:write_file(Input, [prefixed(Bytes) || {_, Bytes} <- Terms]),
    run(Codec ++ " < " ++ Input ++ " > " ++ Output),
    {ok, Answers} = file:read_file(Output),
    Failures = compare(Terms, parts(Answers), []) ++ compare_samples(Codec, Directory),
    [io:format("~ts~n", [Text]) || Text <- lists:sublist(Failures, 10)],
    io:format("~b terms, ~b differences~n", [length(Terms), length(Failures)]),
    Failures =:= [].

run(Command) ->
    Port = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", Command]}, exit_status, stderr_to_stdout, binary]),
    run_until_exit(Port).

run_until_exit(Port) ->
    receive
        {Port, {data, Text}} -> io:put_chars(Text), run_until_exit(Port);
        {Port, {exit_status, 0}} -> ok;
        {Port, {exit_status, Status}} -> io:format("exit status ~b~n", [Status]), throw(failed)
    after 20000 -> io:format("no answer~n"), throw(failed)
    end.

prefixed(Bytes) -> [<<(byte_size(Bytes)):32>>, Bytes].

parts(<<Size:32, Part:Size/binary, Rest/binary>>) -> [Part | parts(Rest)];
parts(<<>>) -> [].

compare([{Term, _} | Terms], [Written, Erlang, Elixir | Answers], Failures) ->
    Text = unicode:characters_to_binary(io_lib:format("~0tp", [Term])),
    Inspected = inspect(Term),
    Bytes = term_to_binary(Term, [{minor_version, 2}]),
    Rewritten = contains(fun is_rewritten/1, Term),
    Reordered = contains(fun is_reordered/1, Term),
    New = [io_lib:format("~0tp was written as ~0tp", [Bytes, Written]) || Written =/= Bytes, not Rewritten]
        ++ [io_lib:format("~0tp does not come back", [Term]) || binary_to_term(Written) =/= Term]
        ++ [["VM: ", Text, "\n C: ", Erlang] || Erlang =/= Text, not Reordered]
        ++ [["Elixir: ", Inspected, "\n     C: ", Elixir] || Elixir =/= Inspected, not Reordered, not contains(fun is_restyled/1, Term)],
    compare(Terms, Answers, New ++ Failures);
compare([], [], Failures) -> Failures.

%% A closure is passed on as it came, in whatever form that was.
is_rewritten(Term) when is_function(Term) -> erlang:fun_info(Term, type) =:= {type, local};
is_rewritten(Term) -> is_port(Term) andalso writes_wide_ports().

%% Since OTP 26 the VM writes every port in the wider of the two forms.
writes_wide_ports() -> binary:at(term_to_binary(hd(erlang:ports())), 1) =:= 120.

%% What an Elixir before 1.18 writes otherwise: charlists, and characters that can't be told apart.
is_restyled([_ | _] = Term) -> binary:first(inspect(Term)) =:= $';
is_restyled(Term) when is_atom(Term) -> is_restyled(atom_to_binary(Term));
is_restyled(Term) when is_binary(Term) ->
    inspect(<<16#2028/utf8>>) =/= <<"\"\\u2028\"">> andalso
        lists:any(fun(Bytes) -> binary:match(Term, Bytes) =/= nomatch end, [<<16#A0/utf8>>, <<16#2028/utf8>>]);
is_restyled(_) -> false.

inspect(Term) -> 'Elixir.Kernel':inspect(Term, [{limit, infinity}, {printable_limit, infinity}]).

%% A VM, or Elixir, prints these in another order than they are sent in.
is_reordered(#{'__struct__' := _} = Struct) -> map_size(Struct) > 4;
is_reordered(Term) -> is_map(Term) andalso map_size(Term) > 32.

contains(Predicate, Term) -> Predicate(Term) orelse contains_inside(Predicate, Term).

contains_inside(Predicate, [Head | Tail]) -> contains(Predicate, Head) orelse contains(Predicate, Tail);
contains_inside(Predicate, Term) when is_tuple(Term) -> contains(Predicate, tuple_to_list(Term));
contains_inside(Predicate, Term) when is_map(Term) -> contains(Predicate, maps:to_list(Term));
contains_inside(_, _) -> false.

compare_samples(Codec, Directory) ->
    Output = filename:join(Directory, "samples"),
    run(Codec ++ " samples > " ++ Output),
    {ok, Bytes} = file:read_file(Output),
    [Sample] = parts(Bytes),
    Expected = {[0, 255, 256, -1, 16#7fffffff, -16#80000000, 1 bsl 31, 1 bsl 63 - 1, -(1 bsl 63), -(1 bsl 40)],
                1 bsl 64 - 1, -1.5e300, 'grüße', true, <<0, 255>>, <<"text">>, [], #{a => {}, 7 => []},
                list_to_tuple(lists:seq(0, 299))},
    [io_lib:format("samples are ~0tp", [binary_to_term(Sample)]) || binary_to_term(Sample) =/= Expected].

%% Every form a VM may choose for a term.
encode(Term) ->
    Options = [[], [{minor_version, 0}], [{minor_version, 1}], [{minor_version, 2}], [compressed], [{compressed, 9}]],
    term_to_binary(Term, pick(Options)).

%% What random terms would seldom hit.
fixed() ->
    integers() ++ floats() ++ [-F || F <- floats()] ++ atoms() ++ latin_atoms() ++ texts() ++ lists() ++ maps()
        ++ structs() ++ functions()
        ++ [{}, {a}, {a, b}, list_to_tuple(lists:seq(1, 256)), nest(250)]
        ++ [self(), make_ref(), hd(erlang:ports()), {self(), [make_ref()]}].

integers() ->
    Edges = [1 bsl Bits || Bits <- [0, 8, 31, 32, 53, 63, 64, 65, 500, 2040, 2048, 9000]],
    [Sign * (Edge + Step) || Edge <- Edges, Step <- [-1, 0, 1], Sign <- [1, -1]].

floats() ->
    [math:pow(2, E) || E <- lists:seq(-1074, 1023, 2)] ++ [math:pow(10, E) || E <- lists:seq(-25, 30)]
        ++ [0.0, 0.1, 123.456, 9007199254740991.0, 9007199254740993.0, 1.0e15, 1.0e16, 1.7976931348623157e308,
            2.2250738585072014e-308, 9.5367431640625e-7].

atoms() ->
    ['', a, 'A', 'é', 'É', 'x y', 'when', 'a@b', 'a?', '?', '\n', '\'', '"', '\\', nil, true, false, undefined,
     'Elixir', 'Elixir.Foo', 'Elixir.Foo.Bar', 'Elixir.Elixir', 'Elixir.Elixir.X', 'Elixir.foo', 'Elixir.', '%{}', '::',
     '+', '\\\\', '<|>', '..//', '\x{1F600}', '\x{0}x', 'a#{b', 'a!', 'A!', '_', '_1', '1'].

%% Without the letters that only an Elixir before 1.20 writes bare.
latin_atoms() ->
    Changed = [16#114, 16#115, 16#12C, 16#12D, 16#138, 16#14E, 16#14F, 16#156, 16#157, 16#162, 16#163],
    [list_to_atom(Prefix ++ [C]) || C <- lists:seq(16#A0, 16#17F) -- Changed, Prefix <- ["", "a"]].

texts() ->
    [<<>>, <<"text">>, <<"é"/utf8>>, <<"é">>, <<0>>, <<7>>, <<127>>, <<"a\n\t\e\"'\\#{x}">>, <<"日本"/utf8>>, <<"x", 200>>,
     <<1:1>>, <<5:3>>, <<1, 2, 7:5>>, <<"abc", 1:7>>, <<16#80/utf8>>, <<16#FEFF/utf8>>, <<16#FFFE/utf8>>].

lists() ->
    [[], "abc", "a'b#{c}\"", [7], [127], [0], [955], [200], [16#D800], [16#110000], [-1], [a | b], "ab" ++ c,
     [{a, 1}], [{a, 1}, {'B c', 2}], [{'Elixir.A', 1}], [{a, 1} | b], [[{a, 1}], [[]]],
     lists:duplicate(70000, 1), lists:seq(1, 300)].

maps() ->
    [#{}, #{a => 1}, #{<<"k">> => 1}, #{a => 1, <<"k">> => 2}, #{'Elixir.A' => 1}, #{1 => 2, 1.0 => 3},
     #{#{a => 1} => #{}}, maps:from_list([{I, I} || I <- lists:seq(1, 100)])].

functions() ->
    Outer = 7,
    [fun lists:map/2, fun 'Elixir.Foo':'bar?'/0, fun 'Elixir.Foo':'A b'/3, fun m:'+'/2,
     foreign(fun(X) -> X + Outer end), foreign(fun fixed/0)].

%% As if from a VM that has another module: of a closure whose module is here, Elixir knows more than was sent.
foreign(Closure) ->
    binary_to_term(binary:replace(term_to_binary(Closure), <<"differential">>, <<"not_here_now">>, [global])).

structs() ->
    [#{'__struct__' => 'Elixir.Range', first => 1, last => 3, step => 1},
     #{'__struct__' => 'Elixir.Range', first => 3, last => 1, step => 1},
     #{'__struct__' => 'Elixir.Range', first => 9, last => 1, step => -2},
     'Elixir.MapSet':new([1, "ab"]), 'Elixir.MapSet':new([{a, "ab"}]), 'Elixir.MapSet':new(),
     #{'__struct__' => 'Elixir.ArgumentError', '__exception__' => true, message => <<"x">>},
     #{'__struct__' => 'Elixir.Task', mfa => {a, b, 1}, owner => self(), pid => self(), ref => make_ref()}].

nest(0) -> [];
nest(N) -> {N, [nest(N - 1)]}.

random_terms(Count) -> [term(rand:uniform(4)) || _ <- lists:seq(1, Count)].

term(Depth) when Depth =< 0; Depth =:= 1 -> leaf(rand:uniform(12));
term(Depth) ->
    case rand:uniform(8) of
        1 -> many(fun() -> term(Depth - 1) end);
        2 -> list_to_tuple(many(fun() -> term(Depth - 1) end));
        3 -> maps:from_list(many(fun() -> {term(Depth - 1), term(Depth - 2)} end));
        4 -> many(fun() -> {atom(), term(Depth - 1)} end);
        5 -> maps:from_list(many(fun() -> {atom(), term(Depth - 1)} end));
        6 -> [term(Depth - 1), term(Depth - 2) | leaf(rand:uniform(12))];
        _ -> term(Depth - 1)
    end.

many(Make) -> [Make() || _ <- lists:seq(1, rand:uniform(6) - 1)].

leaf(1) -> rand:uniform(300) - 20;
leaf(2) -> sign() * rand:uniform(1 bsl rand:uniform(70));
leaf(3) -> sign() * rand:uniform(1 bsl rand:uniform(3000));
leaf(4) -> float();
leaf(5) -> sign() * rand:uniform(100000) / pick([1, 10, 100, 1000, 3]);
leaf(6) -> atom();
leaf(7) -> rand:bytes(rand:uniform(6) - 1);
leaf(8) -> unicode:characters_to_binary(text());
leaf(9) -> text();
leaf(10) -> <<(rand:bytes(rand:uniform(4)))/binary, (rand:uniform(128)):(rand:uniform(7))>>;
leaf(11) -> [];
leaf(12) -> pick([self(), make_ref(), fun lists:append/1, foreign(fun() -> ok end), hd(erlang:ports())]).

sign() -> pick([1, -1]).

float() ->
    case rand:bytes(8) of
        <<F/float>> -> F;
        _ -> float()
    end.

atom() ->
    binary_to_atom(unicode:characters_to_binary(pick(["key", "a_b", "Ab", "x?", name()])), utf8).

%% Elixir writes letters past Latin, and some that only look like Latin, bare; we quote them: both read the same.
name() -> [C || C <- text(), not lists:member(C, [16#AA, 16#B5, 16#BA, 16#301, 955, 1078])].

text() -> [character() || _ <- lists:seq(1, rand:uniform(8))].

character() ->
    case rand:uniform(6) of
        1 -> rand:uniform(256) - 1;
        2 -> pick([955, 1078, 16#2028, 16#FEFF, 16#1F600, 16#10FFFF, 16#E000, 16#FFFD, 16#301]);
        _ -> $\s + rand:uniform(95) - 1
    end.

pick(List) -> lists:nth(rand:uniform(length(List)), List).
