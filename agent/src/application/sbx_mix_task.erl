%%% Runs a task of Mix in a node that has the project's build: Mix's own command line, on a copy of
%%% the project's files. What Mix would do before a task is done already: the build is compiled, and
%%% nothing is fetched.
-module(sbx_mix_task).

-export([prepare/1, run/1, main/0, configure/1]).

%% The daemon's arguments of the start, kept until a task asks for the configuration.
-define(GIVEN, {?MODULE, given}).
-define(TREE, {?MODULE, tree}).

%% Mix takes the tasks of these three lists for done.
-define(COMPILING, [
    <<"compile">>, <<"compile.all">>, <<"compile.yecc">>, <<"compile.leex">>, <<"compile.erlang">>, <<"compile.elixir">>,
    <<"compile.app">>, <<"compile.protocols">>, <<"deps.compile">>, <<"deps.precompile">>
]).
-define(CHECKING, [<<"loadconfig">>, <<"loadpaths">>, <<"deps.loadpaths">>, <<"deps.check">>, <<"archive.check">>]).
-define(FETCHING, [<<"deps.get">>, <<"deps.update">>, <<"local.hex">>, <<"local.rebar">>, <<"archive.install">>]).

%% Takes the place of the application's start: the node is configured as the project was when it was
%% compiled. The configuration of run time is evaluated once a task asks for it.
-spec prepare(map()) -> ok.
prepare(Args) ->
    persistent_term:put(?GIVEN, maps:with([config, files, env, mix_env, apps], Args)),
    sbx_runtime_config:begin_with(Args).

