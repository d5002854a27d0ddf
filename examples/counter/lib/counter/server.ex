defmodule Counter.Server do
  @moduledoc """
  Holds the count.
  """

  use GenServer

  @type server :: GenServer.server()

  @spec start_link(keyword()) :: GenServer.on_start()
  def start_link(opts) do
    {initial, opts} = Keyword.pop(opts, :initial, 0)
    GenServer.start_link(__MODULE__, initial, opts)
  end

  @spec increment(server(), pos_integer()) :: integer()
  def increment(server, by \\ 1) when is_integer(by) and by > 0 do
    GenServer.call(server, {:increment, by})
  end

  @spec value(server()) :: integer()
  def value(server), do: GenServer.call(server, :value)

  @spec reset(server()) :: :ok
  def reset(server), do: GenServer.call(server, :reset)

  @impl true
  def init(initial), do: {:ok, initial}

  @impl true
  def handle_call({:increment, by}, _from, count), do: {:reply, count + by, count + by}
  def handle_call(:value, _from, count), do: {:reply, count, count}
  def handle_call(:reset, _from, _count), do: {:reply, :ok, 0}
end
