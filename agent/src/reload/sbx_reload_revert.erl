%%% Takes a transaction back: the old code, the old states, and all processes resume. It can't fail:
%%% a process that does not cooperate is killed, its supervisor starts it with the old code, and it
%%% gets its state then.
-module(sbx_reload_revert).

-export([revert/1, tidy/1]).

-include("sbx_reload.hrl").

-define(SUSPEND_TIMEOUT_MS, 2000).
-define(RESTORE_TIMEOUT_MS, 5000).
-define(SUCCESSOR_TIMEOUT_MS, 2000).
-define(ON_LOAD_TIMEOUT_MS, 5000).

%% Returns notes for the user.
-spec revert(#reload{}) -> [binary()].
revert(#reload{resumed = true, parents = Parents} = Reload) ->
    Notes = revert_running(Reload),
    sbx_reload_intensity:restore(Parents),
    Notes;
revert(#reload{parents = Parents} = Reload) ->
    sbx_reload_intensity:raise(Parents),
    Notes = revert_suspended(Reload),
    sbx_reload_intensity:restore(Parents),
    Notes.

revert_suspended(#reload{loaded = Loaded, users = Users} = Reload) ->
    Hung = hung(Users),
    Kept = [{Pid, sbx_reload_state:kept(Pid)} || #user{pid = Pid} <- Hung],
    kill(Hung),
    Living = Users -- Hung,
    Asked = asked_anew(Living, Reload),
    StillUsed = unload(Loaded, Reload),
    Lost = ask_again(Asked) ++ restore(Living, Reload#reload.reports, ?RESTORE_TIMEOUT_MS),
    kill(Lost),
    ok = sbx_reload_sysmsg:resume([Pid || #user{pid = Pid} <- Living -- Lost], none, ?RESTORE_TIMEOUT_MS),
    sbx_reload_sysmsg:resume_async(Reload#reload.halted),
    Unrestored = give_to_successors(Kept ++ copies(Lost, Reload), Reload),
    notes(StillUsed, Unrestored).

%% A suspended process answers this request. A process that does not is still inside a migration.
hung(Users) ->
    Answers = sbx_reload_sysmsg:call([Pid || #user{pid = Pid} <- Users], fun(_Pid) -> suspend end, 100),
    [User || #user{pid = Pid} = User <- Users, map_get(Pid, Answers) =:= late].

kill(Users) ->
    Monitors = [{monitor(process, Pid), exit(Pid, kill)} || #user{pid = Pid} <- Users],
    lists:foreach(fun({Monitor, _}) -> receive {'DOWN', Monitor, _, _, _} -> ok end end, Monitors).

unload(false, _Reload) ->
    [];
unload(true, #reload{set = Set}) ->
    sbx_reload_load:unload(Set, ?ON_LOAD_TIMEOUT_MS).

%% Runs after all processes have resumed: the new code is old code now, and goes if it is unused.
-spec tidy(#reload{}) -> ok.
tidy(#reload{loaded = false}) ->
    ok;
tidy(#reload{modules = Modules, changes = Changes}) ->
    Identities = maps:from_list([
        {Module, {Module, Md5, sbx_reload_old_code:closures(Beam)}}
     || #change{module = Module, beam = Beam} <- Changes, is_binary(Beam), {ok, {_, Md5}} <- [beam_lib:md5(Beam)]
    ]),
    sbx_reload:identities(Identities),
    _ = sbx_reload_old_code:tidy(Modules, Identities),
    ok.

%% State machines that have asked the new code for its callback mode.
asked_anew(Users, #reload{loaded = true, modes = Modes, reports = Reports}) ->
    Other = [Module || {Module, Mode} <- maps:to_list(Modes), Mode =/= sbx_reload_migrate:callback_mode(Module)],
    [
        User
     || #user{pid = Pid, kind = statem, modules = [Module]} = User <- Users, lists:member(Module, Other),
        lists:keymember(Pid, 1, Reports)
    ];
asked_anew(_Users, _Reload) ->
    [].

%% They ask the old code again, which they do only if its code_change can be called. Returns those
%% that could not.
ask_again(Users) ->
    Modules = maps:from_list([{Pid, Module} || #user{pid = Pid, modules = [Module]} <- Users]),
    Request = fun(Pid) -> {change_code, map_get(Pid, Modules), undefined, []} end,
    Answers = sbx_reload_sysmsg:call(maps:keys(Modules), Request, ?RESTORE_TIMEOUT_MS),
    [User || #user{pid = Pid} = User <- Users, map_get(Pid, Answers) =/= {answer, ok}].

%% Returns the processes that did not take their state.
restore(Users, Reports, TimeoutMs) ->
    Kept = maps:from_list([{Pid, K} || {Pid, _, #{kept := K}} <- Reports]),
    {Managers, Others} = lists:partition(fun(#user{kind = Kind}) -> Kind =:= event end, Users),
    restore_handlers(Managers, Reports),
    Pids = [Pid || #user{pid = Pid} <- Others, is_map_key(Pid, Kept)],
    Make = fun(Pid, Tag) -> sbx_reload_state:restore(map_get(Pid, Kept), Tag) end,
    Answers = sbx_reload_sysmsg:run_inside(Pids, Make, TimeoutMs),
    [User || #user{pid = Pid} = User <- Others, maps:get(Pid, Answers, none) =:= late].

restore_handlers(Managers, Reports) ->
    DeadPid = sbx_reload_sysmsg:dead_pid(),
    lists:foreach(
        fun(#user{pid = Pid}) ->
            Handlers = [Handler || {P, _, #{kept := {copy, Handler}}} <- Reports, P =:= Pid],
            Pid ! {system, {DeadPid, nil}, {replace_state, sbx_reload_state:restore_handlers(Handlers)}}
        end,
        Managers
    ).

copies(Users, #reload{reports = Reports}) ->
    [{Pid, Kept} || #user{pid = Pid} <- Users, {P, _, #{kept := {copy, _} = Kept}} <- Reports, P =:= Pid].

%% A state that was too large to be copied is lost with its process.
kept_inside(Users, #reload{reports = Reports}) ->
    [Pid || #user{pid = Pid} <- Users, {P, _, #{kept := inside}} <- Reports, P =:= Pid].

%% Returns how many processes got no state.
give_to_successors(Kept, #reload{places = Places}) ->
    End = erlang:monotonic_time(millisecond) + ?SUCCESSOR_TIMEOUT_MS,
    length([
        Pid
     || {Pid, State} <- Kept,
        not is_tuple(State) orelse
            give(sbx_reload_successor:successor(Pid, maps:get(Pid, Places, none), End), State) =:= lost
    ]).

give({ok, Successor}, Kept) ->
    Make = fun(_Pid, Tag) -> sbx_reload_state:restore(Kept, Tag) end,
    case sbx_reload_sysmsg:run_inside([Successor], Make, ?RESTORE_TIMEOUT_MS) of
        #{Successor := {answer, ok}} -> ok;
        _ -> lost
    end;
give(none, _Kept) ->
    lost.

notes(StillUsed, Unrestored) ->
    [
        sbx_reload_text:text("processes that were still in ~ts were killed", [sbx_reason:module_name(Module)])
     || Module <- StillUsed
    ] ++
        [
            sbx_reload_text:text("~b processes were started again without the state they had", [Unrestored])
         || Unrestored > 0
        ].

%% Runs after the processes have resumed, so they are searched again.
revert_running(#reload{modules = Modules, reports = Reports, actions = Actions, users = Before} = Reload) ->
    #{users := Found} = sbx_reload_users:find(Modules),
    Users = Found ++ of_deleted_modules(Before, Found, Reload),
    Late = suspend_or_name(Users),
    kill(Late),
    Living = Users -- Late,
    Asked = asked_anew(Living, Reload),
    StillUsed = unload(true, Reload),
    Workers = [User || #user{kind = Kind} = User <- Living, Kind =/= supervisor],
    Homeless = of_new_modules(Workers, Reload),
    Lost = Homeless ++ ask_again(Asked -- Homeless) ++ restore(Workers -- Homeless, Reports, ?RESTORE_TIMEOUT_MS),
    kill(Lost),
    Specs = sbx_reload_migrate:specs_again([User || #user{kind = supervisor} = User <- Living]),
    sbx_reload_intensity:raise(Reload#reload.parents),
    sbx_reload_sysmsg:resume_async(Reload#reload.halted),
    ok = sbx_reload_sysmsg:resume([Pid || #user{pid = Pid} <- Living -- Lost], none, ?RESTORE_TIMEOUT_MS),
    sbx_reload_children:revert(Specs ++ sbx_reload_child_list:revert(Reload), Actions, ?RESTORE_TIMEOUT_MS),
    Dead = [User || #user{pid = Pid, kind = Kind} = User <- Before, Kind =/= supervisor, not is_process_alive(Pid)],
    Unrestored = give_to_successors(copies(Dead, Reload), Reload) + length(kept_inside(Dead, Reload)),
    notes(StillUsed, Unrestored).

%% Those that were left suspended. A search does not find them, since their module is not loaded.
of_deleted_modules(Before, Found, #reload{changes = Changes}) ->
    Deleted = [Module || #change{module = Module, action = delete} <- Changes],
    [
        User
     || #user{pid = Pid, modules = Modules} = User <- Before, Modules -- Deleted =/= Modules,
        is_process_alive(Pid), not lists:keymember(Pid, #user.pid, Found)
    ].

%% Processes of modules that there are no more. Their supervisors start what the old code names.
of_new_modules(Users, #reload{changes = Changes}) ->
    New = [Module || #change{module = Module, action = load, old_beam = nil} <- Changes],
    [User || #user{modules = Modules} = User <- Users, Modules -- New =/= Modules].

suspend_or_name(Users) ->
    Pids = [Pid || #user{pid = Pid} <- Users],
    Answers = sbx_reload_sysmsg:call(Pids, fun(_Pid) -> suspend end, ?SUSPEND_TIMEOUT_MS),
    [User || #user{pid = Pid} = User <- Users, map_get(Pid, Answers) =:= late].
