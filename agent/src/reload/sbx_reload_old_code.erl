%%% Finds and purges old code that is still in use, on a stack or through a closure. It has to go
%%% before its module can be loaded again.
-module(sbx_reload_old_code).

-export([clear/4, check/2, tidy/2, closures/1, identity/2]).

-export_type([identity/0, holder/0]).

%% The interval between two tries while waiting.
-define(POLL_MS, 20).
-define(ANSWER_TIMEOUT_MS, 2000).
-define(VISIT_TIMEOUT_MS, 1000).
-define(HOLDERS_MAX, 50).
%% The number of parts of one term that are searched.
-define(PARTS_MAX, 1000000).
-define(ETS_OBJECTS_MAX, 100000).
%% Up to this heap size the variables of a process are dumped as text.
-define(DUMPED_MAX_WORDS, 262144).

%% The closures that a version of a module can have made: the module, its checksum, and the file's
%% entry for each closure.
-type identity() :: {module(), Md5 :: binary(), [closure()]}.
-type closure() :: {Arity :: byte(), Index :: integer(), Free :: integer(), Uniq :: integer()}.
-type holder() :: #{pid := pid() | nil, how := stack | closure, where := state | mailbox | ets | dictionary | other}.

%% Purges the old code of all modules, or reports which processes hold the first that can't be
%% purged.
-spec clear([module()], #{module() => identity()}, wait | refuse | kill, non_neg_integer()) ->
    ok | {busy, module(), [holder()]}.
clear(Modules, Identities, OnBusy, TimeoutMs) ->
    clear_until([M || M <- Modules, erlang:check_old_code(M)], Identities, OnBusy, now_ms() + TimeoutMs).

clear_until([], _Identities, _OnBusy, _End) ->
    ok;
clear_until([Module | Rest] = Modules, Identities, OnBusy, End) ->
    case try_purge(Module, Identities) of
        true ->
            clear_until(Rest, Identities, OnBusy, End);
        false ->
            case OnBusy =:= wait andalso now_ms() < End of
                true ->
                    receive after ?POLL_MS -> ok end,
                    clear_until(Modules, Identities, OnBusy, End);
                false ->
                    in_the_way(Modules, Identities, OnBusy, End, Rest)
            end
    end.

in_the_way([Module | _], Identities, kill, End, Rest) ->
    [exit(Pid, kill) || #{pid := Pid} <- holders(Module, Identities), is_pid(Pid)],
    _ = code:purge(Module),
    clear_until(Rest, Identities, kill, End);
in_the_way([Module | _], Identities, _OnBusy, _End, _Rest) ->
    {busy, Module, lists:sublist(holders(Module, Identities), ?HOLDERS_MAX)}.

try_purge(Module, Identities) ->
    not in_closures(Module, Identities) andalso code:soft_purge(Module).

%% Reports the processes that hold old code now. Nothing is purged.
-spec check([module()], #{module() => identity()}) -> ok | {busy, module(), [holder()]}.
check(Modules, Identities) ->
    case [M || M <- Modules, erlang:check_old_code(M), in_closures(M, Identities) orelse on_stacks(M) =/= []] of
        [] -> ok;
        [Module | _] -> {busy, Module, lists:sublist(holders(Module, Identities), ?HOLDERS_MAX)}
    end.

%% Purges unused old code after a reload. Returns the modules that are still in use.
-spec tidy([module()], #{module() => identity()}) -> [module()].
tidy(Modules, Identities) ->
    [Module || Module <- Modules, erlang:check_old_code(Module), not try_purge(Module, Identities)].

in_closures(Module, Identities) ->
    case Identities of
        #{Module := Identity} -> in_closures(Identity);
        _ -> false
    end.

%% A counted closure counts until its process has collected it as garbage.
in_closures(Identity) ->
    case is_counted() of
        true -> held(Identity) andalso collect_garbage() andalso held(Identity);
        false -> searched(Identity) =/= []
    end.

%% Whether the VM counts the closures of a kind. OTP 25 does; 27 and later give a constant.
is_counted() ->
    First = counted_closure(1),
    {refc, One} = erlang:fun_info(First, refc),
    Second = counted_closure(2),
    {refc, Two} = erlang:fun_info(Second, refc),
    Two > One andalso First() =/= Second().

counted_closure(Value) ->
    fun() -> Value end.

collect_garbage() ->
    Ours = sbx_reload:own_pids(),
    Pids = [Pid || Pid <- processes(), not is_map_key(Pid, Ours)],
    lists:foreach(fun(Pid) -> garbage_collect(Pid, [{type, major}, {async, {?MODULE, Pid}}]) end, Pids),
    collected(length(Pids)).

collected(0) ->
    true;
collected(Left) ->
    receive
        {garbage_collect, {?MODULE, _Pid}, _} -> collected(Left - 1)
    after ?ANSWER_TIMEOUT_MS -> true
    end.

%% Closures

%% Reads the closures from the code of a version.
-spec closures(binary()) -> [closure()].
closures(Beam) ->
    case beam_lib:chunks(Beam, ["FunT"], [allow_missing_chunks]) of
        {ok, {_Module, [{"FunT", Table}]}} when is_binary(Table) ->
            [closure_at(Table, At) || At <- lists:seq(4, byte_size(Table) - 24, 24)];
        _ ->
            []
    end.

%% An entry has six words: name, arity, label, index, number of free variables, hash.
closure_at(Table, At) ->
    [_Name, Arity, _Label, Index, Free, Uniq] =
        [binary:decode_unsigned(binary:part(Table, At + 4 * Word, 4)) || Word <- lists:seq(0, 5)],
    {Arity - Free, Index, Free, Uniq}.

-spec identity(module(), binary()) -> identity().
identity(Module, Beam) ->
    {Module, erlang:get_module_info(Module, md5), closures(Beam)}.

%% Whether a process holds such a closure. The VM counts the references to each kind of closure: one
%% is the code's own (two when the same code is loaded as current and as old), one is ours. A
%% separate process counts, so that ours is exactly one.
-spec held(identity()) -> boolean().
held({_Module, _Md5, []}) ->
    false;
held({Module, Md5, Closures}) ->
    Own = 2 + length([M || M <- [Module], erlang:module_loaded(M), erlang:get_module_info(M, md5) =:= Md5]),
    {Pid, Monitor} = spawn_monitor(fun() ->
        exit({counts, [element(2, erlang:fun_info(closure(Module, Md5, C), refc)) || C <- Closures]})
    end),
    sbx_reload:helper(Pid),
    receive
        {'DOWN', Monitor, process, Pid, {counts, Counts}} -> lists:any(fun(Count) -> Count > Own end, Counts);
        {'DOWN', Monitor, process, Pid, _} -> true
    end.

%% Builds a closure in the external term format: its identity and the values it holds.
closure(Module, Md5, {Arity, Index, Free, Uniq}) ->
    Body = iolist_to_binary([
        <<Arity:8, Md5/binary, Index:32, Free:32>>,
        [external(Term) || Term <- [Module, Index, Uniq, self()]],
        [external(nil) || _ <- lists:seq(1, Free)]
    ]),
    binary_to_term(<<131, $p, (byte_size(Body) + 4):32, Body/binary>>).

external(Term) ->
    <<131, Rest/binary>> = term_to_binary(Term),
    Rest.

%% Holders of old code

holders(Module, Identities) ->
    on_stacks(Module) ++
        case Identities of
            #{Module := {_, _Md5, [_ | _]} = Identity} -> with_closures(Identity, is_counted());
            _ -> []
        end.

with_closures(Identity, false) ->
    searched(Identity);
with_closures(Identity, true) ->
    case held(Identity) andalso searched(Identity) of
        false -> [];
        [] -> [#{pid => nil, how => closure, where => other}];
        Found -> Found
    end.

on_stacks(Module) ->
    Ours = sbx_reload:own_pids(),
    Pids = [Pid || Pid <- processes(), not is_map_key(Pid, Ours)],
    Asked = [Pid || Pid <- Pids, erlang:check_process_code(Pid, Module, [{async, {?MODULE, Pid}}]) =:= async],
    [#{pid => Pid, how => stack, where => other} || Pid <- checked(length(Asked))].

checked(0) ->
    [];
checked(Left) ->
    receive
        {check_process_code, {?MODULE, Pid}, true} -> [Pid | checked(Left - 1)];
        {check_process_code, {?MODULE, _Pid}, _} -> checked(Left - 1)
    after ?ANSWER_TIMEOUT_MS -> []
    end.

%% Searches for closures wherever Erlang code can look. Messages of timers that have not fired are
%% out of reach. Closures of code that is loaded anew stay valid.
searched({_Module, _Md5, []}) ->
    [];
searched({Module, Md5, Closures}) ->
    case erlang:module_loaded(Module) andalso erlang:get_module_info(Module, md5) =:= Md5 of
        true -> [];
        false -> search_everywhere(Module, Md5, Closures)
    end.

search_everywhere(Module, Md5, Closures) ->
    Ours = sbx_reload:own_pids(),
    Pids = [Pid || Pid <- processes(), not is_map_key(Pid, Ours)],
    Answers = in_states(Pids, Module, Md5),
    [#{pid => Pid, how => closure, where => state} || {Pid, {answer, true}} <- maps:to_list(Answers)] ++
        lists:flatmap(fun(Pid) -> seen_from_outside(Pid, Module, Md5) end, Pids) ++
        in_frames([Pid || Pid <- Pids, not has_answered(Pid, Answers)], Closures) ++
        in_tables(Module, Md5) ++
        [#{pid => nil, how => closure, where => other} || contains(persistent_term:get(), Module, Md5)].

has_answered(Pid, Answers) ->
    case Answers of
        #{Pid := {answer, _}} -> true;
        _ -> false
    end.

%% The variables of other processes are visible only as the text of a dump, which names each closure
%% with its number and its version. The dump of a large process would take too much memory, so such a
%% process counts as a holder.
in_frames(Pids, Closures) ->
    Names = [
        iolist_to_binary(io_lib:format(".~b.~b>", [Index, Uniq]))
     || {_Arity, Index, _Free, Uniq} <- Closures
    ],
    Pattern = binary:compile_pattern(Names),
    [#{pid => Pid, how => closure, where => other} || Pid <- Pids -- system_pids(), is_in_frames(Pid, Pattern)].

is_in_frames(Pid, Pattern) ->
    case process_info(Pid, total_heap_size) of
        {total_heap_size, Words} when Words > ?DUMPED_MAX_WORDS ->
            true;
        {total_heap_size, _Words} ->
            case process_info(Pid, backtrace) of
                {backtrace, Dump} -> binary:match(Dump, Pattern) =/= nomatch;
                undefined -> false
            end;
        undefined ->
            false
    end.

%% Processes of the VM itself, some of them large: the application's closures don't get into them.
system_pids() ->
    [Pid || Name <- [init, erl_prim_loader, code_server], Pid <- [whereis(Name)], is_pid(Pid)].

seen_from_outside(Pid, Module, Md5) ->
    case process_info(Pid, [dictionary, messages]) of
        [{dictionary, Dictionary}, {messages, Messages}] ->
            [#{pid => Pid, how => closure, where => dictionary} || contains(Dictionary, Module, Md5)] ++
                [#{pid => Pid, how => closure, where => mailbox} || contains(Messages, Module, Md5)];
        undefined ->
            []
    end.

%% A server that hibernates through erlang:hibernate/3 does not show its loop, and no dump shows its
%% state. Its first function tells that it understands system messages.
is_hibernating_server(Pid) ->
    case process_info(Pid, [current_function, dictionary]) of
        [{current_function, {erlang, hibernate, 3}}, {dictionary, Dictionary}] ->
            case lists:keyfind('$initial_call', 1, Dictionary) of
                {_, {supervisor, _Module, 1}} -> true;
                {_, {Module, init, 1}} -> lists:member(sbx_reload_users:callback_kind(Module), [server, statem]);
                _ -> false
            end;
        _ ->
            false
    end.

%% Asks only processes that wait in a loop which understands system messages.
in_states(Pids, Module, Md5) ->
    Idle = [Pid || Pid <- Pids, sbx_reload_users:is_idle_server(Pid) orelse is_hibernating_server(Pid)],
    Look = fun(_Pid, Tag) ->
        fun(State) ->
            sbx_reload_sysmsg:answer(Tag, contains(State, Module, Md5)),
            throw(unchanged)
        end
    end,
    sbx_reload_sysmsg:run_inside(Idle, Look, ?VISIT_TIMEOUT_MS).

in_tables(Module, Md5) ->
    [#{pid => owner(Table), how => closure, where => ets} || Table <- ets:all(), table_contains(Table, Module, Md5)].

owner(Table) ->
    case ets:info(Table, owner) of
        Pid when is_pid(Pid) -> Pid;
        undefined -> nil
    end.

table_contains(Table, Module, Md5) ->
    try ets:info(Table, size) =< ?ETS_OBJECTS_MAX andalso contains(ets:tab2list(Table), Module, Md5)
    catch error:badarg -> false
    end.

contains(Term, Module, Md5) ->
    try search([Term], Module, Md5, ?PARTS_MAX) of
        _Left -> false
    catch
        throw:{?MODULE, found} -> true
    end.

search([], _Module, _Md5, Left) ->
    Left;
search(_Terms, _Module, _Md5, 0) ->
    0;
search([Term | Terms], Module, Md5, Left) when is_function(Term) ->
    case erlang:fun_info(Term, type) of
        {type, local} ->
            [Own, Made, {env, Environment}] = [erlang:fun_info(Term, Item) || Item <- [module, new_uniq, env]],
            {Own, Made} =:= {{module, Module}, {new_uniq, Md5}} andalso throw({?MODULE, found}),
            search([Environment | Terms], Module, Md5, Left - 1);
        {type, external} ->
            search(Terms, Module, Md5, Left - 1)
    end;
search([[Head | Tail] | Terms], Module, Md5, Left) ->
    search([Head, Tail | Terms], Module, Md5, Left - 1);
search([Term | Terms], Module, Md5, Left) when is_tuple(Term) ->
    search(tuple_to_list(Term) ++ Terms, Module, Md5, Left - 1);
search([Term | Terms], Module, Md5, Left) when is_map(Term) ->
    search([maps:to_list(Term) | Terms], Module, Md5, Left - 1);
search([_Term | Terms], Module, Md5, Left) ->
    search(Terms, Module, Md5, Left - 1).

now_ms() ->
    erlang:monotonic_time(millisecond).
