%%% Compiles projects of every kind, and checks the diagnostics of those that don't compile.
-module(compile_test).

-include_lib("eunit/include/eunit.hrl").

names(#{modules := Modules}) -> [Name || #{module := Name} <- Modules].

app(Name, #{apps := Apps}) -> hd([App || #{name := N} = App <- Apps, N =:= Name]).

properties(#{app_file := Text}) ->
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Text)),
    {ok, {application, _Name, Properties}} = erl_parse:parse_term(Tokens),
    Properties.

mix_example_test() ->
    Built = build:example(mix, "counter"),
    ?assertMatch(#{main := <<"counter">>, language := elixir, supervisor := nil, warnings := [], config := nil}, Built),
    App = app(<<"counter">>, Built),
    ?assertEqual(
        [<<"Elixir.Counter", Name/binary>> || Name <- [<<>>, <<".Application">>, <<".Server">>, <<".Supervisor">>]],
        names(App)
    ),
    ?assertMatch(#{dir := <<".">>, priv := false}, App),
    [#{source := Source}] = [M || #{module := <<"Elixir.Counter.Server">>} = M <- maps:get(modules, App)],
    ?assertEqual(<<"lib/counter/server.ex">>, Source),
    ?assertEqual({'Elixir.Counter.Application', []}, proplists:get_value(mod, properties(App))),
    ?assertEqual([kernel, stdlib, elixir, logger], proplists:get_value(applications, properties(App))).

rebar_example_test() ->
    Built = build:example(rebar3, "counter_erl"),
    ?assertMatch(#{main := <<"counter_erl">>, language := erlang, supervisor := nil, warnings := []}, Built),
    App = app(<<"counter_erl">>, Built),
    ?assertEqual([<<"counter">>, <<"counter_app">>, <<"counter_sup">>], names(App)),
    ?assertEqual([{initial, 0}], proplists:get_value(env, properties(App))),
    ?assertEqual([counter, counter_app, counter_sup], proplists:get_value(modules, properties(App))).

%% Path and vendored dependencies, Erlang beside Elixir, grammars, priv, configuration.
mix_with_everything_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"mix.exs",
            "defmodule Big.MixProject do\n  use Mix.Project\n"
            "  def project, do: [app: :big, version: \"1.2.3\", deps: deps()]\n"
            "  defp deps, do: [{:near, path: \"libs/near\"}, {:vendored, \"~> 1.0\"},"
            " {:credo, \"~> 1.0\", only: [:dev, :test], runtime: false}]\n"
            "  def application, do: [extra_applications: [:logger], mod: {Big.App, []}]\nend\n"},
        {"config/config.exs",
            "import Config\n"
            "config :big, colour: :green, env: config_env()\n"
            "import_config \"more.exs\"\n"},
        {"config/more.exs", "import Config\nconfig :big, size: 7\n"},
        {"config/runtime.exs", "import Config\nconfig :big, size: System.fetch_env!(\"SIZE\")\n"},
        {"lib/big/app.ex",
            "defmodule Big.App do\n  use Application\n  @colour Application.compile_env(:big, :colour)\n"
            "  def colour, do: @colour\n  def start(_, _), do: Supervisor.start_link([], strategy: :one_for_one)\n"
            "  def near, do: Near.hi()\n  def erl, do: :big_erl.x()\nend\n"},
        {"src/big_erl.erl", "-module(big_erl).\n-export([x/0]).\n-include(\"big.hrl\").\nx() -> ?X.\n"},
        {"src/big_parser.yrl", "Nonterminals all. Terminals atom. Rootsymbol all. all -> atom : '$1'.\n"},
        {"src/big_scanner.xrl", "Definitions.\nRules.\n[a-z]+ : {token, {atom, TokenLine}}.\nErlang code.\n"},
        {"include/big.hrl", "-define(X, 42).\n"},
        {"priv/data.txt", "data"},
        {"libs/near/mix.exs",
            "defmodule Near.MixProject do\n"
            "  use Mix.Project\n"
            "  def project, do: [app: :near, version: \"0.1.0\"]\n"
            "end\n"},
        {"libs/near/lib/near.ex", "defmodule Near do\n  def hi, do: :hi\nend\n"},
        {"deps/vendored/src/vendored.app.src",
            "{application, vendored, [{vsn, git}, {applications, [kernel, stdlib]}]}."},
        {"deps/vendored/src/vendored.erl", "-module(vendored).\n-export([v/0]).\nv() -> 1.\n"}
    ]),
    {ok, Built} = build:compile(mix, Dir, nil),
    ?assertMatch(#{main := <<"big">>, apps := [#{name := <<"big">>, priv := true} | _]}, Built),
    ?assertMatch([#{kind := warning, message := <<"the dependency credo", _/binary>>}], maps:get(warnings, Built)),
    ?assertEqual(
        [<<"Elixir.Big.App">>, <<"big_erl">>, <<"big_parser">>, <<"big_scanner">>], names(app(<<"big">>, Built))
    ),
    ?assertEqual([<<"Elixir.Near">>], names(app(<<"near">>, Built))),
    ?assertEqual([<<"vendored">>], names(app(<<"vendored">>, Built))),
    ?assertEqual(
        [kernel, stdlib, elixir, logger, near, vendored],
        proplists:get_value(applications, properties(app(<<"big">>, Built)))
    ),
    #{config := [{big, Config}], runtime := Runtime} = binary_to_term(maps:get(config, Built)),
    ?assertEqual([{colour, green}, {env, dev}, {size, 7}], lists:sort(Config)),
    ?assertMatch(#{file := <<"config/runtime.exs">>, text := <<"import Config", _/binary>>, env := dev}, Runtime).

umbrella_long_test() ->
    Child = fun(Name, Deps) ->
        io_lib:format(
            "defmodule ~ts.MixProject do\n"
            "  use Mix.Project\n"
            "  def project, do: [app: :~ts, version: \"0.1.0\", deps: ~ts]\n"
            "end\n",
            [string:titlecase(Name), Name, Deps]
        )
    end,
    Dir = test_dir:write(test_dir:new(), [
        {"mix.exs",
            "defmodule U.MixProject do\n"
            "  use Mix.Project\n"
            "  def project, do: [apps_path: \"apps\", version: \"0.1.0\", deps: []]\n"
            "end\n"},
        {"apps/one/mix.exs", Child("one", "[{:two, in_umbrella: true}]")},
        {"apps/one/lib/one.ex", "defmodule One do\n  require Two\n  def x, do: Two.mac()\nend\n"},
        {"apps/two/mix.exs", Child("two", "[]")},
        {"apps/two/lib/two.ex", "defmodule Two do\n  defmacro mac, do: 2\nend\n"}
    ]),
    {ok, Built} = build:compile(mix, Dir, nil),
    #{main := Main, apps := Apps} = Built,
    ?assertEqual(<<"one">>, Main),
    ?assertMatch([#{name := <<"one">>, dir := <<"apps/one">>}, #{name := <<"two">>}], Apps).

missing_dependency_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"mix.exs",
            "defmodule M.MixProject do\n"
            "  use Mix.Project\n"
            "  def project, do: [app: :m, version: \"0.1.0\", deps: [{:jason, \"~> 1.0\"}]]\n"
            "end\n"},
        {"lib/m.ex", "defmodule M do\nend\n"}
    ]),
    {error, Error} = build:compile(mix, Dir, nil),
    #{kind := compile, errors := [#{kind := Kind, message := Message}]} = Error,
    ?assertEqual(dependency, Kind),
    ?assertMatch(<<"the dependency jason is not in the project", _/binary>>, Message).

%% Plain folders and files: the folder gives the name, and the entry point is guessed.
folder_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"worker.ex",
            "defmodule Worker do\n"
            "  use GenServer\n"
            "  def start_link(x), do: GenServer.start_link(__MODULE__, x)\n"
            "  def init(x), do: {:ok, x}\n"
            "end\n"},
        {"sub/inner.ex",
            "defmodule Inner do\n"
            "  use Supervisor\n"
            "  def start_link(_), do: Supervisor.start_link(__MODULE__, [])\n"
            "  def init(_), do: Supervisor.init([], strategy: :one_for_one)\n"
            "end\n"},
        {"top.ex",
            "defmodule Top do\n"
            "  use Supervisor\n"
            "  def start_link(_), do: Supervisor.start_link(__MODULE__, [])\n"
            "  def init(_), do: Supervisor.init([Worker, Inner], strategy: :one_for_one)\n"
            "end\n"},
        {"helper.erl", "-module(helper).\n-export([h/0]).\n-include(\"helper.hrl\").\nh() -> ?H.\n"},
        {"helper.hrl", "-define(H, 1).\n"},
        {"test/not_me.ex", "this is not Elixir ("}
    ]),
    {ok, Built} = build:compile(folder, Dir, nil),
    ?assertMatch(#{main := <<"my_project">>, supervisor := <<"Elixir.Top">>, language := elixir}, Built),
    ?assertEqual(
        [<<"Elixir.Inner">>, <<"Elixir.Top">>, <<"Elixir.Worker">>, <<"helper">>], names(app(<<"my_project">>, Built))
    ).

folder_with_application_long_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"a.ex",
            "defmodule A do\n"
            "  use Application\n"
            "  def start(_, _), do: Supervisor.start_link([], strategy: :one_for_one)\n"
            "end\n"}
    ]),
    {ok, Built} = build:compile(folder, Dir, nil),
    ?assertMatch(#{supervisor := nil}, Built),
    ?assertEqual({'Elixir.A', []}, proplists:get_value(mod, properties(app(<<"my_project">>, Built)))).

single_file_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"my sup.erl", ""},
        {"my_sup.erl",
            "-module(my_sup).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
            "start_link() -> supervisor:start_link(?MODULE, []).\ninit([]) -> {ok, {#{}, []}}.\n"}
    ]),
    {ok, Built} = build:compile(file, Dir, <<"my_sup.erl">>),
    ?assertMatch(#{main := <<"my_sup">>, supervisor := <<"my_sup">>, language := erlang}, Built).

ebin_test() ->
    Built = build:example(rebar3, "counter_erl"),
    [#{dir := Dir}] = build:install(Built),
    {ok, Again} = build:compile(ebin, Dir, nil),
    ?assertMatch(#{main := <<"counter_erl">>, supervisor := nil}, Again),
    [#{modules := Before}] = maps:get(apps, Built),
    [#{modules := After}] = maps:get(apps, Again),
    ?assertEqual([Beam || #{beam := Beam} <- Before], [Beam || #{beam := Beam} <- After]).

damaged_files_test() ->
    Refused = fun(Kind, Files) ->
        Dir = test_dir:write(test_dir:new(), Files),
        {error, #{kind := compile, message := Message}} = build:compile(Kind, Dir, nil),
        Message
    end,
    ?assertEqual(<<"bad.beam is not a compiled module">>, Refused(ebin, [{"bad.beam", "FOR1 nonsense"}])),
    ?assertEqual(
        <<"x.app.src is not an application resource file">>,
        Refused(rebar3, [{"src/x.app.src", "{app, x}."}, {"src/x.erl", "-module(x).\n"}])
    ),
    ?assertMatch(<<"syntax error before: ", _/binary>>, Refused(rebar3, [{"rebar.config", "{deps, [}."}])).

rebar_with_several_apps_long_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"rebar.config", "{erl_opts, [{d, 'ANSWER', 42}, {parse_transform, base_pt}]}.\n{deps, [dep]}.\n"},
        {"config/sys.config", "[{front, [{k, v}]}]."},
        {"apps/front/src/front.app.src",
            "{application, front, [{vsn, \"1\"}, {applications, [kernel, stdlib, base]}, {mod, {front, []}}]}."},
        {"apps/front/src/front.erl",
            "-module(front).\n"
            "-export([a/0]).\n"
            "-include_lib(\"base/include/base.hrl\").\n"
            "a() -> {?ANSWER, ?B}.\n"},
        {"apps/base/src/base.app.src", "{application, base, [{vsn, \"1\"}, {applications, [kernel, stdlib]}]}."},
        {"apps/base/src/base_pt.erl",
            "-module(base_pt).\n"
            "-export([parse_transform/2]).\n"
            "parse_transform(F, _) -> F.\n"},
        {"apps/base/include/base.hrl", "-define(B, b).\n"},
        {"_checkouts/dep/src/dep.app.src", "{application, dep, [{vsn, \"1\"}, {applications, [kernel, stdlib]}]}."},
        {"_checkouts/dep/src/dep.erl", "-module(dep).\n"}
    ]),
    {error, #{errors := [#{message := Message} | _]}} = build:compile(rebar3, Dir, nil),
    %% The transform would have to be compiled with itself.
    ?assertMatch({_, _}, binary:match(Message, <<"base_pt">>)),
    test_dir:write(Dir, [{"rebar.config", "{erl_opts, [{d, 'ANSWER', 42}]}.\n{deps, [dep]}.\n"}]),
    {ok, Built} = build:compile(rebar3, Dir, nil),
    ?assertMatch(#{main := <<"front">>, apps := [#{name := <<"front">>}, _, _]}, Built),
    ?assertEqual([{front, [{k, v}]}], binary_to_term(maps:get(config, Built))).

%% Diagnostics

errors_test() ->
    Fails = fun(Kind, Files) ->
        Dir = test_dir:write(test_dir:new(), Files),
        {error, #{kind := compile, errors := Errors}} = build:compile(Kind, Dir, nil),
        Errors
    end,
    ?assertMatch(
        [#{file := <<"src/a.erl">>, line := 3, column := 8, kind := syntax, message := <<"syntax ", _/binary>>} | _],
        Fails(rebar3, [{"src/a.erl", "-module(a).\n-export([f/0]).\nf() -> }.\n"}])
    ),
    ?assertMatch(
        [#{file := <<"src/a.erl">>, line := 3, column := 8, kind := compile, message := <<"variable 'X' is unbound">>}],
        Fails(rebar3, [{"src/a.erl", "-module(a).\n-export([f/0]).\nf() -> X.\n"}])
    ),
    ?assertMatch(
        [#{file := <<"lib/b.ex">>, line := 2, kind := compile, message := <<"undefined function nope/0", _/binary>>}],
        Fails(folder, [{"lib/b.ex", "defmodule B do\n  def f, do: nope()\nend\n"}])
    ),
    ?assertMatch(
        [#{file := <<"c.ex">>, line := 2, column := 11, kind := syntax, message := <<"unexpected ", _/binary>>}],
        Fails(folder, [{"c.ex", "defmodule C do\n  def f, (end\nend\n"}])
    ),
    %% The place is where the delimiter is missing. The message names the line that opens it.
    [#{file := <<"e.ex">>, kind := syntax, line := Line, message := Missing}] =
        Fails(folder, [{"e.ex", "defmodule E do\n  def f, do: :ok\n\n"}]),
    ?assert(Line > 1),
    ?assertMatch({match, _}, re:run(Missing, "^missing terminator: end.*line 1", [dotall])),
    ?assertEqual(nomatch, string:find(Missing, "defmodule")),
    ?assertMatch(
        [#{file := <<"mix.exs">>, line := 1, kind := syntax}],
        Fails(mix, [{"mix.exs", "defmodule )\n"}])
    ),
    ?assertMatch(
        [#{file := <<"mix.exs">>, line := 2, kind := compile, message := <<"undefined function nope/0", _/binary>>}],
        Fails(mix, [{"mix.exs", "defmodule M do\n  def project, do: nope()\nend\n"}])
    ),
    ?assertMatch(
        [#{file := <<"config/config.exs">>, line := 2, kind := compile, message := <<"undefined function nope/0", _/binary>>}],
        Fails(mix, [
            {"mix.exs", "defmodule D do\n  use Mix.Project\n  def project, do: [app: :d, version: \"0.1.0\"]\nend\n"},
            {"config/config.exs", "import Config\nnope()\n"}
        ])
    ).

%% A module of that name would be loaded in place of the agent's, here or where the project runs.
reserved_names_test() ->
    Refused = fun(Kind, Dir) ->
        {error, #{kind := compile, errors := [#{file := File, message := Message}]}} = build:compile(Kind, Dir, nil),
        {File, Message}
    end,
    With = fun(Name, Text) -> test_dir:write(test_dir:new(), [{Name, Text}]) end,
    Why = <<" can't be named so: names that begin with sbx_ are reserved for the agent inside each node">>,
    Eval = <<"the module sbx_eval", Why/binary>>,
    Agent = <<"the module sbx_agent", Why/binary>>,
    ?assertEqual({<<"src/sbx_eval.erl">>, Eval}, Refused(rebar3, With("src/sbx_eval.erl", "-module(sbx_eval).\n"))),
    ?assertEqual({<<"a.ex">>, Eval}, Refused(folder, With("a.ex", "defmodule :sbx_eval do\nend\n"))),
    ?assertMatch({<<"b.ex">>, _}, Refused(folder, With("b.ex", "defmodule :sbx_agent do\nend\n"))),
    {sbx_agent, Beam} = build:forms([{attribute, 1, module, sbx_agent}]),
    Ebin = test_dir:new(),
    ok = test_dir:write_bytes(filename:join(Ebin, "sbx_agent.beam"), Beam),
    ?assertEqual({<<"sbx_agent.beam">>, Agent}, Refused(ebin, Ebin)).

hints_long_test() ->
    Hint = fun(Kind, Files) ->
        Dir = test_dir:write(test_dir:new(), Files),
        {error, #{errors := [#{message := Message} | _]}} = build:compile(Kind, Dir, nil),
        case binary:split(Message, <<"\nhint: ">>) of
            [_, Found] -> Found;
            [_] -> Message
        end
    end,
    ?assertEqual(
        <<"did you mean increment?">>,
        Hint(folder, [{"a.ex", "defmodule A do\n  def f, do: incremnt()\n  defp increment, do: 1\nend\n"}])
    ),
    ?assertEqual(<<"did you mean GenServer?">>, Hint(folder, [{"a.ex", "defmodule A do\n  use GenSever\nend\n"}])),
    ?assertMatch(
        <<"no file of the project defines it", _/binary>>,
        Hint(folder, [{"a.ex", "defmodule A do\n  use Ecto.Schema\nend\n"}])
    ),
    %% Compilers that make the suggestion themselves add the arity.
    ?assertMatch(
        <<"did you mean increment", _/binary>>,
        Hint(folder, [{"a.erl", "-module(a).\n-export([f/0]).\nf() -> incremnt() + increment().\nincrement() -> 1.\n"}])
    ),
    ?assertEqual(
        <<"it was looked for in src, include">>,
        Hint(rebar3, [{"src/a.erl", "-module(a).\n-include(\"no.hrl\").\n"}])
    ),
    ?assertEqual(
        <<"neither the project nor the installation has an application nope">>,
        Hint(rebar3, [{"src/a.erl", "-module(a).\n-include_lib(\"nope/include/no.hrl\").\n"}])
    ),
    ?assertEqual(
        <<"it belongs to the dependency jason, which is not in the project">>,
        Hint(mix, [
            {"mix.exs",
                "defmodule H.MixProject do\n  use Mix.Project\n"
                "  def project, do: [app: :h, version: \"0.1.0\", deps: deps()]\n"
                "  defp deps, do: [{:jason, \"~> 1.0\", runtime: false}]\nend\n"},
            {"lib/h.ex", "defmodule H do\n  require Jason.Helpers\nend\n"}
        ])
    ).

warnings_test() ->
    Dir = test_dir:write(test_dir:new(), [
        {"w.ex", "defmodule W do\n  def f(unused), do: 1\nend\n"},
        {"v.erl", "-module(v).\n-export([f/1]).\nf(X) -> 1.\n"}
    ]),
    {ok, #{warnings := Warnings}} = build:compile(folder, Dir, nil),
    ?assertMatch(
        [
            #{file := <<"v.erl">>, line := 3, column := 3, kind := warning, message := <<"variable 'X' is unused">>},
            #{file := <<"w.ex">>, line := 2, kind := warning, message := <<"variable \"unused\" is unused", _/binary>>}
        ],
        Warnings
    ).

empty_project_test() ->
    ?assertMatch({error, #{kind := empty_project}}, build:compile(folder, test_dir:new(), nil)).

%% The same node compiles again, and writes only into its scratch folder.
again_long_test() ->
    First = build:example(mix, "counter"),
    {ok, Second} = build:compile(mix, filename:join(build:examples(), "counter"), nil),
    ?assertEqual(First, Second),
    ?assertEqual(["agent.sock", "build"], build:scratch()).
