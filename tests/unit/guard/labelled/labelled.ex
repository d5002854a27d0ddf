# Each module says in @finding what a scan is to find in it when only basic_otp, math and string are allowed; the
# innocent ones say nothing.
defmodule Labelled do
  defmacro __using__(options) do
    quote do
      Module.register_attribute(__MODULE__, :finding, persist: true, accumulate: true)
      Module.register_attribute(__MODULE__, :dynamic, persist: true)
      @dynamic unquote(options[:dynamic] || 0)
    end
  end
end

defmodule Guilty.Cmd do
  use Labelled
  @finding "run/1 call System.cmd/2 os_command"

  def run(command), do: System.cmd(command, [])
end

defmodule Guilty.Shell do
  use Labelled
  @finding "run/1 call System.shell/1 os_command"

  def run(command), do: System.shell(command)
end

defmodule Guilty.Erlang do
  use Labelled
  @finding "run/1 call os:cmd/1 os_command"

  def run(command), do: :os.cmd(command)
end

defmodule Guilty.Capture do
  use Labelled
  @finding "run/1 call System.cmd/2 os_command"

  def run(commands), do: Enum.map(commands, &System.cmd(&1, []))
end

defmodule Guilty.CaptureByName do
  use Labelled
  @finding "run/1 reference System.shell/1 os_command"

  def run(commands), do: Enum.map(commands, &System.shell/1)
end

defmodule Guilty.Renamed do
  use Labelled
  @finding "run/1 call System.cmd/2 os_command"

  alias System, as: S

  def run(command), do: S.cmd(command, [])
end

defmodule Guilty.Imported do
  use Labelled
  @finding "run/1 call System.cmd/2 os_command"

  import System, only: [cmd: 2]

  def run(command), do: cmd(command, [])
end

defmodule Guilty.Applied do
  use Labelled
  @finding "run/1 call System.cmd os_command"

  def run(arguments), do: apply(System, :cmd, arguments)
end

defmodule Guilty.Task do
  use Labelled
  @finding "run/1 call System.cmd os_command"

  def run(arguments), do: Task.async(System, :cmd, arguments)
end

defmodule Guilty.Child do
  use Labelled
  @finding "init/1 child_spec System.cmd/2 os_command"

  use Supervisor

  def start_link(argument), do: Supervisor.start_link(__MODULE__, argument)

  @impl true
  def init(_argument) do
    Supervisor.init([%{id: :touch, start: {System, :cmd, ["touch", ["/tmp/here"]]}}], strategy: :one_for_one)
  end
end

defmodule Guilty.Macro do
  use Labelled
  @finding "run/1 macro System.cmd os_command"

  defmacro run(command) do
    quote do
      System.cmd(unquote(command), [])
    end
  end
end

defmodule Guilty.MacroOfErlang do
  use Labelled
  @finding "run/1 macro os:cmd os_command"

  defmacro run(command) do
    quote do: :os.cmd(unquote(command))
  end
end

defmodule Guilty.Port do
  use Labelled
  @finding "run/1 call erlang:open_port/2 ports"

  def run(program), do: Port.open({:spawn_executable, program}, [:binary])
end

defmodule Guilty.Read do
  use Labelled
  @finding "run/0 call File.read!/1 file_read"

  def run, do: File.read!("/etc/shadow")
end

defmodule Guilty.Write do
  use Labelled
  @finding "run/1 call File.write/2 file_write"

  def run(path), do: File.write(path, "data")
end

defmodule Guilty.OpenForWriting do
  use Labelled
  @finding "run/1 call File.open/2 file_write"

  def run(path), do: File.open(path, [:write])
end

defmodule Guilty.Evaluate do
  use Labelled
  @finding "run/1 call Code.eval_string/1 code_loading"

  def run(text), do: Code.eval_string(text)
end

defmodule Guilty.Node do
  use Labelled
  @finding "run/1 call Node.connect/1 distribution"

  def run(node), do: Node.connect(node)
end

defmodule Guilty.Guarded do
  use Labelled
  @finding "run/1 call File.read/1 file_read"

  def run(x) when is_integer(x), do: x
  def run(x), do: with({:ok, text} <- File.read(x), do: text)
end

defmodule Innocent.Variables do
  use Labelled

  def run(os, file, system), do: os + file.open + system.cmd
end

defmodule Innocent.Fields do
  use Labelled

  defstruct [:os, :file, :cmd]

  def run(%__MODULE__{os: os} = struct), do: {os, struct.file, struct.cmd}
end

defmodule Innocent.OwnSystem.System do
  use Labelled

  def cmd(command, arguments), do: {command, arguments}
end

defmodule Innocent.Aliased do
  use Labelled

  alias Innocent.OwnSystem.System

  def run, do: System.cmd("ls", [])
end

defmodule Innocent.Strings do
  use Labelled

  def run, do: "System.cmd(1) and :os.cmd(2) and #{inspect({:os, :cmd})}"
end

defmodule Innocent.Doc do
  use Labelled

  @doc """
  Calls `System.cmd("rm", ["-rf", "/"])`, or rather does not: `:os.cmd(~c"ls")`.
  """
  def run, do: ~S|System.cmd("ls", [])|
end

defmodule Innocent.Comment do
  use Labelled

  # System.cmd("ls", [])
  def run, do: :ok
end

defmodule Innocent.Keywords do
  use Labelled

  def run, do: [os: 1, file: 2, cmd: {:os, :cmd, []}, open: {File, :open}]
end

defmodule Innocent.Tuples do
  use Labelled

  def run, do: {:os, :cmd, ["data"]}
end

defmodule Innocent.Server do
  use Labelled

  use GenServer

  def start_link(argument), do: GenServer.start_link(__MODULE__, argument)

  @impl true
  def init(argument), do: {:ok, %{file: argument}}

  @impl true
  def handle_call(:file, _from, state), do: {:reply, state.file, state}
end

defmodule Innocent.Supervisor do
  use Labelled

  use Supervisor

  def start_link(argument), do: Supervisor.start_link(__MODULE__, argument)

  @impl true
  def init(_argument) do
    children = [{Innocent.Server, []}, %{id: :other, start: {Innocent.Server, :start_link, [[]]}}]
    Supervisor.init(children, strategy: :one_for_one)
  end
end

defmodule Innocent.Text do
  use Labelled

  def run(text), do: text |> String.upcase() |> String.replace(~r/System.cmd/, "") |> String.split()
end

defmodule Innocent.Collections do
  use Labelled

  def run(list), do: for(x <- Enum.sort(list), x > 1, into: %{}, do: {x, Integer.to_string(x)})
end

defmodule Innocent.Macro do
  use Labelled

  defmacro run(value) do
    quote do: String.upcase(unquote(value))
  end
end

defmodule Innocent.Dynamic do
  use Labelled, dynamic: 1

  def run(module, function), do: apply(module, function, [])
end

defmodule Innocent.DynamicCall do
  use Labelled, dynamic: 1

  def run(module), do: module.handle(1)
end

defmodule Innocent.Clock do
  use Labelled

  def run, do: {System.monotonic_time(), System.get_env("HOME"), Path.join("a", "b"), Node.self()}
end

defmodule Innocent.Pattern do
  use Labelled

  def run({:os, {:unix, name}}), do: name
  def run({:file, :write, _path}), do: :described
end

defmodule Innocent.Protocol do
  use Labelled

  defimpl String.Chars, for: Innocent.Fields do
    def to_string(fields), do: "#{fields.os}"
  end

  def run(x), do: to_string(x)
end
