defmodule ChatRoom.Sessions do
  @moduledoc """
  Starts members' sessions and finds them.
  """

  use DynamicSupervisor

  alias ChatRoom.Session

  @spec start_link(keyword()) :: Supervisor.on_start()
  def start_link(_opts), do: DynamicSupervisor.start_link(__MODULE__, [], name: __MODULE__)

  @spec enter(ChatRoom.room(), ChatRoom.member()) :: {:ok, pid()} | {:error, :already_joined}
  def enter(room, member) do
    case DynamicSupervisor.start_child(__MODULE__, {Session, {room, member}}) do
      {:ok, pid} -> {:ok, pid}
      {:error, {:already_started, _pid}} -> {:error, :already_joined}
    end
  end

  @spec find(ChatRoom.room(), ChatRoom.member()) :: {:ok, pid()} | {:error, :not_joined}
  def find(room, member) do
    case Registry.lookup(ChatRoom.Registry, {:session, room, member}) do
      [{pid, _value}] -> {:ok, pid}
      [] -> {:error, :not_joined}
    end
  end

  @spec in_room(ChatRoom.room()) :: [{ChatRoom.member(), pid()}]
  def in_room(room) do
    Registry.select(ChatRoom.Registry, [
      {{{:session, room, :"$1"}, :"$2", :_}, [], [{{:"$1", :"$2"}}]}
    ])
  end

  @impl true
  def init(_opts), do: DynamicSupervisor.init(strategy: :one_for_one)
end
