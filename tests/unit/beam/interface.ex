# What changes a module's interface hash and what does not, by compiling it both ways; and exports and imports of the
# installed modules as beam_lib tells them. A module, compiled once per build: a script takes twice as long each time.
defmodule Interface do
  # erl -run Elixir.Interface main make FOLDER           compiles what the check looks at, once per build
  # erl -run Elixir.Interface main check FOLDER FACTS
  def main([verb | paths]) do
    {:ok, _} = Application.ensure_all_started(:elixir)
    complaints = run(verb, Enum.map(paths, &Path.expand/1))
    Enum.each(complaints, &IO.puts(:stderr, &1))
    System.halt(if complaints == [], do: 0, else: 1)
  end

  defp run(~c"make", [folder]) do
    Code.compiler_options(ignore_module_conflict: true, docs: true, debug_info: true)
    Code.compile_string("defmodule Built do\n  defstruct a: 1, b: nil\nend")

    # Warnings are of no interest in a build's output.
    {:ok, _} = Application.ensure_all_started(:ex_unit)

    ExUnit.CaptureIO.capture_io(:stderr, fn ->
      compile(sources(), paths(sources(), folder, "case"))
      compile(need_sources(), paths(need_sources(), folder, "need"))
    end)

    []
  end

  defp run(~c"check", [folder, program]) do
    facts = facts(program, paths(sources(), folder, "case"))
    need_facts = facts(program, paths(need_sources(), folder, "need"))

    wrong_changes(facts, paths(sources(), folder, "case")) ++
      wrong_needs(need_facts, paths(need_sources(), folder, "need")) ++
      wrong_installed(program)
  end

  defp wrong_changes(facts, paths) do
    compiled = facts[hd(paths)]

    dependencies =
      if compiled.compile == ["gen_server"] and compiled.runtime == ["erlang"],
        do: [],
        else: ["dependencies: #{inspect(compiled)}"]

    dependencies ++
      for {{name, _, _, interface?, version?}, [before, later]} <-
            Enum.zip(cases(), Enum.chunk_every(paths, 2)),
          {what, key, changes?} <- [
            {"interface", :interface, interface?},
            {"version", :checksum, version?}
          ],
          facts[before][key] != facts[later][key] != changes?,
          do: "#{name}: the #{what} #{if changes?, do: "did not change", else: "changed"}"
  end

  defp wrong_needs(facts, paths) do
    for {{source, compile, runtime, optional}, path} <- Enum.zip(needs(), paths),
        told = facts[path],
        elixirs = Enum.filter(told.runtime, &String.starts_with?(&1, "Elixir.")),
        {told.compile, elixirs, told.optional} != {compile, runtime, optional},
        do: "needs of #{source}: #{inspect({told.compile, elixirs, told.optional})}"
  end

  # The installed modules, as beam_lib reads them.
  defp wrong_installed(program) do
    installed =
      Path.wildcard("#{:code.lib_dir(:stdlib)}/ebin/*.beam") ++
        Enum.take(Path.wildcard("#{:code.lib_dir(:elixir)}/ebin/*.beam"), 60)

    facts = facts(program, installed)
    IO.puts("#{length(cases())} changes, #{length(installed)} modules")
    for path <- installed, told_differently?(path, facts[path]), do: "#{path} is told differently"
  end

  defp told_differently?(path, ours) do
    {:ok, {module, [exports: exports, imports: imports]}} =
      :beam_lib.chunks(String.to_charlist(path), [:exports, :imports])

    exports = for {name, arity} <- exports, do: "#{name}/#{arity}"
    imports = for {m, f, a} <- imports, do: "#{m}:#{f}/#{a}"

    ours.module != Atom.to_string(module) or Enum.sort(ours.exports) != Enum.sort(exports) or
      Enum.sort(ours.imports) != Enum.sort(imports)
  end

  defp facts(program, paths) do
    {output, 0} = System.cmd(program, paths)

    for line <- String.split(output, "\n", trim: true), into: %{} do
      [path, module, checksum, interface, exports, imports, runtime, compile, optional] =
        String.split(line, "\t")

      {path,
       %{
         module: module,
         checksum: checksum,
         interface: interface,
         exports: String.split(exports, " ", trim: true),
         imports: String.split(imports, " ", trim: true),
         runtime: String.split(runtime, " ", trim: true),
         compile: String.split(compile, " ", trim: true),
         optional: String.split(optional, " ", trim: true)
       }}
    end
  end

  # Each source's file.
  defp paths(sources, folder, name) do
    for index <- 1..length(sources), do: Path.join(folder, "#{name}-#{index}.beam")
  end

  # The last module of a source counts.
  defp compile(sources, paths) do
    for {{kind, source}, path} <- Enum.zip(sources, paths),
        do: File.write!(path, binary(kind, source))
  end

  defp binary(:elixir, source) do
    {_module, binary} = source |> Code.compile_string("same.ex") |> List.last()
    binary
  end

  defp binary(:erlang, source) do
    {:ok, tokens, _} = :erl_scan.string(String.to_charlist(source), {1, 1})
    forms = tokens |> Enum.chunk_while([], &chunk/2, fn _ -> {:cont, []} end) |> Enum.map(&form/1)
    {:ok, _module, binary} = :compile.forms([{:attribute, 1, :file, {~c"same.erl", 1}} | forms], [])
    binary
  end

  defp chunk({:dot, _} = dot, tokens), do: {:cont, Enum.reverse([dot | tokens]), []}
  defp chunk(token, tokens), do: {:cont, [token | tokens]}

  defp form(tokens) do
    {:ok, form} = :erl_parse.parse_form(tokens)
    form
  end

  defp sources, do: Enum.flat_map(cases(), fn {_, before, later, _, _} -> [before, later] end)
  defp need_sources, do: Enum.map(needs(), &{:elixir, elem(&1, 0)})

  # {what changes, before, after, whether the interface does, whether the version does}
  defp cases do
    erlang = "-module(m). -export([f/1]). -behaviour(gen_server). f(X) -> X + 1. "
    elixir = "defmodule M do\n  def f(x), do: x + 1\n  defmacro mac(x), do: x\nend"
    struct = "defmodule S do\n  defstruct a: 1, b: nil\nend"

    enforced =
      "defmodule S do\n  @enforce_keys [:a]\n  defstruct a: 1, b: nil\n def f(x), do: \"text \#{x} more\"\nend"

    behaviour =
      "-module(b). -export([behaviour_info/1, other/0]). behaviour_info(callbacks) -> list(). list() -> [{a, 1}]. other() -> 1. "

    callbacks = "defmodule B do\n  @callback a(integer) :: integer\n  def f, do: 1\nend"
    protocol = "defprotocol P do\n  def size(x)\nend"

    large =
      "defmodule L do\n  def __struct__(), do: %{#{Enum.map_join(1..40, ", ", &"k#{&1}: #{&1}")}}\nend"

    [
      {"nothing", {:erlang, erlang}, {:erlang, erlang}, false, false},
      {"Erlang body", {:erlang, erlang}, {:erlang, String.replace(erlang, "+ 1", "+ 2")}, false,
       true},
      {"Erlang line", {:erlang, erlang}, {:erlang, "\n\n" <> erlang}, false, true},
      {"Erlang export", {:erlang, erlang},
       {:erlang, String.replace(erlang, "[f/1]", "[f/1, g/0]") <> "g() -> 1. "}, true, true},
      {"Erlang local function", {:erlang, erlang},
       {:erlang,
        String.replace(erlang, "X + 1", "g(X)") <> "g(X) -> {a_new_atom, \"and text\", X}. "},
       false, true},
      {"Erlang order of exports",
       {:erlang, "-module(m). -export([f/0, g/0]). f() -> 1. g() -> 2. "},
       {:erlang, "-module(m). -export([g/0, f/0]). g() -> 2. f() -> 1. "}, false, true},
      {"Erlang arity", {:erlang, "-module(m). -export([f/0]). f() -> 1. "},
       {:erlang, "-module(m). -export([f/1]). f(_) -> 1. "}, true, true},
      {"Erlang callback", {:erlang, behaviour},
       {:erlang, String.replace(behaviour, "{a, 1}", "{a, 2}")}, true, true},
      {"Erlang beside callbacks", {:erlang, behaviour},
       {:erlang, String.replace(behaviour, "other() -> 1", "other() -> {2, \"x\", other}")},
       false, true},
      {"Elixir body", {:elixir, elixir},
       {:elixir, String.replace(elixir, "x + 1", "[x, :other, \"text\"]")}, false, true},
      {"Elixir macro body", {:elixir, elixir},
       {:elixir, String.replace(elixir, "mac(x), do: x", "mac(x), do: {:a, [], [x]}")}, false,
       true},
      {"Elixir new macro", {:elixir, elixir},
       {:elixir, String.replace(elixir, "mac(x)", "other(x)")}, true, true},
      {"Elixir function to macro", {:elixir, elixir},
       {:elixir, String.replace(elixir, "def f", "defmacro f")}, true, true},
      {"Elixir private function", {:elixir, elixir},
       {:elixir, String.replace(elixir, "x + 1", "g(x)\n  defp g(x), do: x")}, false, true},
      {"Elixir docs", {:elixir, elixir},
       {:elixir, String.replace(elixir, "  def f", "  @doc \"words\"; def f")}, false, false},
      {"Elixir line", {:elixir, elixir},
       {:elixir, String.replace(elixir, "  def f", "\n\n  def f")}, false, true},
      {"Elixir deprecation", {:elixir, elixir},
       {:elixir, String.replace(elixir, "  def f", "  @deprecated \"no\"; def f")}, true, true},
      {"Elixir type", {:elixir, elixir},
       {:elixir,
        String.replace(elixir, "  def f", "  @type t :: integer; @spec f(t) :: t; def f")}, false,
       false},
      {"Elixir default argument", {:elixir, elixir},
       {:elixir, String.replace(elixir, "f(x)", "f(x \\\\ 1)")}, true, true},
      {"Elixir value of an attribute",
       {:elixir,
        String.replace(elixir, "x + 1", "@a")
        |> String.replace("do\n", "do\n@a 1\n", global: false)},
       {:elixir,
        String.replace(elixir, "x + 1", "@a")
        |> String.replace("do\n", "do\n@a 2\n", global: false)}, false, true},
      {"exception's message", {:elixir, "defmodule E do\n  defexception message: \"a\"\nend"},
       {:elixir, "defmodule E do\n  defexception message: \"b\"\nend"}, true, true},
      {"Erlang type", {:erlang, erlang},
       {:erlang,
        String.replace(erlang, "f(X) ->", "-type t() :: integer(). -spec f(t()) -> t(). f(X) ->")},
       false, false},
      {"parse transform's body",
       {:erlang, "-module(t). -export([parse_transform/2]). parse_transform(F, _) -> F. "},
       {:erlang, "-module(t). -export([parse_transform/2]). parse_transform(F, _) -> tl(F). "},
       false, true},
      {"struct default", {:elixir, struct}, {:elixir, String.replace(struct, "a: 1", "a: 2")},
       true, true},
      {"struct field", {:elixir, struct}, {:elixir, String.replace(struct, "b: nil", "c: nil")},
       true, true},
      {"enforced key", {:elixir, enforced}, {:elixir, String.replace(enforced, "[:a]", "[:b]")},
       true, true},
      {"beside a struct", {:elixir, enforced},
       {:elixir, String.replace(enforced, "text", "longer text than before")}, false, true},
      {"Elixir callback", {:elixir, callbacks},
       {:elixir, String.replace(callbacks, "a(integer)", "b(integer)")}, true, true},
      {"Elixir optional callback", {:elixir, callbacks},
       {:elixir, String.replace(callbacks, "def f", "@optional_callbacks a: 1\n  def f")}, true,
       true},
      {"protocol function", {:elixir, protocol},
       {:elixir, String.replace(protocol, "size(x)", "size(x)\n  def other(x)")}, true, true},
      {"a large map", {:elixir, large}, {:elixir, large}, false, false}
    ]
  end

  # What an Elixir module needs: {source, compile, runtime that is Elixir's, optional}.
  defp needs do
    [
      {"defmodule N do\n  def f, do: %Built{}\nend", ["Elixir.Built"], [], []},
      {"defmodule N do\n  def f(x, y), do: %Built{a: x, b: y}\nend", ["Elixir.Built"], [], []},
      {"defmodule N do\n  def f, do: [{Some.Worker, [1]}]\nend", [], [], ["Elixir.Some.Worker"]},
      {"defmodule N do\n  def f(x), do: x == Some.Atom\nend", [], [], ["Elixir.Some.Atom"]},
      {"defmodule N do\n  def f, do: [Some.Worker, Some.Worker.go()]\nend", [],
       ["Elixir.Some.Worker"], []},
      {"defmodule N do\n  @behaviour Access\n  def f, do: Access\n" <>
         "  def fetch(_, _), do: :error\n  def pop(x, _), do: {1, x}\n" <>
         "  def get_and_update(x, _, _), do: {1, x}\nend", ["Elixir.Access"], [], []}
    ]
  end
end
