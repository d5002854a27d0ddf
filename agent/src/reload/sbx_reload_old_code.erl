%%% Finds and purges old code that is still in use, on a stack or through a closure. It has to go
%%% before its module can be loaded again.
-module(sbx_reload_old_code).

-export([clear/4, check/2, tidy/2, closures/1, identity/2]).

-export_type([identity/0, holder/0]).

%% The shortest interval between two tries while waiting. A search that takes longer is followed by
%% a pause of the same length.
-define(POLL_MS, 20).
-define(ANSWER_TIMEOUT_MS, 2000).
-define(HOLDERS_MAX, 50).
%% How often processes that may hold a closure are killed before the code is purged.
-define(KILL_ROUNDS, 3).

%% The closures that a version of a module can have made: the module, its checksum, and the file's
%% entry for each closure.
-type identity() :: {module(), Md5 :: binary(), [closure()]}.
-type closure() :: {Arity :: byte(), Index :: integer(), Free :: integer(), Uniq :: integer()}.
%% What keeps old code from being purged. `undecided`: a closure may be there.
-type holder() :: #{pid := pid() | nil, how := stack | closure | undecided, where := atom()}.

%% Purges the old code of all modules, or reports what holds the first that can't be purged.
-spec clear([module()], #{module() => identity()}, wait | refuse | kill, non_neg_integer()) ->
    ok | {busy, module(), [holder()]}.
clear(Modules, Identities, OnBusy, TimeoutMs) ->
    clear_until([M || M <- Modules, erlang:check_old_code(M)], Identities, OnBusy, now_ms() + TimeoutMs).

clear_until([], _Identities, _OnBusy, _End) ->
    ok;
clear_until(Modules, Identities, OnBusy, End) ->
    Began = now_ms(),
    case purge_unused(Modules, Identities) of
        [] ->
            ok;
        Used when OnBusy =:= kill ->
            kill_users([Module || {Module, _} <- Used], Identities, ?KILL_ROUNDS);
        [{Module, Holders} | _] = Used ->
            case OnBusy =:= wait andalso now_ms() < End of
                true ->
                    receive after max(?POLL_MS, now_ms() - Began) -> ok end,
                    clear_until([M || {M, _} <- Used], Identities, OnBusy, End);
                false ->
                    {busy, Module, listed(Holders)}
            end
    end.

%% Kills what holds old code or may hold it, and purges the code. Places without a process, such as
%% persistent terms, can't be cleared: a closure there fails.
kill_users(Modules, Identities, Rounds) ->
    Holders = lists:append([Holders || {_Module, Holders} <- holders(Modules, Identities)]),
    Killed = lists:usort([Pid || #{pid := Pid} <- Holders, is_pid(Pid)]),
    ok = sbx_reload_timers:cancel([Timer || #{timer := Timer} <- Holders]),
    Monitors = [{monitor(process, Pid), exit(Pid, kill)} || Pid <- Killed],
    lists:foreach(fun({Monitor, true}) -> receive {'DOWN', Monitor, _, _, _} -> ok end end, Monitors),
    case Killed of
        [_ | _] when Rounds > 1 -> kill_users(Modules, Identities, Rounds - 1);
        _ -> lists:foreach(fun code:purge/1, Modules)
    end.

%% Purges the old code that no process uses. Returns the other modules and what holds them.
purge_unused(Modules, Identities) ->
    Closures = with_closures(Modules, Identities),
    [{Module, Holders} || Module <- Modules, [_ | _] = Holders <- [purge(Module, maps:get(Module, Closures, []))]].

purge(Module, []) ->
    case code:soft_purge(Module) of
        true -> [];
        false -> on_stacks(Module)
    end;
purge(Module, Holders) ->
    on_stacks(Module) ++ Holders.

listed(Holders) ->
    [maps:with([pid, how, where], Holder) || Holder <- lists:sublist(Holders, ?HOLDERS_MAX)].

%% Reports what holds old code now. Nothing is purged.
-spec check([module()], #{module() => identity()}) -> ok | {busy, module(), [holder()]}.
check(Modules, Identities) ->
    case holders([Module || Module <- Modules, erlang:check_old_code(Module)], Identities) of
        [] -> ok;
        [{Module, Holders} | _] -> {busy, Module, listed(Holders)}
    end.

%% Purges unused old code after a reload. Returns the modules that are still in use, or may be.
-spec tidy([module()], #{module() => identity()}) -> [module()].
tidy(Modules, Identities) ->
    Old = [Module || Module <- Modules, erlang:check_old_code(Module)],
    [Module || {Module, _Holders} <- purge_unused(Old, Identities)].

holders(Modules, Identities) ->
    Closures = with_closures(Modules, Identities),
    [
        {Module, Holders}
     || Module <- Modules, [_ | _] = Holders <- [on_stacks(Module) ++ maps:get(Module, Closures, [])]
    ].

%% The places of closures, by module. A doubt about a place counts for every module.
with_closures(Modules, Identities) ->
    Known = [Identity || Module <- Modules, #{Module := {_, _, [_ | _]} = Identity} <- [Identities]],
    case sbx_reload_timers:closures_are_counted() of
        true -> counted(Known);
        false -> by_module(Known, sbx_reload_closures:search(Known))
    end.

by_module(Known, Places) ->
    Doubts = [Place || #{how := undecided} = Place <- Places],
    Holding = fun(Module) ->
        case [Place || #{module := M} = Place <- Places, M =:= Module] of
            [] -> Doubts;
            Found -> Found
        end
    end,
    maps:from_list([{Module, Holding(Module)} || {Module, _, _} <- Known]).

%% A counted closure counts until its process has collected it as garbage. The count is certain, so
%% the search only has to name the places. What is not counted is searched for.
counted(Known) ->
    maps:merge(uncounted([Identity || Identity <- Known, has_shared(Identity)]), held_by_count(Known)).

held_by_count(Known) ->
    case lists:any(fun held/1, Known) andalso collect_garbage() andalso [I || I <- Known, held(I)] of
        [_ | _] = Held -> maps:map(fun(_Module, Places) -> named(Places) end, by_module(Held, search_all(Held)));
        _None -> #{}
    end.

%% Closures without values are literals of their module on OTP 26, and processes share them without
%% a count. Tables, persistent terms and messages of timers have counted copies.
uncounted([]) ->
    #{};
uncounted(Identities) ->
    Places = sbx_reload_closures:search([{Module, Md5, shared(Closures)} || {Module, Md5, Closures} <- Identities]),
    by_module(Identities, [Place || #{where := Where} = Place <- Places, Where =/= timer]).

has_shared({_Module, _Md5, Closures}) ->
    shared(Closures) =/= [] andalso are_shared().

shared(Closures) ->
    [Closure || {_Arity, _Index, 0, _Uniq} = Closure <- Closures].

%% Whether a closure without values is one term, however often it is made. Counts of references do
%% not tell: garbage of this process and closures of others change them between two looks.
are_shared() ->
    erts_debug:same(without_values(), without_values()).

without_values() ->
    fun() -> none end.

search_all(Held) ->
    [Place || #{how := How, pid := Pid} = Place <- sbx_reload_closures:search(Held), How =:= closure orelse is_pid(Pid)].

named([#{how := closure} | _] = Places) -> Places;
named(Doubts) -> [#{pid => nil, how => closure, where => other} | Doubts].

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
%% is the code's own, one its literal's if it is shared (two each when the same code is loaded as
%% current and as old), one is ours. A separate process counts, so that ours is exactly one.
-spec held(identity()) -> boolean().
held({_Module, _Md5, []}) ->
    false;
held({Module, Md5, Closures}) ->
    Loaded = 1 + length([M || M <- [Module], erlang:module_loaded(M), erlang:get_module_info(M, md5) =:= Md5]),
    Literals = case are_shared() of true -> 1; false -> 0 end,
    {Pid, Monitor} = spawn_monitor(fun() ->
        exit({counts, [{element(2, erlang:fun_info(closure(Module, Md5, C), refc)), C} || C <- Closures]})
    end),
    sbx_reload:helper(Pid),
    receive
        {'DOWN', Monitor, process, Pid, {counts, Counts}} ->
            lists:any(fun({Count, C}) -> Count > 1 + Loaded * (1 + Literals * length(shared([C]))) end, Counts);
        {'DOWN', Monitor, process, Pid, _} ->
            true
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

%% Stacks

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

now_ms() ->
    erlang:monotonic_time(millisecond).
