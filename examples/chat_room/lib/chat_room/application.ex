defmodule ChatRoom.Application do
  @moduledoc false

  use Application

  @impl true
  def start(_type, _args) do
    children = [
      {Registry, keys: :unique, name: ChatRoom.Registry},
      ChatRoom.Rooms,
      ChatRoom.Sessions
    ]

    # A session is worth nothing without its room, nor a room without the registry it is found in.
    Supervisor.start_link(children, strategy: :rest_for_one, name: ChatRoom.Supervisor)
  end
end
