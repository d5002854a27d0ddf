%%% Raises the restart intensity of supervisors while a change may still be taken back.
%%%
%%% A supervisor gives up when its children end too often, and the application would end before its
%%% old code is back. Restarts from that time don't count afterwards.
-module(sbx_reload_intensity).

-export([raise/1, restore/1]).

%% More than there can be processes. The number itself shows that it was raised: raising or
%% restoring twice does no harm, and a supervisor that got new flags meanwhile is left alone.
-define(RAISED_BY, 1000000).
%% Positions in a supervisor's state, since OTP 21.
-define(INTENSITY, 6).
-define(RESTARTS, 8).

%% Does not wait for an answer: the supervisor handles this message before the next one.
-spec raise([pid()]) -> ok.
raise(Supervisors) ->
    tell(Supervisors, fun more/1).

-spec restore([pid()]) -> ok.
restore(Supervisors) ->
    tell(Supervisors, fun less/1).

tell(Supervisors, Change) ->
    DeadPid = sbx_reload_sysmsg:dead_pid(),
    lists:foreach(fun(Pid) -> Pid ! {system, {DeadPid, nil}, {replace_state, Change}} end, Supervisors).

more(State) ->
    case flags(State) of
        {Intensity, Restarts} when Intensity < ?RAISED_BY -> set(Intensity + ?RAISED_BY, Restarts, State);
        _ -> State
    end.

less(State) ->
    case flags(State) of
        {Intensity, _Restarts} when Intensity >= ?RAISED_BY -> set(Intensity - ?RAISED_BY, [], State);
        _ -> State
    end.

flags(#{'__struct__' := 'Elixir.DynamicSupervisor', max_restarts := Intensity, restarts := Restarts}) when
    is_integer(Intensity), is_list(Restarts)
->
    {Intensity, Restarts};
flags(State) when
    element(1, State) =:= state, is_integer(element(?INTENSITY, State)), is_list(element(?RESTARTS, State))
->
    {element(?INTENSITY, State), element(?RESTARTS, State)};
flags(_Other) ->
    unknown.

set(Intensity, Restarts, State) when is_map(State) ->
    State#{max_restarts := Intensity, restarts := Restarts};
set(Intensity, Restarts, State) ->
    setelement(?RESTARTS, setelement(?INTENSITY, State, Intensity), Restarts).
