%% The project's configuration, as [{Application, [{Key, Value}]}].
-module(sbx_config).

-export([elixir/2, erlang/1, merge/2]).

-type config() :: [{atom(), [{atom(), term()}]}].

%% config/config.exs and what it imports, then config/runtime.exs. Both run here, where the sandbox's environment
%% variables aren't known.
-spec elixir(file:filename(), atom()) -> config().
elixir(File, Env) ->
    Runtime = filename:join(filename:dirname(File), "runtime.exs"),
    lists:foldl(fun(Path, Config) -> merge(Config, read(Path, Env)) end, [], [File, Runtime]).

read(File, Env) ->
    case filelib:is_regular(File) of
        true -> 'Elixir.Config.Reader':'read!'(unicode:characters_to_binary(File), [{env, Env}, {target, host}]);
        false -> []
    end.

%% A release's sys.config, where rebar3 and habit keep it.
-spec erlang(file:filename()) -> config().
erlang(Root) ->
    Candidates = [filename:join(Root, "config/sys.config"), filename:join(Root, "sys.config")],
    case [Config || File <- Candidates, {ok, [Config]} <- [file:consult(File)]] of
        [Config | _] -> [Entry || {App, Values} = Entry <- Config, is_atom(App), is_list(Values)];
        [] -> []
    end.

-spec merge(config(), config()) -> config().
merge([], Later) -> Later;
merge(Earlier, []) -> Earlier;
merge(Earlier, Later) -> 'Elixir.Config.Reader':merge(Earlier, Later).
