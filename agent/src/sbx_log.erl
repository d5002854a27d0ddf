%% A logger handler that sends each record to the daemon, in place of the one that OTP boots with and of Elixir's console.
%% It has an id of its own because Elixir's Logger takes `default` over.
-module(sbx_log).

-export([install/0]).
-export([log/2]).

-include("sbx.hrl").

%% Room for the sign that it was cut.
-define(TEXT_MAX_BYTES, (?OUTPUT_MAX_BYTES - 3)).

-spec install() -> ok.
install() ->
    Filters = [{progress, {fun logger_filters:progress/2, stop}}],
    Formatter = {logger_formatter, #{single_line => false, legacy_header => false, template => [msg]}},
    ok = logger:add_handler(sandbox, ?MODULE, #{filters => Filters, formatter => Formatter}),
    logger:remove_handler(simple).

%% Runs in the process that logs.
-spec log(logger:log_event(), logger:handler_config()) -> ok.
log(#{level := Level} = Event, #{formatter := {Module, Config}}) ->
    Chars = Module:format(Event, Config),
    sbx_outbox:put(log, #{level => Level, text => bounded(unicode:characters_to_binary(Chars))}).

bounded(Text) when is_binary(Text) -> sbx_reason:bounded(Text, ?TEXT_MAX_BYTES);
bounded(_Invalid) -> <<"(a record that is not text)">>.
