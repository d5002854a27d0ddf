%%% Runs one transaction step by step. The first step that fails takes back everything that was
%%% done.
-module(sbx_reload_run).

-export([run/3, fail/4, warn/2]).

-include("sbx_reload.hrl").

-define(DEFAULTS, #{
    order => [], migrations => #{}, direction => up, on_busy => wait, busy_timeout_ms => 5000,
    suspend_timeout_ms => 5000, migrate_timeout_ms => 5000, probation_ms => 1000, restart_changed => false,
    run_start => false, dry_run => false
}).
%% Loaded before any process is suspended, since a node loads them only when it needs them.
-define(PARTS, [
    sbx_record, sbx_reload_child_list, sbx_reload_children, sbx_reload_closures, sbx_reload_intensity,
    sbx_reload_load, sbx_reload_migrate, sbx_reload_migration, sbx_reload_old_code, sbx_reload_probation,
    sbx_reload_revert, sbx_reload_shape, sbx_reload_specs, sbx_reload_state, sbx_reload_successor, sbx_reload_sysmsg,
    sbx_reload_text, sbx_reload_users, sbx_shape_fields, sbx_shape_held, sbx_shape_search, sbx_shape_text, sbx_states
]).
-define(RESUME_TIMEOUT_MS, 5000).
%% How often processes that start during the suspension are searched and suspended too.
-define(LATECOMER_ROUNDS, 10).
%% The longest list of each kind in an answer.
-define(LISTED_MAX, 10000).
%% Heap space for the answers of one process in the pause.
-define(WORDS_PER_USER, 300).
%% A supervisor that is busy for longer is not suspended.
-define(HALT_TIMEOUT_MS, 100).

