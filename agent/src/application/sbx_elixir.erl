%% Elixir inside the node: started on demand, and called only through here, so that a node without Elixir needs none.
-module(sbx_elixir).

-export([know/1, start/0, boot/0, need/1, is_started/0, reconfigure_logger/0]).
-export([inspect/1, format_banner/3, format_stacktrace/1, format_exit/1, format_start_error/1]).

%% What starting it loads, and what starting its logger does.
-define(PARTS, [
    'Elixir.Kernel', 'Elixir.Macro.Env', 'Elixir.String.Tokenizer', 'Elixir.System', elixir, elixir_code_server,
    elixir_config, elixir_sup
]).
-define(LOGGER_PARTS, [
    'Elixir.Access', 'Elixir.Application', 'Elixir.Enum', 'Elixir.GenServer', 'Elixir.Keyword', 'Elixir.Logger.App',
    'Elixir.Logger.BackendSupervisor', 'Elixir.Logger.Config', 'Elixir.Logger.Filter', 'Elixir.Logger.Handler',
    'Elixir.Logger.Watcher', 'Elixir.Map', 'Elixir.Process', 'Elixir.Supervisor', 'Elixir.Supervisor.Default'
]).
%% Starting it reads a number by these, which are Unicode's tables: a twentieth of a node.
-define(STARTING, [string, unicode_util]).

%% What the boot script says of Elixir's applications: to read their .app files would take a parser.
-spec know([{application, atom(), list()}]) -> ok.
know(Specs) ->
    persistent_term:put(?MODULE, Specs).

-spec start() -> ok | {error, term()}.
start() ->
    start(fun() -> ok end).

%% In a VM in which nothing else has run yet: what only starting calls leaves its memory to the rest.
-spec boot() -> ok | {error, term()}.
boot() ->
    start(fun() -> sbx_setup:forget(?STARTING) end).

start(Between) ->
    case is_started() of
        true -> ok;
        false -> start_cold(Between)
    end.

%% For compiling, which can't go on without it.
-spec need(string()) -> ok.
need(What) ->
    case start() of
        ok ->
            sbx_compile_parts:load(elixir);
        {error, Reason} ->
            Text = io_lib:format("~ts needs Elixir, which could not be started: ~tp", [What, Reason]),
            throw({toolchain, unicode:characters_to_binary(Text)})
    end.

start_cold(Between) ->
    lists:foreach(fun application:load/1, persistent_term:get(?MODULE, [])),
    ok = sbx_batch_load:load_few(?PARTS),
    quiet_console(),
    case application:ensure_all_started(elixir) of
        {ok, _} ->
            ok = Between(),
            start_logger();
        {error, _} = Error ->
            Error
    end.

start_logger() ->
    ok = sbx_batch_load:load_few(?LOGGER_PARTS),
    {ok, _} = application:ensure_all_started(logger),
    ok.

-spec is_started() -> boolean().
is_started() ->
    whereis(elixir_sup) =/= undefined.

%% Logger reads its configuration when it starts. That it stops in between is nobody's news.
-spec reconfigure_logger() -> ok.
reconfigure_logger() ->
    quiet_console(),
    ok = logger:set_handler_config(sandbox, level, none),
    _ = application:stop(logger),
    {ok, _} = application:ensure_all_started(logger),
    logger:set_handler_config(sandbox, level, all).

%% Records reach the daemon through sbx_log; printing them as well would tell them twice.
quiet_console() ->
    _ = application:load(logger),
    Backends = application:get_env(logger, backends, []),
    ok = application:set_env(logger, backends, lists:delete(console, Backends), [{persistent, true}]),
    ok = application:set_env(logger, default_handler, false, [{persistent, true}]).

-spec inspect(term()) -> binary().
inspect(Term) ->
    'Elixir.Kernel':inspect(Term, [{pretty, true}, {limit, 10000}, {printable_limit, 1048576}, {width, 98}]).

-spec format_banner(error | exit | throw, term(), list()) -> binary().
format_banner(Class, Reason, Stack) ->
    'Elixir.Exception':format_banner(Class, Reason, Stack).

-spec format_stacktrace(list()) -> binary().
format_stacktrace(Stack) ->
    'Elixir.Exception':format_stacktrace(Stack).

-spec format_exit(term()) -> binary().
format_exit(Reason) ->
    'Elixir.Exception':format_exit(Reason).

-spec format_start_error(term()) -> binary().
format_start_error(Reason) ->
    'Elixir.Application':format_error(Reason).
