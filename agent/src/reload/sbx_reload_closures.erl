%%% Searches the VM for closures of code that is to be purged: in states, dictionaries, mailboxes,
%%% variables, tables, timers, persistent terms and ports. The VM counts closures up to OTP 26; since
%%% then this search is the only way to know.
%%%
%%% No process is suspended. A place that can't be searched is a doubt: old code stays while there is
%%% a doubt, since a closure of purged code fails.
-module(sbx_reload_closures).

-export([search/1, kinds/2]).

-export_type([kind/0, place/0]).

-define(VISIT_TIMEOUT_MS, 1000).
%% The whole search ends after this time, in doubt about what is left.
-define(SEARCH_MAX_MS, 10000).
%% The number of parts of one term that are searched.
-define(PARTS_MAX, 1000000).
%% The size of a private table that its server searches: the server does nothing else meanwhile.
-define(PRIVATE_MAX_WORDS, 1048576).
-define(ETS_SLICE, 100).
%% Up to this heap size the variables of a process are dumped as text. A server's are few: only its
%% state is large, which it has searched itself.
-define(DUMPED_MAX_WORDS, 262144).
-define(DUMPED_SERVER_MAX_WORDS, 16384).
%% Up to this size the mailbox and the dictionary of a process are copied.
-define(COPIED_MAX_BYTES, 16 * 1024 * 1024).
%% How often a process is looked at until it waits, and the pause in between. The variables of a
%% process that runs can't be seen.
-define(WAITING_TRIES, 50).
-define(WAITING_PAUSE_MS, 2).

-type kind() :: {module(), Md5 :: binary()}.
%% Where a closure of a module is, or where one of any module might be.
-type place() :: #{
    module => module(),
    pid := pid() | nil,
    how := closure | undecided,
    where := atom(),
    timer => reference()
}.

-record(search, {
    kinds :: #{kind() => []},
    %% The closures as a dump names them.
    names :: #{binary() => module()},
    ends_at :: integer(),
    ours :: #{pid() => []}
}).

%% The places that hold closures of these versions, and those that might. The search runs in a
%% process of normal priority, so that the application goes on meanwhile.
-spec search([sbx_reload_old_code:identity()]) -> [place()].
search(Identities) ->
    case [Identity || {_, _, [_ | _]} = Identity <- Identities, not is_loaded(Identity)] of
        [] ->
            [];
        Gone ->
            {Pid, Monitor} = spawn_opt(fun() -> exit({found, everywhere(Gone)}) end, [monitor]),
            sbx_reload:helper(Pid),
            receive
                {'DOWN', Monitor, process, Pid, {found, Places}} -> Places;
                {'DOWN', Monitor, process, Pid, _Reason} -> [doubt(nil, search)]
            end
    end.

%% Closures of code that is loaded anew stay valid.
is_loaded({Module, Md5, _Closures}) ->
    erlang:module_loaded(Module) andalso erlang:get_module_info(Module, md5) =:= Md5.

everywhere(Identities) ->
    Search = #search{
        kinds = maps:from_list([{{Module, Md5}, []} || {Module, Md5, _} <- Identities]),
        names = maps:from_list([
            {name(Module, Index, Uniq), Module}
         || {Module, _, Closures} <- Identities, {_Arity, Index, _Free, Uniq} <- Closures
        ]),
        ends_at = now_ms() + ?SEARCH_MAX_MS,
        ours = maps:merge(sbx_reload:own_pids(), maps:from_keys(system_pids(), []))
    },
    %% Timers come first and last: a timer may fire, and a process may set one, during the search.
    lists:usort(
        lists:append([
            in_timers(Search), in_processes(Search), in_tables(Search), in_persistent_terms(Search), in_ports(Search),
            in_timers(Search)
        ])
    ).

%% Processes of the VM and of the agent, some of them large: the application's closures don't get
%% into them.
system_pids() ->
    Names = [
        init, erl_prim_loader, code_server, erts_code_purger, sbx_busy_wait, sbx_process_scan, sbx_quota,
        sbx_reload_timers
    ],
    [Pid || Name <- Names, Pid <- [whereis(Name)], is_pid(Pid)].

