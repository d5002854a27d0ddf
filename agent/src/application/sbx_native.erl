%%% Says why native code was not loaded. The VM tells it as the end of an on_load function, and later
%%% calls of the module's functions are undefined.
-module(sbx_native).

-export([install/0, take/0]).
-export([filter/2]).

%% How deep an on_load function's result is searched, and how many texts are kept.
-define(DEPTH_MAX, 8).
-define(KEPT_MAX, 5).
-define(REPORT_MS, 100).

-spec install() -> ok.
install() ->
    logger:add_primary_filter(?MODULE, {fun ?MODULE:filter/2, none}).

%% Adds the cause to the record.
-spec filter(logger:log_event(), none) -> logger:filter_return().
filter(#{msg := {report, #{format := Format, args := [Module, Result | _] = Args}}} = Event, none) ->
    told(Event, Format, Args, Module, Result);
filter(#{msg := {Format, [Module, Result | _] = Args}} = Event, none) when Format =/= report, Format =/= string ->
    told(Event, Format, Args, Module, Result);
filter(_Event, none) ->
    ignore.

told(Event, "The on_load function for module " ++ _ = Format, Args, Module, Result) ->
    case load_failure(Result, ?DEPTH_MAX) of
        none ->
            ignore;
        Failure ->
            Why = why(written(Module), Failure),
            ok = keep(Why),
            Text = string:trim(io_lib:format(Format, Args)),
            Event#{msg := {string, unicode:characters_to_binary([Text, $\n, Why])}}
    end;
told(_Event, _Format, _Args, _Module, _Result) ->
    ignore.

%% The VM's text, wherever the function's result holds it.
load_failure({load_failed, Text}, _Depth) when is_list(Text) -> Text;
load_failure(_Term, 0) -> none;
load_failure(Tuple, Depth) when is_tuple(Tuple) -> first(tuple_to_list(Tuple), Depth);
load_failure(_Other, _Depth) -> none.

first([], _Depth) -> none;
first([Term | Rest], Depth) ->
    case load_failure(Term, Depth - 1) of
        none -> first(Rest, Depth);
        Text -> Text
    end.

%% A library in a folder from which nothing may be executed can't be mapped.
why(Module, Text) ->
    Refused = string:find(Text, "failed to map segment") =/= nomatch,
    Absent = string:find(Text, "No such file") =/= nomatch,
    Cause =
        if
            Refused -> "the profile allows no native code: use a profile with the operation nif, such as low";
            Absent -> ["it was never built. Build it with `", command(), "`, then reload or create again"];
            true -> ["it does not fit this system: build it here with `", command(), "`"]
        end,
    unicode:characters_to_binary(["the native code of ", Module, " was not loaded: ", Cause]).

command() ->
    case sbx_elixir:is_started() of
        true -> "mix compile";
        false -> "rebar3 compile"
    end.

written(Module) when is_atom(Module) -> sbx_reason:module_name(Module);
written(Other) -> io_lib:format("~0tp", [Other]).

keep(Why) ->
    Kept = persistent_term:get(?MODULE, []),
    length(Kept) < ?KEPT_MAX andalso not lists:member(Why, Kept) andalso persistent_term:put(?MODULE, [Why | Kept]),
    ok.

%% What was told since the last time.
-spec take() -> [binary()].
take() ->
    ok = await_reports(),
    Kept = persistent_term:get(?MODULE, []),
    Kept =:= [] orelse persistent_term:erase(?MODULE),
    lists:reverse(Kept).

%% The code server starts a process that logs, and answers. With several schedulers the module's callers may
%% be sooner.
await_reports() ->
    Server = whereis(code_server),
    Reporters = [Pid || Pid <- processes(), process_info(Pid, parent) =:= {parent, Server}],
    lists:foreach(fun await_end/1, Reporters).

await_end(Pid) ->
    Monitor = monitor(process, Pid),
    receive
        {'DOWN', Monitor, process, Pid, _Reason} -> ok
    after ?REPORT_MS -> demonitor(Monitor, [flush])
    end.
