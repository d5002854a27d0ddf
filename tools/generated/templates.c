/* The sources. $G is the group's number, $N the next group's. */
#include "templates.h"

const struct template project_templates[] = {
    {"mix.exs", "defmodule Generated.MixProject do\n"
                "  use Mix.Project\n\n"
                "  def project do\n"
                "    [app: :generated, version: \"1.0.0\", elixir: \"~> 1.14\", erlc_paths: [\"src\"], deps: []]\n"
                "  end\n\n"
                "  def application, do: [extra_applications: [:logger]]\n"
                "end\n"},
    {"config/config.exs", "import Config\n\nconfig :generated, limit: 10\n"},
    {NULL, NULL},
};

const struct template data_templates[] = {
    {"include/g$G.hrl", "-record(entry, {key, value = 1}).\n"},
    {"priv/g$G.txt", "first\n"},
    {NULL, NULL},
};

const struct template module_templates[] = {
    {"lib/g$G/plain_a.ex", "defmodule Generated.G$G.PlainA do\n"
                           "  @moduledoc \"Calls others when it runs.\"\n\n"
                           "  def value(0), do: :g$G_plain.value()\n"
                           "  def value(n), do: Generated.G$G.PlainB.value(n - 1)\n"
                           "end\n"},
    {"lib/g$G/plain_b.ex", "defmodule Generated.G$G.PlainB do\n"
                           "  def value(0), do: 1\n"
                           "  def value(n), do: Generated.G$N.PlainA.value(n - 1)\n"
                           "end\n"},
    {"lib/g$G/deep.ex", "defmodule Generated.G$G.Deep do\n"
                        "  def base, do: 10\n"
                        "end\n"},
    {"lib/g$G/helper.ex", "defmodule Generated.G$G.Helper do\n"
                          "  def offset, do: Generated.G$G.Deep.base() + 1\n"
                          "end\n"},
    {"lib/g$G/macros.ex", "defmodule Generated.G$G.Macros do\n"
                          "  defmacro stamp(value) do\n"
                          "    offset = Generated.G$G.Helper.offset()\n"
                          "    quote do: unquote(value) * 1 + unquote(offset)\n"
                          "  end\n"
                          "end\n"},
    {"lib/g$G/macro_user.ex", "defmodule Generated.G$G.MacroUser do\n"
                              "  require Generated.G$G.Macros, as: Macros\n\n"
                              "  def stamped(value), do: Macros.stamp(value)\n"
                              "end\n"},
    {"lib/g$G/macro_importer.ex", "defmodule Generated.G$G.MacroImporter do\n"
                                  "  import Generated.G$G.Macros\n\n"
                                  "  def stamped(value), do: stamp(value)\n"
                                  "end\n"},
    {"lib/g$G/template.ex", "defmodule Generated.G$G.Template do\n"
                            "  defmacro __using__(options) do\n"
                            "    quote do\n"
                            "      def name, do: unquote(options[:name])\n"
                            "      def kind, do: :first\n"
                            "      defoverridable kind: 0\n"
                            "    end\n"
                            "  end\n"
                            "end\n"},
    {"lib/g$G/template_user.ex", "defmodule Generated.G$G.TemplateUser do\n"
                                 "  use Generated.G$G.Template, name: \"group $G\"\n"
                                 "end\n"},
    {"lib/g$G/point.ex", "defmodule Generated.G$G.Point do\n"
                         "  defstruct x: 0, y: 0\n\n"
                         "  def origin, do: %__MODULE__{}\n"
                         "end\n"},
    {"lib/g$G/point_user.ex", "defmodule Generated.G$G.PointUser do\n"
                              "  alias Generated.G$G.Point\n\n"
                              "  def start, do: %Point{y: 1}\n"
                              "  def x(%Point{x: x}), do: x\n"
                              "end\n"},
    {"lib/g$G/shape.ex", "defprotocol Generated.G$G.Shape do\n"
                         "  def area(shape)\n"
                         "end\n"},
    {"lib/g$G/shape_point.ex", "defimpl Generated.G$G.Shape, for: Generated.G$G.Point do\n"
                               "  def area(_point), do: 0\n"
                               "end\n"},
    {"lib/g$G/contract.ex", "defmodule Generated.G$G.Contract do\n"
                            "  @callback size(term) :: integer\n"
                            "end\n"},
    {"lib/g$G/contract_user.ex", "defmodule Generated.G$G.ContractUser do\n"
                                 "  @behaviour Generated.G$G.Contract\n\n"
                                 "  @impl true\n"
                                 "  def size(list), do: length(list)\n"
                                 "end\n"},
    {"lib/g$G/settings.ex", "defmodule Generated.G$G.Settings do\n"
                            "  @limit Application.compile_env(:generated, :limit)\n\n"
                            "  def limit, do: @limit\n"
                            "end\n"},
    {"lib/g$G/resource.ex", "defmodule Generated.G$G.Resource do\n"
                            "  @external_resource \"priv/g$G.txt\"\n"
                            "  @text File.read!(\"priv/g$G.txt\")\n\n"
                            "  def text, do: @text\n"
                            "end\n"},
    {"src/g$G_record.erl", "-module(g$G_record).\n"
                           "-include(\"g$G.hrl\").\n"
                           "-export([new/1]).\n\n"
                           "new(Key) -> #entry{key = Key}.\n"},
    {"src/g$G_plain.erl", "-module(g$G_plain).\n"
                          "-export([value/0, sum/1, words/1, insert/2, depth/1]).\n\n"
                          "value() -> 1.\n\n"
                          "sum(List) -> lists:foldl(fun(Item, Sum) -> Item + Sum end, 0, List).\n\n"
                          "words(Text) ->\n"
                          "    [string:trim(Word) || Word <- string:split(Text, \" \", all), Word =/= \"\"].\n\n"
                          "insert(Key, nil) -> {Key, nil, nil};\n"
                          "insert(Key, {Root, Left, Right}) when Key < Root -> {Root, insert(Key, Left), Right};\n"
                          "insert(Key, {Root, Left, Right}) when Key > Root -> {Root, Left, insert(Key, Right)};\n"
                          "insert(_Key, Tree) -> Tree.\n\n"
                          "depth(nil) -> 0;\n"
                          "depth({_Root, Left, Right}) -> 1 + max(depth(Left), depth(Right)).\n"},
    {"lib/g$G/counter.ex",
     "defmodule Generated.G$G.Counter do\n"
     "  @moduledoc \"A server that counts, of an ordinary size.\"\n"
     "  use GenServer\n\n"
     "  @step 1\n\n"
     "  def start_link(options) do\n"
     "    {initial, options} = Keyword.pop(options, :initial, 0)\n"
     "    GenServer.start_link(__MODULE__, initial, options)\n"
     "  end\n\n"
     "  def value(server), do: GenServer.call(server, :value)\n"
     "  def increment(server), do: GenServer.cast(server, {:add, @step})\n"
     "  def add(server, amount) when is_integer(amount), do: GenServer.cast(server, {:add, amount})\n"
     "  def history(server), do: GenServer.call(server, :history)\n"
     "  def reset(server), do: GenServer.call(server, :reset)\n\n"
     "  @impl true\n"
     "  def init(initial) do\n"
     "    {:ok, %{count: initial, initial: initial, history: []}}\n"
     "  end\n\n"
     "  @impl true\n"
     "  def handle_call(:value, _from, state) do\n"
     "    {:reply, state.count, state}\n"
     "  end\n\n"
     "  def handle_call(:history, _from, state) do\n"
     "    {:reply, Enum.reverse(state.history), state}\n"
     "  end\n\n"
     "  def handle_call(:reset, _from, state) do\n"
     "    {:reply, :ok, %{state | count: state.initial, history: []}}\n"
     "  end\n\n"
     "  @impl true\n"
     "  def handle_cast({:add, amount}, state) do\n"
     "    entry = {System.monotonic_time(), amount}\n"
     "    {:noreply, %{state | count: state.count + amount, history: [entry | state.history]}}\n"
     "  end\n\n"
     "  @impl true\n"
     "  def handle_info(message, state) do\n"
     "    IO.puts(\"unexpected: #{inspect(message)}\")\n"
     "    {:noreply, state}\n"
     "  end\n"
     "end\n"},
    {"lib/g$G/shape_any.ex", "defimpl Generated.G$G.Shape, for: Any do\n"
                             "  defmacro __deriving__(module, _struct, options) do\n"
                             "    quote do\n"
                             "      defimpl Generated.G$G.Shape, for: unquote(module) do\n"
                             "        def area(_shape), do: unquote(options[:area]) + 1\n"
                             "      end\n"
                             "    end\n"
                             "  end\n\n"
                             "  def area(_shape), do: 1\n"
                             "end\n"},
    {"lib/g$G/derived.ex", "defmodule Generated.G$G.Derived do\n"
                           "  @derive {Generated.G$G.Shape, area: 5}\n"
                           "  defstruct [:name]\n"
                           "end\n"},
    {"src/g$G_contract.erl", "-module(g$G_contract).\n\n"
                             "-callback run(term()) -> term().\n"},
    {"src/g$G_worker.erl", "-module(g$G_worker).\n"
                           "-behaviour(g$G_contract).\n"
                           "-export([run/1]).\n\n"
                           "run(Term) -> {Term, g$G_plain:value()}.\n"},
    {"lib/g$G/shape_integer.ex", "defimpl Generated.G$G.Shape, for: Integer do\n"
                                 "  def area(side), do: side * side\n"
                                 "end\n"},
};
