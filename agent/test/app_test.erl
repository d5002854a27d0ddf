%%% Starts applications and supervisors, and checks that their end is reported.
-module(app_test).

-include_lib("eunit/include/eunit.hrl").

folder(Files) ->
    {ok, Built} = build:compile(folder, test_dir:write(test_dir:new(), Files), nil),
    Built.

file(Name, Text) ->
    Dir = test_dir:write(test_dir:new(), [{Name, Text}]),
    {ok, Built} = build:compile(file, Dir, unicode:characters_to_binary(Name)),
    Built.

%% Trees one after the other in the same node; each has ended before the next starts.
elixir_node_test() ->
    Vm = vm:start(#{env => [{"SANDBOX_ELIXIR", "1"}]}),
    ?assertMatch(#{elixir := <<"1.", _/binary>>}, vm:hello(Vm)),
    runner:steps(Vm, [
        fun elixir_application/1, fun supervisor_of_an_application/1, fun elixir_failure/1,
        fun runtime_configuration/1, fun elixir_crash_reports/1, fun consolidated_protocols/1, fun what_software_expects/1
    ]),
    ending:in_order(chat_room(Vm)).

bare_node_test() ->
    Vm = vm:start(#{grace_ms => "1000"}),
    runner:steps(Vm, [
        fun erlang_application/1, fun handwritten_application/1, fun failures/1, fun native_code/1,
        fun guessed_supervisor_ends/1, fun template_of_a_configuration/1,
        fun nested_supervisors_end/1, fun library/1, fun what_software_expects/1
    ]),
    ending:by_grace(Vm).

elixir_application(Vm) ->
    Args = build:start_args(build:example(mix, "counter"), #{}),
    {ok, Started} = vm:call(Vm, start, Args),
    ?assertMatch(#{app_name := <<"counter">>, supervisor := <<"Elixir.Counter.Supervisor">>}, Started),
    #{app_pid := App, supervisor_pid := Top} = Started,
    ?assert(is_pid(App) andalso is_pid(Top) andalso App =/= Top),
    ?assertEqual(4, length(maps:get(modules, Started))),
    ?assertMatch({ok, #{term := false}}, vm:eval(Vm, erlang, "erlang:module_loaded(unicode_util)")),
    ?assertMatch({ok, #{term := "ab"}}, vm:eval(Vm, erlang, "string:lowercase(\"AB\")")),
    Count = "Counter.increment(); Counter.increment(by: 2)",
    ?assertMatch({ok, #{term := 3, text := <<"3">>}}, vm:eval(Vm, elixir, Count)),
    ?assertMatch({error, #{kind := conflict}}, vm:call(Vm, start, Args)),
    {ok, Info} = vm:call(Vm, info, #{}),
    ?assertEqual(Started, maps:with(maps:keys(Started), Info)),
    ?assertMatch(#{state := running}, Info),
    ?assert(maps:get(processes, Info) > 0 andalso maps:get(processes, Info) < 20),
    stop(Vm, "counter"),
    ?assertMatch({ok, #{term := nil}}, vm:eval(Vm, elixir, "Process.whereis(Counter.Server)")),
    ?assertMatch({ok, #{app_name := <<"counter">>}}, vm:call(Vm, start, Args)),
    stop(Vm, "counter").

%% A VM without a network has all the same names for its own processes, and a handler of the logger
%% that is found under its usual name.
what_software_expects(Vm) ->
    Is = fun(Term, Code) -> ?assertMatch({ok, #{term := Term}}, vm:eval(Vm, erlang, Code)) end,
    Is([yes, true, nonode@nohost], "[global:register_name(one, self()), global:whereis_name(one) =:= self(),"
        " erpc:call(node(), erlang, node, [])]"),
    Is([{badrpc, nodedown}, nonode@nohost], "[rpc:call(other@host, erlang, node, []), rpc:block_call(node(), erlang, node, [])]"),
    Is([ok, [true]], "{ok, Scope} = pg:start_link(), ok = pg:join(all, self()), Members = pg:get_members(all),"
        " unlink(Scope), [ok, [Pid =:= self() || Pid <- Members]]"),
    vm:drop_events(Vm),
    Is(ok, "{ok, #{module := _, level := all}} = logger:get_handler_config(default),"
        " ok = logger:update_handler_config(default, #{level => error}), logger:warning(\"unheard\"), logger:error(\"heard\")"),
    ?assertMatch(#{level := error, text := <<"heard">>}, vm:event(Vm, log)),
    Is(ok, "logger:update_handler_config(default, formatter, {no_such_formatter, #{}}), logger:error(\"still\")"),
    ?assertMatch(#{text := <<"FORMATTER CRASH: still">>}, vm:event(Vm, log)),
    Is({error, {not_found, default}}, "ok = logger:remove_handler(default), logger:get_handler_config(default)").

stop(Vm, App) ->
    ?assertMatch({ok, #{term := ok}}, vm:eval(Vm, ["application:stop(", App, ")"])),
    ?assertMatch(#{reason := shutdown}, vm:event(Vm, stopped)).

%% Elixir's own protocols are loaded before the application's code is known.
consolidated_protocols(Vm) ->
    ?assertMatch({ok, #{term := false}}, vm:eval(Vm, elixir, "Protocol.consolidated?(Enumerable)")),
    Built = build:example(mix, "counter"),
    #{apps := [#{dir := Dir}]} = Args = build:start_args(Built, #{}),
    lists:foreach(
        fun(#{module := Name, beam := Beam}) ->
            test_dir:write_bytes(filename:join([Dir, "consolidated", <<Name/binary, ".beam">>]), Beam)
        end,
        maps:get(consolidated, Built)
    ),
    {ok, _} = vm:call(Vm, start, Args),
    ?assertMatch({ok, #{term := true}}, vm:eval(Vm, elixir, "Protocol.consolidated?(Enumerable)")),
    ?assertMatch({ok, #{term := [2, 3]}}, vm:eval(Vm, elixir, "Enum.map(1..2, & &1 + 1)")),
    stop(Vm, "counter").

%% An .app file without the term that the compiler adds.
handwritten_application(Vm) ->
    #{apps := [#{app_file := Whole} = App | Apps]} = Built = build:example(rebar3, "counter_erl"),
    [Text, _Term] = binary:split(Whole, <<"\n%% term ">>),
    Renamed = binary:replace(Text, <<"{application,counter_erl">>, <<"{application,by_hand">>),
    Handwritten = Built#{main := <<"by_hand">>, apps := [App#{name := <<"by_hand">>, app_file := Renamed} | Apps]},
    ?assertMatch({ok, #{app_name := <<"by_hand">>}}, vm:call(Vm, start, build:start_args(Handwritten, #{}))),
    stop(Vm, "by_hand").

erlang_application(Vm) ->
    Config = term_to_binary([{counter_erl, [{initial, 10}]}]),
    {ok, Started} = vm:call(Vm, start, build:start_args(build:example(rebar3, "counter_erl"), #{config => Config})),
    ?assertMatch(#{app_name := <<"counter_erl">>, supervisor := <<"counter_sup">>}, Started),
    %% Modules that only the text of an .app file needs are not loaded.
    ?assertMatch({ok, #{term := false}}, vm:eval(Vm, "code:is_loaded(epp)")),
    ?assertMatch({ok, #{term := 11}}, vm:eval(Vm, "counter:increment()")),
    {ok, _} = vm:eval(Vm, "exit(whereis(counter_sup), kill)"),
    ?assertMatch(#{reason := crash, text := <<"killed">>}, vm:event(Vm, stopped)),
    ?assertMatch({ok, #{app_pid := nil, supervisor_pid := nil}}, vm:call(Vm, info, #{})).

%% The processes of the chat room find one another. A tree that stops without a daemon is reported
%% to the next daemon.
chat_room(Vm) ->
    {ok, _} = vm:call(Vm, start, build:start_args(build:example(mix, "chat_room"), #{})),
    Talk =
        "ChatRoom.join(\"lobby\", \"ann\"); ChatRoom.join(\"lobby\", \"bob\");"
        " ChatRoom.say(\"lobby\", \"ann\", \"hi\");"
        " ChatRoom.leave(\"lobby\", \"bob\"); {ChatRoom.history(\"lobby\"), ChatRoom.rooms()}",
    ?assertMatch({ok, #{term := {[{<<"ann">>, <<"hi">>}], [<<"lobby">>]}}}, vm:eval(Vm, elixir, Talk)),
    ?assertMatch({ok, #{text := <<"%{\"ann\" => :active}">>}}, vm:eval(Vm, elixir, "ChatRoom.members(\"lobby\")")),
    vm:eval_later(Vm, "'Elixir.Supervisor':stop('Elixir.ChatRoom.Supervisor', {shutdown, done})"),
    Again = vm:accept(vm:hangup(Vm)),
    ?assertMatch(#{reason := shutdown, text := <<"shutdown: :done">>}, vm:event(Again, stopped)),
    Again.

supervisor_of_an_application(Vm) ->
    Config = term_to_binary([{logger, [{level, error}]}, {counter, [{colour, red}]}]),
    More = #{app => nil, supervisor => <<"Counter.Supervisor">>, config => Config},
    Args = build:start_args(build:example(mix, "counter"), More),
    {ok, Started} = vm:call(Vm, start, Args),
    ?assertMatch(#{supervisor := <<"Elixir.Counter.Supervisor">>, app_name := <<"counter">>}, Started),
    ?assertMatch({ok, #{term := 1}}, vm:eval(Vm, elixir, "Counter.increment()")),
    ?assertMatch(
        {ok, #{term := {error, red}}}, vm:eval(Vm, elixir, "{Logger.level(), Application.get_env(:counter, :colour)}")
    ),
    {ok, _} = vm:eval(Vm, elixir, "Supervisor.stop(Counter.Supervisor, :shutdown)"),
    ?assertMatch(#{reason := shutdown}, vm:event(Vm, stopped)).

%% A release's sys.config.src has the sandbox's variables in place of ${NAME}. Their words are not looked
%% at again, and never told.
template_of_a_configuration(Vm) ->
    Build = build:example(rebar3, "counter_erl"),
    Start = fun(Text, Env) ->
        Runtime = #{file => <<"releases/1/sys.config.src">>, text => Text, env => prod},
        Config = term_to_binary(#{config => [{counter_erl, [{kept, 1}]}], runtime => Runtime}),
        vm:call(Vm, start, build:start_args(Build#{config => Config}, #{env => Env}))
    end,
    {error, #{message := Unset}} = Start(<<"[{counter_erl, [{port, ${SHOP_PORT}}]}].">>, []),
    ?assertEqual(<<"releases/1/sys.config.src: SHOP_PORT is not set; give it with --env SHOP_PORT=VALUE">>, Unset),
    {error, #{message := Bad}} = Start(<<"[{counter_erl, [{port, ${SHOP_PORT}}]}].">>, [{<<"SHOP_PORT">>, <<"}swordfish">>}]),
    ?assertEqual(nomatch, string:find(Bad, "swordfish")),
    Text = <<"[{counter_erl, [{port, ${SHOP_PORT}}, {name, \"${SHOP_NAME}\"}, {host, \"${SHOP_HOST:-none}\"}]}].">>,
    {ok, _} = Start(Text, [{<<"SHOP_PORT">>, <<"4000">>}, {<<"SHOP_NAME">>, <<"${SHOP_PORT}">>}]),
    Values = "lists:sort(application:get_all_env(counter_erl))",
    ?assertMatch({ok, #{term := [{host, "none"}, {initial, 0}, {kept, 1}, {name, "${SHOP_PORT}"}, {port, 4000}]}}, vm:eval(Vm, erlang, Values)),
    stop(Vm, "counter_erl").

%% config/runtime.exs is evaluated in the node, with the sandbox's environment and over what was
%% configured before.
runtime_configuration(Vm) ->
    Text =
        <<"import Config\nsize = String.to_integer(System.fetch_env!(\"SIZE\"))\n"
          "config :counter, size: size, colour: Application.fetch_env!(:counter, :colour), env: config_env()\n">>,
    Runtime = #{file => <<"config/runtime.exs">>, text => Text, env => dev},
    Config = term_to_binary(#{config => [{counter, [{colour, red}, {kept, 1}]}], runtime => Runtime}),
    Args = build:start_args(build:example(mix, "counter"), #{config => Config}),
    {error, #{kind := start, message := Message}} = vm:call(Vm, start, Args),
    %% Elixir before 1.15 does not know the line.
    ?assertMatch({match, _}, re:run(Message, "^config/runtime.exs(:2)?: .*SIZE")),
    ?assertMatch({_, _}, binary:match(Message, <<"; give it with --env SIZE=VALUE">>)),
    {ok, _} = vm:call(Vm, start, Args#{env => [{<<"SIZE">>, <<"8">>}]}),
    ?assertMatch(
        {ok, #{term := [{colour, red}, {env, dev}, {kept, 1}, {size, 8}]}},
        vm:eval(Vm, elixir, "Enum.sort(Keyword.take(Application.get_all_env(:counter), [:colour, :env, :kept, :size]))")
    ),
    stop(Vm, "counter").

%% A crash is one record, in Elixir's words.
elixir_crash_reports(Vm) ->
    {ok, _} = vm:call(Vm, start, build:start_args(build:example(mix, "counter"), #{})),
    vm:drop_events(Vm),
    {ok, _} = vm:eval(Vm, elixir, "GenServer.stop(Counter.Server, {:oops, 1})"),
    #{level := error, text := Text} = vm:event(Vm, log),
    ?assertMatch({0, _}, binary:match(Text, <<"GenServer Counter.Server terminating">>)),
    ?assert(vm:no_event(Vm, log)),
    stop(Vm, "counter").

guessed_supervisor_ends(Vm) ->
    Built = folder([
        {"s.erl",
            "-module(s).\n-behaviour(supervisor).\n-export([start_link/0, init/1, worker/0]).\n"
            "start_link() -> supervisor:start_link({local, s}, ?MODULE, []).\n"
            "init([]) -> {ok, {#{intensity => 0}, [#{id => w, start => {?MODULE, worker, []}}]}}.\n"
            "worker() -> {ok, spawn_link(fun() -> register(w, self()), receive X -> exit(X) end end)}.\n"}
    ]),
    {ok, Started} = vm:call(Vm, start, build:start_args(Built, #{})),
    ?assertMatch(#{app_name := <<"my_project">>, supervisor := <<"s">>}, Started),
    {ok, _} = vm:eval(Vm, "w ! boom"),
    ?assertEqual(
        #{reason => crash, text => <<"s gave up: its children ended too often. The last was w: boom">>},
        vm:event(Vm, stopped)
    ),
    %% A supervisor that is asked to stop exits with the same reason.
    {ok, _} = vm:call(Vm, start, build:start_args(Built, #{})),
    {ok, _} = vm:eval(Vm, "gen_server:stop(s, shutdown, 5000)"),
    ?assertMatch(#{reason := shutdown, text := <<"shutdown">>}, vm:event(Vm, stopped)),
    %% Without reports the two can't be told apart.
    {ok, _} = vm:call(Vm, start, build:start_args(Built, #{})),
    {ok, _} = vm:eval(Vm, "logger:set_primary_config(level, none), w ! boom"),
    ?assertMatch(#{reason := crash}, vm:event(Vm, stopped)),
    {ok, _} = vm:eval(Vm, "logger:set_primary_config(level, notice)").

%% The cause is told by the supervisor below, the end by the one at the top.
nested_supervisors_end(Vm) ->
    Built = folder([
        {"top.erl",
            "-module(top).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
            "start_link() -> supervisor:start_link({local, top}, ?MODULE, []).\n"
            "init([]) -> {ok, {#{intensity => 0}, [#{id => low, start => {low, start_link, []}, type => supervisor}]}}.\n"},
        {"low.erl",
            "-module(low).\n-behaviour(supervisor).\n-export([start_link/0, init/1, worker/0]).\n"
            "start_link() -> supervisor:start_link({local, low}, ?MODULE, []).\n"
            "init([]) -> {ok, {#{intensity => 0}, [#{id => w, start => {?MODULE, worker, []}}]}}.\n"
            "worker() -> {ok, spawn_link(fun() -> register(w, self()), receive X -> exit(X) end end)}.\n"}
    ]),
    {ok, _} = vm:call(Vm, start, (build:start_args(Built, #{}))#{app => nil, supervisor => <<"top">>}),
    {ok, _} = vm:eval(Vm, "w ! boom"),
    ?assertEqual(
        #{
            reason => crash,
            text =>
                <<"top gave up: its children ended too often; "
                    "low gave up: its children ended too often. The last was w: boom">>
        },
        vm:event(Vm, stopped)
    ).

%% Failures are reported as readable text and leave the node ready for another start.
%% The first record with these words.
log_with(Vm, Words) ->
    #{text := Text} = vm:event(Vm, log),
    case binary:match(Text, Words) of
        nomatch -> log_with(Vm, Words);
        _Found -> Text
    end.

%% A library that was never built leaves functions undefined. The cause is said where that is told.
native_code(Vm) ->
    Built = folder([
        {"no_nif.erl",
            "-module(no_nif).\n-export([one/0]).\n-on_load(init/0).\n"
            "init() -> ok = erlang:load_nif(\"/no/such/library\", 0).\none() -> 1.\n"},
        {"nif_sup.erl",
            "-module(nif_sup).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
            "start_link() -> supervisor:start_link(?MODULE, []).\ninit([]) -> {ok, {#{}, [no_nif:one()]}}.\n"}
    ]),
    vm:drop_events(Vm),
    {error, #{message := Message}} =
        vm:call(Vm, start, build:start_args(Built, #{app => nil, supervisor => <<"nif_sup">>})),
    Why = <<"the native code of no_nif was not loaded: it was never built. Build it with `rebar3 compile`">>,
    ?assertMatch({_, _}, binary:match(Message, Why)),
    Text = log_with(Vm, <<"The on_load function for module no_nif returned">>),
    ?assertMatch({_, _}, binary:match(Text, Why)),
    ?assertMatch({ok, #{term := ok}}, vm:eval(Vm, "application:unload(my_project)")).

failures(Vm) ->
    Built = folder([
        {"bad_sup.erl",
            "-module(bad_sup).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
            "start_link() -> supervisor:start_link(?MODULE, []).\ninit([]) -> error(nope).\n"},
        {"badly_begun.erl",
            "-module(badly_begun).\n-behaviour(supervisor).\n-export([start_link/0, init/1]).\n"
            "start_link() -> supervisor:start_link(?MODULE, []).\ninit([]) -> no_spec.\n"},
        {"no_pid.erl", "-module(no_pid).\n-export([start_link/0]).\nstart_link() -> not_a_pid.\n"},
        {"bad_app.erl",
            "-module(bad_app).\n-behaviour(application).\n-export([start/2, stop/1]).\n"
            "start(_, _) -> {error, disliked}.\nstop(_) -> ok.\n"}
    ]),
    Fails = fun(More) ->
        {error, #{kind := start, message := Message}} = vm:call(Vm, start, build:start_args(Built, More)),
        Message
    end,
    ?assertMatch({_, _}, binary:match(Fails(#{app => nil, supervisor => <<"bad_sup">>}), <<"nope">>)),
    ?assertMatch({_, _}, binary:match(Fails(#{app => nil, supervisor => <<"badly_begun">>}), <<"no_spec">>)),
    ?assertMatch({_, _}, binary:match(Fails(#{app => nil, supervisor => <<"no_pid">>}), <<"not_a_pid">>)),
    ?assertEqual(<<"the module gone does not exist">>, Fails(#{app => nil, supervisor => <<"gone">>})),
    ?assertEqual(
        <<"lists exports neither start_link/1 nor start_link/0">>, Fails(#{app => nil, supervisor => <<"lists">>})
    ),
    ?assertMatch(<<"my_project could not be started:", _/binary>>, Fails(#{})),
    ?assertMatch({_, _}, binary:match(Fails(#{}), <<"disliked">>)),
    Missing = Fails(#{app => <<"missing">>}),
    ?assertMatch(<<"missing could not be started: missing.app: no such file", _/binary>>, Missing),
    %% The next application has the same name.
    ?assertMatch({ok, #{term := ok}}, vm:eval(Vm, "application:unload(my_project)")).

elixir_failure(Vm) ->
    Built = file(
        "f.ex",
        "defmodule F do\n"
        "  use Supervisor\n"
        "  def start_link(_), do: Supervisor.start_link(__MODULE__, [])\n"
        "  def init(_), do: raise(\"not today\")\n"
        "end\n"
    ),
    {error, #{kind := start, message := Message}} = vm:call(Vm, start, build:start_args(Built, #{})),
    ?assertMatch(<<"F could not be started: ", _/binary>>, Message),
    ?assertMatch({_, _}, binary:match(Message, <<"** (RuntimeError) not today">>)).

%% A library has no supervision tree.
library(Vm) ->
    Built = file("lib_only.erl", "-module(lib_only).\n-export([x/0]).\nx() -> 1.\n"),
    {ok, Started} = vm:call(Vm, start, build:start_args(Built, #{})),
    ?assertMatch(#{app_name := <<"lib_only">>, supervisor_pid := nil, modules := [<<"lib_only">>]}, Started),
    ?assertMatch({ok, #{term := 1}}, vm:eval(Vm, "lib_only:x()")).
