%%% Migrates the states of suspended processes, each kind of process in its own way.
-module(sbx_reload_migrate).

-export([states/1, modes/1, callback_mode/1, supervisors/1, specs_again/1]).

-include("sbx_reload.hrl").

%% The total size of copied states. A state that is too large for its share stays in its process.
-define(COPIES_MAX_WORDS, 2097152).

-define(AGAIN_TIMEOUT_MS, 5000).

-spec states(#reload{}) -> #reload{}.
states(#reload{users = Users} = Reload) ->
    Rebuilt = modes(Reload),
    lists:foldl(
        fun({Kind, Migrate}, R) -> Migrate([User || #user{kind = K} = User <- Users, K =:= Kind], R) end,
        Rebuilt,
        [
            {server, fun inside_processes/2}, {agent, fun inside_processes/2}, {statem, fun statems/2},
            {special, fun specials/2}, {event, fun managers/2}
        ]
    ).

%% A state machine asks its module for the callback mode only when its code is changed.
-spec modes(#reload{}) -> #reload{}.
modes(#reload{modes = Modes} = Reload) when map_size(Modes) =:= 0 ->
    Reload;
modes(#reload{loaded = false} = Reload) ->
    Reload;
modes(#reload{modes = Modes, args = #{direction := Direction}} = Reload) ->
    Other = [
        Module
     || {Module, Mode} <- maps:to_list(Modes), erlang:function_exported(Module, callback_mode, 0),
        Mode =/= callback_mode(Module)
    ],
    case [Module || Module <- Other, Direction =:= down orelse not erlang:function_exported(Module, code_change, 4)] of
        [] -> Reload;
        [Module | _] ->
            Text = sbx_reload_text:text("the callback mode of ~ts changed, which takes a code_change/4",
                [sbx_reason:module_name(Module)]),
            sbx_reload_run:fail(migrate, Text, #{module => atom_to_binary(Module)}, Reload)
    end.

%% A state machine's callback mode; `none` if the module fails to tell.
-spec callback_mode(module()) -> term().
callback_mode(Module) ->
    try
        Module:callback_mode()
    catch
        _:_ -> none
    end.

inside_processes(Users, Reload) ->
    run_inside([{User, Module, plan(User, Module, Reload)} || #user{modules = [Module]} = User <- Users], Reload).

plan(#user{kind = agent}, Module, #reload{plans = Plans}) ->
    case Plans of
        #{Module := {apply, _, _, _} = Plan} -> Plan;
        _ -> keep
    end;
plan(#user{pid = Pid}, Module, #reload{plans = Plans, changes = Changes}) ->
    case maps:get(Module, Plans, keep) of
        {code_change, {down, _} = Vsn} ->
            Change = lists:keyfind(Module, #change.module, Changes),
            {code_change, Vsn, sbx_reload:before(Pid, Change)};
        Plan ->
            Plan
    end.

run_inside([], Reload) ->
    Reload;
run_inside(Jobs, #reload{users = Users, args = #{migrate_timeout_ms := TimeoutMs}} = Reload) ->
    MaxWords = ?COPIES_MAX_WORDS div length(Users),
    Make = fun(Module, Plan) -> fun(Tag) -> sbx_reload_state:migrate(Module, Plan, MaxWords, Tag) end end,
    Visits = [{Pid, Make(Module, Plan)} || {#user{pid = Pid}, Module, Plan} <- Jobs],
    Answers = sbx_reload_sysmsg:run_inside_each(Visits, Reload#reload.monitors, TimeoutMs),
    Modules = maps:from_list([{Pid, Module} || {#user{pid = Pid}, Module, _Plan} <- Jobs]),
    taken([{Pid, map_get(Pid, Modules), Answer} || {Pid, Answer} <- Answers], Reload).

%% All reports are kept, also those of successful processes beside a failed one.
taken(Answers, #reload{reports = Reports} = Reload) ->
    New = [{Pid, Module, Report} || {Pid, Module, {answer, {ok, Report}}} <- Answers],
    Taken = Reload#reload{reports = New ++ Reports},
    lists:foreach(fun(Answer) -> check(Answer, Taken) end, Answers),
    Taken.

check({Pid, Module, {answer, {failed, Text}}}, Reload) ->
    fail(Pid, Module, "the migration of ~ts (~ts) failed: ~ts", [Text], Reload);
check({Pid, Module, late}, #reload{args = #{migrate_timeout_ms := TimeoutMs}} = Reload) ->
    fail(Pid, Module, "the migration of ~ts (~ts) did not end within ~b ms", [TimeoutMs], Reload);
check({Pid, Module, {down, Reason}}, Reload) ->
    case sbx_reload_probation:is_crash(Reason) of
        true -> fail(Pid, Module, "~ts (~ts) ended while its state was migrated: ~tp", [Reason], Reload);
        false -> ok
    end;
check({_Pid, _Module, _Answer}, _Reload) ->
    ok.

-spec fail(pid(), module(), io:format(), [term()], #reload{}) -> no_return().
fail(Pid, Module, Format, Arguments, Reload) ->
    Written = sbx_reload_text:pid(Pid),
    Message = sbx_reload_text:text(Format, [Written, sbx_reason:module_name(Module) | Arguments]),
    sbx_reload_run:fail(migrate, Message, #{process => Written, module => atom_to_binary(Module)}, Reload).

statems(Users, #reload{modes = Modes} = Reload) ->
    {Rebuilt, Simple} = lists:partition(
        fun(#user{modules = [Module]}) ->
            Reload#reload.loaded andalso erlang:function_exported(Module, callback_mode, 0) andalso
                map_get(Module, Modes) =/= callback_mode(Module)
        end,
        Users
    ),
    officially(Rebuilt, inside_processes(Simple, Reload)).

specials(Users, #reload{plans = Plans} = Reload) ->
    IsOfficial = fun(#user{modules = [Module]}) -> element(1, maps:get(Module, Plans, {keep})) =:= code_change end,
    {Official, Others} = lists:partition(IsOfficial, Users),
    officially(Official, inside_processes(Others, Reload)).

%% Uses the process's own implementation of change_code, which does not report the state.
officially([], Reload) ->
    Reload;
officially(Users, #reload{plans = Plans, args = #{migrate_timeout_ms := TimeoutMs}} = Reload) ->
    Kept = run_inside([{User, Module, keep} || #user{modules = [Module]} = User <- Users], Reload),
    Modules = maps:from_list([{Pid, Module} || #user{pid = Pid, modules = [Module]} <- Users]),
    Request = fun(Pid) ->
        Module = map_get(Pid, Modules),
        {change_code, Module, vsn(maps:get(Module, Plans, keep)), []}
    end,
    Answers = sbx_reload_sysmsg:call(maps:keys(Modules), Request, TimeoutMs),
    lists:foreach(
        fun({Pid, Answer}) -> check({Pid, map_get(Pid, Modules), official(Answer)}, Kept) end, maps:to_list(Answers)
    ),
    Kept#reload{reports = [migrated(Report, Modules) || Report <- Kept#reload.reports]}.

vsn({code_change, Vsn}) -> Vsn;
vsn(_Plan) -> undefined.

official({answer, {error, Reason}}) -> {answer, {failed, sbx_reload_text:text("~tp", [Reason])}};
official(Answer) -> Answer.

migrated({Pid, Module, Report}, Modules) when is_map_key(Pid, Modules) -> {Pid, Module, Report#{migrated => true}};
migrated(Report, _Modules) -> Report.

%% Each handler sends its own report. The answer to the next request comes after all of them.
managers([], Reload) ->
    Reload;
managers(Users, #reload{plans = Plans, args = #{migrate_timeout_ms := TimeoutMs}} = Reload) ->
    Tag = make_ref(),
    DeadPid = sbx_reload_sysmsg:dead_pid(),
    Fun = sbx_reload_state:migrate_handlers(Plans, Tag, self()),
    [Pid ! {system, {DeadPid, nil}, {replace_state, Fun}} || #user{pid = Pid} <- Users],
    Answers = sbx_reload_sysmsg:call([Pid || #user{pid = Pid} <- Users], fun(_Pid) -> suspend end, TimeoutMs),
    Reports = handler_reports(Tag),
    Late = [{Pid, hd(Ms), late} || #user{pid = Pid, modules = Ms} <- Users, map_get(Pid, Answers) =:= late],
    taken(Reports ++ Late, Reload).

handler_reports(Tag) ->
    receive
        {Tag, Pid, Module, Report} -> [{Pid, Module, {answer, Report}} | handler_reports(Tag)]
    after 0 -> []
    end.

%% Runs with the code that is loaded from now on, in either direction.
-spec supervisors(#reload{}) -> #reload{}.
supervisors(#reload{users = Users} = Reload) ->
    Jobs = [
        {User, Module, supervisor}
     || #user{kind = supervisor, modules = [Module]} = User <- Users, erlang:function_exported(Module, init, 1)
    ],
    try
        run_inside(Jobs, Reload)
    catch
        throw:{sbx_reload_run, #{step := migrate} = Failure, Failed} ->
            throw({sbx_reload_run, Failure#{step => supervisor}, Failed})
    end.

%% Runs after the old code is back. A supervisor that fails keeps its specs.
-spec specs_again([#user{}]) -> [{pid(), module(), sbx_reload_state:report()}].
specs_again(Users) ->
    Modules = maps:from_list([{Pid, Module} || #user{pid = Pid, modules = [Module]} <- Users]),
    Make = fun(Pid, Tag) -> sbx_reload_state:migrate(map_get(Pid, Modules), supervisor, 1, Tag) end,
    Answers = sbx_reload_sysmsg:run_inside(maps:keys(Modules), Make, ?AGAIN_TIMEOUT_MS),
    [{Pid, map_get(Pid, Modules), Report} || {Pid, {answer, {ok, Report}}} <- maps:to_list(Answers)].
