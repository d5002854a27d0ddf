%%% Watches the processes of a reload for a while. A crash takes the reload back; otherwise it is
%%% committed.
-module(sbx_reload_probation).

-export([watch/1, is_crash/1, tell/5]).

-include("sbx_reload.hrl").

-define(REMEMBERED_MAX_WORDS, 131072).
-define(HALT_TIMEOUT_MS, 500).

-spec watch(#reload{}) -> ok.
watch(#reload{monitors = Monitors, args = #{probation_ms := ProbationMs}} = Reload) ->
    Started = [{monitor(process, Pid), Process} || {Pid, _} = Process <- sbx_reload_children:started(Reload)],
    Timer = erlang:start_timer(ProbationMs, self(), commit),
    await(Timer, maps:merge(Monitors, maps:from_list(Started)), Reload).

await(Timer, Monitors, #reload{id = Id} = Reload) ->
    receive
        {timeout, Timer, commit} ->
            commit(Reload, []),
            tell(Id, committed, <<"the probation is over">>, nil, nil);
        {sbx_reload, followed, Next} ->
            commit(Reload, Next);
        {'DOWN', Monitor, process, _Pid, Reason} when is_map_key(Monitor, Monitors) ->
            case is_crash(Reason) of
                true -> crashed(map_get(Monitor, Monitors), Reason, Reload);
                false -> await(Timer, maps:remove(Monitor, Monitors), Reload)
            end;
        _Other ->
            await(Timer, Monitors, Reload)
    end.

%% False for an end that the process or its supervisor chose.
-spec is_crash(term()) -> boolean().
is_crash(normal) -> false;
is_crash(shutdown) -> false;
is_crash({shutdown, _}) -> false;
is_crash(noproc) -> false;
is_crash(_Reason) -> true.

crashed({Pid, Module}, Reason, #reload{id = Id, places = Places} = Reload) ->
    %% A supervisor gives up when a child goes on crashing. So it is suspended first, and starts no
    %% more children.
    Parents = sbx_reload_successor:parents([Pid], Places),
    _ = sbx_reload_sysmsg:call(Parents, fun(_) -> suspend end, ?HALT_TIMEOUT_MS),
    Notes = revert(Reload#reload{halted = Parents}),
    Text = iolist_to_binary(lists:join("; ", [sbx_reason:bounded(sbx_reason:exit_text(Reason), 8192) | Notes])),
    tell(Id, rolled_back, Text, sbx_reload_text:pid(Pid), atom_to_binary(Module)),
    sbx_reload_revert:tidy(Reload).

revert(#reload{id = Id, changes = Changes} = Reload) ->
    sbx_reload:phase(<<"revert">>),
    Notes = sbx_reload_revert:revert(Reload),
    sbx_reload:loaded([{C#change.module, C#change.old_version} || C <- Changes]),
    sbx_reload:outcome(Id, rolled_back),
    Notes.

%% Commits: the kept states and unused old code go. The next reload purges the modules it replaces
%% itself.
commit(#reload{id = Id, reports = Reports, modules = Modules, identities = Identities} = Reload, Next) ->
    sbx_reload:outcome(Id, committed),
    sbx_reload_intensity:restore(Reload#reload.parents),
    remember(Reload),
    Inside = [Pid || {Pid, _, #{kept := inside}} <- Reports],
    _ = sbx_reload_sysmsg:run_inside(Inside, fun(_Pid, Tag) -> sbx_reload_state:forget(Tag) end, 1000),
    Replaced = [Module || Module <- Modules, not lists:member(atom_to_binary(Module), Next)],
    _ = sbx_reload_old_code:tidy(Replaced, Identities),
    ok.

%% Keeps the old states for a later rollback whose code_change knows no way back.
remember(#reload{reports = Reports, changes = Changes, args = #{direction := up}}) ->
    Versions = maps:from_list([{M, {New, Old}} || #change{module = M, version = New, old_version = Old} <- Changes]),
    Entries = [
        {Pid, Module, map_get(Module, Versions), before(Report)}
     || {Pid, Module, Report} <- Reports, is_map_key(Module, Versions), not is_map_key(specs, Report)
    ],
    sbx_reload:remember(bounded(Entries, ?REMEMBERED_MAX_WORDS));
remember(_Down) ->
    ok.

before(#{migrated := false}) -> unchanged;
before(#{kept := {copy, State}}) -> {kept, State};
before(_Inside) -> none.

bounded([], _Words) ->
    [];
bounded([{_, _, _, Before} = Entry | Entries], Words) ->
    case Words - erts_debug:flat_size(Before) of
        Left when Left >= 0 -> [Entry | bounded(Entries, Left)];
        _ -> bounded(Entries, Words)
    end.

-spec tell(binary(), committed | rolled_back | unheard, binary(), binary() | nil, binary() | nil) -> ok.
tell(Id, Outcome, Reason, Process, Module) ->
    sbx_outbox:put(reload_settled, #{
        id => Id, outcome => Outcome, reason => Reason, process => Process, module => Module
    }).
