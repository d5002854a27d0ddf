%%% Tests the compiler's calls one by one: the report about each file, and what a lasting node keeps
%%% and forgets.
-module(incremental_test).

-include_lib("eunit/include/eunit.hrl").

elixir_dependency_kinds_test() -> in_compiler(fun kinds/1).
elixir_changed_macro_test() -> in_compiler(fun changed_macro/1).
elixir_failure_and_retry_test() -> in_compiler(fun failure_and_retry/1).
elixir_deleted_and_put_test() -> in_compiler(fun deleted_and_put/1).
elixir_doubled_module_test() -> in_compiler(fun doubled_module/1).
elixir_derived_protocol_test() -> in_compiler(fun derived_protocol/1).

erlang_dependency_kinds_test() -> in_compiler(fun erlang_kinds/1).
erlang_same_as_compile_file_test() -> in_compiler(fun same_as_compile_file/1).
erlang_failure_test() -> in_compiler(fun erlang_failure/1).

mix_warm_up_leaves_nothing_test() -> in_compiler(fun warm_up/1).
mix_project_described_test() -> in_compiler(fun described/1).
mix_configuration_restored_test() -> in_compiler(fun configuration/1).
mix_umbrella_applications_test() -> in_compiler(fun applications/1).

%% Each case has a node of its own, so that none depends on what another left.
in_compiler(Case) ->
    Vm = compiler:start(),
    Case(Vm),
    vm:stop(Vm).

%% Elixir

