%%% Mix inside the compiler node. It is told to keep to the node's scratch folder, to fetch nothing
%%% and to run nothing: it reads the project and says what the project is.
-module(sbx_mix).

-export([start/2, forget/0]).

%% Where Mix and its tools keep files of the user's own. In the node all are one folder that nothing
%% has written to yet.
-define(HOMES, ["HOME", "MIX_HOME", "MIX_ARCHIVES", "HEX_HOME", "REBAR_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"]).
%% Set by a user for a purpose of the user's own. The daemon's own environment has none of them.
-define(UNSET, ["MIX_EXS", "MIX_DEPS_PATH", "MIX_BUILD_ROOT", "MIX_TARGET", "MIX_PATH", "MIX_REBAR3"]).

%% Mix is installed beside Elixir, in a folder that is not on the code path of other nodes. Build is
%% where it puts what it builds. Env is nil where the caller names none: the project may name one.
-spec start(file:filename(), atom() | nil) -> ok.
start(Build, Env) ->
    ok = sbx_elixir:need("a Mix project"),
    Libraries = filename:dirname(code:lib_dir(elixir)),
    [code:add_pathz(filename:join([Libraries, App, "ebin"])) || App <- ["mix", "eex", "ex_unit"]],
    ok = environment(Build, Env),
    {ok, _} = application:ensure_all_started(mix),
    'Elixir.Mix':shell(sbx_mix_shell),
    %% The last one that is put in front is asked first. Ours takes whatever lies in no given path.
    ok = to_ok('Elixir.Mix.SCM':prepend(sbx_mix_scm)),
    ok = to_ok('Elixir.Mix.SCM':prepend('Elixir.Mix.SCM.Path')),
    ok = to_ok('Elixir.Mix.RemoteConverger':register(sbx_mix_hex)),
    ok = forget(),
    choose(Env).

environment(Build, Env) ->
    Home = filename:join(filename:dirname(Build), "home"),
    lists:foreach(fun(Name) -> os:putenv(Name, Home) end, ?HOMES),
    lists:foreach(fun os:unsetenv/1, ?UNSET),
    os:putenv("MIX_BUILD_PATH", Build),
    os:putenv("HEX_OFFLINE", "1"),
    case Env of
        nil -> os:unsetenv("MIX_ENV");
        _ -> os:putenv("MIX_ENV", atom_to_list(Env))
    end,
    ok.

%% Since 1.15 a project's cli/0 names an environment of its own, if Mix is told that it comes next.
choose(nil) ->
    'Elixir.Mix':env(dev),
    case erlang:function_exported('Elixir.Mix.ProjectStack', pop_post_config, 1) of
        true -> to_ok('Elixir.Mix.ProjectStack':post_config([{state_loader, {cli, <<"compile">>}}]));
        false -> ok
    end;
choose(Env) ->
    to_ok('Elixir.Mix':env(Env)).

to_ok(_Result) ->
    ok.

%% Forgets every project, and unloads the modules of evaluated mix.exs files, so that they are
%% evaluated anew.
-spec forget() -> ok.
forget() ->
    case whereis('Elixir.Mix.ProjectStack') of
        undefined ->
            ok;
        _Stack ->
            'Elixir.Mix.ProjectStack':clear_stack(),
            'Elixir.Mix.State':clear_cache(),
            'Elixir.Mix.Task':clear(),
            lists:foreach(fun sbx_scratch:unload/1, evaluated())
    end.

%% A module that was compiled in memory has no file but its source.
evaluated() ->
    [Module || {Module, File} <- code:all_loaded(), File =:= "", is_script(Module)].

is_script(Module) ->
    filename:extension(proplists:get_value(source, Module:module_info(compile), "")) =:= ".exs".
