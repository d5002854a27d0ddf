%%% Asks the application's servers whether their states hold structs or records of an older shape. It
%%% suspends no process, and asks only processes that were seen in the loop of a behaviour.
-module(sbx_shape_search).

-export([outdated/3]).

-export_type([outdated/0]).

-include("../reload/sbx_reload.hrl").

%% More servers than this are not asked.
-define(ASKED_MAX, 2000).
-define(VISIT_TIMEOUT_MS, 300).

%% How many processes hold an older shape, whether all servers were asked, and for each callback module
%% the path to the first such value in a state.
-type outdated() :: #{
    change := sbx_shape_fields:change(),
    count := pos_integer(),
    is_all := boolean(),
    holders := #{module() => sbx_shape_held:path()}
}.

%% Users are processes that sbx_reload_users found: they answer system messages even if they are busy
%% now. Processes of the modules in LeftOut are not asked.
-spec outdated([sbx_shape_fields:change()], [#user{}], LeftOut :: [module()]) -> [outdated()].
outdated([], _Users, _LeftOut) ->
    [];
outdated(Changes, Users, LeftOut) ->
    Known = maps:from_list([{Pid, M} || #user{pid = Pid, kind = Kind, modules = [M | _]} <- Users, is_asked(Kind)]),
    Others = case [C || #{kind := struct} = C <- Changes] of [] -> []; _ -> servers(Known) end,
    Living = [{Pid, Module} || {Pid, Module} <- maps:to_list(Known), is_process_alive(Pid)],
    Servers = [{Pid, Module} || {Pid, Module} <- Living ++ Others, not lists:member(Module, LeftOut)],
    Asked = lists:sublist(Servers, ?ASKED_MAX),
    Visits = [{Pid, visit(wanted(Module, Changes))} || {Pid, Module} <- Asked],
    Answers = sbx_reload_sysmsg:run_inside_each(Visits, none, ?VISIT_TIMEOUT_MS),
    Modules = maps:from_list(Asked),
    Found = [{map_get(Pid, Modules), Held} || {Pid, {answer, {held, Held}}} <- Answers, map_size(Held) > 0],
    IsAll = length(Asked) =:= length(Servers),
    [
        #{change => Change, count => length(Held), is_all => IsAll, holders => maps:from_list(Held)}
     || Change <- Changes, [_ | _] = Held <- [holders(Change, Found)]
    ].

is_asked(Kind) ->
    lists:member(Kind, [server, statem, agent]).

servers(Known) ->
    Ours = sbx_reload:own_pids(),
    [
        {Pid, Module}
     || Pid <- processes(), not is_map_key(Pid, Ours), not is_map_key(Pid, Known), sbx_reload_users:is_idle_server(Pid),
        Module <- callback_module(Pid)
    ].

%% Supervisors are left out: their states hold specifications of children.
callback_module(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} ->
            case lists:keyfind('$initial_call', 1, Dictionary) of
                {_, {Module, _, _}} when Module =/= supervisor, Module =/= 'Elixir.DynamicSupervisor' -> [Module];
                _ -> []
            end;
        undefined ->
            []
    end.

wanted(Module, Changes) ->
    maps:from_list(
        [{{struct, Name}, Fields} || #{kind := struct, name := Name, now := Fields} <- Changes] ++
        [
            {{record, Name}, length(Before) + 1}
         || #{kind := record, module := M, name := Name, before := Before, now := Now} <- Changes, M =:= Module,
            length(Before) =/= length(Now)
        ]
    ).

visit(Wanted) ->
    fun(Tag) ->
        fun(State) ->
            sbx_reload_sysmsg:answer(Tag, {held, sbx_shape_held:outdated(State, Wanted)}),
            throw(unchanged)
        end
    end.

holders(#{kind := Kind, name := Name, module := Module}, Found) ->
    [
        {Holder, map_get({Kind, Name}, Held)}
     || {Holder, Held} <- Found, is_map_key({Kind, Name}, Held), Kind =:= struct orelse Holder =:= Module
    ].
