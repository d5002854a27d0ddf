defmodule ChatRoom.Session do
  @moduledoc """
  One member's presence in one room: active while there is something to hear or say, idle after a while without.
  """

  @behaviour :gen_statem

  alias ChatRoom.{Room, Rooms}

  @spec child_spec({ChatRoom.room(), ChatRoom.member()}) :: Supervisor.child_spec()
  def child_spec({_room, _member} = arg) do
    %{id: __MODULE__, start: {__MODULE__, :start_link, [arg]}, restart: :temporary}
  end

  @spec start_link({ChatRoom.room(), ChatRoom.member()}) :: :gen_statem.start_ret()
  def start_link({room, member} = arg) do
    name = {:via, Registry, {ChatRoom.Registry, {:session, room, member}}}
    :gen_statem.start_link(name, __MODULE__, arg, [])
  end

  @spec say(pid(), String.t()) :: :ok
  def say(session, text), do: :gen_statem.call(session, {:say, text})

  @spec presence(pid()) :: :active | :idle
  def presence(session), do: :gen_statem.call(session, :presence)

  @spec leave(pid()) :: :ok
  def leave(session), do: :gen_statem.call(session, :leave)

  @impl true
  def callback_mode, do: [:state_functions, :state_enter]

  @impl true
  def init({room, member}) do
    {:ok, pid} = Rooms.find(room)
    :ok = Room.enter(pid, member)
    Process.monitor(pid)
    idle_after_ms = Application.fetch_env!(:chat_room, :idle_after_ms)
    {:ok, :active, %{room: pid, member: member, idle_after_ms: idle_after_ms}}
  end

  @doc false
  def active(:enter, _before, data), do: {:keep_state_and_data, wait(data)}
  def active(:state_timeout, :quiet, data), do: {:next_state, :idle, data}
  def active(:info, {:said, _from, _text}, data), do: {:keep_state_and_data, wait(data)}
  def active(kind, event, data), do: in_any_state(kind, event, :active, data)

  @doc false
  def idle(:enter, _before, _data), do: :keep_state_and_data
  def idle(:info, {:said, _from, _text}, data), do: {:next_state, :active, data}
  def idle(kind, event, data), do: in_any_state(kind, event, :idle, data)

  defp in_any_state({:call, from}, {:say, text}, _state, data) do
    :ok = Room.say(data.room, data.member, text)
    {:keep_state_and_data, {:reply, from, :ok}}
  end

  defp in_any_state({:call, from}, :presence, state, _data) do
    {:keep_state_and_data, {:reply, from, state}}
  end

  defp in_any_state({:call, from}, :leave, _state, _data) do
    {:stop_and_reply, :normal, {:reply, from, :ok}}
  end

  defp in_any_state(:info, {:DOWN, _ref, :process, _room, _reason}, _state, _data) do
    {:stop, :normal}
  end

  defp wait(data), do: {:state_timeout, data.idle_after_ms, :quiet}
end
