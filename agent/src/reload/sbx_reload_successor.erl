%%% Finds the process that a supervisor started in place of one that ended, so that it gets the old
%%% state.
-module(sbx_reload_successor).

-export([places/1, successor/3, parents/2]).

-export_type([place/0]).

-include("sbx_reload.hrl").

-define(POLL_MS, 2).
-define(ASK_TIMEOUT_MS, 1000).

-type place() :: {name, atom(), pid() | none} | {child, pid(), term()} | {dynamic, pid(), [pid()]}.

-spec places([#user{}]) -> #{pid() => place()}.
places(Users) ->
    Facts = [{Pid, facts(Pid)} || #user{pid = Pid, kind = Kind} <- Users, Kind =/= supervisor],
    Named = maps:from_list([{Pid, {name, Name, Parent}} || {Pid, {Name, Parent}} <- Facts, Name =/= none]),
    Parents = lists:usort([Parent || {_Pid, {none, Parent}} <- Facts, is_pid(Parent)]),
    lists:foldl(fun maps:merge/2, Named, [placed(Children) || Children <- which_children(Parents)]).

facts(Pid) ->
    case process_info(Pid, [registered_name, dictionary]) of
        [{registered_name, Name}, {dictionary, Dictionary}] -> {name(Name), parent(Dictionary)};
        undefined -> {none, none}
    end.

name(Name) when is_atom(Name) -> Name;
name([]) -> none.

parent(Dictionary) ->
    case lists:keyfind('$ancestors', 1, Dictionary) of
        {_, [Parent | _]} when is_pid(Parent) -> Parent;
        {_, [Parent | _]} when is_atom(Parent) -> named(Parent);
        _ -> none
    end.

named(Parent) ->
    case whereis(Parent) of
        undefined -> none;
        Pid -> Pid
    end.

%% The supervisors of these processes.
-spec parents([pid()], #{pid() => place()}) -> [pid()].
parents(Pids, Places) ->
    Parents = [parent_of(Place) || {_Pid, Place} <- maps:to_list(maps:with(Pids, Places))],
    [Parent || Parent <- lists:usort(Parents), is_pid(Parent), is_supervisor(Parent)].

parent_of({name, _Name, Parent}) -> Parent;
parent_of({child, Parent, _Id}) -> Parent;
parent_of({dynamic, Parent, _Pids}) -> Parent.

%% Asks only processes whose initial call is a supervisor's. Others might not understand the
%% request.
which_children(Parents) ->
    Supervisors = [Parent || Parent <- Parents, is_supervisor(Parent)],
    Answers = sbx_reload_children:ask([{Parent, which_children} || Parent <- Supervisors], ?ASK_TIMEOUT_MS),
    [{Parent, Children} || {Parent, {answer, Children}} <- maps:to_list(Answers), is_list(Children)].

is_supervisor(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} ->
            Initial = proplists:get_value('$initial_call', Dictionary),
            is_tuple(Initial) andalso element(1, Initial) =:= supervisor;
        undefined ->
            false
    end.

placed({Parent, Children}) ->
    Pids = [Pid || {_, Pid, _, _} <- Children, is_pid(Pid)],
    maps:from_list([{Pid, place(Parent, Id, Pids)} || {Id, Pid, _, _} <- Children, is_pid(Pid)]).

place(Parent, undefined, Pids) -> {dynamic, Parent, Pids};
place(Parent, Id, _Pids) -> {child, Parent, Id}.

%% Waits for the successor until End.
-spec successor(pid(), place() | none, integer()) -> {ok, pid()} | none.
successor(_Pid, none, _End) ->
    none;
successor(Pid, Place, End) ->
    case look(Pid, Place) of
        Successor when is_pid(Successor) ->
            {ok, Successor};
        none ->
            case erlang:monotonic_time(millisecond) < End of
                true ->
                    receive after ?POLL_MS -> ok end,
                    successor(Pid, Place, End);
                false ->
                    none
            end
    end.

look(Pid, {name, Name, _Parent}) ->
    case whereis(Name) of
        undefined -> none;
        Pid -> none;
        Successor -> Successor
    end;
look(Pid, {child, Parent, Id}) ->
    case which_children([Parent]) of
        [{Parent, Children}] ->
            first([New || {I, New, _, _} <- Children, I =:= Id, is_pid(New), New =/= Pid]);
        [] ->
            none
    end;
%% Dynamic children have no identifiers, so a successor is found only if it is the only new child.
look(_Pid, {dynamic, Parent, Before}) ->
    case which_children([Parent]) of
        [{Parent, Children}] -> only([Successor || {_, Successor, _, _} <- Children, is_pid(Successor)] -- Before);
        [] -> none
    end.

first([First | _]) -> First;
first([]) -> none.

only([Only]) -> Only;
only(_) -> none.
