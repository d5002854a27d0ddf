defmodule Counter.Supervisor do
  @moduledoc """
  Keeps the counter running.
  """

  use Supervisor

  @spec start_link(keyword()) :: Supervisor.on_start()
  def start_link(_opts), do: Supervisor.start_link(__MODULE__, [], name: __MODULE__)

  @impl true
  def init(_opts) do
    children = [{Counter.Server, name: Counter.Server}]
    Supervisor.init(children, strategy: :one_for_one)
  end
end
