defmodule Counter.Application do
  @moduledoc false

  use Application

  @impl true
  def start(_type, _args), do: Counter.Supervisor.start_link([])
end
