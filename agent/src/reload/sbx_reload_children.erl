%%% Applies changed child specs: new children start, children that are no longer named stop, and
%%% unchanged ones are not touched. The supervisors run meanwhile, since a suspended one answers no
%%% request.
-module(sbx_reload_children).

-export([change/2, revert/3, started/1, described/1, ask/2]).

-export_type([action/0]).

-include("sbx_reload.hrl").

-type action() :: {
    Change :: started | stopped | restarted | pending,
    Supervisor :: pid(),
    Id :: term(),
    %% The states of the stopped processes, by their path below the child.
    sbx_states:kept()
}.

%% Note records each action as soon as it is done.
-spec change(#reload{}, fun((#reload{}) -> #reload{})) -> #reload{}.
change(#reload{reports = Reports, args = #{restart_changed := Restart}} = Reload, Note) ->
    Wishes = lists:flatmap(fun(Report) -> wishes(Report, Restart) end, Reports),
    lists:foldl(fun(Wish, Sofar) -> Note(wish(Wish, Sofar)) end, Reload, in_order(Wishes)).

wishes({Supervisor, _Module, #{specs := #{added := Added, removed := Removed, changed := Changed}}}, Restart) ->
    [{stopped, Supervisor, Id} || Id <- Removed] ++
        [{case Restart of true -> restarted; false -> pending end, Supervisor, Id} || Id <- Changed] ++
        [{started, Supervisor, Id} || Id <- Added];
wishes(_Report, _Restart) ->
    [].

%% Children stop before others start, since they may hold names or ports.
in_order(Wishes) ->
    [Wish || Change <- [stopped, pending, restarted, started], {C, _, _} = Wish <- Wishes, C =:= Change].

wish({Change, Supervisor, Id}, #reload{actions = Actions, args = #{migrate_timeout_ms := TimeoutMs}} = Reload) ->
    Kept = keep(Change, Supervisor, Id, TimeoutMs),
    case do(Change, Supervisor, Id, TimeoutMs) of
        ok ->
            Reload#reload{actions = [{Change, Supervisor, Id, Kept} | Actions]};
        {error, Reason} ->
            %% The failed action is recorded too, since it may have stopped the child.
            Done = Reload#reload{actions = [{Change, Supervisor, Id, Kept} | Actions]},
            Format = "the child ~tp of ~ts could not be ~ts: ~ts",
            Arguments = [Id, sbx_reload_text:pid(Supervisor), Change, sbx_reason:exit_text(Reason)],
            More = #{process => sbx_reload_text:pid(Supervisor)},
            sbx_reload_run:fail(supervisor, sbx_reload_text:text(Format, Arguments), More, Done)
    end.

keep(Change, Supervisor, Id, TimeoutMs) when Change =:= stopped; Change =:= restarted ->
    case children(Supervisor, TimeoutMs) of
        {ok, Children} -> lists:append([sbx_states:keep(Pid) || {I, Pid, _, _} <- Children, I =:= Id, is_pid(Pid)]);
        error -> []
    end;
keep(_Change, _Supervisor, _Id, _TimeoutMs) ->
    [].

do(Change, Supervisor, Id, TimeoutMs) ->
    requests(Supervisor, [{Request, Id} || Request <- requests(Change)], TimeoutMs).

requests(pending) -> [];
requests(stopped) -> [terminate_child, delete_child];
requests(started) -> [restart_child];
requests(restarted) -> [terminate_child, restart_child].

requests(_Supervisor, [], _TimeoutMs) ->
    ok;
requests(Supervisor, [Request | Requests], TimeoutMs) ->
    case ask([{Supervisor, Request}], TimeoutMs) of
        #{Supervisor := {answer, {error, Reason}}} when Reason =/= running -> {error, Reason};
        #{Supervisor := {answer, _}} -> requests(Supervisor, Requests, TimeoutMs);
        #{Supervisor := {down, Reason}} -> {error, Reason};
        #{Supervisor := late} -> {error, timeout}
    end.

children(Supervisor, TimeoutMs) ->
    case ask([{Supervisor, which_children}], TimeoutMs) of
        #{Supervisor := {answer, Children}} when is_list(Children) -> {ok, Children};
        _ -> error
    end.

-spec ask([{pid(), term()}], timeout()) -> sbx_reload_sysmsg:answers().
ask(Requests, TimeoutMs) ->
    sbx_reload_sysmsg:ask(
        [
            {Supervisor, fun(Tag) -> {'$gen_call', {self(), Tag}, Request} end}
         || {Supervisor, Request} <- Requests
        ],
        {idle, TimeoutMs}
    ).

%% Undoes the changes by the specs of the old code. A failure does not stop the rest. Children that
%% come back get their states.
-spec revert([{pid(), module(), sbx_reload_state:report()}], [action()], timeout()) -> ok.
revert(Reports, Actions, TimeoutMs) ->
    Restarted = [{restarted, Supervisor, Id} || {restarted, Supervisor, Id, _} <- Actions],
    Wishes = lists:flatmap(fun(Report) -> wishes(Report, true) end, Reports),
    lists:foreach(
        fun({Change, Supervisor, Id}) -> back(Change, Supervisor, Id, Actions, TimeoutMs) end,
        in_order([Wish || Wish <- Wishes, element(1, Wish) =/= restarted orelse lists:member(Wish, Restarted)])
    ).

back(Change, Supervisor, Id, Actions, TimeoutMs) ->
    _ = do(Change, Supervisor, Id, TimeoutMs),
    Kept = lists:append([K || {_, S, I, K} <- Actions, S =:= Supervisor, I =:= Id]),
    case children(Supervisor, TimeoutMs) of
        {ok, Children} when Kept =/= [] ->
            lists:foreach(
                fun(Pid) -> sbx_states:give_back(Pid, Kept) end,
                [Pid || {I, Pid, _, _} <- Children, I =:= Id, is_pid(Pid)]
            );
        _ ->
            ok
    end.

%% The processes that were started, with the module that their supervisor names.
-spec started(#reload{}) -> [{pid(), module()}].
started(#reload{actions = Actions, args = #{migrate_timeout_ms := TimeoutMs}}) ->
    [
        {Pid, module(Modules)}
     || {Change, Supervisor, Id, _} <- Actions, Change =:= started orelse Change =:= restarted,
        {ok, Children} <- [children(Supervisor, TimeoutMs)], {I, Pid, _, Modules} <- Children, I =:= Id, is_pid(Pid)
    ].

module([Module | _]) when is_atom(Module) -> Module;
module(_Dynamic) -> undefined.

-spec described(#reload{}) -> [map()].
described(#reload{actions = Actions}) ->
    [
        #{supervisor => sbx_reload_text:pid(Supervisor), id => sbx_states:written(Id), change => Change}
     || {Change, Supervisor, Id, _Kept} <- lists:reverse(Actions)
    ].
