# Compares the Elixir text of each answer with what inspect gives for the term.
[input, output] = System.argv()

defmodule Differential do
  def parts(<<size::32, part::binary-size(size), rest::binary>>), do: [part | parts(rest)]
  def parts(<<>>), do: []
end

texts = output |> File.read!() |> Differential.parts() |> Enum.chunk_every(3) |> Enum.map(&List.last/1)
terms = input |> File.read!() |> Differential.parts() |> Enum.map(&:erlang.binary_to_term/1)

differences =
  for {term, text} <- Enum.zip(terms, texts),
      expected = inspect(term, limit: :infinity, printable_limit: :infinity),
      expected != text,
      do: {expected, text}

for {expected, text} <- Enum.take(differences, 20), do: IO.puts("Elixir: #{expected}\n     C: #{text}")
IO.puts("#{length(terms)} terms, #{length(differences)} differences to Elixir")
if differences != [] or length(terms) != length(texts), do: System.halt(1)
