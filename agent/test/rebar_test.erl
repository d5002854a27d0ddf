%%% rebar3 projects: options, profiles, scripts and overrides, without rebar3.
-module(rebar_test).

-include_lib("eunit/include/eunit.hrl").

project(Files) -> test_dir:write(test_dir:new(), Files).

module(Name, Body) -> io_lib:format("-module(~ts).\n-export([x/0]).\n~ts\n", [Name, Body]).

app(Name) -> {"src/" ++ Name ++ ".app.src", io_lib:format("{application, ~ts, [{vsn, \"1.0.0\"}]}.", [Name])}.

%% The integer that x/0 of a compiled module returns.
value(Module, #{apps := Apps}) ->
    [Beam] = [Beam || #{modules := Modules} <- Apps, #{module := Name, beam := Beam} <- Modules, Name =:= Module],
    Atom = binary_to_atom(Module),
    {module, Atom} = code:load_binary(Atom, "", Beam),
    try
        Atom:x()
    after
        code:purge(Atom),
        code:delete(Atom)
    end.

options_test() ->
    Dir = project([
        {"rebar.config",
            "{erl_opts, [{platform_define, \"^[0-9]+\", 'HERE', 1}, {platform_define, \"^R1\", 'OLD'},"
            " {src_dirs, [\"src\", {\"core\", [{recursive, false}]}]}]}.\n"
            "{profiles, [{prod, [{erl_opts, [{d, 'PROD', 100}]}]}]}.\n"},
        app("opts"),
        {"src/rebar_opts_a.erl",
            module("rebar_opts_a", "-ifdef(PROD).\nx() -> ?PROD + ?HERE.\n-else.\nx() -> ?HERE.\n-endif.\n"
            "-ifdef(OLD).\n-error(old).\n-endif.\n")},
        {"core/rebar_opts_b.erl", module("rebar_opts_b", "x() -> 2.")},
        {"core/below/rebar_opts_c.erl", module("rebar_opts_c", "x() -> 3.")}
    ]),
    {ok, Built} = build:compile(rebar3, Dir, nil),
    #{apps := [#{modules := Modules}]} = Built,
    ?assertEqual([<<"rebar_opts_a">>, <<"rebar_opts_b">>], [Name || #{module := Name} <- Modules]),
    ?assertEqual(1, value(<<"rebar_opts_a">>, Built)),
    {ok, Prod} = build:compile({rebar3, <<"prod">>}, Dir, nil),
    ?assertEqual(101, value(<<"rebar_opts_a">>, Prod)).

script_and_overrides_test() ->
    Dir = project([
        {"rebar.config", "{erl_opts, [{d, 'SIZE', 1}]}.\n"},
        {"rebar.config.script",
            "Size = 41 + length(filelib:wildcard(\"src/*.app.src\")),\n"
            "[{erl_opts, [{d, 'SIZE', Size}]}, {deps, [rebar_dep]}, {overrides, [{add, rebar_dep,"
            " [{erl_opts, [{d, 'ADDED', 5}]}]}]} | lists:keydelete(erl_opts, 1, CONFIG)].\n"},
        app("scripted"),
        {"src/rebar_scripted.erl", module("rebar_scripted", "x() -> ?SIZE.")},
        {"deps/rebar_dep/src/rebar_dep.app.src", "{application, rebar_dep, [{vsn, \"1\"}]}."},
        {"deps/rebar_dep/src/rebar_dep.erl", module("rebar_dep", "x() -> ?ADDED.")}
    ]),
    {ok, Built} = build:compile(rebar3, Dir, nil),
    ?assertEqual([42, 5], [value(Module, Built) || Module <- [<<"rebar_scripted">>, <<"rebar_dep">>]]).

%% A header names a parse transform of the same application; another module runs while compiling.
order_test() ->
    Transform =
        "-module(rebar_zz_transform).\n-export([parse_transform/2]).\n"
        "parse_transform(Forms, _) -> N = rebar_zz_first:x(),\n"
        "  [case F of {function, L, x, 0, _} -> {function, L, x, 0, [{clause, L, [], [], [{integer, L, N}]}]};\n"
        "    _ -> F end || F <- Forms].\n",
    Dir = project([
        {"rebar.config", "{erl_first_files, [\"src/rebar_zz_first.erl\"]}.\n"},
        app("ordered"),
        {"include/t.hrl", "-compile({parse_transform, rebar_zz_transform}).\n"},
        {"src/rebar_aa.erl", module("rebar_aa", "-include(\"t.hrl\").\nx() -> 0.")},
        {"src/rebar_zz_first.erl", module("rebar_zz_first", "x() -> 9.")},
        {"src/rebar_zz_transform.erl", Transform}
    ]),
    {ok, Built} = build:compile(rebar3, Dir, nil),
    ?assertEqual(9, value(<<"rebar_aa">>, Built)).

broken_test() ->
    {error, #{errors := [Error]}} = build:compile(rebar3, project([{"rebar.config", "{erl_opts, [\n"}, app("b")]), nil),
    ?assertMatch(#{file := <<"rebar.config">>, kind := syntax}, Error),
    {error, #{message := Message}} =
        build:compile(rebar3, project([{"rebar.config", ""}, {"rebar.config.script", "nope."}, app("b")]), nil),
    %% rebar3 has words of its own for it.
    ?assertMatch({match, _}, re:run(Message, "^(rebar.config.script gives no list|rebar3: Unable to parse config)")),
    {error, #{errors := [Raised]}} =
        build:compile(rebar3, project([{"rebar.config", ""}, {"rebar.config.script", "{ok, F} = file:open(\"x\", [read])."}, app("b")]), nil),
    ?assertMatch(#{file := <<"rebar.config.script">>, kind := compile}, Raised),
    ?assertMatch({match, _}, re:run(maps:get(message, Raised), "no match of right hand side value \\{error,enoent\\}$")).
