%%% Reads a project's configuration and applies it while the project is compiled. It has the form
%%% [{Application, [{Key, Value}]}].
-module(sbx_config).

-export([elixir/2, erlang/1, apply/1]).

-type config() :: [{atom(), [{atom(), term()}]}].

%% Reads config/config.exs and its imports, then config/runtime.exs. Returns the names of all these
%% files too. Both run in the compiler node, without the sandbox's environment variables.
-spec elixir(file:filename(), atom()) -> {config(), [file:filename()]}.
elixir(File, Env) ->
    Runtime = filename:join(filename:dirname(File), "runtime.exs"),
    lists:foldl(
        fun(Path, {Config, Files}) ->
            {More, Read} = read(Path, Env),
            {merge(Config, More), Files ++ Read}
        end,
        {[], []},
        [File, Runtime]
    ).

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

-spec merge(config(), config()) -> config().
merge([], Later) -> Later;
merge(Earlier, []) -> Earlier;
merge(Earlier, Later) -> 'Elixir.Config.Reader':merge(Earlier, Later).

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

saved({App, Key} = AppKey, Before) ->
    case lists:keyfind(AppKey, 1, Before) of
        false -> {AppKey, application:get_env(App, Key)};
        Saved -> Saved
    end.

restore({{App, Key}, undefined}) -> application:unset_env(App, Key, [{persistent, true}]);
restore({{App, Key}, {ok, Value}}) -> application:set_env(App, Key, Value, [{persistent, true}]).