held(Module, Pid, Where) -> #{module => Module, pid => Pid, how => closure, where => Where}.
doubt(Pid, Where) -> #{pid => Pid, how => undecided, where => Where}.

%% The places of a term that was searched.
places({Modules, Searched}, Pid, Where) ->
    [held(Module, Pid, Where) || Module <- Modules] ++ [doubt(Pid, large) || Searched =:= partly].

is_late(#search{ends_at = End}) ->
    now_ms() >= End.

now_ms() ->
    erlang:monotonic_time(millisecond).

%% Timers

in_timers(#search{kinds = Kinds}) ->
    case sbx_reload_timers:holding(maps:keys(Kinds)) of
        {ok, Timers} ->
            [
                (held(Module, receiver(Destination), timer))#{timer => Timer}
             || {Module, Timer, Destination} <- Timers
            ];
        unknown ->
            [doubt(nil, timer)]
    end.

receiver(Destination) when is_pid(Destination) ->
    Destination;
receiver(Destination) ->
    case whereis(Destination) of
        Pid when is_pid(Pid) -> Pid;
        _ -> nil
    end.

%% Processes

in_processes(#search{ours = Ours} = Search) ->
    Pids = [Pid || Pid <- processes(), not is_map_key(Pid, Ours)],
    Answers = in_states(Pids, Search),
    lists:flatmap(fun(Pid) -> in_process(Pid, maps:get(Pid, Answers, none), Search) end, Pids).

in_process(Pid, Answer, Search) ->
    case is_late(Search) of
        true -> [doubt(nil, time)];
        false -> in_answer(Pid, Answer, Search)
    end.

in_answer(Pid, {answer, {Outcome, Seen}}, Search) ->
    case places(Outcome, Pid, state) of
        [] -> in_mailbox(Pid, Search) ++ in_server_frames(Pid, Seen, Search);
        Places -> Places
    end;
in_answer(Pid, _None, Search) ->
    in_mailbox(Pid, Search) ++ in_dictionary(Pid, Search) ++ in_frames(Pid, Search, ?WAITING_TRIES).

%% Asks only processes that wait in a loop which understands system messages. Each searches its
%% state, its dictionary and its private tables.
in_states(Pids, #search{kinds = Kinds}) ->
    Idle = [Pid || Pid <- Pids, sbx_reload_users:is_idle_server(Pid) orelse is_hibernating_server(Pid)],
    Private = private_tables(),
    Look = fun(Pid, Tag) ->
        Tables = maps:get(Pid, Private, []),
        fun(State) ->
            sbx_reload_sysmsg:answer(Tag, inside(State, Tables, Kinds)),
            throw(unchanged)
        end
    end,
    sbx_reload_sysmsg:run_inside(Idle, Look, ?VISIT_TIMEOUT_MS).

inside(State, Tables, Kinds) ->
    Outcomes = [in_term([State, get()], Kinds) | [in_own_table(Table, Kinds) || Table <- Tables]],
    {merged(Outcomes), names_of(kinds([State, get()], ?PARTS_MAX, fun fun_name/1))}.

merged(Outcomes) ->
    {Modules, Searched} = lists:unzip(Outcomes),
    {lists:usort(lists:append(Modules)), case lists:member(partly, Searched) of true -> partly; false -> whole end}.

%% In slices, since a server's heap may be bounded.
in_own_table(Table, Kinds) ->
    merged([{[], whole} | in_own_slices(ets:match_object(Table, '_', ?ETS_SLICE), Kinds)]).

in_own_slices('$end_of_table', _Kinds) -> [];
in_own_slices({Objects, More}, Kinds) -> [in_term(Objects, Kinds) | in_own_slices(ets:match_object(More), Kinds)].

private_tables() ->
    lists:foldl(
        fun(Table, ByOwner) ->
            maps:update_with(ets:info(Table, owner), fun(Tables) -> [Table | Tables] end, [Table], ByOwner)
        end,
        #{},
        [Table || Table <- ets:all(), ets:info(Table, protection) =:= private, is_small(Table)]
    ).

is_small(Table) ->
    case ets:info(Table, memory) of
        Words when is_integer(Words) -> Words =< ?PRIVATE_MAX_WORDS;
        undefined -> false
    end.

%% A server that hibernates through erlang:hibernate/3 does not show its loop, and no dump shows its
%% state. Its first function tells that it understands system messages.
is_hibernating_server(Pid) ->
    case process_info(Pid, current_function) of
        {current_function, {erlang, hibernate, 3}} -> is_server(process_info(Pid, dictionary));
        _ -> false
    end.

is_server({dictionary, Dictionary}) ->
    case lists:keyfind('$initial_call', 1, Dictionary) of
        {_, {supervisor, _Module, 1}} -> true;
        {_, {Module, init, 1}} -> lists:member(sbx_reload_users:callback_kind(Module), [server, statem]);
        _ -> false
    end;
is_server(undefined) ->
    false.

in_mailbox(Pid, Search) ->
    case process_info(Pid, message_queue_len) of
        {message_queue_len, 0} -> [];
        undefined -> [];
        _ -> in_copy(Pid, messages, mailbox, Search)
    end.

in_dictionary(Pid, Search) ->
    in_copy(Pid, dictionary, dictionary, Search).

in_copy(Pid, Item, Where, #search{kinds = Kinds}) ->
    case process_info(Pid, memory) of
        {memory, Bytes} when Bytes > ?COPIED_MAX_BYTES ->
            [doubt(Pid, large)];
        {memory, _Bytes} ->
            case process_info(Pid, Item) of
                {Item, Terms} -> places(in_term(Terms, Kinds), Pid, Where);
                undefined -> []
            end;
        undefined ->
            []
    end.

%% Variables

%% The variables of a process that is no idle server are visible only as the text of a dump, which
%% names each closure with its module, its number and its version.
in_frames(Pid, Search, Tries) ->
    case process_info(Pid, [status, current_function, total_heap_size]) of
        [{status, waiting}, {current_function, {erlang, hibernate, 3}}, _] -> [doubt(Pid, hibernates)];
        [_, _, {total_heap_size, Words}] when Words > ?DUMPED_MAX_WORDS -> [doubt(Pid, large)];
        [_, _, _] -> in_dump(Pid, process_info(Pid, [status, current_function, backtrace]), Search, Tries);
        undefined -> []
    end.

in_dump(_Pid, undefined, _Search, _Tries) ->
    [];
in_dump(Pid, [{status, waiting}, {current_function, Current}, {backtrace, Dump}], Search, _Tries) when
    Current =/= {erlang, hibernate, 3}
->
    in_text(Pid, Dump, [], Search) ++ [doubt(Pid, large) || is_cut(Dump)];
in_dump(Pid, _Runs, _Search, 0) ->
    [doubt(Pid, runs)];
in_dump(Pid, _Runs, Search, Tries) ->
    receive after ?WAITING_PAUSE_MS -> ok end,
    in_frames(Pid, Search, Tries - 1).

%% Apart from its state, a server may keep postponed events and the message of a timeout. Seen are the
%% closures of its state, which the server has searched.
in_server_frames(Pid, Seen, Search) ->
    case process_info(Pid, total_heap_size) of
        {total_heap_size, Words} when Words =< ?DUMPED_SERVER_MAX_WORDS ->
            case process_info(Pid, backtrace) of
                {backtrace, Dump} -> in_text(Pid, Dump, Seen, Search);
                undefined -> []
            end;
        _ ->
            []
    end.

in_text(Pid, Dump, Seen, #search{names = Names}) ->
    {Held, Others} = lists:partition(fun(Name) -> is_map_key(Name, Names) end, names_in(Dump)),
    [held(map_get(Name, Names), Pid, variables) || Name <- Held] ++
        [doubt(Pid, variables) || lists:any(fun may_hold_others/1, Others -- Seen)].

%% A term that is too long ends with dots.
is_cut(Dump) ->
    binary:match(Dump, [<<"...\n">>, <<"... \n">>]) =/= nomatch.

names_in(Dump) ->
    lists:usort([name_at(Dump, At + Length) || {At, Length} <- binary:matches(Dump, <<"#Fun<">>)]).

name_at(Dump, At) ->
    Rest = binary:part(Dump, At, min(byte_size(Dump) - At, 600)),
    hd(binary:split(Rest, <<">">>)).

name(Module, Index, Uniq) ->
    iolist_to_binary([atom_to_binary(Module), io_lib:format(".~b.~b", [Index, Uniq])]).

%% A dump does not show the values that a closure holds. One may be the closure that is searched. The
%% search process remembers what it has looked up, since many processes hold the same closure.
may_hold_others(Name) ->
    case get({?MODULE, Name}) of
        undefined ->
            May = holds_values(Name),
            _ = put({?MODULE, Name}, May),
            May;
        Known ->
            Known
    end.

holds_values(Name) ->
    case lists:reverse(binary:split(Name, <<".">>, [global])) of
        [Uniq, Index | Module] ->
            try {list_to_existing_atom(module_text(Module)), binary_to_integer(Index), binary_to_integer(Uniq)} of
                {Known, I, U} -> free_values(Known, I, U) =/= 0
            catch
                %% A function with a name of its own: `fun m:f/1`.
                error:badarg -> false
            end;
        _ ->
            false
    end.

module_text(Parts) ->
    unicode:characters_to_list(lists:join(".", lists:reverse(Parts))).

%% How many values such a closure holds.
free_values(Module, Index, Uniq) ->
    case code:get_object_code(Module) of
        {Module, Beam, _File} ->
            case [Free || {_, I, Free, U} <- sbx_reload_old_code:closures(Beam), I =:= Index, U =:= Uniq] of
                [Free] -> Free;
                _ -> unknown
            end;
        error ->
            unknown
    end.

%% Tables

in_tables(Search) ->
    lists:flatmap(fun(Table) -> in_table(Table, Search) end, ets:all()).

in_table(Table, #search{ours = Ours} = Search) ->
    try {ets:info(Table, owner), ets:info(Table, protection), ets:info(Table, size)} of
        {undefined, _, _} -> [];
        {_, _, 0} -> [];
        {Owner, private, _} when is_map_key(Owner, Ours) -> [];
        {Owner, private, _} -> in_private_table(Table, Owner);
        {Owner, _, _} -> in_open_table(Table, Owner, Search)
    catch
        error:badarg -> []
    end.

%% Its owner has searched it, if it is a server.
in_private_table(Table, Owner) ->
    IsServer = sbx_reload_users:is_idle_server(Owner) orelse is_hibernating_server(Owner),
    [doubt(Owner, private_table) || not IsServer orelse not is_small(Table)].

%% Objects are copied a few at a time.
in_open_table(Table, Owner, Search) ->
    try
        true = ets:safe_fixtable(Table, true),
        try
            in_slice(ets:match_object(Table, '_', ?ETS_SLICE), Owner, Search)
        after
            ets:safe_fixtable(Table, false)
        end
    catch
        error:badarg -> []
    end.

in_slice('$end_of_table', _Owner, _Search) ->
    [];
in_slice({Objects, More}, Owner, #search{kinds = Kinds} = Search) ->
    case {places(in_term(Objects, Kinds), Owner, ets), is_late(Search)} of
        {[], false} -> in_slice(ets:match_object(More), Owner, Search);
        {[], true} -> [doubt(nil, time)];
        {Places, _} -> Places
    end.

%% Elsewhere

in_persistent_terms(#search{kinds = Kinds}) ->
    lists:flatmap(fun(Entry) -> places(in_term(Entry, Kinds), nil, persistent_term) end, persistent_term:get()).

in_ports(#search{kinds = Kinds}) ->
    lists:flatmap(
        fun(Port) ->
            try places(in_term(erlang:port_get_data(Port), Kinds), owner(Port), port)
            catch error:badarg -> []
            end
        end,
        erlang:ports()
    ).

owner(Port) ->
    case erlang:port_info(Port, connected) of
        {connected, Pid} -> Pid;
        undefined -> nil
    end.

%% Terms

%% The modules of the searched closures in a term, and whether all of it was searched.
in_term(Term, Kinds) ->
    Look = fun(Fun, Found) ->
        case kind(Fun) of
            {Module, _Md5} = Kind when is_map_key(Kind, Kinds) -> Found#{Module => []};
            _ -> Found
        end
    end,
    try walk([Term], Look, #{}, ?PARTS_MAX) of
        {Found, _Left} -> {maps:keys(Found), whole}
    catch
        throw:{?MODULE, Found} -> {maps:keys(Found), partly}
    end.

kind(Fun) ->
    {module, Module} = erlang:fun_info(Fun, module),
    {new_uniq, Md5} = erlang:fun_info(Fun, new_uniq),
    {Module, Md5}.

%% The versions that the closures in a term are of; `any` if the term is too large.
-spec kinds(term(), pos_integer()) -> [kind()] | any.
kinds(Term, PartsMax) ->
    kinds(Term, PartsMax, fun kind/1).

kinds(Term, PartsMax, Describe) ->
    try
        {Found, _Left} = walk([Term], fun(Fun, Kinds) -> Kinds#{Describe(Fun) => []} end, #{}, PartsMax),
        maps:keys(Found)
    catch
        throw:{?MODULE, _Found} -> any
    end.

names_of(any) -> [];
names_of(Names) -> Names.

fun_name(Fun) ->
    [{module, Module}, {index, Index}, {uniq, Uniq}] = [erlang:fun_info(Fun, Item) || Item <- [module, index, uniq]],
    name(Module, Index, Uniq).

%% Calls a function for each closure in the terms, and in the values that closures hold.
walk([], _Look, Result, Left) ->
    {Result, Left};
walk(_Terms, _Look, Result, 0) ->
    throw({?MODULE, Result});
walk([[Head | Tail] | Terms], Look, Result, Left) ->
    walk([Head, Tail | Terms], Look, Result, Left - 1);
walk([Term | Terms], Look, Result, Left) when
    is_atom(Term); is_number(Term); is_bitstring(Term); Term =:= []; is_pid(Term); is_reference(Term); is_port(Term)
->
    walk(Terms, Look, Result, Left - 1);
walk([Term | Terms], Look, Result, Left) when is_tuple(Term) ->
    walk(tuple_to_list(Term) ++ Terms, Look, Result, Left - 1);
walk([Term | Terms], Look, Result, Left) when is_map(Term) ->
    {Next, NextLeft} = walk_pairs(maps:next(maps:iterator(Term)), Look, Result, Left - 1),
    walk(Terms, Look, Next, NextLeft);
walk([Term | Terms], Look, Result, Left) when is_function(Term) ->
    case erlang:fun_info(Term, type) of
        {type, local} ->
            {env, Values} = erlang:fun_info(Term, env),
            walk([Values | Terms], Look, Look(Term, Result), Left - 1);
        {type, external} ->
            walk(Terms, Look, Result, Left - 1)
    end;
walk([Record | Terms], Look, Result, Left) ->
    walk([sbx_record:values(Record) | Terms], Look, Result, Left - 1).

%% One by one: a list of all would need room in the heap of the process that looks.
walk_pairs(none, _Look, Result, Left) ->
    {Result, Left};
walk_pairs({Key, Value, Pairs}, Look, Result, Left) ->
    {Next, NextLeft} = walk([Key, Value], Look, Result, Left),
    walk_pairs(maps:next(Pairs), Look, Next, NextLeft).
