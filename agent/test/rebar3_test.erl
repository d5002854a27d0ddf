%%% rebar3 projects with rebar3 itself in the compiler node: what is compiled is what `rebar3 compile`
%%% compiles. Needs rebar3, whose path is in SANDBOX_REBAR3.
-module(rebar3_test).

-include_lib("eunit/include/eunit.hrl").

module(Name, Body) -> io_lib:format("-module(~ts).\n-export([x/0]).\n~ts\n", [Name, Body]).

app(Dir, Name, Deps) ->
    {Dir ++ "src/" ++ Name ++ ".app.src",
        io_lib:format("{application, ~ts, [{vsn, \"1.0.0\"}, {applications, ~ts}]}.", [Name, Deps])}.

%% An umbrella with profiles, platforms, a script, folders of sources, overrides and a checkout, whose
%% own profile for production counts.
files() ->
    [
        {"rebar.config",
            "{erl_opts, [{platform_define, \"^[0-9]+\", 'HERE', 1}, {platform_define, \"^R1\", 'OLD'}]}.\n"
            "{deps, [r3_dep]}.\n"
            "{profiles, [{prod, [{erl_opts, [{d, 'PROD', 100}]}]}, {test, [{erl_opts, [{d, 'TEST', 1000}]}]}]}.\n"
            "{overrides, [{add, r3_dep, [{erl_opts, [{d, 'ADDED', 5}]}]}, {del, [{erl_opts, [{d, 'GONE', 3}]}]},"
            " {override, r3_deep, [{erl_opts, [{d, 'DEEP', 9}]}]}]}.\n"},
        {"rebar.config.script", "[{minimum_otp_vsn, \"24\"} | CONFIG].\n"},
        app("apps/r3_one/", "r3_one", "[kernel, stdlib, r3_two]"),
        {"apps/r3_one/rebar.config", "{src_dirs, [\"src\", {\"core\", [{recursive, false}]}]}.\n"},
        {"apps/r3_one/src/r3_one.erl",
            module("r3_one", "-ifdef(PROD).\nx() -> ?PROD + ?HERE.\n-else.\nx() -> ?HERE.\n-endif.\n"
            "-ifdef(OLD).\n-error(old).\n-endif.\n")},
        {"apps/r3_one/core/r3_core.erl", module("r3_core", "x() -> 2.")},
        {"apps/r3_one/core/below/r3_below.erl", module("r3_below", "x() -> 3.")},
        app("apps/r3_two/", "r3_two", "[kernel, stdlib]"),
        {"apps/r3_two/src/deep/r3_two.erl", module("r3_two", "x() -> 4.")},
        app("_checkouts/r3_dep/", "r3_dep", "[kernel, stdlib, r3_deep]"),
        {"_checkouts/r3_dep/rebar.config",
            "{erl_opts, [{d, 'GONE', 3}]}.\n{deps, [r3_deep]}.\n{profiles, [{prod, [{erl_opts, [{d, 'READY', 7}]}]}]}.\n"},
        {"_checkouts/r3_dep/src/r3_dep.erl",
            module("r3_dep", "-ifdef(GONE).\n-error(gone).\n-endif.\nx() -> ?ADDED + ?READY.")},
        app("_checkouts/r3_deep/", "r3_deep", "[kernel, stdlib]"),
        {"_checkouts/r3_deep/src/r3_deep.erl", module("r3_deep", "x() -> ?DEEP.")}
    ].

