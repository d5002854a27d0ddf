%%% Configures the node before the application starts: what the project's compilation gave, and then
%%% config/runtime.exs, which is evaluated here because it reads the sandbox's environment.
-module(sbx_runtime_config).

-export([apply/1]).

-type config() :: [{atom(), [{atom(), term()}]}].

%% The bytes are of a build. A build without a runtime.exs has the configuration alone.
-spec apply(nil | binary()) -> ok.
apply(nil) ->
    ok;
apply(Binary) ->
    case binary_to_term(Binary) of
        #{config := Config, runtime := Runtime} ->
            %% What is evaluated may read what was configured before.
            ok = application:set_env(Config, [{persistent, true}]),
            set(merge(Config, evaluate(Runtime)));
        Config ->
            set(Config)
    end.

-spec set(config()) -> ok.
set(Config) ->
    ok = application:set_env(Config, [{persistent, true}]),
    case sbx_elixir:is_started() andalso lists:keymember(logger, 1, Config) of
        true -> sbx_elixir:reconfigure_logger();
        false -> ok
    end.

merge(Config, More) ->
    'Elixir.Config.Reader':merge(Config, More).

evaluate(#{file := File, text := Text, env := Env}) ->
    try
        'Elixir.Config.Reader':'eval!'(File, Text, [{env, Env}, {target, host}, {imports, disabled}])
    catch
        Class:Reason:Stack -> throw({start, failure(File, Class, Reason, Stack)})
    end.

failure(File, Class, Reason, Stack) ->
    Banner = sbx_elixir:format_banner(Class, Reason, Stack),
    unicode:characters_to_binary([File, line(File, Stack), ": ", Banner, advice(Reason)]).

line(File, Stack) ->
    Path = unicode:characters_to_list(File),
    Lines = [
        Line
     || {_Module, _Function, _Arity, Location} <- Stack,
        proplists:get_value(file, Location) =:= Path,
        Line <- [proplists:get_value(line, Location)],
        is_integer(Line)
    ],
    case Lines of
        [Line | _] -> [$:, integer_to_list(Line)];
        [] -> ""
    end.

advice(#{'__struct__' := 'Elixir.System.EnvError', env := Name}) when is_binary(Name) ->
    ["; give it with --env ", Name, "=VALUE"];
advice(_Reason) ->
    "".
