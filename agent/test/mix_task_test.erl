%%% Tests running tasks of Mix in a node that has a project's build.
-module(mix_task_test).

-include_lib("eunit/include/eunit.hrl").

mix(Module, More) ->
    [
        "defmodule ", Module, " do\n  use Mix.Project\n"
        "  def project, do: [version: \"0.1.0\", deps: []", More, "]\n"
        "  def application, do: [extra_applications: [:logger]]\nend\n"
    ].

task(Module, Body) ->
    ["defmodule Mix.Tasks.", Module, " do\n  use Mix.Task\n", Body, "end\n"].

%% Runs a task on a project and returns all that it printed, and its exit status. More of the start
%% call: the daemon's part of the configuration.
run(Files, Words, More) ->
    Dir = test_dir:write(test_dir:new(), Files),
    {ok, Built} = build:compile(mix, Dir, nil),
    From = test_dir:new(),
    ok = copy(Dir, filename:join(From, "project")),
    Vm = vm:start(#{}),
    Start = build:start_args(Built, More#{mix => true, app => nil, supervisor => nil}),
    {ok, #{app_name := nil}} = vm:call(Vm, start, Start),
    vm:send_call(Vm, 99, program, #{
        kind => mix, dir => list_to_binary(From), place => <<"project">>, mix_env => <<"dev">>, args => Words
    }),
    Status = vm:exit_status(Vm),
    {Status, printed(Vm), Dir, vm:dir(Vm)}.

copy(From, To) ->
    ok = filelib:ensure_dir(filename:join(To, "x")),
    {ok, Names} = file:list_dir(From),
    lists:foreach(
        fun(Name) ->
            [Source, Target] = [filename:join(Dir, Name) || Dir <- [From, To]],
            case filelib:is_dir(Source) of
                true -> copy(Source, Target);
                false -> {ok, _} = file:copy(Source, Target)
            end
        end,
        Names
    ).

%% The VM has ended, so all of it is here.
printed(Vm) ->
    case vm:left_output(Vm) of
        [] -> <<>>;
        Pieces -> iolist_to_binary(Pieces)
    end.

%% What Mix would do first is done; the caller's files go over the project's; what the task writes is
%% told, and the project's folder is as before.
a_task_of_the_project_test() ->
    Body =
        "  @requirements [\"app.start\"]\n  def run(args) do\n"
        "    Mix.Task.rerun(\"compile\")\n"
        "    IO.inspect({args, Mix.env(), Mix.Project.get(), Enum.sort(Application.get_all_env(:shop)), File.exists?(\"lib/new.ex\")})\n"
        "    IO.inspect(List.keyfind(Application.started_applications(), :shop, 0) != nil)\n"
        "    true = File.exists?(Path.join(Mix.Project.compile_path(), \"shop.app\"))\n"
        "    File.write!(\"lib/new.ex\", \"new\")\n    File.write!(\"mix.exs\", \"changed\")\n    File.rm!(\"lib/shop.ex\")\n  end\n",
    Files = [
        {"mix.exs", mix("Shop.MixProject", ", app: :shop")},
        {"lib/shop.ex", "defmodule Shop do\nend\n"},
        {"lib/mix/tasks/shop.try.ex", task("Shop.Try", Body)},
        {"config/config.exs", "import Config\nconfig :shop, a: 1, b: 1, c: 1\n"},
        {"config/runtime.exs", "import Config\nconfig :shop, b: 2, c: 2, d: System.fetch_env!(\"D\")\n"}
    ],
    More = #{files => [{<<"more.exs">>, <<"import Config\nconfig :shop, c: 3\n">>}], env => [{<<"D">>, <<"dd">>}]},
    {Status, Output, Dir, _Home} = run(Files, [<<"shop.try">>, <<"-x">>, <<"--">>], More),
    ?assertEqual(
        <<"{[\"-x\", \"--\"], :dev, Shop.MixProject, [a: 1, b: 2, c: 3, d: \"dd\"], false}\ntrue\n"
            "sandbox: the task wrote to a copy of the project, and nothing of it is kept: lib/new.ex, lib/shop.ex, mix.exs\n">>,
        Output
    ),
    ?assertEqual(0, Status),
    ?assert(filelib:is_regular(filename:join(Dir, "lib/shop.ex"))).

%% Each application of an umbrella is asked in turn, and nothing is compiled for it.
an_umbrella_long_test() ->
    Body =
        "  @recursive true\n  def run(_args) do\n    Mix.Task.run(\"app.start\")\n"
        "    IO.inspect({Mix.Project.config()[:app], Path.basename(File.cwd!())})\n"
        "    if Mix.Project.config()[:app] == :two, do: Mix.raise(\"enough\")\n  end\n",
    Files = [
        {"mix.exs", mix("All.MixProject", ", apps_path: \"apps\"")},
        {"apps/one/mix.exs", mix("One.MixProject", ", app: :one")},
        {"apps/one/lib/one.ex", task("One.Each", Body)},
        {"apps/two/mix.exs", mix("Two.MixProject", ", app: :two")},
        {"apps/two/lib/two.ex", "defmodule Two do\nend\n"}
    ],
    {Status, Output, _Dir, _Home} = run(Files, [<<"one.each">>], #{}),
    ?assertEqual({1, <<"{:one, \"one\"}\n{:two, \"two\"}\n** (Mix) enough\n">>}, {Status, Output}).

%% Mix has the words for a task that is none.
no_such_task_long_test() ->
    Files = [{"mix.exs", mix("Bare.MixProject", ", app: :bare")}, {"lib/bare.ex", "defmodule Bare do\nend\n"}],
    {Status, Output, _Dir, _Home} = run(Files, [<<"bare.try">>], #{}),
    ?assertEqual({1, <<"** (Mix) The task \"bare.try\" could not be found\n">>}, {Status, Output}).

%% Large files are linked to, and the paths of others are told.
the_copy_test() ->
    Large = binary:copy(<<"x">>, 70000),
    From = test_dir:write(test_dir:new(), [{"p/a", "1"}, {"p/b/c", "2"}, {"p/large", Large}, {"beside/d", "3"}]),
    To = test_dir:new(),
    Tree = sbx_mix_tree:copy(From, To, "p"),
    ?assertEqual({ok, <<"2">>}, file:read_file(filename:join(To, "p/b/c"))),
    ?assertEqual({ok, Large}, file:read_file(filename:join(To, "p/large"))),
    ?assertMatch({ok, _}, file:read_link(filename:join(To, "p/large"))),
    ?assertEqual([], sbx_mix_tree:changed(Tree)),
    ok = file:write_file(filename:join(To, "beside/d"), "changed"),
    ok = file:write_file(filename:join(To, "p/a"), "7"),
    ok = file:delete(filename:join(To, "p/b/c")),
    ok = file:write_file(filename:join(To, "p/new"), ""),
    ?assertEqual(["a", "b/c", "new"], sbx_mix_tree:changed(Tree)).