beams(#{apps := Apps}) ->
    lists:sort([{binary_to_atom(Name), Beam} || #{modules := Modules} <- Apps, #{module := Name, beam := Beam} <- Modules]).

values(Beams) -> [{Module, value(Module, Beam)} || {Module, Beam} <- Beams].

value(Module, Beam) ->
    {module, Module} = code:load_binary(Module, "", Beam),
    try
        Module:x()
    after
        code:purge(Module),
        code:delete(Module)
    end.

%% What rebar3 compiles by itself, in a folder of its own.
by_rebar3(Profile) ->
    Dir = test_dir:write(test_dir:new(), files()),
    Port = open_port({spawn_executable, os:getenv("SANDBOX_REBAR3")}, [
        {args, ["as", Profile, "compile"]}, {cd, Dir}, {env, [{"REBAR_OFFLINE", "1"}, {"HOME", Dir}]},
        exit_status, binary, stderr_to_stdout
    ]),
    ?assertEqual({0, []}, {wait(Port), []}),
    Files = filelib:wildcard("_build/" ++ Profile ++ "/{lib,checkouts}/*/ebin/*.beam", Dir),
    lists:sort([{list_to_atom(filename:basename(File, ".beam")), read(filename:join(Dir, File))} || File <- Files]).

wait(Port) ->
    receive
        {Port, {data, _Said}} -> wait(Port);
        {Port, {exit_status, Status}} -> Status
    end.

read(File) ->
    {ok, Bytes} = file:read_file(File),
    Bytes.

as_rebar3_test() ->
    Dir = test_dir:write(test_dir:new(), files()),
    [
        begin
            {ok, #{main := <<"r3_one">>} = Built} = build:compile({rebar3, list_to_binary(Profile)}, Dir, nil),
            ?assertEqual(values(by_rebar3(Profile)), values(beams(Built)))
        end
     || Profile <- ["default", "prod"]
    ],
    ?assertNot(filelib:is_dir(filename:join(Dir, "_build"))).

messages({error, #{errors := Errors}}) -> [Message || #{message := Message} <- Errors].

refused_test() ->
    Compile = fun(Files) ->
        build:compile(rebar3, test_dir:write(test_dir:new(), [app("", "r3_bad", "[]"), {"src/r3_bad.erl", module("r3_bad", "x() -> 1.")} | Files]), nil)
    end,
    [Minimum] = messages(Compile([{"rebar.config", "{minimum_otp_vsn, \"99\"}.\n"}])),
    ?assertMatch(<<"rebar.config asks for OTP 99 or newer, and this is OTP ", _/binary>>, Minimum),
    {error, #{errors := [Syntax]}} = Compile([{"rebar.config", "{erl_opts, [\n"}]),
    ?assertMatch(#{file := <<"rebar.config">>, kind := syntax}, Syntax),
    [Format] = messages(Compile([{"rebar.config", "just_an_atom.\n"}])),
    ?assertNotEqual(nomatch, string:find(Format, "just_an_atom")),
    [Missing] = messages(Compile([{"rebar.config", "{deps, [r3_gone]}.\n"}])),
    ?assertMatch(<<"the dependency r3_gone is not in the project", _/binary>>, Missing),
    [Locked] = messages(Compile([
        {"rebar.config", "{deps, [r3_dep]}.\n"},
        app("deps/r3_dep/", "r3_dep", "[kernel, stdlib]"),
        {"deps/r3_dep/src/r3_dep.erl", module("r3_dep", "x() -> 1.")},
        {"deps/r3_dep/rebar.config", "{deps, [r3_gone]}.\n"},
        {"deps/r3_dep/rebar.lock", "{\"1.1.0\", [{<<\"r3_gone\">>, {pkg, <<\"r3_gone\">>, <<\"1.0.0\">>}, 0}]}.\n"}
    ])),
    ?assertEqual(Missing, Locked).

%% Modules of a project may have the names of rebar3's own.
names_of_rebar3_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"rebar.config", "{erl_first_files, [\"src/getopt.erl\"]}.\n"},
        app("", "getopt", "[kernel, stdlib]"),
        {"src/getopt.erl", module("getopt", "x() -> 6.")},
        {"src/rebar_state.erl", module("rebar_state", "x() -> 7.")}
    ]),
    {ok, Built} = build:compile(rebar3, Dir, nil),
    ?assertEqual([{getopt, 6}, {rebar_state, 7}], values(beams(Built))).

%% Commands and plugins are named, and not run. Nothing of a plugin is looked for.
hooks_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"rebar.config",
            "{pre_hooks, [{compile, \"touch made\"}, {clean, \"rm -rf /\"}]}.\n"
            "{plugins, [no_such_plugin]}.\n{provider_hooks, [{post, [{compile, {pc, compile}}]}]}.\n"},
        app("", "r3_hooked", "[kernel, stdlib]"),
        {"src/r3_hooked.erl", module("r3_hooked", "x() -> 1.")}
    ]),
    {ok, #{warnings := [#{message := Message}]}} = build:compile(rebar3, Dir, nil),
    ?assertMatch(<<"rebar.config has `touch made`, compile of the plugin pc run when it compiles", _/binary>>, Message),
    ?assertNot(filelib:is_file(filename:join(Dir, "made"))).
