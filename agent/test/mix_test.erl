%%% Mix projects of the shapes that real ones have: what Mix says of their dependencies, environments
%%% and compilers is what is compiled.
-module(mix_test).

-include_lib("eunit/include/eunit.hrl").

names(#{apps := Apps}) -> lists:sort([Name || #{name := Name} <- Apps]).

app(Name, #{apps := Apps}) -> hd([App || #{name := N} = App <- Apps, N =:= Name]).

modules(Name, Built) ->
    #{modules := Modules} = app(Name, Built),
    [Module || #{module := Module} <- Modules].

property(Key, Name, Built) ->
    #{app_file := Text} = app(Name, Built),
    {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Text)),
    {ok, {application, _, Properties}} = erl_parse:parse_term(Tokens),
    proplists:get_value(Key, Properties).

%% Since 1.15 Mix lists an optional application twice: it may be absent.
needed(Name, Built) ->
    case property(optional_applications, Name, Built) of
        undefined -> property(applications, Name, Built);
        Optional -> property(applications, Name, Built) -- Optional
    end.

%% mix.exs of an application; More are further lines of its project/0.
mix(Name, Deps) -> mix(Name, Deps, "").

mix(Name, Deps, More) ->
    io_lib:format(
        "defmodule ~ts.MixProject do\n  use Mix.Project\n"
        "  def project, do: [app: :~ts, version: \"1.2.0\", deps: ~ts~ts]\n"
        "  def application, do: [extra_applications: [:logger]]\nend\n",
        [string:titlecase(Name), Name, Deps, More]
    ).

module(Name) -> io_lib:format("defmodule ~ts do\n  def env, do: unquote(Mix.env())\nend\n", [Name]).

project(Files) -> test_dir:write(test_dir:new(), Files).

messages(Errors) -> [Message || #{message := Message} <- Errors].

%% What the lock says of a package as Hex brought it.
locked(Name, Deps) ->
    io_lib:format("\"~ts\": {:hex, :~ts, \"1.0.0\", \"\", [:rebar3], [~ts], \"hexpm\", \"\"}", [Name, Name, Deps]).

%% Optional and tools of dependencies are not wanted; a rebar3 dependency brings its own along; make
%% and plain folders are applications too; dependencies are compiled for production. A package
%% of Hex may name another source of one that the project has from Hex: the lock says what it needs.
dependencies_test() ->
    Dir = project([
        {"mix.exs",
            mix("shop", "[{:web, \"~> 1.0\"}, {:erl, \"~> 1.0\"}, {:deep, \"~> 1.0\"}, {:made, \"~> 1.0\"}, {:near, path: \"near\"},"
            " {:shared, \"~> 1.0\", override: true}, {:icons, github: \"some/icons\", app: false, compile: false}]")},
        {"lib/shop.ex", module("Shop")},
        {"deps/web/mix.exs",
            mix("web", "[{:absent, \"~> 1.0\", optional: true}, {:tool, \"~> 1.0\", only: :dev}, {:shared, \"~> 2.0\"},"
            " {:erl, \"~> 1.0\", optional: true}]")},
        {"deps/web/lib/web.ex", module("Web")},
        {"deps/shared/mix.exs", mix("shared", "[{:checker, \"~> 1.0\", only: [:dev, :test], runtime: false}]")},
        {"deps/shared/lib/shared.ex", module("Shared")},
        {"mix.lock", ["%{", locked("erl", "{:deep, \"~> 1.0\", [hex: :deep, repo: \"hexpm\", optional: false]}"), ", ",
            locked("deep", ""), "}\n"]},
        {"deps/erl/rebar.config",
            "{deps, [{deep, {git, \"https://one.example/deep\", {tag, \"1\"}}}]}.\n{erl_opts, [{d, 'SIZE', 7}]}.\n"},
        {"deps/erl/src/erl.app.src", "{application, erl, [{vsn, \"1.0.0\"}, {applications, [kernel, stdlib, deep]}]}."},
        {"deps/erl/src/erl.erl",
            "-module(erl).\n-export([x/0]).\n-include_lib(\"deep/include/deep.hrl\").\nx() -> ?DEEP + ?SIZE.\n"},
        {"deps/deep/rebar.config", "{erl_opts, []}.\n"},
        {"deps/deep/include/deep.hrl", "-define(DEEP, 1).\n"},
        {"deps/deep/src/deep.app.src", "{application, deep, [{vsn, \"1.0.0\"}]}."},
        {"deps/deep/src/deep.erl", "-module(deep).\n"},
        {"deps/made/Makefile", "all:\n\tfalse\n"},
        {"deps/made/src/made.app.src", "{application, made, [{vsn, \"1.1.0\"}]}."},
        {"deps/made/src/made.erl", "-module(made).\n"},
        {"deps/icons/icon.svg", "<svg/>"},
        {"near/mix.exs", mix("near", "[]", ", elixirc_paths: [\"code\"]")},
        {"near/code/near.ex", module("Near")}
    ]),
    {ok, Built} = build:compile(mix, Dir, nil),
    ?assertEqual([], maps:get(warnings, Built)),
    ?assertEqual(
        [<<"deep">>, <<"erl">>, <<"made">>, <<"near">>, <<"shared">>, <<"shop">>, <<"web">>], names(Built)
    ),
    ?assertEqual([kernel, stdlib, elixir, logger, web, erl, deep, made, near, shared], property(applications, <<"shop">>, Built)),
    ?assertNot(lists:member(tool, property(applications, <<"web">>, Built))),
    ?assertNot(lists:member(absent, needed(<<"web">>, Built))),
    ?assertEqual([kernel, stdlib, elixir, logger], property(applications, <<"shared">>, Built)),
    ?assertEqual("1.2.0", property(vsn, <<"near">>, Built)),
    [dev, prod, prod] = [env(Module, Built) || Module <- [<<"Shop">>, <<"Web">>, <<"Near">>]].

%% What Mix.env() was while the module was compiled.
env(Name, #{apps := Apps}) ->
    Wanted = <<"Elixir.", Name/binary>>,
    [Beam] = [Beam || #{modules := Modules} <- Apps, #{module := Module, beam := Beam} <- Modules, Module =:= Wanted],
    {ok, {_, [{atoms, Atoms}]}} = beam_lib:chunks(Beam, [atoms]),
    hd([Env || Env <- [dev, prod, staging], lists:keymember(Env, 2, Atoms)]).

environment_long_test() ->
    Dir = project([
        {"mix.exs",
            mix("envy", "[{:only_staging, path: \"only\", only: :staging, env: Mix.env()}]",
                ", elixirc_paths: [\"lib\", \"lib_#{Mix.env()}\"]")},
        {"config/config.exs", "import Config\nconfig :envy, env: config_env()\n"},
        {"lib/envy.ex", module("Envy")},
        {"lib_staging/more.ex", module("Envy.Staging")},
        {"only/mix.exs", mix("only_staging", "[]")},
        {"only/lib/only.ex", module("Only")}
    ]),
    {ok, Dev} = build:compile(mix, Dir, nil),
    ?assertEqual([<<"envy">>], names(Dev)),
    ?assertEqual([<<"Elixir.Envy">>], modules(<<"envy">>, Dev)),
    {ok, Staging} = build:compile({mix, <<"staging">>}, Dir, nil),
    ?assertEqual([<<"envy">>, <<"only_staging">>], names(Staging)),
    ?assertEqual([<<"Elixir.Envy">>, <<"Elixir.Envy.Staging">>], modules(<<"envy">>, Staging)),
    ?assertEqual([staging, staging], [env(Module, Staging) || Module <- [<<"Envy">>, <<"Only">>]]),
    ?assertEqual([{envy, [{env, staging}]}], binary_to_term(maps:get(config, Staging))).

%% A module that a function makes belongs to the file whose compilation called it, in whatever order
%% and number of rounds files are compiled.
made_modules_long_test() ->
    Files = [
        {"mix.exs", mix("types", "[]")},
        {"lib/a_first.ex", "defmodule AFirst do\n  def types, do: Types.Default\nend\n"},
        {"lib/types.ex",
            "defmodule Types do\n  def define(name) do\n"
            "    Module.create(name, quote(do: def(x, do: 1)), Macro.Env.location(__ENV__))\n  end\nend\n"},
        {"lib/z_default.ex", "Types.define(Types.Default)\n"}
    ],
    Dir = project(Files),
    Default = [<<"Elixir.Types.Default">>],
    {First, Again} = build:with(fun(Vm) ->
        {ok, #{apps := [#{sources := Sources}]}} = compiler:project(Vm, mix, Dir),
        {
            compiler:compile(Vm, <<"types">>, Sources, []),
            compiler:compile(Vm, <<"types">>, [<<"lib/a_first.ex">>, <<"lib/z_default.ex">>], [<<"Elixir.AFirst">> | Default])
        }
    end),
    ?assertMatch(#{modules := [#{module := <<"Elixir.Types.Default">>}]}, compiler:file(<<"lib/z_default.ex">>, First)),
    ?assertMatch(#{modules := [#{module := <<"Elixir.AFirst">>}]}, compiler:file(<<"lib/a_first.ex">>, Again)),
    ?assertMatch(#{modules := [#{module := <<"Elixir.Types.Default">>}]}, compiler:file(<<"lib/z_default.ex">>, Again)).

%% Compilers that a dependency brings run around ours. What they make is part of the build.
own_compilers_long_test() ->
    Task =
        "defmodule Mix.Tasks.Compile.Stamp do\n  use Mix.Task.Compiler\n"
        "  def run(_args) do\n"
        "    Mix.Task.Compiler.after_compiler(:elixir, fn {status, diagnostics} ->\n"
        "      true = Code.ensure_loaded?(Stamped)\n"
        "      File.mkdir_p!(Path.join(Mix.Project.app_path(), \"priv\"))\n"
        "      File.write!(Path.join(Mix.Project.app_path(), \"priv/stamp.txt\"), \"stamped\")\n"
        "      [{module, beam}] = Code.compile_string(\"defmodule Stamp.Made do end\")\n"
        "      File.write!(Path.join(Mix.Project.compile_path(), \"#{module}.beam\"), beam)\n"
        "      {status, diagnostics}\n    end)\n"
        "    diagnostic = %Mix.Task.Compiler.Diagnostic{file: Path.absname(\"lib/stamped.ex\"), severity: severity(),\n"
        "      message: \"look here\", position: 1, compiler_name: \"stamp\"}\n"
        "    {if(severity() == :error, do: :error, else: :ok), [diagnostic]}\n  end\n"
        "  defp severity, do: if(File.exists?(\"fail\"), do: :error, else: :warning)\nend\n",
    Dir = project([
        {"mix.exs", mix("stamped", "[{:stamp, \"~> 1.0\"}]", ", compilers: [:stamp] ++ Mix.compilers()")},
        {"lib/stamped.ex", module("Stamped")},
        {"priv/own.txt", "own"},
        {"deps/stamp/mix.exs", mix("stamp", "[]")},
        {"deps/stamp/lib/stamp.ex", Task}
    ]),
    {ok, Built} = build:compile(mix, Dir, nil),
    ?assertMatch(
        [#{file := <<"lib/stamped.ex">>, line := 1, message := <<"look here">>, kind := warning}],
        maps:get(warnings, Built)
    ),
    ?assertMatch(
        #{files := [
            #{path := <<"ebin/Elixir.Stamp.Made.beam">>}, #{path := <<"priv/stamp.txt">>, data := <<"stamped">>}
        ]},
        app(<<"stamped">>, Built)
    ),
    ?assertNot(filelib:is_file(filename:join(Dir, "priv/stamp.txt"))),
    test_dir:write(Dir, [{"fail", ""}]),
    {error, #{errors := Errors}} = build:compile(mix, Dir, nil),
    ?assertMatch([#{file := <<"lib/stamped.ex">>, message := <<"look here">>, kind := compile}], Errors).

%% Native code is not built here, which is said unless it is there already.
native_long_test() ->
    Files = [
        {"mix.exs", mix("user", "[{:nif, \"~> 1.0\"}]")},
        {"lib/user.ex", module("User")},
        {"deps/nif/mix.exs", mix("nif", "[]", ", compilers: [:elixir_make] ++ Mix.compilers()")},
        {"deps/nif/lib/nif.ex", module("Nif")}
    ],
    Dir = project(Files),
    {ok, #{warnings := [#{message := Message}]}} = build:compile(mix, Dir, nil),
    ?assertMatch(<<"the compiler elixir_make of nif runs programs", _/binary>>, Message),
    ?assertNotEqual(nomatch, string:find(Message, "Build it with `mix compile`")),
    test_dir:write(Dir, [{"_build/dev/lib/nif/priv/nif.so", "bytes"}]),
    ?assertMatch({ok, #{warnings := []}}, build:compile(mix, Dir, nil)),
    {ok, #{warnings := [#{message := Staging}]}} = build:compile({mix, <<"staging">>}, Dir, nil),
    ?assertNotEqual(nomatch, string:find(Staging, "Build it with `MIX_ENV=staging mix compile`")),
    test_dir:write(Dir, [{"deps/nif/priv/nif.so", "bytes"}]),
    ?assertMatch({ok, #{warnings := []}}, build:compile({mix, <<"staging">>}, Dir, nil)).

%% Calls into an optional dependency are no warnings where the library says so.
excluded_long_test() ->
    Body = "defmodule Quiet do\n  def x, do: Absent.y()\nend\n",
    Dir = project([{"mix.exs", mix("quiet", "[]", ", xref: [exclude: [Absent]]")}, {"lib/quiet.ex", Body}]),
    {ok, #{warnings := []}} = build:compile(mix, Dir, nil).

refused_long_test() ->
    Fails = fun(Files) ->
        {error, #{errors := Errors}} = build:compile(mix, project([{"lib/m.ex", module("M")} | Files]), nil),
        Errors
    end,
    Says = fun(Text, Errors) ->
        ?assertMatch([_], Errors),
        ?assertNotEqual(nomatch, string:find(hd(messages(Errors)), Text), Errors),
        ?assertEqual(nomatch, string:find(hd(messages(Errors)), "sbx_"), Errors)
    end,
    Says("Dependency specified in the wrong format", Fails([{"mix.exs", mix("m", "[:what]")}])),
    Says("protocol Enumerable not implemented for", Fails([{"mix.exs", mix("m", "nil")}])),
    Says("--toolchain NAME takes one of those", Fails([{"mix.exs", mix("m", "[]", ", elixir: \"~> 99.0\"")}])),
    Says("supports only Elixir ~> 99.0", Fails([{"mix.exs", mix("m", "[]", ", elixir: \"~> 99.0\"")}])),
    Says("Could not find a Mix.Project", Fails([{"mix.exs", "defmodule Nothing do\nend\n"}])),
    Says("in ../core, which was not handed over. Hand it over with --with ../core",
        Fails([{"mix.exs", mix("m", "[{:core, path: \"../core\"}]")}])),
    Says("there is no folder libs/core", Fails([{"mix.exs", mix("m", "[{:core, path: \"libs/core\"}]")}])),
    Says("does not match the requirement \"~> 2.0\", got \"1.2.0\"",
        Fails([{"mix.exs", mix("m", "[{:old, \"~> 2.0\"}]")}, {"deps/old/mix.exs", mix("old", "[]")}])),
    [#{file := File, line := Line}] = Fails([
        {"mix.exs", mix("m", "[{:bad, \"~> 1.0\"}]")},
        {"deps/bad/mix.exs", "defmodule Bad.MixProject do\n  use Mix.Project\n  def project, do: raise(\"no\")\nend\n"}
    ]),
    ?assertEqual({<<"deps/bad/mix.exs">>, 3}, {File, Line}).

%% Members of an umbrella find each other, and have the umbrella's environment.
umbrella_long_test() ->
    Member = fun(Name, Deps) ->
        mix(Name, Deps, ", build_path: \"../../_build\", deps_path: \"../../deps\", lockfile: \"../../mix.lock\"")
    end,
    Dir = project([
        {"mix.exs", "defmodule U.MixProject do\n  use Mix.Project\n  def project, do: [apps_path: \"apps\", deps: []]\nend\n"},
        {"apps/one/mix.exs", Member("one", "[{:two, in_umbrella: true}, {:lib, \"~> 1.0\"}]")},
        {"apps/one/lib/one.ex", module("One")},
        {"apps/two/mix.exs", Member("two", "[]")},
        {"apps/two/lib/two.ex", module("Two")},
        {"deps/lib/mix.exs", mix("lib", "[]")},
        {"deps/lib/lib/lib.ex", module("Lib")}
    ]),
    {ok, Built} = build:compile(mix, Dir, nil),
    ?assertEqual([<<"lib">>, <<"one">>, <<"two">>], names(Built)),
    ?assertEqual(<<"one">>, maps:get(main, Built)),
    ?assertEqual([dev, dev, prod], [env(Module, Built) || Module <- [<<"One">>, <<"Two">>, <<"Lib">>]]).