%% Returns where something failed, or where the task goes on without Mix (--no-halt). Otherwise the VM
%% has ended.
-spec run(map()) -> sbx_call:result().
run(#{dir := From, place := Place, mix_env := Env, args := Words}) ->
    {ok, Home} = file:get_cwd(),
    try
        Tree = sbx_mix_tree:copy(text(From), Home, text(Place)),
        persistent_term:put(?TREE, Tree),
        ok = file:set_cwd(filename:join(Home, text(Place))),
        ok = start_mix(Home, binary_to_atom(Env)),
        Script = filename:join(Home, "mix"),
        ok = file:write_file(Script, <<":sbx_mix_task.main()\n">>),
        %% It reports exceptions, runs the functions of System.at_exit, and ends the VM.
        'Elixir.Kernel.CLI':main([Script | [text(Word) || Word <- Words]]),
        {ok, #{is_running => true}}
    catch
        throw:{start, Text} -> sbx_call:failure(start, "~ts", [Text])
    end.

start_mix(Home, Env) ->
    Build = filename:join(Home, "build"),
    ok = sbx_mix:start(Build, Env),
    'Elixir.Mix':shell('Elixir.Mix.Shell.IO'),
    #{apps := Apps} = persistent_term:get(?GIVEN),
    lists:foreach(fun(App) -> ok = link_app(Build, App) end, Apps),
    %% Mix's command line must not load mix.exs: main/0 has done so.
    os:putenv("MIX_EXS", "/dev/null"),
    ok = keep_logging().

%% Links the compiled application into the folder where Mix looks for what it has built.
link_app(Build, #{name := Name, dir := Dir}) ->
    Target = filename:join([Build, "lib", text(Name)]),
    ok = filelib:ensure_dir(filename:join(Target, "x")),
    {ok, Folders} = file:list_dir(Dir),
    lists:foreach(
        fun(Folder) -> ok = file:make_symlink(filename:join(text(Dir), Folder), filename:join(Target, Folder)) end,
        [Folder || Folder <- Folders, lists:member(Folder, ["ebin", "priv", "include", "consolidated"])]
    ).

%% Mix restarts Elixir's Logger, which removes the handler of the name that ours has.
keep_logging() ->
    case sbx_log:take_away() of
        none -> ok;
        Handler -> logger:add_handler(sandbox, sbx_log, maps:without([id, module], Handler))
    end.

%% Called by the script that run/1 writes.
-spec main() -> term().
main() ->
    Words = 'Elixir.System':argv(),
    'Elixir.System':at_exit(fun(_Status) -> sbx_mix_tree:tell(persistent_term:get(?TREE)) end),
    ok = load_project(),
    ok = replace_app_config(),
    ok = mark_umbrella(),
    ok = tell_done(Words),
    'Elixir.Mix.CLI':main(Words).

load_project() ->
    Undefined = 'Elixir.Code':get_compiler_option(no_warn_undefined),
    'Elixir.Code':put_compiler_option(no_warn_undefined, all),
    _ = 'Elixir.Code':compile_file(<<"mix.exs">>),
    'Elixir.Code':put_compiler_option(no_warn_undefined, Undefined),
    mark().

mark_umbrella() ->
    case 'Elixir.Mix.Project':'umbrella?'() of
        true ->
            Config = lists:keydelete(deps_path, 1, 'Elixir.Mix.Project':deps_config()),
            Options = [{inherit_parent_config_files, true} | Config],
            lists:foreach(
                fun(#{app := App, opts := Opts}) ->
                    {path, Path} = lists:keyfind(path, 1, Opts),
                    ok = 'Elixir.Mix.Project':in_project(App, Path, Options, fun(_Module) -> mark() end)
                end,
                'Elixir.Mix.Dep.Umbrella':cached()
            );
        false ->
            ok
    end.

%% Marks the tasks as done for the project that is on top of Mix's stack.
mark() ->
    Project = 'Elixir.Mix.Project':get(),
    Config = 'Elixir.Mix.Project':config(),
    Own = [<<"compile.", (atom_to_binary(Name))/binary>> || Name <- listed(compilers, Config), is_atom(Name)],
    lists:foreach(
        fun(Task) -> 'Elixir.Mix.TasksServer':put({task, Task, Project}) end, Own ++ ?COMPILING ++ ?CHECKING ++ ?FETCHING
    ).

listed(Key, Config) ->
    case proplists:get_value(Key, Config, []) of
        List when is_list(List) -> List;
        _ -> []
    end.

%% Mix says nothing of a task that it takes for done.
tell_done([Task | _]) ->
    case {lists:member(Task, ?COMPILING), lists:member(Task, ?FETCHING)} of
        {true, _} -> info(<<"The project is compiled: a sandbox runs tasks on its build.">>);
        {_, true} -> info(<<"Nothing is fetched in a sandbox: the dependencies are those in the project.">>);
        _ -> ok
    end;
tell_done([]) ->
    ok.

info(Text) ->
    ('Elixir.Mix':shell()):info(Text),
    ok.

%% Mix's own app.config does not know the caller's files, and would put config/runtime.exs over them.
replace_app_config() ->
    Conflicts = 'Elixir.Code':get_compiler_option(ignore_module_conflict),
    'Elixir.Code':put_compiler_option(ignore_module_conflict, true),
    _ = 'Elixir.Code':compile_string(<<
        "defmodule Mix.Tasks.App.Config do\n  use Mix.Task\n  @shortdoc \"Configures all registered apps\"\n"
        "  def run(args), do: :sbx_mix_task.configure(args)\nend\n"
    >>),
    'Elixir.Code':put_compiler_option(ignore_module_conflict, Conflicts),
    ok.

%% The task app.config.
-spec configure([binary()]) -> ok.
configure(Args) ->
    _ = 'Elixir.Mix.Project':'get!'(),
    _ = 'Elixir.Mix.Task':run(<<"compile">>, Args),
    try
        sbx_runtime_config:apply(maps:merge(#{config => nil, files => []}, persistent_term:get(?GIVEN)))
    catch
        throw:{start, Text} -> 'Elixir.Mix':raise(Text)
    end,
    lists:member(<<"--preload-modules">>, Args) andalso preload(),
    ok.

preload() ->
    Keys = [application:get_key(App, modules) || {App, _Description, _Version} <- application:loaded_applications()],
    code:ensure_modules_loaded(lists:append([Modules || {ok, Modules} <- Keys])).

text(Chars) ->
    unicode:characters_to_list(Chars).
