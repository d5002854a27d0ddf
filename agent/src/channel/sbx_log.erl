%%% A logger handler that sends each record to the daemon. It replaces the handler that OTP boots
%%% with and Elixir's console. It has its own id, because Elixir's Logger takes `default` over.
-module(sbx_log).

-export([install/0]).
-export([log/2]).

-include("sbx.hrl").

%% Leaves room for the mark of a cut text.
-define(TEXT_MAX_BYTES, (?OUTPUT_MAX_BYTES - 3)).
-define(PLACE_MAX_BYTES, 200).

-spec install() -> ok.
install() ->
    Filters = [{progress, {fun logger_filters:progress/2, stop}}],
    Formatter = {logger_formatter, #{single_line => false, legacy_header => false, template => [msg]}},
    ok = logger:add_handler(sandbox, ?MODULE, #{filters => Filters, formatter => Formatter}),
    logger:remove_handler(simple).

%% Runs in the process that logs.
-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(#{level := Level, meta := Meta} = Event, #{formatter := {Module, Config}}) ->
    Chars = Module:format(Event, Config),
    Text = bounded(unicode:characters_to_binary(Chars)),
    sbx_outbox:put(log, maps:merge(place(Meta), #{level => Level, text => Text})).

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
