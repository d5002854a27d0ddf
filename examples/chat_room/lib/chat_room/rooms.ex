defmodule ChatRoom.Rooms do
  @moduledoc """
  Opens rooms and finds them by name.
  """

  use DynamicSupervisor

  alias ChatRoom.Room

  @spec start_link(keyword()) :: Supervisor.on_start()
  def start_link(_opts), do: DynamicSupervisor.start_link(__MODULE__, [], name: __MODULE__)

  @spec open(ChatRoom.room()) :: {:ok, pid()}
  def open(name) do
    case DynamicSupervisor.start_child(__MODULE__, {Room, name}) do
      {:ok, pid} -> {:ok, pid}
      {:error, {:already_started, pid}} -> {:ok, pid}
    end
  end

  @spec find(ChatRoom.room()) :: {:ok, pid()} | {:error, :no_such_room}
  def find(name) do
    case Registry.lookup(ChatRoom.Registry, {:room, name}) do
      [{pid, _value}] -> {:ok, pid}
      [] -> {:error, :no_such_room}
    end
  end

  @spec names() :: [ChatRoom.room()]
  def names do
    ChatRoom.Registry
    |> Registry.select([{{{:room, :"$1"}, :_, :_}, [], [:"$1"]}])
    |> Enum.sort()
  end

  @impl true
  def init(_opts), do: DynamicSupervisor.init(strategy: :one_for_one)
end
