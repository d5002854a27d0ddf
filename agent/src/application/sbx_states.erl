%%% Takes the states of a tree's processes by their path in the tree and restores them: into the
%%% same tree started again, or into a part of it that comes back.
-module(sbx_states).

-export([snapshot/1, go_on/0, put_back/2, keep/1, give_back/2, written/1]).

-export_type([kept/0]).

-define(ANSWER_TIMEOUT_MS, 5000).
%% The states that fit into an answer to the daemon, with room for the rest of it.
-define(TOTAL_MAX_BYTES, 12 * 1024 * 1024).
-define(DEPTH_MAX, 32).
-define(ID_CHARS_MAX, 200).
%% Marks a state in which regular expressions have to be compiled again, and their places.
-define(REGEXES, '$sandbox_regexes').
-define(PATTERN(Code), {re_pattern, _, _, _, Code}).
-define(COMPILED(Code), #{'__struct__' := 'Elixir.Regex', source := _, opts := _, re_pattern := ?PATTERN(Code)}).

-type path() :: [binary()].
-type place() :: {path(), pid()}.
%% States that never leave the node.
-type kept() :: [{path(), term()}].

%% For a tree that starts in another VM. The processes stay suspended from here on, so that they
%% give no answer that the states don't reflect: this VM is about to end.
-spec snapshot(map()) -> sbx_call:result().
snapshot(Args) ->
    TimeoutMs = maps:get(timeout_ms, Args),
    case sbx_app:facts() of
        #{supervisor_pid := Top} when is_pid(Top) -> {ok, taken(walk(Top, TimeoutMs), TimeoutMs)};
        _ -> {ok, #{states => [], lost => []}}
    end.

taken({Places, Unplaced}, TimeoutMs) ->
    {Asked, Silent} = lists:partition(fun({_Path, Pid}) -> speaks(Pid) end, Places),
    Pids = [Pid || {_, Pid} <- Asked],
    ok = persistent_term:put(?MODULE, Pids),
    ok = stand_still(Pids, TimeoutMs div 2),
    Answers = answers(Pids, TimeoutMs div 2),
    {States, Lost, _Bytes} = lists:foldl(
        fun({Path, Pid}, Sofar) -> sort(Path, Pid, map_get(Pid, Answers), Sofar) end, {[], [], 0}, Asked
    ),
    #{
        states => lists:reverse(States),
        lost => lists:reverse(Lost) ++
            [lost(Path, <<"it takes no system messages">>) || {Path, _} <- Silent] ++
            lists:map(fun unplaced/1, counted(Unplaced))
    }.

%% The processes that stand still do so no more.
-spec go_on() -> ok.
go_on() ->
    sbx_reload_sysmsg:resume_async(persistent_term:get(?MODULE, [])).

%% A process that is too busy to be suspended in time does not keep the others from it.
stand_still(Pids, TimeoutMs) ->
    case sbx_reload_sysmsg:suspend(Pids, none, TimeoutMs, fun() -> ok end) of
        {ok, _Ended} -> ok;
        {late, Late} -> sbx_reload_sysmsg:suspend_async(Pids -- Late)
    end.

unplaced({Path, Count}) ->
    Text = "~b processes were started while the tree ran, and have no place of their own",
    lost(Path, unicode:characters_to_binary(io_lib:format(Text, [Count]))).

counted(Paths) ->
    Counts = lists:foldl(fun(Path, Sofar) -> maps:update_with(Path, fun(N) -> N + 1 end, 1, Sofar) end, #{}, Paths),
    lists:sort(maps:to_list(Counts)).

%% An event manager would apply a function to each handler, so it is asked for the states of all
%% handlers.
answers(Pids, TimeoutMs) ->
    {Managers, Others} = lists:partition(fun is_manager/1, Pids),
    Visited = sbx_reload_sysmsg:run_inside(Others, fun(_Pid, Tag) -> take(Tag) end, TimeoutMs),
    Asked = sbx_reload_sysmsg:call(Managers, fun(_Pid) -> get_state end, TimeoutMs),
    maps:merge(Visited, maps:map(fun(_Pid, Answer) -> encoded_answer(Answer) end, Asked)).

encoded_answer({answer, Handlers}) -> {answer, encoded(Handlers)};
encoded_answer(Other) -> Other.

sort(Path, Pid, {answer, {ok, Term}}, {States, Lost, Bytes}) when Bytes + byte_size(Term) =< ?TOTAL_MAX_BYTES ->
    {Kind, Module} = callback(Pid),
    State = #{path => Path, kind => Kind, module => atom_to_binary(Module), term => Term},
    {[State | States], Lost, Bytes + byte_size(Term)};
sort(Path, _Pid, {answer, {ok, _Term}}, {States, Lost, Bytes}) ->
    {States, [lost(Path, <<"its state is too large">>) | Lost], Bytes};
sort(Path, _Pid, {answer, {refused, What}}, {States, Lost, Bytes}) ->
    {States, [lost(Path, <<"its state holds ", What/binary>>) | Lost], Bytes};
sort(Path, _Pid, late, {States, Lost, Bytes}) ->
    {States, [lost(Path, <<"it was busy">>) | Lost], Bytes};
sort(Path, _Pid, {down, _Reason}, {States, Lost, Bytes}) ->
    {States, [lost(Path, <<"it ended">>) | Lost], Bytes}.

lost(Path, Reason) ->
    #{path => Path, reason => Reason}.

%% Runs inside the process, so that only encoded bytes are sent.
take(Tag) ->
    fun(State) ->
        sbx_reload_sysmsg:answer(Tag, encoded(State)),
        throw(unchanged)
    end.

encoded(State) ->
    case bound_to_node([State], none) of
        none -> {ok, term_to_binary(State)};
        regexes -> {ok, term_to_binary({?REGEXES, changed(State, fun without_pattern/1)})};
        What -> {refused, What}
    end.

%% What keeps a term in its node; `regexes` if only compiled regular expressions do.
bound_to_node([], Found) -> Found;
bound_to_node([Term | _], _Found) when is_pid(Term) -> <<"a process identifier">>;
bound_to_node([Term | _], _Found) when is_reference(Term) -> <<"a reference">>;
bound_to_node([Term | _], _Found) when is_port(Term) -> <<"a port">>;
bound_to_node([Term | Terms], Found) when is_function(Term) ->
    case erlang:fun_info(Term, type) of
        {type, external} -> bound_to_node(Terms, Found);
        {type, local} -> <<"a closure">>
    end;
bound_to_node([?COMPILED(Reference) | Terms], _Found) when is_reference(Reference) -> bound_to_node(Terms, regexes);
bound_to_node([?PATTERN(Reference) | _], _Found) when is_reference(Reference) ->
    <<"a compiled regular expression without its source">>;
bound_to_node([[Head | Tail] | Terms], Found) -> bound_to_node([Head, Tail | Terms], Found);
bound_to_node([Term | Terms], Found) when is_tuple(Term) -> bound_to_node(tuple_to_list(Term) ++ Terms, Found);
bound_to_node([Term | Terms], Found) when is_map(Term) -> bound_to_node([maps:to_list(Term) | Terms], Found);
bound_to_node([Term | Terms], Found) ->
    case sbx_record:is(Term) of
        true -> bound_to_node([sbx_record:values(Term) | Terms], Found);
        false -> bound_to_node(Terms, Found)
    end.

%% Since OTP 28 a compiled regular expression is a reference into its node. Elixir's has its source
%% beside it, so it is compiled again.
without_pattern(?COMPILED(Reference) = Regex) when is_reference(Reference) -> {ok, Regex#{re_pattern := ?REGEXES}};
without_pattern(_Term) -> none.

with_pattern(#{'__struct__' := 'Elixir.Regex', re_pattern := ?REGEXES, source := Source, opts := Options} = Regex) ->
    {ok, Pattern} = re:compile(Source, Options),
    {ok, Regex#{re_pattern := Pattern}};
with_pattern(_Term) ->
    none.

%% A term with the parts replaced for which the function has others.
changed(Term, Change) ->
    case Change(Term) of
        {ok, Other} -> Other;
        none -> changed_parts(Term, Change)
    end.

changed_parts([Head | Tail], Change) ->
    [changed(Head, Change) | changed(Tail, Change)];
changed_parts(Term, Change) when is_tuple(Term) ->
    list_to_tuple([changed(Part, Change) || Part <- tuple_to_list(Term)]);
changed_parts(Term, Change) when is_map(Term) ->
    maps:from_list([{changed(Key, Change), changed(Value, Change)} || {Key, Value} <- maps:to_list(Term)]);
changed_parts(Term, Change) ->
    case sbx_record:is(Term) of
        true -> sbx_record:with_fields(Term, [{Name, changed(Value, Change)} || {Name, Value} <- sbx_record:fields(Term)]);
        false -> Term
    end.

decoded(Bytes) ->
    case binary_to_term(Bytes) of
        {?REGEXES, State} -> changed(State, fun with_pattern/1);
        State -> State
    end.

%% Restores states into a tree that has just started. Returns the states that were lost.
-spec put_back(pid() | nil, [map()]) -> [map()].
put_back(Top, States) when is_pid(Top) ->
    {Places, _Unplaced} = walk(Top, ?ANSWER_TIMEOUT_MS),
    ByPath = maps:from_list(Places),
    Fitted = [{Path, fitted(State, maps:get(Path, ByPath, none))} || #{path := Path} = State <- States],
    Given = [{Path, Place} || {Path, {_Pid, _Term} = Place} <- Fitted],
    Refusing = set([Place || {_Path, Place} <- Given]),
    Ended = ended([Pid || {_Path, {Pid, _Term}} <- Given] -- Refusing),
    %% By then the supervisors have handled the exits of those processes.
    _ = Ended =:= [] orelse walk(Top, ?ANSWER_TIMEOUT_MS),
    [lost(Path, Why) || {Path, Why} <- Fitted, is_binary(Why)] ++
        [lost(Path, <<"the process did not take it">>) || {Path, {Pid, _}} <- Given, lists:member(Pid, Refusing)] ++
        [lost(Path, <<"the process ended with it">>) || {Path, {Pid, _}} <- Given, lists:member(Pid, Ended)];
put_back(_NoTree, States) ->
    [lost(Path, <<"nothing was started">>) || #{path := Path} <- States].

fitted(_State, none) ->
    <<"its place is gone">>;
fitted(#{kind := Kind, module := Module, term := Term}, Pid) ->
    case speaks(Pid) andalso callback(Pid) =:= {Kind, binary_to_atom(Module)} of
        true ->
            try
                {Pid, decoded(Term)}
            catch
                error:_ -> <<"it can't be read">>
            end;
        false ->
            <<"another module is in its place">>
    end.

%% The mailbox is handled before this request. So a process that can't run with its state has ended
%% by then.
ended(Pids) ->
    Answers = sbx_reload_sysmsg:call(Pids, fun(_Pid) -> ?MODULE end, ?ANSWER_TIMEOUT_MS),
    [Pid || {Pid, {down, _Reason}} <- maps:to_list(Answers)].

%% Returns the processes that did not take their state.
set(States) ->
    {Managers, Others} = lists:partition(fun({Pid, _}) -> is_manager(Pid) end, States),
    ByPid = maps:from_list(Others),
    Make = fun(Pid, Tag) -> sbx_reload_state:restore({copy, map_get(Pid, ByPid)}, Tag) end,
    Answers = sbx_reload_sysmsg:run_inside(maps:keys(ByPid), Make, ?ANSWER_TIMEOUT_MS),
    [Pid || {Pid, Answer} <- maps:to_list(Answers), Answer =/= {answer, ok}] ++ set_handlers(Managers).

set_handlers(Managers) ->
    ByPid = maps:from_list(Managers),
    Request = fun(Pid) -> {replace_state, sbx_reload_state:restore_handlers(map_get(Pid, ByPid))} end,
    Answers = sbx_reload_sysmsg:call(maps:keys(ByPid), Request, ?ANSWER_TIMEOUT_MS),
    [Pid || {Pid, Answer} <- maps:to_list(Answers), element(1, Answer) =/= answer].

%% The states of a process that is about to be stopped, and of the processes below it.
-spec keep(pid()) -> kept().
keep(Pid) ->
    {Places, _Unplaced} = walk(Pid, ?ANSWER_TIMEOUT_MS),
    Asked = [Place || {_, P} = Place <- Places, speaks(P), not is_manager(P)],
    Make = fun(_Pid, Tag) ->
        fun(State) ->
            sbx_reload_sysmsg:answer(Tag, {state, State}),
            throw(unchanged)
        end
    end,
    Answers = sbx_reload_sysmsg:run_inside([P || {_, P} <- Asked], Make, ?ANSWER_TIMEOUT_MS),
    [{Path, State} || {Path, P} <- Asked, {answer, {state, State}} <- [map_get(P, Answers)]].

-spec give_back(pid(), kept()) -> ok.
give_back(Pid, Kept) ->
    {Places, _Unplaced} = walk(Pid, ?ANSWER_TIMEOUT_MS),
    _ = set([{P, State} || {Path, P} <- Places, {Same, State} <- Kept, Same =:= Path]),
    ok.

%% The workers at and below a process, by the child identifiers on the path to them, and the paths
%% of children without an identifier.
-spec walk(pid(), timeout()) -> {[place()], [path()]}.
walk(Pid, TimeoutMs) ->
    walk([{[], Pid}], TimeoutMs, ?DEPTH_MAX, {[], []}).

walk([], _TimeoutMs, _Depth, Found) ->
    Found;
walk(_TooDeep, _TimeoutMs, 0, Found) ->
    Found;
walk(Places, TimeoutMs, Depth, {Workers, Unplaced}) ->
    {Supervisors, Leaves} = lists:partition(fun({_Path, Pid}) -> is_supervisor(Pid) end, Places),
    Answers = sbx_reload_children:ask([{Pid, which_children} || {_, Pid} <- Supervisors], TimeoutMs),
    Below = [
        {Path, Id, Pid}
     || {Path, Supervisor} <- Supervisors, {answer, Children} <- [map_get(Supervisor, Answers)], is_list(Children),
        {Id, Pid, _, _} <- Children, is_pid(Pid)
    ],
    Named = [{Path ++ [written(Id)], Pid} || {Path, Id, Pid} <- Below, Id =/= undefined],
    Nameless = [Path || {Path, undefined, _Pid} <- Below],
    walk(Named, TimeoutMs, Depth - 1, {Workers ++ Leaves, Unplaced ++ Nameless}).

is_supervisor(Pid) ->
    case initial_call(Pid) of
        {supervisor, _Function, _Arity} -> true;
        _Other -> false
    end.

initial_call(Pid) ->
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} -> proplists:get_value('$initial_call', Dictionary);
        undefined -> undefined
    end.

speaks(Pid) ->
    case callback(Pid) of
        {none, _} -> sbx_reload_users:is_idle_server(Pid);
        {Kind, _} -> lists:member(Kind, [server, statem, event])
    end.

is_manager(Pid) ->
    callback(Pid) =:= {event, gen_event}.

callback(Pid) ->
    case initial_call(Pid) of
        {gen_event, _, _} -> {event, gen_event};
        {Module, init, 1} -> {sbx_reload_users:callback_kind(Module), Module};
        {Module, _, _} when is_atom(Module) -> {none, Module};
        _ -> {none, undefined}
    end.

-spec written(term()) -> binary().
written(Id) when is_atom(Id) -> sbx_reason:module_name(Id);
written(Id) when is_binary(Id) -> Id;
written(Id) -> unicode:characters_to_binary(io_lib:format("~tp", [Id], [{chars_limit, ?ID_CHARS_MAX}])).
