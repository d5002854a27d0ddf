%%% Warms up a pooled compiler node: it loads the modules that compiling needs and runs them once,
%%% before a project comes. It compiles a small project through the compiler's own calls and removes
%%% everything afterwards.
-module(sbx_warm_up).

-export([run/1]).

-define(ERLANG,
    "-module(sandbox_warm_up).\n"
    "-behaviour(gen_server).\n"
    "-include(\"sandbox_warm_up.hrl\").\n"
    "-export([start_link/0, init/1, handle_call/3, handle_cast/2]).\n"
    "-record(state, {seen = #{} :: map(), text = <<>> :: binary()}).\n"
    "start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).\n"
    "init([]) -> process_flag(trap_exit, true), {ok, #state{}}.\n"
    "handle_call({add, Key}, _From, #state{seen = Seen} = State) when is_atom(Key) ->\n"
    "    Counted = maps:update_with(Key, fun(N) -> N + 1 end, ?ONE, Seen),\n"
    "    {reply, [{K, V} || {K, V} <- maps:to_list(Counted), V > 1], State#state{seen = Counted}};\n"
    "handle_call(_Other, _From, State) ->\n"
    "    try {reply, byte_size(State#state.text), State} catch error:_ -> {stop, bad, State} end.\n"
    "handle_cast({text, <<Text/binary>>}, State) -> {noreply, State#state{text = Text}}.\n"
).
-define(HEADER, "-define(ONE, 1).\n").
-define(MIX,
    "defmodule SandboxWarmUp.MixProject do\n"
    "  use Mix.Project\n"
    "  def project, do: [app: :sandbox_warm_up, version: \"0.1.0\", elixir: \"~> 1.0\", deps: deps()]\n"
    "  def application, do: [extra_applications: [:logger], mod: {SandboxWarmUp, []}]\n"
    "  defp deps, do: []\n"
    "end\n"
).
-define(CONFIG, "import Config\nconfig :sandbox_warm_up, size: 1\n").
-define(ELIXIR,
    "defmodule SandboxWarmUp do\n"
    "  @moduledoc \"Nothing.\"\n"
    "  use Application\n"
    "  @size Application.compile_env(:sandbox_warm_up, :size)\n"
    "  def start(_type, _args), do: Supervisor.start_link([SandboxWarmUp.Server], strategy: :one_for_one)\n"
    "  @doc \"Still nothing.\"\n"
    "  @spec size() :: integer()\n"
    "  def size, do: @size\n"
    "end\n"
    "defmodule SandboxWarmUp.Server do\n"
    "  use GenServer\n"
    "  require Logger\n"
    "  defstruct count: 0, seen: []\n"
    "  def start_link(opts \\\\ []), do: GenServer.start_link(__MODULE__, opts, name: __MODULE__)\n"
    "  @impl true\n"
    "  def init(opts), do: {:ok, %__MODULE__{count: Keyword.get(opts, :count, 0)}}\n"
    "  @impl true\n"
    "  def handle_call({:add, n}, _from, %{count: count} = state) when is_integer(n) do\n"
    "    Logger.info(\"now #{count + n}\")\n"
    "    seen = for {k, v} <- state.seen, v > 0, into: %{}, do: {k, v}\n"
    "    with {:ok, _} <- Map.fetch(seen, n), do: :ok\n"
    "    {:reply, Enum.map([n | []], &(&1 + 1)) |> Enum.sum(), %{state | count: count + n}}\n"
    "  end\n"
    "  @impl true\n"
    "  def handle_info(_, state) do\n"
    "    unless state.count > 0, do: Process.send_after(self(), :tick, 10)\n"
    "    {:noreply, state}\n"
    "  end\n"
    "end\n"
    "defprotocol SandboxWarmUp.Shape do\n"
    "  def area(shape)\n"
    "end\n"
    "defimpl SandboxWarmUp.Shape, for: SandboxWarmUp.Server do\n"
    "  def area(_), do: 1\n"
    "end\n"
).

-spec run(map()) -> sbx_call:result().
run(Args) ->
    Elixir = maps:get(elixir, Args),
    {ok, Home} = file:get_cwd(),
    Dir = filename:join(Home, "warm_up"),
    try
        lists:foreach(fun({Name, Text}) -> write(filename:join(Dir, Name), Text) end, files(Elixir)),
        ok = compile(#{source => unicode:characters_to_binary(Dir), kind => kind(Elixir), file => nil, name => nil}),
        {ok, #{}}
    after
        sbx_compile:reset(),
        _ = file:del_dir_r(Dir),
        lists:foreach(fun erlang:garbage_collect/1, processes())
    end.

kind(true) -> mix;
kind(false) -> folder.

files(true) ->
    [{"mix.exs", ?MIX}, {"config/config.exs", ?CONFIG}, {"lib/sandbox_warm_up.ex", ?ELIXIR} | files(false)];
files(false) ->
    [{"src/sandbox_warm_up.erl", ?ERLANG}, {"include/sandbox_warm_up.hrl", ?HEADER}].

write(File, Text) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Text).

compile(Args) ->
    {ok, #{apps := [#{name := Name, sources := Sources}]}} = sbx_compile:project(Args),
    {ok, #{files := Files}} = sbx_compile:compile(#{app => Name, files => Sources, forget => []}),
    Modules = [Module || #{modules := Modules} <- Files, #{module := Module} <- Modules],
    {ok, _} = sbx_compile:finish(#{apps => [#{name => Name, modules => Modules}], consolidate => true}),
    ok.