kinds(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"mac.ex",
            "defmodule Mac do\n  defmacro m, do: Helper.val()\n  defmacro __using__(_), do: quote(do: :ok)\nend\n"},
        {"helper.ex", "defmodule Helper do\n  def val, do: 1\nend\n"},
        {"st.ex", "defmodule St do\n  defstruct a: 1\nend\n"},
        {"beh.ex", "defmodule Beh do\n  @callback go() :: :ok\nend\n"},
        {"prot.ex", "defprotocol Prot do\n  def p(x)\nend\n"},
        {"user.ex",
            "defmodule User do\n  require Mac\n  @behaviour Beh\n  @external_resource \"data.txt\"\n"
            "  @from_body Enum.map([1], &Body.x/1)\n  def m, do: Mac.m()\n  def go, do: :ok\n"
            "  def s, do: %St{}\n  def r, do: Remote.call()\n  def b, do: @from_body\nend\n"},
        {"body.ex", "defmodule Body do\n  def x(y), do: y\nend\n"},
        {"remote.ex",
            "defmodule Remote do\n  def call, do: Application.get_env(:a, :b)\n  def no, do: Absent.x()\nend\n"},
        {"impl.ex", "defimpl Prot, for: St do\n  def p(_), do: 1\nend\n"},
        {"uses.ex", "defmodule Uses do\n  use Mac\n  import Helper\n  def v, do: val()\nend\n"},
        {"conf.ex", "defmodule Conf do\n  @x Application.compile_env(:a, :b, 1)\n  def x, do: @x\nend\n"},
        {"conf2.ex", "defmodule Conf2 do\n  @x Application.get_env(:a, :b, 1)\n  def x, do: @x\nend\n"},
        {"log.ex", "defmodule Log do\n  require Logger\n  def l, do: Logger.info(\"x\")\nend\n"},
        {"none.ex", "1 + 1\n"},
        {"data.txt", ""}
    ]),
    {ok, #{apps := [#{sources := Sources}], described_by := Described}} = compiler:project(Vm, folder, Dir),
    ?assertEqual([<<"config/sys.config">>, <<"sys.config">>], Described),
    Answer = compiler:compile(Vm, Sources, []),
    File = fun(Name) -> compiler:file(Name, Answer) end,
    ?assertMatch(
        #{
            compile := [<<"Elixir.Beh">>, <<"Elixir.Body">>, <<"Elixir.Mac">>],
            exports := [<<"Elixir.Mac">>, <<"Elixir.St">>],
            runtime := [<<"Elixir.Remote">>, <<"Elixir.St">>],
            resources := [<<"data.txt">>],
            includes := [],
            config := false,
            warnings := []
        },
        File(<<"user.ex">>)
    ),
    ?assertMatch(#{compile := [], runtime := [<<"Elixir.Helper">>]}, File(<<"mac.ex">>)),
    ?assertMatch(#{compile := [<<"Elixir.Prot">>], runtime := [<<"Elixir.St">>]}, File(<<"impl.ex">>)),
    ?assertMatch(
        #{compile := [<<"Elixir.Mac">>], exports := [<<"Elixir.Helper">>, <<"Elixir.Mac">>]}, File(<<"uses.ex">>)
    ),
    ?assertMatch(#{config := true}, File(<<"conf.ex">>)),
    ?assertMatch(#{config := true}, File(<<"conf2.ex">>)),
    ?assertMatch(#{config := true}, File(<<"log.ex">>)),
    ?assertMatch(#{modules := []}, File(<<"none.ex">>)),
    ?assertMatch(#{config := false, runtime := [<<"Elixir.Absent">>], warnings := [_]}, File(<<"remote.ex">>)).

%% A file that is compiled in one call with a changed macro sees the new macro.
changed_macro(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"mac.ex", "defmodule Mac do\n  defmacro m, do: 1\nend\n"},
        {"user.ex", "defmodule User do\n  require Mac\n  def m, do: Mac.m()\nend\n"}
    ]),
    {ok, #{apps := [#{sources := Sources}]}} = compiler:project(Vm, folder, Dir),
    {ok, _} = compiler:compile(Vm, Sources, []),
    test_dir:write(Dir, [{"mac.ex", "defmodule Mac do\n  defmacro m, do: 2\nend\n"}]),
    {ok, _} = compiler:compile(Vm, Sources, [<<"Elixir.Mac">>, <<"Elixir.User">>]),
    ?assertMatch({ok, #{term := 2}}, vm:eval(Vm, "'Elixir.User':m()")).

%% A failed compilation leaves neither files nor modules, and the node still works.
failure_and_retry(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"erl_one.erl", "-module(erl_one).\n"},
        {"good.ex", "defmodule Good do\n  def x, do: 1\nend\n"},
        {"bad.ex", "defmodule Bad do\n  def x, do: Good.x()\n  def y, do: nope()\nend\n"}
    ]),
    {ok, #{apps := [#{sources := Sources}]}} = compiler:project(Vm, folder, Dir),
    Forget = [<<"Elixir.Good">>, <<"Elixir.Bad">>, <<"erl_one">>],
    ?assertMatch(
        {error, #{kind := compile, errors := [#{file := <<"bad.ex">>, line := 3}]}},
        compiler:compile(Vm, Sources, Forget)
    ),
    ?assertEqual([], compiler:scratch(Vm)),
    ?assertNot(compiler:is_loaded(Vm, 'Elixir.Good')),
    test_dir:write(Dir, [{"bad.ex", "defmodule Bad do\n  def x, do: Good.x()\nend\n"}]),
    {ok, _} = compiler:compile(Vm, Sources, Forget),
    ?assertEqual(["Elixir.Bad.beam", "Elixir.Good.beam", "erl_one.beam"], compiler:scratch(Vm)),
    ?assertMatch({ok, #{term := 1}}, vm:eval(Vm, "'Elixir.Bad':x()")).

%% Forgotten modules are gone. Modules that were put are there for the next compilation.
deleted_and_put(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"ground.ex", "defmodule Ground do\n  defmacro m, do: 7\n  def f, do: 1\nend\n"},
        {"user.ex", "defmodule User do\n  require Ground\n  def m, do: Ground.m()\nend\n"}
    ]),
    {ok, _} = compiler:project(Vm, folder, Dir),
    Ground = compiler:compile(Vm, [<<"ground.ex">>], []),
    #{modules := [#{module := <<"Elixir.Ground">>, beam := Beam}]} = compiler:file(<<"ground.ex">>, Ground),
    ?assertMatch({error, _}, compiler:compile(Vm, [<<"user.ex">>], [<<"Elixir.Ground">>])),
    ?assertEqual([], compiler:scratch(Vm)),
    ?assertNot(compiler:is_loaded(Vm, 'Elixir.Ground')),
    Put = #{app => <<"my_app">>, module => <<"Elixir.Ground">>, beam => Beam},
    ?assertEqual({ok, #{}}, vm:call(Vm, put, #{modules => [Put]})),
    ?assertNot(compiler:is_loaded(Vm, 'Elixir.Ground')),
    {ok, _} = compiler:compile(Vm, [<<"user.ex">>], []),
    ?assertMatch({ok, #{term := 7}}, vm:eval(Vm, "'Elixir.User':m()")),
    ?assertMatch({error, #{kind := badarg}}, vm:call(Vm, put, #{modules => [Put#{app := <<"other">>}]})),
    ?assertMatch({error, #{kind := badarg}}, compiler:compile(Vm, <<"other">>, [], [])).

doubled_module(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"a.ex", "defmodule Twice do\nend\ndefmodule After do\nend\n"},
        {"b.ex", "require After\ndefmodule Twice do\nend\n"}
    ]),
    {ok, _} = compiler:project(Vm, folder, Dir),
    Answer = compiler:compile(Vm, [<<"a.ex">>, <<"b.ex">>], []),
    ?assertMatch(
        #{warnings := [#{file := <<"b.ex">>, message := <<"the module Twice is also defined in a.ex">>}]},
        compiler:file(<<"b.ex">>, Answer)
    ).

%% Deriving runs code of the implementation for Any, which may be in a file of its own.
derived_protocol(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"p.ex", "defprotocol P do\n  def p(x)\nend\n"},
        {"any.ex",
            "defimpl P, for: Any do\n  defmacro __deriving__(m, _, _) do\n"
            "    quote do\n      defimpl P, for: unquote(m) do\n        def p(_), do: 1\n      end\n    end\n  end\n"
            "  def p(_), do: 0\nend\n"},
        {"s.ex", "defmodule S do\n  @derive P\n  defstruct [:a]\nend\n"}
    ]),
    {ok, _} = compiler:project(Vm, folder, Dir),
    Answer = compiler:compile(Vm, [<<"p.ex">>, <<"any.ex">>, <<"s.ex">>], []),
    ?assertMatch(
        #{compile := [<<"Elixir.P">>, <<"Elixir.P.Any">>], modules := [_, _]}, compiler:file(<<"s.ex">>, Answer)
    ).

%% Erlang

erlang_kinds(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"apps/one/src/one.app.src", "{application, one, [{applications, [kernel, stdlib, two]}]}."},
        {"apps/one/src/one.erl",
            "-module(one).\n-behaviour(one_beh).\n-behaviour(gen_server).\n-compile([{parse_transform, one_pt}]).\n"
            "-include(\"../include/one.hrl\").\n-include_lib(\"two/include/two.hrl\").\n"
            "-include_lib(\"kernel/include/file.hrl\").\n"
            "-export([init/1, handle_call/3, handle_cast/2, go/0]).\n"
            "init(_) -> {ok, ?ONE}.\nhandle_call(_, _, S) -> {reply, ?TWO, S}.\nhandle_cast(_, S) -> {noreply, S}.\n"
            "go() -> ok.\n"},
        {"apps/one/src/one_beh.erl", "-module(one_beh).\n-callback go() -> ok.\n"},
        {"apps/one/src/one_pt.erl",
            "-module(one_pt).\n-export([parse_transform/2]).\nparse_transform(F, _) -> one_help:id(F).\n"},
        {"apps/one/src/one_help.erl", "-module(one_help).\n-export([id/1]).\nid(X) -> X.\n"},
        {"apps/one/src/one_scan.xrl", "Definitions.\nRules.\n[a-z]+ : {token, {atom, TokenLine}}.\nErlang code.\n"},
        {"apps/one/include/one.hrl", "-include(\"deep.hrl\").\n"},
        {"apps/one/include/deep.hrl", "-define(ONE, 1).\n"},
        {"apps/two/src/two.app.src", "{application, two, [{applications, [kernel, stdlib]}]}."},
        {"apps/two/src/two.erl", "-module(two).\n"},
        {"apps/two/include/two.hrl", "-define(TWO, 2).\n"}
    ]),
    {ok, #{apps := [Two, One], described_by := Described, main := <<"one">>}} = compiler:project(Vm, rebar3, Dir),
    ?assertMatch(#{name := <<"two">>, sources := [<<"apps/two/src/two.erl">>], needs := []}, Two),
    ?assertMatch(#{name := <<"one">>, needs := [<<"two">>], dir := <<"apps/one">>, priv := false}, One),
    lists:foreach(
        fun(Name) -> ?assert(lists:member(Name, Described)) end,
        [<<"rebar.config">>, <<"apps/one/src/one.app.src">>, <<"apps/two/rebar.config">>, <<"sys.config">>]
    ),
    {ok, _} = compiler:compile(Vm, <<"two">>, maps:get(sources, Two), []),
    {ok, _} = compiler:compile(Vm, <<"one">>, [<<"apps/one/src/one_help.erl">>], []),
    Rest = maps:get(sources, One) -- [<<"apps/one/src/one_help.erl">>],
    Answer = compiler:compile(Vm, <<"one">>, Rest, []),
    ?assertMatch(
        #{
            modules := [#{module := <<"one">>}],
            compile := [<<"one_beh">>, <<"one_pt">>],
            exports := [],
            includes := [
                <<"apps/one/include/deep.hrl">>, <<"apps/one/include/one.hrl">>, <<"apps/two/include/two.hrl">>
            ],
            resources := [],
            config := false,
            warnings := []
        },
        compiler:file(<<"apps/one/src/one.erl">>, Answer)
    ),
    ?assertMatch(
        #{modules := [#{module := <<"one_scan">>}], includes := []},
        compiler:file(<<"apps/one/src/one_scan.xrl">>, Answer)
    ),
    {ok, Finished} = compiler:finish(Vm, <<"one">>, [<<"one">>]),
    ?assertMatch(#{consolidated := [], apps := [#{language := erlang}]}, Finished).

%% The modules are equal to the byte, so no dependent can tell the compilers apart.
same_as_compile_file(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"plain.erl",
            "-module(plain).\n-export([f/1]).\n-include(\"plain.hrl\").\n%% Straße\n"
            "f(#r{a = A}) -> [A, <<\"ü\"/utf8>>, fun(X) -> X + A end, #{k => A}].\n"},
        {"plain.hrl", "-record(r, {a = 1 :: integer()}).\n"},
        {"feature.erl",
            "-module(feature).\n-feature(maybe_expr, enable).\n-export([f/1]).\n"
            "f(X) -> maybe {ok, Y} ?= X, Y else _ -> none end.\n"},
        {"latin.erl", ["%% coding: utf-8\n-module(latin).\n-export([f/0]).\n-compile(inline).\nf() -> \"ä\".\n"]},
        {"doc.erl", "-module(doc).\n-export([f/0]).\n-compile({error_location, line}).\nf() -> ?FILE.\n"}
    ]),
    {ok, #{apps := [#{sources := Sources}]}} = compiler:project(Vm, folder, Dir),
    Answer = compiler:compile(Vm, Sources, []),
    lists:foreach(
        fun(Source) ->
            #{modules := [#{beam := Beam}]} = compiler:file(Source, Answer),
            Path = filename:join(Dir, unicode:characters_to_list(Source)),
            {ok, _, Expected, _} = compile:file(Path, [binary, return, debug_info, {i, Dir}]),
            ?assertEqual([], different(Expected, Beam)),
            ?assert(Expected =:= Beam)
        end,
        Sources
    ).

different(One, Other) ->
    {ok, _, Chunks} = beam_lib:all_chunks(One),
    {ok, _, Others} = beam_lib:all_chunks(Other),
    [Name || {Name, Bytes} <- Chunks, proplists:get_value(Name, Others) =/= Bytes].

erlang_failure(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"a.erl", "-module(b).\n"}, {"c.erl", "-module(c).\n-include(\"none.hrl\").\n"}, {"d.erl", "-module(d).\n"}
    ]),
    {ok, _} = compiler:project(Vm, folder, Dir),
    {error, #{errors := [Name, Include]}} = compiler:compile(Vm, [<<"a.erl">>, <<"c.erl">>, <<"d.erl">>], []),
    ?assertMatch(#{file := <<"a.erl">>, message := <<"Module name 'b' does not match file name 'a'", _/binary>>}, Name),
    ?assertMatch(#{file := <<"c.erl">>, line := 2, kind := syntax}, Include),
    ?assertMatch(#{message := <<"can't find include", _/binary>>}, Include),
    ?assertEqual([], compiler:scratch(Vm)).

%% Mix

mix_exs(Name, Version, More) ->
    io_lib:format(
        "defmodule ~ts.MixProject do\n  use Mix.Project\n"
        "  def project, do: [app: :~ts, version: \"~ts\"~ts]\nend\n",
        [string:titlecase(Name), Name, Version, More]
    ).

%% A warmed-up node has nothing left of the warm-up.
warm_up(Vm) ->
    ?assertEqual({ok, #{}}, vm:call(Vm, warm_up, #{elixir => true})),
    ?assertEqual([], compiler:scratch(Vm)),
    Left =
        "[M || {M, _} <- code:all_loaded(), string:find(string:lowercase(atom_to_list(M)), \"warm\") =/= nomatch]"
        " -- [sbx_warm_up]",
    ?assertMatch({ok, #{term := []}}, vm:eval(Vm, Left)),
    ?assertMatch({ok, #{term := nil}}, vm:eval(Vm, elixir, "Mix.Project.get()")),
    ?assertMatch({ok, #{term := []}}, vm:eval(Vm, "application:get_all_env(sandbox_warm_up)")),
    Paths = "[D || D <- code:get_path(), string:find(D, \"warm_up\") =/= nomatch]",
    ?assertMatch({ok, #{term := []}}, vm:eval(Vm, Paths)),
    ?assertEqual({ok, #{}}, vm:call(Vm, warm_up, #{elixir => true})).

described(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"mix.exs", mix_exs("shop", "1.0.0", ", deps: [{:near, path: \"near\"}, {:erl_dep, \"~> 1.0\"}]")},
        {"config/config.exs", "import Config\nimport_config \"more.exs\"\n"},
        {"config/more.exs", "import Config\nconfig :shop, size: 7, old: 1\n"},
        {"lib/shop.ex", "defmodule Shop do\n  @version Mix.Project.config()[:version]\n  def v, do: @version\nend\n"},
        {"near/mix.exs", mix_exs("near", "0.1.0", "")},
        {"near/lib/near.ex", "defmodule Near do\nend\n"},
        {"deps/erl_dep/src/erl_dep.app.src", "{application, erl_dep, [{vsn, \"1\"}]}."},
        {"deps/erl_dep/src/erl_dep.erl", "-module(erl_dep).\n"}
    ]),
    {ok, Project} = compiler:project(Vm, mix, Dir),
    #{apps := Apps, described_by := Described, main := <<"shop">>, loose := false, problems := []} = Project,
    ?assertEqual(
        [
            <<"VERSION">>, <<"config/config.exs">>, <<"config/more.exs">>, <<"config/runtime.exs">>,
            <<"deps/erl_dep/mix.exs">>, <<"deps/erl_dep/rebar.config">>, <<"deps/erl_dep/rebar.config.script">>,
            <<"deps/erl_dep/src/erl_dep.app.src">>, <<"mix.exs">>, <<"mix.lock">>, <<"near/mix.exs">>
        ],
        Described
    ),
    ?assertMatch(#{name := <<"shop">>, needs := [_, _], sources := [<<"lib/shop.ex">>]}, lists:last(Apps)),
    {ok, _} = compiler:compile(Vm, <<"shop">>, [<<"lib/shop.ex">>], []),
    ?assertMatch({ok, #{term := <<"1.0.0">>}}, vm:eval(Vm, "'Elixir.Shop':v()")),
    ?assertMatch({ok, #{term := 1}}, vm:eval(Vm, "application:get_env(shop, old, none)")),
    %% A description with less in it: what is gone is gone.
    test_dir:write(Dir, [
        {"mix.exs", mix_exs("shop", "2.0.0", ", aliases: [a: fn _ -> 1 end]")},
        {"config/more.exs", "import Config\nconfig :shop, size: 8\n"}
    ]),
    {ok, #{apps := [#{options := Options}]}} = compiler:project(Vm, mix, Dir),
    ?assertNotEqual(maps:get(options, lists:last(Apps)), Options),
    ?assertMatch({ok, #{apps := [#{options := Options}]}}, compiler:project(Vm, mix, Dir)),
    ?assertMatch({ok, #{term := [{size, 8}]}}, vm:eval(Vm, "application:get_all_env(shop)")),
    ?assertMatch({ok, #{term := 'Elixir.Shop.MixProject'}}, vm:eval(Vm, elixir, "Mix.Project.get()")),
    ?assertEqual(["Elixir.Shop.beam"], compiler:scratch(Vm)),
    {ok, _} = compiler:compile(Vm, <<"shop">>, [<<"lib/shop.ex">>], [<<"Elixir.Shop">>]),
    ?assertMatch({ok, #{term := <<"2.0.0">>}}, vm:eval(Vm, "'Elixir.Shop':v()")).

%% Values of the node itself are restored when the configuration no longer sets them.
configuration(Vm) ->
    {ok, _} = vm:eval(Vm, elixir, ":ok"),
    {ok, #{term := Level}} = vm:eval(Vm, "application:get_env(logger, truncate, none)"),
    Dir = test_dir:write(test_dir:new(), [
        {"mix.exs", mix_exs("conf", "1.0.0", "")},
        {"config/config.exs", "import Config\nconfig :logger, truncate: 99\n"},
        {"lib/conf.ex", "defmodule Conf do\nend\n"}
    ]),
    {ok, _} = compiler:project(Vm, mix, Dir),
    ?assertMatch({ok, #{term := 99}}, vm:eval(Vm, "application:get_env(logger, truncate, none)")),
    test_dir:write(Dir, [{"config/config.exs", "import Config\n"}]),
    {ok, #{config := nil}} = compiler:project(Vm, mix, Dir),
    ?assertMatch({ok, #{term := Level}}, vm:eval(Vm, "application:get_env(logger, truncate, none)")).

%% Applications, protocols across them, and the entry point.
applications(Vm) ->
    Dir = test_dir:write(test_dir:new(), [
        {"mix.exs", "defmodule Um.MixProject do\n  use Mix.Project\n  def project, do: [apps_path: \"apps\"]\nend\n"},
        {"apps/one/mix.exs", mix_exs("one", "1.0.0", ", deps: [{:two, in_umbrella: true}]")},
        {"apps/one/lib/one.ex",
            "defmodule One do\n  defstruct [:x]\nend\ndefimpl Two, for: One do\n  def t(_), do: 1\nend\n"},
        {"apps/two/mix.exs", mix_exs("two", "1.0.0", "")},
        {"apps/two/lib/two.ex", "defprotocol Two do\n  def t(x)\nend\n"}
    ]),
    {ok, #{apps := [#{name := <<"two">>}, #{name := <<"one">>}]}} = compiler:project(Vm, mix, Dir),
    {ok, _} = compiler:compile(Vm, <<"two">>, [<<"apps/two/lib/two.ex">>], []),
    {ok, _} = compiler:compile(Vm, <<"one">>, [<<"apps/one/lib/one.ex">>], []),
    {ok, Finished} = compiler:finish(Vm, <<"one">>, [<<"Elixir.One">>, <<"Elixir.Two.One">>]),
    #{apps := [#{name := <<"one">>, language := elixir, app_file := Text}], supervisor := nil} = Finished,
    ?assertMatch({_, _}, binary:match(Text, <<"'Elixir.Two.One'">>)),
    #{consolidated := Consolidated} = Finished,
    Names = [Name || #{module := Name} <- Consolidated],
    Elixir = [<<"Elixir.Collectable">>, <<"Elixir.Enumerable">>, <<"Elixir.Inspect">>, <<"Elixir.List.Chars">>],
    ?assertEqual([], [<<"Elixir.String.Chars">>, <<"Elixir.Two">> | Elixir] -- Names),
    [Beam] = [Beam || #{module := <<"Elixir.Two">>, beam := Beam} <- Consolidated],
    ?assert(is_mentioned('Elixir.Two.One', Beam)),
    ?assertMatch({ok, #{term := false}}, vm:eval(Vm, elixir, "Protocol.consolidated?(Two)")),
    ?assertEqual({ok, Finished}, compiler:finish(Vm, <<"one">>, [<<"Elixir.One">>, <<"Elixir.Two.One">>])),
    test_dir:write(Dir, [
        {"mix.exs",
            "defmodule Um.MixProject do\n  use Mix.Project\n"
            "  def project, do: [apps_path: \"apps\", consolidate_protocols: false]\nend\n"}
    ]),
    {ok, _} = compiler:project(Vm, mix, Dir),
    ?assertMatch({ok, #{consolidated := []}}, compiler:finish(Vm, <<"one">>, [<<"Elixir.One">>])).

is_mentioned(Atom, Beam) ->
    {ok, {_, [{atoms, Atoms}]}} = beam_lib:chunks(Beam, [atoms]),
    lists:keymember(Atom, 2, Atoms).

%% Too much output fails the compilation, whether the code notices the failed write or not. Less
%% output is ignored.
loud_test() ->
    Prints = fun(Write) ->
        Source = ["defmodule E do\n  chunk = String.duplicate(\"x\", 1_048_576)\n  ", Write, "\nend\n"],
        build:compile(folder, test_dir:write(test_dir:new(), [{"e.ex", Source}]), nil)
    end,
    TooLoud = <<"code that runs while compiling printed more than 16 MiB">>,
    ?assertMatch({error, #{message := TooLoud}}, Prints("for _ <- 1..1024, do: IO.write(chunk)")),
    Stubborn = "for _ <- 1..20, do: (try do IO.write(:stderr, chunk) rescue _ -> :ok end)",
    ?assertMatch({error, #{message := TooLoud}}, Prints(Stubborn)),
    ?assertMatch({ok, _}, Prints("for _ <- 1..2, do: IO.write(chunk)")).
