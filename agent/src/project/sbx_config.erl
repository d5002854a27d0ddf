%%% Reads a project's configuration, and applies one to a node. It has the form
%%% [{Application, [{Key, Value}]}].
-module(sbx_config).

-export([elixir/2, runtime/2, erlang/1, apply/1, add/1]).

-type config() :: [{atom(), [{atom(), term()}]}].
-type runtime() :: #{file := binary(), text := binary(), env := atom()}.

%% Reads config/config.exs and its imports. Returns the names of all these files too.
-spec elixir(file:filename(), atom()) -> {config(), [file:filename()]}.
elixir(File, Env) ->
    read(File, Env).

%% The text of config/runtime.exs beside config.exs, and its name. It is evaluated where the
%% application runs, with the sandbox's environment variables.
-spec runtime(file:filename(), atom()) -> {none | runtime(), [file:filename()]}.
runtime(ConfigFile, Env) ->
    File = filename:join(filename:dirname(ConfigFile), "runtime.exs"),
    case file:read_file(File) of
        {ok, Text} -> {#{file => <<"config/runtime.exs">>, text => Text, env => Env}, [File]};
        {error, _Absent} -> {none, [File]}
    end.

read(File, Env) ->
    case filelib:is_regular(File) of
        true ->
            Options = [{env, Env}, {target, host}],
            Name = unicode:characters_to_binary(File),
            {Config, Files} = sbx_elixir:with_errors(fun() -> 'Elixir.Config.Reader':'read_imports!'(Name, Options) end),
            {Config, lists:usort([File | [unicode:characters_to_list(Path) || Path <- Files]])};
        false ->
            {[], [File]}
    end.

%% Reads a release's sys.config from its usual places.
-spec erlang(file:filename()) -> {config(), [file:filename()]}.
erlang(Root) ->
    Candidates = [filename:join(Root, "config/sys.config"), filename:join(Root, "sys.config")],
    case [Config || File <- Candidates, {ok, [Config]} <- [file:consult(File)]] of
        [Config | _] -> {[Entry || {App, Values} = Entry <- Config, is_atom(App), is_list(Values)], Candidates};
        [] -> {[], Candidates}
    end.

%% Applies the configuration to this node. Values that an earlier configuration set and this one
%% does not are restored.
-spec apply(config()) -> ok.
apply(Config) ->
    Before = persistent_term:get(?MODULE, []),
    Keys = [{App, Key} || {App, Values} <- Config, {Key, _} <- Values],
    lists:foreach(fun restore/1, [Saved || {AppKey, _} = Saved <- Before, not lists:member(AppKey, Keys)]),
    Saved = [saved(AppKey, Before) || AppKey <- Keys],
    Saved =:= Before orelse persistent_term:put(?MODULE, Saved),
    application:set_env(Config, [{persistent, true}]).

%% Applies more of it: nothing is restored.
-spec add(config()) -> ok.
add([]) ->
    ok;
add(Config) ->
    Before = persistent_term:get(?MODULE, []),
    Keys = [{App, Key} || {App, Values} <- Config, {Key, _} <- Values],
    persistent_term:put(?MODULE, Before ++ [saved(AppKey, []) || AppKey <- Keys, not lists:keymember(AppKey, 1, Before)]),
    application:set_env(Config, [{persistent, true}]).

saved({App, Key} = AppKey, Before) ->
    case lists:keyfind(AppKey, 1, Before) of
        false -> {AppKey, application:get_env(App, Key)};
        Saved -> Saved
    end.

restore({{App, Key}, undefined}) -> application:unset_env(App, Key, [{persistent, true}]);
restore({{App, Key}, {ok, Value}}) -> application:set_env(App, Key, Value, [{persistent, true}]).
