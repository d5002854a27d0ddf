%%% Functions that run inside a suspended process of the application: they keep its state, migrate
%%% it or restore it. `sys` applies them to the state, and each sends its own answer.
-module(sbx_reload_state).

-export([migrate/4, migrate_handlers/3, restore/2, restore_handlers/1, forget/1, kept/1]).

-export_type([plan/0, report/0]).

-include("sbx_reload.hrl").

%% What is done with the states of a module's processes.
-type plan() ::
    keep
    %% Calls the module's code_change, if it has one.
    | {code_change, Vsn :: term()}
    %% The same for a rollback, with the state from before the upgrade for a module that knows no
    %% way back.
    | {code_change, {down, Vsn :: term()}, unchanged | {kept, term()} | none}
    %% Calls the caller's function with the daemon's version numbers.
    | {apply, fun((term(), term(), term()) -> term()), Old :: term(), New :: term()}
    %% Updates a supervisor's specs from its init/1, or from the list that replaces its argument.
    | supervisor
    | {supervisor, NewArgument :: term()}.

-type report() :: #{
    migrated := boolean(),
    shape := none | sbx_reload_shape:difference(),
    %% The old state; `inside` when the process keeps it itself.
    kept := {copy, term()} | inside,
    specs => sbx_reload_specs:difference()
}.

%% Answers `{ok, report()}` or `{failed, Text}`. After a failure the state is unchanged.
-spec migrate(module(), plan(), pos_integer(), sbx_reload_sysmsg:tag()) -> fun((term()) -> term()).
migrate(Module, Plan, CopyMaxWords, Tag) ->
    fun(State) ->
        put(?KEPT, {kept, State}),
        try change(Plan, Module, State) of
            {New, More} ->
                Report = report(Plan, Module, State, New),
                sbx_reload_sysmsg:answer(Tag, {ok, maps:merge(Report#{kept => kept(State, CopyMaxWords)}, More)}),
                New
        catch
            Class:Reason:Stack ->
                erase(?KEPT),
                sbx_reload_sysmsg:answer(Tag, {failed, sbx_reload_text:exception(Class, Reason, Stack)}),
                throw(unchanged)
        end
    end.

change(keep, _Module, State) ->
    {State, #{}};
change({apply, Fun, Old, New}, Module, State) ->
    {same_kind(Module, State, Fun(State, Old, New)), #{}};
change(supervisor, Module, State) ->
    sbx_reload_specs:update(Module, State);
change({supervisor, Argument}, Module, State) ->
    sbx_reload_specs:update(Module, State, Argument);
change({code_change, Vsn}, Module, State) ->
    {code_change_of(Module, Vsn, State), #{}};
change({code_change, Down, Before}, Module, State) ->
    try
        {code_change_of(Module, Down, State), #{}}
    catch
        error:function_clause:Stack ->
            case Stack of
                [{Module, code_change, _, _} | _] -> {without_way_back(Before, State), #{}};
                _ -> erlang:raise(error, function_clause, Stack)
            end
    end.

without_way_back(unchanged, State) ->
    State;
without_way_back({kept, Old}, _State) ->
    Old;
without_way_back(none, _State) ->
    throw({sbx_reload, "its code_change knows no way back, and no state from before is kept", []}).

code_change_of(Module, Vsn, State) ->
    case is_statem(Module, State) of
        true -> statem_code_change(Module, Vsn, State);
        false -> code_change(Module, Vsn, State)
    end.

code_change(Module, Vsn, State) ->
    case erlang:function_exported(Module, code_change, 3) of
        true ->
            case Module:code_change(Vsn, State, []) of
                {ok, New} -> New;
                Other -> throw({sbx_reload, "code_change returned ~tp instead of {ok, State}", [Other]})
            end;
        false ->
            State
    end.

statem_code_change(Module, Vsn, {Name, Data}) ->
    case erlang:function_exported(Module, code_change, 4) of
        true ->
            case Module:code_change(Vsn, Name, Data, []) of
                {ok, NewName, NewData} -> {NewName, NewData};
                Other -> throw({sbx_reload, "code_change returned ~tp instead of {ok, State, Data}", [Other]})
            end;
        false ->
            {Name, Data}
    end.

is_statem(Module, {_Name, _Data}) -> erlang:function_exported(Module, callback_mode, 0);
is_statem(_Module, _State) -> false.

same_kind(Module, State, New) ->
    case is_statem(Module, State) andalso not is_pair(New) of
        true -> throw({sbx_reload, "the migration returned ~tp instead of {State, Data}", [New]});
        false -> New
    end.

is_pair({_, _}) -> true;
is_pair(_) -> false.

report(Plan, Module, State, New) when Plan =:= keep; element(1, Plan) =:= apply; element(1, Plan) =:= code_change ->
    %% Compares identity only, since comparing large terms takes time.
    #{migrated => not erts_debug:same(State, New), shape => sbx_reload_shape:difference(Module, State, New)};
report(_Supervisor, _Module, _State, _New) ->
    #{migrated => true, shape => none}.

kept(State, CopyMaxWords) ->
    case process_info(self(), total_heap_size) of
        {total_heap_size, Words} when Words =< CopyMaxWords ->
            erase(?KEPT),
            {copy, State};
        _ ->
            put(?KEPT, {kept, State}),
            inside
    end.

%% One function for all handlers. Each sends its report with the tag, before the manager answers the
%% next request.
-spec migrate_handlers(#{module() => plan()}, reference(), pid()) -> fun((term()) -> term()).
migrate_handlers(Plans, Tag, Asker) ->
    fun
        ({Module, Id, State}) when is_map_key(Module, Plans) ->
            try change(map_get(Module, Plans), Module, State) of
                {New, _} ->
                    Report = report(map_get(Module, Plans), Module, State, New),
                    Asker ! {Tag, self(), Module, {ok, Report#{kept => {copy, {Module, Id, State}}}}},
                    {Module, Id, New}
            catch
                Class:Reason:Stack ->
                    Asker ! {Tag, self(), Module, {failed, sbx_reload_text:exception(Class, Reason, Stack)}},
                    {Module, Id, State}
            end;
        (Handler) ->
            Handler
    end.

%% Restores the kept state.
-spec restore({copy, term()} | inside, sbx_reload_sysmsg:tag()) -> fun((term()) -> term()).
restore(Kept, Tag) ->
    fun(State) ->
        Own = erase(?KEPT),
        sbx_reload_sysmsg:answer(Tag, ok),
        case {Kept, Own} of
            {{copy, Old}, _} -> Old;
            {inside, {kept, Old}} -> Old;
            {inside, undefined} -> State
        end
    end.

-spec restore_handlers([{module(), term(), term()}]) -> fun((term()) -> term()).
restore_handlers(Handlers) ->
    fun({Module, Id, State}) ->
        case [Old || {M, I, Old} <- Handlers, M =:= Module, I =:= Id] of
            [Old | _] -> {Module, Id, Old};
            [] -> {Module, Id, State}
        end
    end.

%% Removes what migrate/4 left in the process.
-spec forget(sbx_reload_sysmsg:tag()) -> fun((term()) -> no_return()).
forget(Tag) ->
    fun(_State) ->
        erase(?KEPT),
        sbx_reload_sysmsg:answer(Tag, ok),
        throw(unchanged)
    end.

%% The state that a process keeps, read from outside.
-spec kept(pid()) -> {copy, term()} | none.
kept(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} ->
            case lists:keyfind(?KEPT, 1, Dictionary) of
                {_, {kept, State}} -> {copy, State};
                _ -> none
            end;
        undefined ->
            none
    end.
