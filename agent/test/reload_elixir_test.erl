%%% Changes a running Elixir application: structs, Agents, its kinds of supervisors, and the list in
%%% its start/2.
-module(reload_elixir_test).

-include_lib("eunit/include/eunit.hrl").

elixir_node_test() ->
    Vm = vm:start(#{env => [{"SANDBOX_ELIXIR", "1"}]}),
    V1 = project(first()),
    V2 = project(second()),
    {ok, #{app_name := <<"shop">>}} = vm:call(Vm, start, build:start_args(V1, #{})),
    warned(Vm, V1, V2),
    outdated(Vm, V1, V2),
    changed(Vm, V1, V2),
    restarted(Vm, V2),
    vm:stop(Vm).

project(Files) ->
    Mix = {"mix.exs",
        "defmodule Shop.MixProject do\n  use Mix.Project\n  def project, do: [app: :shop, version: \"1.0.0\"]\n"
        "  def application, do: [mod: {Shop.App, []}, extra_applications: [:logger]]\nend\n"},
    {ok, Built} = build:compile(mix, test_dir:write(test_dir:new(), [Mix | Files]), nil),
    Built.

modules(#{apps := [#{modules := Modules} | _]}) ->
    [{binary_to_atom(Module), Beam} || #{module := Module, beam := Beam} <- Modules].

%% The entries for modules that differ.
entries(Before, After) ->
    {Old, New} = {modules(Before), modules(After)},
    Same = [Module || {Module, Beam} <- New, proplists:get_value(Module, Old) =:= Beam],
    Entries = reloads:change(Old, [M || {Module, _} = M <- New, not lists:member(Module, Same)], 2),
    Entries ++ reloads:delete([M || {Module, _} = M <- Old, not lists:keymember(Module, 1, New)], 2).

first() ->
    [
        {"lib/app.ex",
            "defmodule Shop.App do\n  use Application\n  def start(_, _) do\n"
            "    children = [{Shop.Cart, 1}, Shop.Notes, {Registry, keys: :unique, name: Shop.Registry},\n"
            "      {PartitionSupervisor, child_spec: {Shop.Cart, 5}, name: Shop.Parts, partitions: 2}, Shop.Rooms]\n"
            "    Supervisor.start_link(children, strategy: :one_for_one)\n  end\nend\n"},
        {"lib/cart.ex",
            "defmodule Shop.Cart do\n  use GenServer\n  defstruct [:items]\n"
            "  def start_link(1), do: GenServer.start_link(__MODULE__, 1, name: __MODULE__)\n"
            "  def start_link(n), do: GenServer.start_link(__MODULE__, n)\n"
            "  def init(n), do: {:ok, %__MODULE__{items: [n]}}\n"
            "  def handle_call(:get, _, s), do: {:reply, s, s}\n"
            "  def handle_call({:add, i}, _, s), do: {:reply, :ok, %{s | items: [i | s.items]}}\nend\n"},
        {"lib/notes.ex",
            "defmodule Shop.Notes do\n  use Agent\n"
            "  def start_link(_), do: Agent.start_link(fn -> [] end, name: __MODULE__)\n"
            "  def add(n), do: Agent.update(__MODULE__, &[n | &1])\n  def all, do: Agent.get(__MODULE__, & &1)\nend\n"},
        {"lib/rooms.ex",
            "defmodule Shop.Rooms do\n  use DynamicSupervisor\n"
            "  def start_link(_), do: DynamicSupervisor.start_link(__MODULE__, [], name: __MODULE__)\n"
            "  def init(_), do: DynamicSupervisor.init(strategy: :one_for_one, max_children: 3)\nend\n"}
    ].

%% The struct has one more field, the Agent keeps a map, and the list has one child more and one
%% less.
second() ->
    Replaced = [
        {"lib/app.ex", "[{Shop.Cart, 1}", "[Shop.Extra, {Shop.Cart, 1}"},
        {"lib/app.ex", ", Shop.Rooms]", "]"},
        {"lib/cart.ex", "defstruct [:items]", "defstruct [:items, :total]"},
        {"lib/notes.ex", "&[n | &1]", "&Map.put(&1, n, true)"}
    ],
    Edited = lists:foldl(fun({Name, From, To}, Files) ->
        {_, Text} = lists:keyfind(Name, 1, Files),
        New = lists:flatten(string:replace(Text, From, To)),
        ?assertNotEqual(Text, New),
        lists:keystore(Name, 1, Files, {Name, New})
    end, first(), Replaced),
    [{"lib/extra.ex",
        "defmodule Shop.Extra do\n  use GenServer\n"
        "  def start_link(_), do: GenServer.start_link(__MODULE__, 0, name: __MODULE__)\n"
        "  def init(n) do\n    :counters.add(:persistent_term.get(:started), 1, 1)\n    {:ok, n}\n  end\n"
        "  def handle_call(:get, _, n), do: {:reply, n, n}\nend\n"} | Edited].

eval(Vm, Code) ->
    case vm:eval(Vm, elixir, Code) of
        {ok, #{term := Term}} -> Term;
        Error -> error({Code, Error})
    end.

%% A caller that does not allow start/2 to run again gets a warning. The struct's new field is
%% missing.
warned(Vm, V1, V2) ->
    ok = eval(Vm, "Shop.Notes.add(:milk); GenServer.call(Shop.Cart, {:add, 2})"),
    {ok, Result} = reloads:reload(Vm, entries(V1, V2), #{settle => revert}),
    ?assertMatch(
        [
            <<"Shop.App:start/2 was not run again", _/binary>>, <<"Shop.Cart gained :total; 3 processes lack it">>,
            <<"to migrate such states: --migrate 'Shop.Cart=fn state, _, _ -> Map.put_new(state, :total, nil) end'">>
        ],
        maps:get(warnings, Result)
    ),
    ?assertMatch(
        [#{missing := [<<"total">>], added := [], module := <<"Elixir.Shop.Cart">>} | _], maps:get(shapes, Result)
    ),
    ?assertEqual([milk], eval(Vm, "Shop.Notes.all()")),
    ?assertEqual(nil, eval(Vm, "Process.whereis(Shop.Extra)")).

%% Structs deep in the states of an Agent and of a state machine, whose own code stays.
outdated(Vm, V1, V2) ->
    Cart = fun({Module, _}) -> Module =:= 'Elixir.Shop.Cart' end,
    [Old, New] = [lists:filter(Cart, modules(V)) || V <- [V1, V2]],
    ok = eval(Vm, "Agent.update(Shop.Notes, fn _ -> [:milk, %{7 => {1, %Shop.Cart{items: [3]}}}] end)"),
    ok = eval(Vm, "defmodule Shop.Door do\n  @behaviour :gen_statem\n  def callback_mode, do: :handle_event_function\n"
        "  def init(d), do: {:ok, :open, d}\n  def handle_event({:call, f}, :get, s, d), do: "
        "{:keep_state_and_data, [{:reply, f, {s, d}}]}\nend\n"
        "{:ok, _} = :gen_statem.start({:local, :door}, Shop.Door, %{carts: [%Shop.Cart{}, :none]}, [])\n:ok"),
    {ok, #{warnings := [Would, _]}} = reloads:reload(Vm, reloads:change(Old, New, 2), #{dry_run => true}),
    ?assertEqual(<<"Shop.Cart gained :total; 5 processes would lack it, unless a code_change migrates">>, Would),
    {ok, #{warnings := [Told, _] = Warnings}} = reloads:reload(Vm, reloads:change(Old, New, 2)),
    ?assertEqual(<<"Shop.Cart gained :total; 5 processes lack it">>, Told),
    {ok, #{modules := [], warnings := []}} = reloads:reload(Vm, [], #{migrations => reloads:pasted(elixir, Warnings)}),
    ?assertMatch([milk, #{7 := {1, #{items := [3], total := nil}}}], eval(Vm, "Shop.Notes.all()")),
    ?assertMatch({open, #{carts := [#{total := nil}, none]}}, eval(Vm, ":gen_statem.call(:door, :get)")),
    {ok, #{warnings := [Back, _] = Down}} = reloads:reload(Vm, reloads:change(New, Old, 2)),
    ?assertEqual(<<"Shop.Cart lost :total; 5 processes still have it">>, Back),
    {ok, #{warnings := []}} = reloads:reload(Vm, [], #{migrations => reloads:pasted(elixir, Down)}),
    ?assertEqual(false, eval(Vm, "Map.has_key?(GenServer.call(Shop.Cart, :get), :total)")),
    ok = eval(Vm, ":gen_statem.stop(:door)\nAgent.update(Shop.Notes, fn _ -> [:milk] end)").

changed(Vm, V1, V2) ->
    ok = eval(Vm, ":persistent_term.put(:started, :counters.new(1, []))"),
    Before = eval(Vm, "Enum.map([Shop.Cart, Shop.Notes, Shop.Registry, Shop.Parts], &Process.whereis/1)"),
    Migrations = #{
        <<"Elixir.Shop.Cart">> => #{kind => expression, language => elixir,
            code => <<"fn state, 1, 2 -> Map.put(state, :total, length(state.items)) end">>},
        <<"Elixir.Shop.Notes">> => #{kind => expression, language => elixir,
            code => <<"fn notes, _, _ -> Map.new(notes, &{&1, true}) end">>}
    },
    {ok, Result} = reloads:reload(Vm, entries(V1, V2), #{run_start => true, migrations => Migrations}),
    ?assertEqual([], maps:get(warnings, Result)),
    ?assertMatch([#{id := <<"Shop.Rooms">>, change := stopped}, #{id := <<"Shop.Extra">>, change := started}],
        maps:get(children, Result)),
    ?assertEqual(Before, eval(Vm, "Enum.map([Shop.Cart, Shop.Notes, Shop.Registry, Shop.Parts], &Process.whereis/1)")),
    ?assertMatch(#{items := [2, 1], total := 2}, eval(Vm, "GenServer.call(Shop.Cart, :get)")),
    ?assertMatch(#{items := [5], total := 1}, eval(Vm, "GenServer.call({:via, PartitionSupervisor, {Shop.Parts, 0}}, "
        ":get)")),
    ?assertEqual(#{milk => true}, eval(Vm, "Shop.Notes.all()")),
    %% Running start/2 again started nothing.
    ?assertEqual(1, eval(Vm, ":counters.get(:persistent_term.get(:started), 1)")),
    ?assertEqual({0, nil}, eval(Vm, "{GenServer.call(Shop.Extra, :get), Process.whereis(Shop.Rooms)}")).

%% States are restored by their path into the tree that is started next.
restarted(Vm, V2) ->
    ok = eval(Vm, "Shop.Notes.add(:eggs); :sys.replace_state(Shop.Extra, fn _ -> self() end); :ok"),
    %% A compiled regular expression, which belongs to its node since OTP 28, is compiled again.
    _ = eval(Vm, ":sys.replace_state(Shop.Cart, &Map.put(&1, :words, [{~r/^m.lk$/iu, 1}])); :ok"),
    {ok, #{states := States, lost := Lost}} = vm:call(Vm, snapshot_states, #{timeout_ms => 1000}),
    ?assertMatch([#{path := [<<"Shop.Extra">>], reason := <<"its state holds a process identifier">>}],
        [L || #{path := [<<"Shop.Extra">>]} = L <- Lost]),
    ?assert(lists:member([<<"Shop.Cart">>], [Path || #{path := Path} <- States])),
    ok = eval(Vm, "Application.stop(:shop)"),
    ?assertMatch(#{reason := shutdown}, vm:event(Vm, stopped)),
    Gone = #{path => [<<"Shop.Gone">>], kind => server, module => <<"Elixir.Shop.Cart">>, term => term_to_binary(1)},
    {ok, Started} = vm:call(Vm, start, build:start_args(V2, #{states => [Gone | States]})),
    ?assertEqual([#{path => [<<"Shop.Gone">>], reason => <<"its place is gone">>}], maps:get(lost, Started)),
    ?assertMatch(#{items := [2, 1], total := 2}, eval(Vm, "GenServer.call(Shop.Cart, :get)")),
    ?assertEqual([true, false], eval(Vm, "[{word, 1}] = GenServer.call(Shop.Cart, :get).words; "
        "Enum.map([\"MILK\", \"MILKS\"], &Regex.match?(word, &1))")),
    ?assertEqual(#{milk => true, eggs => true}, eval(Vm, "Shop.Notes.all()")).
