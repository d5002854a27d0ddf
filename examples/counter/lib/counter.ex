defmodule Counter do
  @moduledoc """
  A number that several processes count up together.

      iex> Counter.increment()
      1
      iex> Counter.increment(by: 2)
      3
      iex> Counter.value()
      3
  """

  alias Counter.Server

  @doc "Adds to the count and returns the new one."
  @spec increment(by: pos_integer()) :: integer()
  def increment(opts \\ []), do: Server.increment(Server, Keyword.get(opts, :by, 1))

  @doc "The count."
  @spec value() :: integer()
  def value, do: Server.value(Server)

  @doc "Starts again from zero."
  @spec reset() :: :ok
  def reset, do: Server.reset(Server)
end