-spec run(map(), pid(), reference()) -> ok.
run(Args, Caller, Reference) ->
    true = group_leader(whereis(user), self()),
    ok = code:ensure_modules_loaded(?PARTS),
    Reload = #reload{
        id = maps:get(id, Args),
        args = maps:merge(?DEFAULTS, Args),
        caller = Caller,
        reference = Reference,
        monitor = monitor(process, Caller),
        began_us = now_us()
    },
    case steps([fun read/1, fun prepare/1, fun plan/1, fun clear/1, fun find/1], Reload) of
        {ok, #reload{changes = [], users = []} = Ready} ->
            end_unchanged(no_change, Ready);
        {ok, Ready} ->
            case option(dry_run, Ready) of
                true -> end_unchanged(dry_run, warn_outdated(doubt(Ready), Ready));
                false -> change(Ready)
            end;
        {failed, Failure, Failed} ->
            end_failed(Failure, Failed)
    end.

change(Ready) ->
    Steps = [
        fun suspend/1,
        fun still_wanted/1,
        fun migrate_down/1,
        fun load/1,
        fun migrate_up/1,
        fun resume/1,
        fun children/1,
        fun vacate/1
    ],
    case steps(Steps, Ready) of
        {ok, Done} ->
            end_reloaded(Done);
        {failed, Failure, Failed} ->
            Notes = sbx_reload_revert:revert(Failed),
            end_failed(noted(Failure, Notes), Failed),
            sbx_reload_revert:tidy(Failed)
    end.

noted(#{message := Message} = Failure, []) ->
    Failure#{message => Message};
noted(#{message := Message} = Failure, Notes) ->
    Failure#{message => iolist_to_binary(lists:join("; ", [Message | Notes]))}.

%% A step returns the changed transaction. What it did before a failure is in the thrown term.
steps([], Reload) ->
    {ok, Reload};
steps([Step | Steps], Reload) ->
    try Step(Reload) of
        Next -> steps(Steps, Next)
    catch
        throw:{?MODULE, Failure, Failed} ->
            {failed, Failure, Failed};
        Class:Reason:Stack ->
            Text = sbx_reload_text:text("~ts", [erl_error:format_exception(Class, Reason, Stack)]),
            {failed, failure(lost, Text, #{}), last_seen(Reload)}
    end.

%% The last progress that a crashed step noted.
last_seen(Reload) ->
    case get(?MODULE) of
        undefined -> Reload;
        Seen -> Seen
    end.

note(Reload) ->
    put(?MODULE, Reload),
    Reload.

-spec fail(atom(), binary(), #reload{}) -> no_return().
fail(Step, Message, Reload) ->
    fail(Step, Message, #{}, Reload).

-spec fail(atom(), binary(), map(), #reload{}) -> no_return().
fail(Step, Message, More, Reload) ->
    throw({?MODULE, failure(Step, Message, More), Reload}).

failure(Step, Message, More) ->
    maps:merge(
        #{kind => reload, step => Step, message => Message, module => nil, process => nil, holders => []}, More
    ).

-spec warn(binary(), #reload{}) -> #reload{}.
warn(Text, #reload{warnings = Warnings} = Reload) ->
    Reload#reload{warnings = [Text | Warnings]}.

option(Name, #reload{args = Args}) ->
    maps:get(Name, Args).

%% Before any process is suspended

read(#reload{args = #{modules := Written}} = Reload) ->
    Changes = [change_of(Entry) || Entry <- Written],
    Modules = [C#change.module || C <- Changes],
    Migrated = migrated_alone(maps:keys(option(migrations, Reload)), Modules),
    Reload#reload{changes = ordered(Changes, option(order, Reload)), modules = Modules, wanted = Modules ++ Migrated}.

%% The caller may migrate states of modules whose code stays as it is.
migrated_alone(Names, Modules) ->
    Loaded = [Module || Name <- Names, Module <- existing(Name), erlang:module_loaded(Module)],
    Loaded -- Modules.

existing(Name) ->
    try
        [binary_to_existing_atom(Name)]
    catch
        error:badarg -> []
    end.

change_of(#{module := Name, action := Action} = Entry) ->
    #change{
        module = binary_to_atom(Name),
        action = Action,
        beam = beam(Action, Name, Entry),
        old_beam = maps:get(old_beam, Entry, nil),
        version = maps:get(version, Entry, nil),
        old_version = maps:get(old_version, Entry, nil)
    }.

beam(load, _Name, #{beam := Beam}) ->
    Beam;
%% A module that is on the code path would be loaded again, so it is replaced by an empty one.
beam(delete, Name, _Entry) ->
    case code:where_is_file(binary_to_list(Name) ++ ".beam") of
        non_existing -> nil;
        _Found -> sbx_reload_stub:beam(binary_to_atom(Name))
    end.

%% Dependencies come first: on_load functions run in this order.
ordered(Changes, Order) ->
    Names = lists:append(Order),
    Numbered = maps:from_list(lists:zip(Names, lists:seq(1, length(Names)))),
    Place = fun(#change{module = Module}) -> maps:get(atom_to_binary(Module), Numbered, length(Names)) end,
    [Change || {_, Change} <- lists:keysort(1, [{Place(Change), Change} || Change <- Changes])].

prepare(#reload{changes = Changes} = Reload) ->
    case sbx_reload_load:prepare(Changes) of
        {ok, Set} -> Reload#reload{set = Set, identities = identities(Changes)};
        {error, Problem} -> fail_load(load, Problem, Reload)
    end.

fail_load(Step, {Module, Text}, Reload) ->
    Message = sbx_reload_text:text("~ts can't be loaded: ~ts", [sbx_reason:module_name(Module), Text]),
    fail(Step, Message, #{module => atom_to_binary(Module)}, Reload).

identities(Changes) ->
    maps:from_list([
        {Module, sbx_reload_old_code:identity(Module, Old)}
     || #change{module = Module, old_beam = Old} <- Changes, is_binary(Old), erlang:module_loaded(Module)
    ]).

plan(#reload{changes = Changes, wanted = Wanted} = Reload) ->
    #{migrations := Migrations, direction := Direction, migrate_timeout_ms := TimeoutMs} = Reload#reload.args,
    case sbx_reload_migration:plans(Changes, Wanted, Migrations, Direction, TimeoutMs) of
        {ok, Plans} -> Reload#reload{plans = Plans};
        {error, Module, Text} -> fail(migrate, Text, #{module => Module}, Reload)
    end.

clear(#reload{modules = Modules} = Reload) ->
    sbx_reload:phase(<<"busy">>),
    case clear(Modules, sbx_reload:identities(), Reload) of
        ok ->
            Reload;
        {busy, Module, Holders} ->
            Message = sbx_reload_text:in_use(Module, Holders),
            Step = case [Holder || #{how := stack} = Holder <- Holders] of [] -> busy; _ -> old_code end,
            More = #{module => atom_to_binary(Module), holders => [written(Holder) || Holder <- Holders]},
            fail(Step, Message, More, Reload)
    end.

clear(Modules, Identities, Reload) ->
    case option(dry_run, Reload) of
        true -> sbx_reload_old_code:check(Modules, Identities);
        false ->
            {OnBusy, TimeoutMs} = {option(on_busy, Reload), option(busy_timeout_ms, Reload)},
            sbx_reload_old_code:clear(Modules, Identities, OnBusy, TimeoutMs)
    end.

written(#{pid := nil} = Holder) -> Holder;
written(#{pid := Pid} = Holder) -> Holder#{pid => sbx_reload_text:pid(Pid)}.

find(#reload{modules = Modules, wanted = Wanted} = Reload) ->
    sbx_reload:phase(<<"find">>),
    #{users := Users, plain := Running, seen := Seen} = sbx_reload_users:find(Wanted),
    Plain = [{Pid, Module} || {Pid, Module} <- Running, lists:member(Module, Modules)],
    Statems = lists:usort(lists:append([Ms || #user{kind = statem, modules = Ms} <- Users])),
    ok = refuse_gone([Pid || {Pid, Module} <- Plain, lists:member(Module, deleted(Reload))], Reload),
    Warned = lists:foldl(fun warn_plain/2, Reload, lists:sublist(Plain, 20)),
    Found = Warned#reload{
        users = Users,
        plain = Plain,
        seen = Seen,
        places = sbx_reload_successor:places(Users),
        modes = modes(Statems),
        fields = sbx_shape_fields:changes(Warned#reload.changes, lists:append([Ms || #user{modules = Ms} <- Users]))
    },
    sbx_reload_child_list:foresee(warn_unused(Found)).

%% A migration without a process to use it is a mistake in a name, mostly.
warn_unused(#reload{users = Users, args = #{migrations := Migrations}} = Reload) ->
    Used = [atom_to_binary(Module) || #user{modules = Modules} <- Users, Module <- Modules],
    Changed = [atom_to_binary(Module) || Module <- Reload#reload.modules],
    lists:foldl(
        fun(Name, R) ->
            Format = "the migration for ~ts was not used: no process has that callback module",
            warn(sbx_reload_text:text(Format, [written_name(Name)]), R)
        end,
        Reload,
        maps:keys(Migrations) -- [<<"*">> | Used ++ Changed]
    ).

warn_plain({Pid, Module}, Reload) ->
    Format = "~ts runs ~ts and takes no system messages: it goes on with the old code until it calls the module anew",
    warn(sbx_reload_text:text(Format, [sbx_reload_text:pid(Pid), sbx_reason:module_name(Module)]), Reload).

deleted(#reload{changes = Changes}) ->
    [Module || #change{module = Module, action = delete} <- Changes].

%% Their next message, or their next call, would end them.
refuse_gone([], _Reload) ->
    ok;
refuse_gone([Pid | _] = Pids, Reload) ->
    Count = case Pids of [_] -> "a process runs"; _ -> io_lib:format("~b processes run", [length(Pids)]) end,
    Format = "~ts a module that is deleted (~ts), as ~ts does. Keep the module, or have the supervisor end such processes: "
        "it ends children that it no longer names, and with --restart-changed it restarts those whose specification changed",
    Gone = lists:join(", ", [sbx_reason:module_name(Module) || Module <- deleted(Reload)]),
    Text = sbx_reload_text:text(Format, [Count, Gone, sbx_reload_text:pid(Pid)]),
    fail(supervisor, Text, #{process => sbx_reload_text:pid(Pid)}, Reload).

written_name(<<"Elixir.", Name/binary>>) -> Name;
written_name(Name) -> Name.

modes(Modules) ->
    maps:from_list([{Module, sbx_reload_migrate:callback_mode(Module)} || Module <- Modules]).

%% The pause

suspend(#reload{users = Users} = Reload) ->
    sbx_reload:phase(<<"suspend">>),
    Pids = [Pid || #user{pid = Pid} <- Users],
    Noted = note(monitored(Users, halt_supervisors(Reload))),
    make_room(length(Users)),
    TimeoutMs = option(suspend_timeout_ms, Reload),
    case sbx_reload_sysmsg:suspend(Pids, Noted#reload.monitors, TimeoutMs, fun() -> put(pause, now_us()) end) of
        {ok, Ended} -> suspend_latecomers(?LATECOMER_ROUNDS, without(Ended, Noted#reload{paused_us = get(pause)}));
        {late, Late} -> fail_suspend(Late, Noted, Noted#reload{users = []})
    end.

%% The monitors are set before the suspension and used until the end of the probation, so no exit is
%% missed.
monitored(Users, #reload{monitors = Monitors} = Reload) ->
    New = [{monitor(process, Pid), {Pid, Module}} || #user{pid = Pid, modules = [Module | _]} <- Users],
    Reload#reload{monitors = maps:merge(Monitors, maps:from_list(New))}.

%% The heap is made large enough for all answers, so that no garbage collection prolongs the pause.
make_room(Count) ->
    _ = process_flag(min_heap_size, ?WORDS_PER_USER * Count),
    true = erlang:garbage_collect().

%% Suspends the supervisors, so that they start no process that would begin with the old code and go
%% on with the new.
halt_supervisors(#reload{users = Users, places = Places} = Reload) ->
    Parents = sbx_reload_successor:parents(maps:keys(Places), Places),
    Foreign = Parents -- [Pid || #user{pid = Pid} <- Users],
    Answers = sbx_reload_sysmsg:call(Foreign, fun(_Pid) -> suspend end, ?HALT_TIMEOUT_MS),
    {Halted, Others} = lists:partition(fun(Pid) -> map_get(Pid, Answers) =:= {answer, ok} end, Foreign),
    sbx_reload_sysmsg:resume_async(Others),
    Reload#reload{parents = Parents, halted = Halted}.

suspend_latecomers(0, Reload) ->
    Reload;
suspend_latecomers(Rounds, #reload{seen = Before, wanted = Wanted, users = Users} = Reload) ->
    #{users := Found, seen := Seen} = sbx_reload_users:find_newer(Before, Wanted),
    Known = maps:from_keys([Pid || #user{pid = Pid} <- Users], []),
    case [User || #user{pid = Pid} = User <- Found, not is_map_key(Pid, Known)] of
        [] ->
            Reload#reload{seen = Seen};
        New ->
            More = note(monitored(New, Reload#reload{users = Users ++ New, seen = Seen})),
            TimeoutMs = option(suspend_timeout_ms, Reload),
            case sbx_reload_sysmsg:suspend_again([P || #user{pid = P} <- New], More#reload.monitors, TimeoutMs) of
                {ok, Ended} -> suspend_latecomers(Rounds - 1, without(Ended, More));
                {late, Late} -> fail_suspend(Late, More, Reload)
            end
    end.

%% The late processes have been resumed already.
fail_suspend([Pid | _] = Late, #reload{users = Users}, Reload) ->
    Module = hd([M || #user{pid = P, modules = [M | _]} <- Users, P =:= Pid]),
    Format = "~ts is busy: it did not get to a system message within ~b ms~ts",
    More = case Late of [_] -> ""; _ -> io_lib:format(" (nor did ~b others)", [length(Late) - 1]) end,
    Message = sbx_reload_text:text(Format, [sbx_reload_text:pid(Pid), option(suspend_timeout_ms, Reload), More]),
    fail(suspend, Message, #{process => sbx_reload_text:pid(Pid), module => atom_to_binary(Module)}, Reload).

%% A process that ends by itself is no failure: its successor runs the new code.
without([], Reload) ->
    Reload;
without(Ended, #reload{users = Users, monitors = Monitors} = Reload) ->
    Gone = maps:from_keys(Ended, []),
    Left = maps:filter(fun(Monitor, {Pid, _}) -> not is_map_key(Pid, Gone) orelse not forget(Monitor) end, Monitors),
    note(Reload#reload{users = [User || #user{pid = Pid} = User <- Users, not is_map_key(Pid, Gone)], monitors = Left}).

forget(Monitor) ->
    demonitor(Monitor, [flush]).

%% Until the code is loaded, a daemon that disconnects cancels the reload.
still_wanted(#reload{monitor = Monitor} = Reload) ->
    receive
        {'DOWN', Monitor, process, _Pid, _Reason} -> fail(lost, <<"the daemon has gone">>, Reload)
    after 0 -> Reload
    end.

migrate_down(Reload) ->
    case option(direction, Reload) of
        down -> sbx_reload_migrate:states(Reload);
        up -> Reload
    end.

load(#reload{set = Set} = Reload) ->
    sbx_reload:phase(<<"load">>),
    Loading = note(Reload#reload{loaded = true}),
    case sbx_reload_load:load(Set, option(migrate_timeout_ms, Reload)) of
        ok -> warn_between(Loading);
        {unchanged, Step, Problem} -> fail_load(Step, Problem, Reload);
        {partly, Step, Problem} -> fail_load(Step, Problem, Loading)
    end.

%% It is unknown whether these processes began with the old code or with the new.
warn_between(#reload{seen = Before, modules = Modules, users = Users} = Reload) ->
    #{users := Found} = sbx_reload_users:find_newer(Before, Modules),
    case [Pid || #user{pid = Pid} <- Found, not lists:keymember(Pid, #user.pid, Users)] of
        [] ->
            Reload;
        Pids ->
            Format = "~b processes were started while the code was loaded, and were not migrated",
            warn(sbx_reload_text:text(Format, [length(Pids)]), Reload)
    end.

migrate_up(Reload) ->
    sbx_reload:phase(<<"migrate">>),
    Migrated =
        case option(direction, Reload) of
            up -> sbx_reload_migrate:states(Reload);
            down -> sbx_reload_migrate:modes(Reload)
        end,
    sbx_reload_migrate:supervisors(Migrated).

resume(#reload{users = Users, paused_us = Paused} = Reload) ->
    sbx_reload:phase(<<"resume">>),
    sbx_reload_intensity:raise(Reload#reload.parents),
    Pids = [Pid || #user{pid = Pid} <- Users] -- stranded(Reload),
    ok = sbx_reload_sysmsg:resume(Pids, Reload#reload.monitors, ?RESUME_TIMEOUT_MS),
    sbx_reload_sysmsg:resume_async(Reload#reload.halted),
    Pause = case Users of [] -> 0; _ -> now_us() - Paused end,
    note(Reload#reload{pause_us = Pause, resumed = true, halted = []}).

children(Reload) ->
    sbx_reload_children:change(sbx_reload_child_list:update(Reload), fun note/1).

%% Processes of deleted modules stay suspended until their supervisors have ended them.
stranded(#reload{users = Users} = Reload) ->
    Deleted = deleted(Reload),
    [Pid || #user{pid = Pid, modules = Modules} <- Users, Modules -- Deleted =/= Modules].

vacate(Reload) ->
    ok = refuse_gone([Pid || Pid <- stranded(Reload), is_process_alive(Pid)], Reload),
    Reload.

%% Outcomes

end_unchanged(Status, Reload) ->
    sbx_reload:outcome(Reload#reload.id, none),
    answer({ok, result(Status, Reload)}, Reload).

%% Warns of states of an older shape, which the new code may not expect. A dry run leaves out those that
%% the caller migrates.
warn_outdated(Doubt, #reload{fields = Fields, users = Users, plans = Plans, args = #{dry_run := IsDry}} = Reload) ->
    Migrated = [Module || IsDry, {Module, {apply, _, _, _}} <- maps:to_list(Plans)],
    Outdated = sbx_shape_search:outdated(Fields, Users, Migrated),
    lists:foldl(fun warn/2, Reload, sbx_shape_text:warnings(Outdated, Doubt)).

%% Tells which modules have a code_change: a dry run does not call it.
doubt(#reload{changes = Changes}) ->
    fun(Module) ->
        case lists:keyfind(Module, #change.module, Changes) of
            #change{beam = Beam} when is_binary(Beam) -> sbx_reload_load:has_code_change(Beam);
            _ -> false
        end
    end.

end_failed(Failure, #reload{id = Id} = Reload) ->
    sbx_reload:outcome(Id, failed),
    answer({error, Failure}, Reload).

end_reloaded(#reload{changes = Changes, identities = Identities} = Reload) ->
    sbx_reload:phase(<<"probation">>),
    sbx_reload:identities(Identities),
    sbx_reload:loaded([{C#change.module, version(C)} || C <- Changes]),
    answer({ok, result(hot_reloaded, warn_outdated(done, Reload))}, Reload),
    sbx_reload_probation:watch(Reload).

version(#change{action = delete}) -> nil;
version(#change{version = Version}) -> Version.

%% If the daemon has gone, the next one gets an event, so that it asks for the outcome. On another scheduler
%% the caller may end as soon as it has the answer.
answer(Result, #reload{id = Id, caller = Caller, reference = Reference}) ->
    IsHeard = is_process_alive(Caller),
    Caller ! {Reference, Result},
    _ = IsHeard orelse sbx_reload_probation:tell(Id, unheard, <<"the daemon has gone">>, nil, nil),
    ok.

result(Status, #reload{changes = Changes} = Reload) ->
    #{
        status => Status,
        modules => [
            #{module => atom_to_binary(C#change.module), from_version => C#change.old_version, to_version => version(C)}
         || C <- Changes
        ],
        processes => processes(Reload),
        shapes => shapes(Reload),
        children => sbx_reload_children:described(Reload),
        pause_us => Reload#reload.pause_us,
        duration_us => now_us() - Reload#reload.began_us,
        warnings => lists:reverse(Reload#reload.warnings) ++ unlisted(Reload)
    }.

processes(#reload{users = Users, reports = Reports}) ->
    Migrated = maps:from_list([{Pid, true} || {Pid, _, #{migrated := true}} <- Reports]),
    [
        #{
            pid => sbx_reload_text:pid(Pid),
            module => atom_to_binary(Module),
            migrated => is_map_key(Pid, Migrated)
        }
     || #user{pid = Pid, modules = [Module | _]} <- lists:sublist(Users, ?LISTED_MAX)
    ].

shapes(#reload{reports = Reports}) ->
    [
        Shape#{pid => sbx_reload_text:pid(Pid), module => atom_to_binary(Module)}
     || {Pid, Module, #{shape := Shape}} <- lists:sublist(Reports, ?LISTED_MAX), is_map(Shape)
    ].

unlisted(#reload{users = Users}) when length(Users) > ?LISTED_MAX ->
    [sbx_reload_text:text("of ~b processes only ~b are listed", [length(Users), ?LISTED_MAX])];
unlisted(_Reload) ->
    [].

now_us() ->
    erlang:monotonic_time(microsecond).
