%% The compiler's calls one by one: what is told of each file, and what a node that stays knows and forgets.
-module(incremental_test).

-include_lib("eunit/include/eunit.hrl").

elixir_kinds_test() ->
    Vm = compiler:start(),
    Dir = test_dir:write(test_dir:new(), [
        {"mac.ex", "defmodule Mac do\n  defmacro m, do: Helper.val()\n  defmacro __using__(_), do: quote(do: :ok)\nend\n"},
        {"helper.ex", "defmodule Helper do\n  def val, do: 1\nend\n"},
        {"st.ex", "defmodule St do\n  defstruct a: 1\nend\n"},
        {"beh.ex", "defmodule Beh do\n  @callback go() :: :ok\nend\n"},
        {"prot.ex", "defprotocol Prot do\n  def p(x)\nend\n"},
        {"user.ex",
            "defmodule User do\n  require Mac\n  @behaviour Beh\n  @external_resource \"data.txt\"\n"
            "  @from_body Enum.map([1], &Body.x/1)\n  def m, do: Mac.m()\n  def go, do: :ok\n"
            "  def s, do: %St{}\n  def r, do: Remote.call()\n  def b, do: @from_body\nend\n"},
        {"body.ex", "defmodule Body do\n  def x(y), do: y\nend\n"},
        {"remote.ex", "defmodule Remote do\n  def call, do: Application.get_env(:a, :b)\nend\n"},
        {"impl.ex", "defimpl Prot, for: St do\n  def p(_), do: 1\nend\n"},
        {"uses.ex", "defmodule Uses do\n  use Mac\n  import Helper\n  def v, do: val()\nend\n"},
        {"conf.ex", "defmodule Conf do\n  @x Application.compile_env(:a, :b, 1)\n  def x, do: @x\nend\n"},
        {"none.ex", "1 + 1\n"},
        {"data.txt", ""}
    ]),
    {ok, #{apps := [#{sources := Sources}]}} = compiler:project(Vm, folder, Dir),
    {ok, #{files := Files}} = compiler:compile(Vm, Sources, []),
    File = fun(Name) -> hd([F || #{file := N} = F <- Files, N =:= Name]) end,
    ?assertMatch(
        #{
            compile := [<<"Elixir.Beh">>, <<"Elixir.Body">>, <<"Elixir.Mac">>],
            exports := [<<"Elixir.Mac">>, <<"Elixir.St">>],
            runtime := [<<"Elixir.Remote">>, <<"Elixir.St">>],
            resources := [<<"data.txt">>],
            includes := [],
            config := false,
            warnings := []
        },
        File(<<"user.ex">>)
    ),
    ?assertMatch(#{compile := [], runtime := [<<"Elixir.Helper">>]}, File(<<"mac.ex">>)),
    ?assertMatch(#{compile := [<<"Elixir.Prot">>]}, File(<<"impl.ex">>)),
    ?assertMatch(
        #{compile := [<<"Elixir.Mac">>], exports := [<<"Elixir.Helper">>, <<"Elixir.Mac">>]}, File(<<"uses.ex">>)
    ),
    ?assertMatch(#{config := true}, File(<<"conf.ex">>)),
    ?assertMatch(#{modules := []}, File(<<"none.ex">>)),
    ?assertMatch(#{config := false}, File(<<"remote.ex">>)),
    vm:stop(Vm).
