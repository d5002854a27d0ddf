# A VM that stays, for comparison: does what each line of its input asks, and prints how many microseconds that took.
Code.compiler_options(ignore_module_conflict: true)

defmodule Bench do
  def answer(["elixir", path]), do: time(fn -> [_ | _] = Code.compile_file(path) end)

  def answer(["erlang", path, folder]) do
    options = [:debug_info, :return, outdir: String.to_charlist(folder)]
    time(fn -> {:ok, _, _} = :compile.file(String.to_charlist(path), options) end)
  end

  def answer(["mix_project", folder]) do
    File.cd!(folder)
    Mix.start()
    Mix.shell(Mix.Shell.Quiet)
    time(fn -> Code.compile_file("mix.exs") end)
  end

  def answer(["mix"]) do
    Mix.Task.clear()
    time(fn -> {:ok, _} = Mix.Task.run("compile", ["--return-errors"]) end)
  end

  defp time(work), do: work |> :timer.tc() |> elem(0)
end

for line <- IO.stream(:stdio, :line), do: line |> String.split() |> Bench.answer() |> IO.puts()
