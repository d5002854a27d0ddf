%%% A filter of log records for Elixir before 1.15: it words OTP's reports as Elixir's Logger does,
%%% and drops those that Logger drops. Later releases of Elixir do so before any handler.
-module(sbx_translate).

-export([install/0]).
-export([filter/2]).

-spec install() -> ok.
install() ->
    case erlang:module_loaded('Elixir.Logger.Handler') of
        true -> add(logger:add_handler_filter(default, ?MODULE, {fun ?MODULE:filter/2, none}));
        false -> ok
    end.

add(ok) -> ok;
add({error, {already_exist, ?MODULE}}) -> ok;
%% Software removed the handler.
add({error, {not_found, default}}) -> ok.

-spec filter(logger:log_event(), none) -> logger:filter_return().
filter(#{msg := {string, _}}, none) ->
    ignore;
filter(#{meta := Meta} = Event, none) ->
    case is_wanted(Meta) of
        true -> translated(Event);
        false -> stop
    end.

is_wanted(#{domain := [otp, sasl | _]}) -> setting(handle_sasl_reports, false);
is_wanted(#{domain := [supervisor_report | _]}) -> setting(handle_sasl_reports, false);
is_wanted(#{domain := [otp | _]}) -> setting(handle_otp_reports, true);
is_wanted(_Meta) -> true.

setting(Name, Default) ->
    application:get_env(logger, Name, Default) =:= true.

translated(#{msg := Message, level := Level} = Event) ->
    #{level := Lowest} = logger:get_primary_config(),
    {Kind, Data} = subject(Message),
    try translate(setting_of_translators(), elixir_level(Lowest), elixir_level(Level), Kind, Data) of
        none -> ignore;
        skip -> stop;
        {ok, Chars} -> Event#{msg := {string, Chars}};
        {ok, Chars, _More} -> Event#{msg := {string, Chars}}
    catch
        _:_ -> ignore
    end.

setting_of_translators() ->
    application:get_env(logger, translators, [{'Elixir.Logger.Translator', translate}]).

subject({report, #{label := Label, report := Report} = Whole}) when map_size(Whole) =:= 2 -> {report, {Label, Report}};
subject({report, #{label := {error_logger, _}, format := Format, args := Args}}) -> {format, {Format, Args}};
subject({report, Report}) -> {report, {logger, Report}};
subject({Format, Args}) -> {format, {Format, Args}}.

translate([], _Lowest, _Level, _Kind, _Data) ->
    none;
translate([{Module, Function} | Others], Lowest, Level, Kind, Data) ->
    case Module:Function(Lowest, Level, Kind, Data) of
        none -> translate(Others, Lowest, Level, Kind, Data);
        Result -> Result
    end.

elixir_level(Level) when Level =:= debug; Level =:= all -> debug;
elixir_level(Level) when Level =:= info; Level =:= notice -> info;
elixir_level(warning) -> warn;
elixir_level(_Worse) -> error.
