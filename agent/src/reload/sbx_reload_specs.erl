%%% Updates a supervisor's child specs inside the supervisor process, and reports the difference.
-module(sbx_reload_specs).

-export([update/2, update/3]).
-export([init/1]).

-export_type([difference/0]).

%% Identifiers of children.
-type difference() :: #{added := [term()], removed := [term()], changed := [term()]}.

%% Runs the module's init/1 once and applies its result to the supervisor's state.
-spec update(module(), term()) -> {term(), map()}.
update(_Module, #{'__struct__' := 'Elixir.DynamicSupervisor'} = State) ->
    {code_changed('Elixir.DynamicSupervisor', State), #{}};
update(Module, State) ->
    {Place, Argument} = place(Module, State),
    take(Module:init(Argument), Place, State).

%% Does the same with another argument: a supervisor that was started with a list gets the new list.
-spec update(module(), term(), term()) -> {term(), map()}.
update(Module, State, Argument) ->
    {Place, Old} = place(Module, State),
    {New, Report} = take(Module:init(Argument), Place, setelement(Place + 1, State, Argument)),
    {New, Report#{argument => Old}}.

%% The position of the callback module in the supervisor's state. The argument follows it.
place(Module, State) when is_tuple(State) ->
    case [Place || Place <- lists:seq(tuple_size(State) - 1, 3, -1), element(Place, State) =:= Module] of
        [Place | _] -> {Place, element(Place + 1, State)};
        [] -> throw({sbx_reload, "the process is not a supervisor of this runtime", []})
    end;
place(_Module, _State) ->
    throw({sbx_reload, "the process is not a supervisor of this runtime", []}).

%% The supervisor would run init/1 itself and not report which children it named. So it is given the
%% result of init/1.
take(Said, Place, State) ->
    {Module, Argument} = {element(Place, State), element(Place + 1, State)},
    Lent = setelement(Place + 1, setelement(Place, State, ?MODULE), Said),
    Changed = code_changed(supervisor, Lent),
    New = setelement(Place + 1, setelement(Place, Changed, Module), Argument),
    {New, #{specs => difference(Said, State, New)}}.

-spec init(term()) -> term().
init(Said) ->
    Said.

code_changed(Behaviour, State) ->
    case Behaviour:code_change(undefined, State, []) of
        {ok, New} -> New;
        {error, Reason} -> throw({sbx_reload, "init/1 of the supervisor: ~tp", [Reason]});
        Other -> throw({sbx_reload, "init/1 of the supervisor returned ~tp", [Other]})
    end.

difference({ok, {_Flags, Said}}, Old, New) ->
    case {starts(Old), starts(New)} of
        {Before, After} when is_map(Before), is_map(After) ->
            Named = [id(Spec) || Spec <- Said],
            #{
                added => [Id || Id <- Named, not is_map_key(Id, Before)],
                removed => [Id || Id <- maps:keys(Before), not lists:member(Id, Named)],
                changed => [Id || Id <- Named, is_map_key(Id, Before), map_get(Id, Before) =/= map_get(Id, After)]
            };
        _Simple ->
            none()
    end;
difference(_Ignore, _Old, _New) ->
    none().

none() ->
    #{added => [], removed => [], changed => []}.

id(#{id := Id}) -> Id;
id(Spec) when is_tuple(Spec) -> element(1, Spec).

%% How each child is started, asked through the supervisor's own interface.
starts(State) ->
    %% Since OTP 28 a fourth element may say when to hibernate.
    Answer = supervisor:handle_call(which_children, from, State),
    {reply, Children} = {element(1, Answer), element(2, Answer)},
    case Children of
        [{undefined, _, _, _} | _] -> simple;
        _ -> maps:from_list([{Id, start(Id, State)} || {Id, _, _, _} <- Children])
    end.

start(Id, State) ->
    case supervisor:handle_call({get_childspec, Id}, from, State) of
        Answer when element(1, Answer) =:= reply, element(1, element(2, Answer)) =:= ok ->
            maps:get(start, element(2, element(2, Answer)));
        _ -> unknown
    end.
