%%% Configures the node before the application starts, and again while it runs. Later parts go over
%%% earlier ones: what the project's compilation gave, its config/runtime.exs or a release's
%%% sys.config.src, and the caller's files.
-module(sbx_runtime_config).

-export([begin_with/1, apply/1, change/1]).

-type config() :: [{atom(), [{atom(), term()}]}].
%% `config` is of a build, `files` are the caller's, and the values of `env` are never told.
-type args() :: #{
    config := nil | binary(),
    files => [{binary(), binary()}],
    env => [{binary(), binary()}],
    mix_env => nil | binary(),
    _ => _
}.

-define(CALLBACK_MS, 5000).
-define(TEXT_MAX_BYTES, 4096).

%% Sets only what the compilation gave, and evaluates nothing. apply/1 follows when a task asks for it.
-spec begin_with(args()) -> ok.
begin_with(Args) ->
    {Built, _Sources} = read(Args),
    sbx_config:add(Built).

-spec apply(args()) -> ok.
apply(#{config := nil, files := []}) ->
    ok;
apply(Args) ->
    {Built, Sources} = read(Args),
    %% What is evaluated may read what was configured before.
    ok = sbx_config:add(Built),
    {Config, Lines} = sbx_unsuited:turn_off(evaluate(Built, Sources, Args)),
    _ = Lines =:= [] orelse io:put_chars(user, Lines),
    adopt(Config).

%% Applies what is configured now, and tells the applications that run what became of their
%% environment. After a failure all is as before.
-spec change(args()) -> sbx_call:result().
change(Args) ->
    Before = environments(),
    ConfigBefore = persistent_term:get(?MODULE, []),
    try
        {Built, Sources} = read(Args),
        %% What is evaluated sees what it would see at a start.
        {Suited, _Told} = sbx_unsuited:turn_off(Built),
        ok = sbx_config:add(difference(Suited, ConfigBefore)),
        {Config, _Lines} = sbx_unsuited:turn_off(evaluate(Suited, Sources, Args)),
        ok = adopt(Config),
        {ok, #{applications => lists:append([told(App, Env) || {App, Env} <- Before])}}
    catch
        throw:{start, Text} ->
            ok = sbx_config:apply(ConfigBefore),
            sbx_call:failure(start, "~ts", [Text])
    end.

%% Reading and evaluating

read(#{config := Build} = Args) ->
    Files = [{caller, File} || File <- maps:get(files, Args, [])],
    case Build =/= nil andalso binary_to_term(Build) of
        false ->
            {[], Files};
        #{config := Config, runtime := #{file := Name, text := Text, env := Env}} ->
            {Config, [{Env, {Name, Text}} | Files]};
        Config ->
            {Config, Files}
    end.

evaluate(Built, Sources, Args) ->
    lists:foldl(
        fun(Source, Config) ->
            Merged = sbx_config_file:read(mix_env(Source, Args), Source, Config, maps:get(env, Args, [])),
            ok = sbx_config:add(difference(Merged, Config)),
            Merged
        end,
        Built,
        Sources
    ).

mix_env({caller, _File}, #{mix_env := Name}) when is_binary(Name) -> binary_to_atom(Name);
mix_env({caller, _File}, _Args) -> dev;
mix_env({Env, _File}, _Args) -> Env.

-spec adopt(config()) -> ok.
adopt(Config) ->
    ok = sbx_config:apply(Config),
    persistent_term:put(?MODULE, Config),
    _ = [set_level(Level) || {kernel, Values} <- Config, {logger_level, Level} <- Values],
    case sbx_elixir:is_started() andalso lists:keymember(logger, 1, Config) of
        true -> sbx_elixir:reconfigure_logger();
        false -> ok
    end.

%% The VM reads this setting when it boots, long before.
set_level(Level) ->
    case logger:set_primary_config(level, Level) of
        ok -> ok;
        {error, _} -> throw({start, words("kernel's logger_level is no level of the logger: ~0tp", [Level])})
    end.

%% What the first has that the second has not.
-spec difference(config(), config()) -> config().
difference(Config, Other) ->
    [{App, Different} || {App, Values} <- Config, Different <- [Values -- values(App, Other)], Different =/= []].

values(App, Config) ->
    proplists:get_value(App, Config, []).

%% Telling

environments() ->
    [{App, application:get_all_env(App)} || {App, _Description, _Version} <- lists:reverse(application:which_applications())].

told(App, Before) ->
    After = application:get_all_env(App),
    Changed = [Pair || {Key, _} = Pair <- After -- Before, lists:keymember(Key, 1, Before)],
    New = [Pair || {Key, _} = Pair <- After, not lists:keymember(Key, 1, Before)],
    Removed = [Key || {Key, _} <- Before, not lists:keymember(Key, 1, After)],
    case {Changed, New, Removed} of
        {[], [], []} ->
            [];
        _ ->
            Keys = length(Changed) + length(New) + length(Removed),
            [#{name => atom_to_binary(App), keys => Keys, outcome => call_back(App, [Changed, New, Removed])}]
    end.

%% `told`, `untold` where the application has no such function, or why it failed.
call_back(App, Arguments) ->
    case application:get_key(App, mod) of
        {ok, {Module, _}} -> call_back_in(Module, code:ensure_loaded(Module), Arguments);
        _ -> <<"untold">>
    end.

call_back_in(Module, {module, Module}, Arguments) ->
    case erlang:function_exported(Module, config_change, 3) of
        true -> bounded_call(Module, Arguments);
        false -> <<"untold">>
    end;
call_back_in(_Module, _NotLoaded, _Arguments) ->
    <<"untold">>.

bounded_call(Module, Arguments) ->
    {Pid, Monitor} = spawn_monitor(fun() -> erlang:apply(Module, config_change, Arguments) end),
    receive
        {'DOWN', Monitor, process, Pid, normal} -> <<"told">>;
        {'DOWN', Monitor, process, Pid, Reason} -> words("config_change/3 failed: ~ts", [sbx_reason:exit_text(Reason)])
    after ?CALLBACK_MS ->
        demonitor(Monitor, [flush]),
        exit(Pid, kill),
        words("config_change/3 took longer than ~b ms", [?CALLBACK_MS])
    end.

words(Format, Arguments) ->
    sbx_reason:bounded(unicode:characters_to_binary(io_lib:format(Format, Arguments)), ?TEXT_MAX_BYTES).
