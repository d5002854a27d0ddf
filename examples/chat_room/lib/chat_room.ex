defmodule ChatRoom do
  @moduledoc """
  Rooms that people join and talk in.

  Every room is a process under a dynamic supervisor, found by its name in a registry, and every member's presence in a
  room is a state machine of its own: active, idle after a while without a word, and gone.

      iex> ChatRoom.join("lobby", "ann")
      :ok
      iex> ChatRoom.say("lobby", "ann", "hello")
      :ok
      iex> ChatRoom.history("lobby")
      [{"ann", "hello"}]
  """

  alias ChatRoom.{Room, Rooms, Session, Sessions}

  @type room :: String.t()
  @type member :: String.t()

  @doc "Enters a room, which is opened if nobody was there yet."
  @spec join(room(), member()) :: :ok | {:error, :already_joined}
  def join(room, member) do
    with {:ok, _room} <- Rooms.open(room),
         {:ok, _session} <- Sessions.enter(room, member) do
      :ok
    end
  end

  @doc "Says something to everybody in the room."
  @spec say(room(), member(), String.t()) :: :ok | {:error, :not_joined}
  def say(room, member, text) do
    with {:ok, session} <- Sessions.find(room, member) do
      Session.say(session, text)
    end
  end

  @doc "Leaves a room; the last one out closes it."
  @spec leave(room(), member()) :: :ok | {:error, :not_joined}
  def leave(room, member) do
    with {:ok, session} <- Sessions.find(room, member) do
      Session.leave(session)
    end
  end

  @doc "Who is in the room, each `:active` or `:idle`."
  @spec members(room()) :: %{member() => :active | :idle}
  def members(room) do
    for {member, session} <- Sessions.in_room(room), into: %{}, do: {member, Session.presence(session)}
  end

  @doc "What was said in the room, oldest first."
  @spec history(room()) :: [{member(), String.t()}]
  def history(room) do
    case Rooms.find(room) do
      {:ok, pid} -> Room.history(pid)
      {:error, :no_such_room} -> []
    end
  end

  @doc "The names of the rooms that are open."
  @spec rooms() :: [room()]
  defdelegate rooms, to: Rooms, as: :names
end
