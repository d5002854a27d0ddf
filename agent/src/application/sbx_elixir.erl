%%% Elixir inside the node. It is started on demand and called only through this module, so that a
%%% node without Elixir works.
-module(sbx_elixir).

-export([know/1, start/0, boot/0, need/1, is_started/0, reconfigure_logger/0]).
-export([with_errors/1, with_errors/2, inspect/1, format_banner/3, format_stacktrace/1, format_exit/1, format_start_error/1]).

%% The modules that starting Elixir loads, and those that starting its logger loads.
-define(PARTS, [
    'Elixir.Kernel', 'Elixir.Macro.Env', 'Elixir.String.Tokenizer', 'Elixir.System', elixir, elixir_code_server,
    elixir_config, elixir_sup
]).
-define(LOGGER_PARTS, [
    'Elixir.Access', 'Elixir.Application', 'Elixir.Enum', 'Elixir.GenServer', 'Elixir.Keyword', 'Elixir.Logger.App',
    'Elixir.Logger.BackendSupervisor', 'Elixir.Logger.Config', 'Elixir.Logger.Filter', 'Elixir.Logger.Handler',
    'Elixir.Logger.Watcher', 'Elixir.Map', 'Elixir.Process', 'Elixir.Supervisor', 'Elixir.Supervisor.Default'
]).
%% Elixir's start parses a number with these. They hold Unicode's tables, a twentieth of a node's
%% memory.
-define(STARTING, [string, unicode_util]).

%% Keeps the specifications of Elixir's applications from the boot script. To read their .app files
%% would load a parser.
-spec know([{application, atom(), list()}]) -> ok.
know(Specs) ->
    persistent_term:put(?MODULE, Specs).

-spec start() -> ok | {error, term()}.
start() ->
    start(fun() -> ok end).

%% For a VM in which nothing else has run yet: modules that only starting calls are unloaded, and
%% their memory is reused.
-spec boot() -> ok | {error, term()}.
boot() ->
    start(fun() -> sbx_setup:forget(?STARTING) end).

start(Between) ->
    case is_started() of
        true -> ok;
        false -> start_cold(Between)
    end.

%% For compiling, which needs Elixir.
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
    Handler = sbx_log:take_away(),
    {ok, _} = application:ensure_all_started(logger),
    ok = sbx_log:put_back(Handler),
    sbx_translate:install().

-spec is_started() -> boolean().
is_started() ->
    whereis(elixir_sup) =/= undefined.

%% Logger reads its configuration when it starts. Its stop in between is not reported.
-spec reconfigure_logger() -> ok.
reconfigure_logger() ->
    quiet_console(),
    Handler = sbx_log:take_away(),
    _ = application:stop(logger),
    {ok, _} = application:ensure_all_started(logger),
    sbx_log:put_back(Handler).

%% Records reach the daemon through sbx_log. Printing them too would send them twice. Elixir 1.20
%% warns of every list of backends, even an empty one.
quiet_console() ->
    _ = application:load(logger),
    _ =
        case application:get_env(logger, backends) of
            {ok, Backends} ->
                ok = application:set_env(logger, backends, lists:delete(console, Backends), [{persistent, true}]);
            undefined ->
                ok
        end,
    ok = application:set_env(logger, default_handler, false, [{persistent, true}]).

%% Runs a function that compiles. Since Elixir 1.15 the compiler prints its errors, and the exception
%% only says that there were some. Here the exception has the errors' own words, as before 1.15.
-spec with_errors(fun(() -> Value)) -> Value.
with_errors(Fun) ->
    with_errors(Fun, true).

%% Without printing, lines of the source stay untold: Elixir shows them with its warnings.
-spec with_errors(fun(() -> Value), IsPrinting :: boolean()) -> Value.
with_errors(Fun, IsPrinting) ->
    _ = code:ensure_loaded('Elixir.Code'),
    case erlang:function_exported('Elixir.Code', with_diagnostics, 2) of
        true -> diagnosed(Fun, IsPrinting);
        false -> Fun()
    end.

diagnosed(Fun, IsPrinting) ->
    {Outcome, Diagnostics} = 'Elixir.Code':with_diagnostics([], fun() -> outcome(Fun) end),
    {Errors, Others} = lists:partition(fun(#{severity := Severity}) -> Severity =:= error end, Diagnostics),
    case Outcome of
        {raised, error, #{'__struct__' := 'Elixir.CompileError'} = Exception, Stack} when Errors =/= [] ->
            IsPrinting andalso print(Others),
            erlang:raise(error, told(Exception, Errors), Stack);
        {raised, Class, Reason, Stack} ->
            IsPrinting andalso print(Diagnostics),
            erlang:raise(Class, Reason, Stack);
        {value, Value} ->
            IsPrinting andalso print(Diagnostics),
            Value
    end.

outcome(Fun) ->
    try
        {value, Fun()}
    catch
        Class:Reason:Stack -> {raised, Class, Reason, Stack}
    end.

print(Diagnostics) ->
    lists:foreach(fun(Diagnostic) -> 'Elixir.Code':print_diagnostic(Diagnostic) end, Diagnostics).

%% The first error takes the place of the exception's own words. Each of the others has a line.
told(Exception, [#{file := File, position := Position, message := Message} | Others]) ->
    Lines = [["\n", place(Other), $\s, Text] || #{message := Text} = Other <- Others],
    Exception#{file := File, line := line(Position), description := unicode:characters_to_binary([Message | Lines])}.

place(#{file := nil, position := Position}) -> 'Elixir.Exception':format_file_line(nil, line(Position));
place(#{file := File, position := Position}) ->
    'Elixir.Exception':format_file_line('Elixir.Path':relative_to_cwd(File), line(Position)).

line({Line, _Column}) -> Line;
line(Line) -> Line.

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
