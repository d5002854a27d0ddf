defmodule ChatRoom.Room do
  @moduledoc """
  One room: passes what is said on to everybody in it, remembers the last lines, and closes when the last has left.
  """

  use GenServer, restart: :transient

  defstruct [:name, :limit, members: %{}, history: :queue.new(), size: 0]

  @spec start_link(ChatRoom.room()) :: GenServer.on_start()
  def start_link(name) do
    GenServer.start_link(__MODULE__, name, name: {:via, Registry, {ChatRoom.Registry, {:room, name}}})
  end

  @doc "The calling process becomes a member and gets `{:said, from, text}` from now on."
  @spec enter(pid(), ChatRoom.member()) :: :ok
  def enter(room, member), do: GenServer.call(room, {:enter, member})

  @spec say(pid(), ChatRoom.member(), String.t()) :: :ok
  def say(room, member, text), do: GenServer.call(room, {:say, member, text})

  @spec history(pid()) :: [{ChatRoom.member(), String.t()}]
  def history(room), do: GenServer.call(room, :history)

  @impl true
  def init(name) do
    {:ok, %__MODULE__{name: name, limit: Application.fetch_env!(:chat_room, :history)}}
  end

  @impl true
  def handle_call({:enter, member}, {pid, _tag}, room) do
    {:reply, :ok, put_in(room.members[Process.monitor(pid)], {member, pid})}
  end

  def handle_call({:say, from, text}, _from, room) do
    for {_ref, {_member, pid}} <- room.members, do: send(pid, {:said, from, text})
    {:reply, :ok, remember(room, {from, text})}
  end

  def handle_call(:history, _from, room), do: {:reply, :queue.to_list(room.history), room}

  @impl true
  def handle_info({:DOWN, ref, :process, _pid, _reason}, room) do
    case Map.delete(room.members, ref) do
      members when members == %{} -> {:stop, :normal, %{room | members: members}}
      members -> {:noreply, %{room | members: members}}
    end
  end

  defp remember(%{size: size, limit: limit} = room, line) when size < limit do
    %{room | history: :queue.in(line, room.history), size: size + 1}
  end

  defp remember(room, line) do
    %{room | history: :queue.in(line, :queue.drop(room.history))}
  end
end
