%%% The logger's handler `default`, which sends each record to the daemon. It stands where OTP's
%%% handler and Elixir's console would. Software may look it up, change it and remove it.
-module(sbx_log).

-export([install/0, take_away/0, put_back/1, errors/0]).
-export([log/2]).

-include("sbx.hrl").

%% Leaves room for the mark of a cut text.
-define(TEXT_MAX_BYTES, (?OUTPUT_MAX_BYTES - 3)).
-define(PLACE_MAX_BYTES, 200).

-spec install() -> ok.
install() ->
    ok = persistent_term:put(?MODULE, counters:new(1, [])),
    Filters = [{progress, {fun logger_filters:progress/2, stop}}],
    Formatter = {logger_formatter, #{single_line => false, legacy_header => false, template => [msg]}},
    ok = put_back(#{filters => Filters, formatter => Formatter}),
    %% Since OTP 29 a handler of that name removes it.
    _ = logger:remove_handler(simple),
    ok.

%% Elixir's Logger removes a handler of this name when it starts, and puts it back when it stops. So
%% the handler is away in between. Returns how it was configured, or `none` where software removed it.
-spec take_away() -> logger:handler_config() | none.
take_away() ->
    case logger:get_handler_config(default) of
        {ok, #{module := ?MODULE} = Config} ->
            ok = logger:remove_handler(default),
            Config;
        _ ->
            none
    end.

-spec put_back(logger:handler_config() | none) -> ok.
put_back(none) ->
    ok;
put_back(Config) ->
    _ = logger:remove_handler(default),
    logger:add_handler(default, ?MODULE, maps:without([id, module], Config)).

%% How many errors, or worse, have been logged.
-spec errors() -> non_neg_integer().
errors() ->
    counters:get(persistent_term:get(?MODULE), 1).

%% Runs in the process that logs.
-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(#{level := Level, meta := Meta} = Event, #{formatter := Formatter}) ->
    _ = logger:compare_levels(Level, error) =:= lt orelse counters:add(persistent_term:get(?MODULE), 1, 1),
    Text = bounded(unicode:characters_to_binary(format(Event, Formatter))),
    sbx_outbox:put(log, maps:merge(place(Meta), #{level => Level, text => Text})).

%% The logger removes a handler that fails.
format(Event, {Module, Config}) ->
    try
        Module:format(Event, Config)
    catch
        _:_ -> logger_formatter:format(Event, #{template => ["FORMATTER CRASH: ", msg]})
    end.

%% The place of the log call, as far as the metadata say. The application makes the metadata, so
%% they may be any term.
place(Meta) ->
    maps:from_list([
        {Key, Value}
     || {Key, {ok, Value}} <- [{pid, pid(Meta)}, {function, function(Meta)}, {line, line(Meta)}]
    ]).

pid(#{pid := Pid}) when is_pid(Pid) -> {ok, list_to_binary(pid_to_list(Pid))};
pid(_Meta) -> none.

function(#{mfa := {Module, Name, Arity}}) when is_atom(Module), is_atom(Name), is_integer(Arity) ->
    Chars = io_lib:format("~ts:~ts/~b", [Module, Name, Arity]),
    {ok, sbx_reason:bounded(unicode:characters_to_binary(Chars), ?PLACE_MAX_BYTES)};
function(_Meta) ->
    none.

line(#{line := Line}) when is_integer(Line), Line > 0 -> {ok, Line};
line(_Meta) -> none.

bounded(Text) when is_binary(Text) -> sbx_reason:bounded(Text, ?TEXT_MAX_BYTES);
bounded(_Invalid) -> <<"(a record that is not text)">>.
