%%% Finds the processes that use the changed modules. It inspects all processes and sends no message
%%% to a process that might not understand it.
-module(sbx_reload_users).

-export([find/1, find_newer/2, callback_kind/1, is_idle_server/1]).

-export_type([found/0, seen/0]).

-include("sbx_reload.hrl").

%% The bits of a process identifier's first written number. The higher bits follow the dot.
-define(LOW_BITS, 15).
%% If the initial call does not tell the callback module of a process, its stack is dumped. The dump
%% contains the state as text, so this is done for small processes only.
-define(LOOK_CLOSER_MAX_WORDS, 65536).
%% Up to this many processes have their whole stack inspected, not only its top.
-define(STACKS_MAX, 20000).
%% Up to this many process identifiers are tried one by one. For more, all processes are listed.
-define(TRIED_MAX, 2000).
-define(HANDLERS_TIMEOUT_MS, 1000).
%% How many milliseconds to wait for a process that was just spawned.
-define(YOUNG_ROUNDS, 20).
%% Where a process of a behaviour waits, and what is on its stack when it does not wait.
-define(LOOPS, #{gen_server => server, gen_statem => statem, gen_event => event}).
-define(LOOP_FUNCTIONS, [
    loop, loop_wakeup, loop_msg, loop_msg_event, wake_hib, decode_msg, handle_msg, try_dispatch, try_handle_call,
    handle_common_reply, loop_receive,
    loop_hibernate, loop_state_callback, loop_state_callback_result, loop_event, fetch_msg, server_update,
    server_notify, server_call, server_call_update
]).

-type found() :: #{
    users := [#user{}],
    %% Processes without system messages: their next call of the module uses the new code.
    plain := [{pid(), module()}],
    %% Processes outside this set have not been inspected.
    seen := seen()
}.

%% Processes up to this one, or exactly these. Identifiers ascend until each slot of the process
%% table has been used once.
-opaque seen() :: {up_to, pid()} | {these, #{pid() => []}}.

-spec find([module()]) -> found().
find(Modules) ->
    Marker = marker(),
    Pids = processes(),
    Seen =
        case ascends(Marker) of
            true -> {up_to, Marker};
            false -> {these, maps:from_keys(Pids, [])}
        end,
    look(Pids, Modules, Seen).

%% Finds the processes that started since.
-spec find_newer(seen(), [module()]) -> found().
find_newer({up_to, Since}, Modules) ->
    Marker = marker(),
    case ascends(Marker) of
        true -> look(between(Since, Marker), Modules, {up_to, Marker});
        false -> find(Modules)
    end;
find_newer({these, Seen}, Modules) ->
    New = [Pid || Pid <- processes(), not is_map_key(Pid, Seen)],
    look(New, Modules, {these, maps:merge(Seen, maps:from_keys(New, []))}).

marker() ->
    spawn(fun() -> ok end).

ascends(Pid) ->
    number(Pid) < erlang:system_info(process_limit).

%% A few new processes are found without listing all.
between(Since, Until) ->
    case {number(Since), number(Until)} of
        {First, Last} when Last >= First, Last - First < ?TRIED_MAX ->
            [pid(Number) || Number <- lists:seq(First + 1, Last - 1)];
        _ ->
            processes()
    end.

%% Joins the two written numbers of a process identifier.
number(Pid) ->
    [_Node, Low, High] = string:lexemes(pid_to_list(Pid), "<.>"),
    list_to_integer(High) bsl ?LOW_BITS + list_to_integer(Low).

pid(Number) ->
    {High, Low} = {Number bsr ?LOW_BITS, Number band ((1 bsl ?LOW_BITS) - 1)},
    list_to_pid("<0." ++ integer_to_list(Low) ++ "." ++ integer_to_list(High) ++ ">").

look(Pids, Modules, Seen) ->
    Changed = maps:from_list([{Module, callback_kind(Module)} || Module <- Modules]),
    Ours = sbx_reload:own_pids(),
    Looks = grown_up([classify(Pid, Changed) || Pid <- Pids, not is_map_key(Pid, Ours)], Changed, ?YOUNG_ROUNDS),
    Managers = [Pid || {manager, Pid} <- Looks],
    #{
        users => [User || #user{} = User <- Looks] ++ event_users(Managers, Changed),
        plain => [{Pid, Module} || {plain, Pid, Module} <- Looks] ++
            by_stack([Pid || {unknown, Pid} <- Looks], Changed),
        seen => Seen
    }.

%% A process that has not had its first turn does not show its kind yet, so it gets a turn.
grown_up(Looks, _Changed, 0) ->
    Looks;
grown_up(Looks, Changed, Rounds) ->
    case [Pid || {young, Pid} <- Looks] of
        [] ->
            Looks;
        Young ->
            receive after 1 -> ok end,
            Again = [classify(Pid, Changed) || Pid <- Young],
            [Look || Look <- Looks, not is_young(Look)] ++ grown_up(Again, Changed, Rounds - 1)
    end.

is_young({young, _Pid}) -> true;
is_young(_Look) -> false.

%% The kind of process that a callback module implements.
-spec callback_kind(module()) -> server | statem | event | supervisor | special | none.
callback_kind(Module) ->
    Exports = fun({Name, Arity}) -> erlang:function_exported(Module, Name, Arity) end,
    Signs = [
        {statem, [{init, 1}, {callback_mode, 0}]},
        {special, [{system_continue, 3}, {system_code_change, 4}]},
        {server, [{init, 1}, {handle_call, 3}]},
        {server, [{init, 1}, {handle_cast, 2}]},
        {event, [{init, 1}, {handle_event, 2}]},
        {server, [{init, 1}, {handle_info, 2}]}
    ],
    case [Kind || {Kind, Functions} <- Signs, lists:all(Exports, Functions)] of
        [Kind | _] -> Kind;
        [] -> none
    end.

classify(Pid, Changed) ->
    case process_info(Pid, [initial_call, current_function, dictionary]) of
        [{initial_call, Spawned}, {current_function, Current}, {dictionary, Dictionary}] ->
            case lists:keyfind('$initial_call', 1, Dictionary) of
                {_, Initial} -> by_initial_call(Initial, Current, Pid, Changed);
                false when element(1, Spawned) =:= proc_lib -> {young, Pid};
                false -> by_functions([Spawned, Current], Pid, Changed)
            end;
        undefined ->
            gone
    end.

by_initial_call({supervisor, Module, 1}, _Current, Pid, Changed) ->
    case Changed of
        #{Module := _} -> #user{pid = Pid, kind = supervisor, modules = [Module]};
        _ -> other
    end;
by_initial_call({gen_event, init_it, _}, _Current, Pid, _Changed) ->
    {manager, Pid};
by_initial_call({Module, init, 1}, _Current, Pid, Changed) when
    map_get(Module, Changed) =:= server; map_get(Module, Changed) =:= statem; map_get(Module, Changed) =:= special
->
    #user{pid = Pid, kind = map_get(Module, Changed), modules = [Module]};
by_initial_call({Module, _, _}, _Current, Pid, Changed) when map_get(Module, Changed) =:= special ->
    #user{pid = Pid, kind = special, modules = [Module]};
by_initial_call({Module, _, _} = Initial, Current, Pid, Changed) ->
    case loop_of(Current) of
        none when is_map_key(Module, Changed) -> by_frames(Initial, Pid);
        none -> by_functions([Current], Pid, Changed);
        event -> {manager, Pid};
        Kind -> by_loop(Kind, Initial, Pid, Changed)
    end;
by_initial_call(_Nonsense, Current, Pid, Changed) ->
    by_functions([Current], Pid, Changed).

loop_of({Module, Function, _Arity}) ->
    case lists:member(Function, ?LOOP_FUNCTIONS) of
        true -> maps:get(Module, ?LOOPS, none);
        false -> none
    end;
loop_of(_Undefined) ->
    none.

%% Whether the process waits in a loop of OTP, so that it understands system messages.
-spec is_idle_server(pid()) -> boolean().
is_idle_server(Pid) ->
    case process_info(Pid, current_function) of
        {current_function, Current} -> lists:member(loop_of(Current), [server, statem]);
        undefined -> false
    end.

%% The process became a server after its start. An Elixir Agent is one too.
by_loop(Kind, {Module, _, _} = Initial, Pid, Changed) ->
    case calls_back_itself(Initial) of
        true ->
            other;
        false ->
            case called_back(Pid, Changed) of
                agent when is_map_key(Module, Changed) -> #user{pid = Pid, kind = agent, modules = [Module]};
                unknown when is_map_key(Module, Changed) -> user(Kind, Initial, Pid);
                Nothing when Nothing =:= agent; Nothing =:= unknown -> other;
                Callback -> #user{pid = Pid, kind = Kind, modules = [Callback]}
            end
    end.

%% The initial call of an Agent is the function that made its first state, usually a closure.
user(server, {Module, Function, _Arity}, Pid) ->
    case atom_to_list(Function) of
        "-" ++ _ -> #user{pid = Pid, kind = agent, modules = [Module]};
        _ -> #user{pid = Pid, kind = server, modules = [Module]}
    end;
user(Kind, {Module, _Function, _Arity}, Pid) ->
    #user{pid = Pid, kind = Kind, modules = [Module]}.

%% The usual case: the process runs its own module's init/1, and that module does not change.
calls_back_itself({Module, init, 1}) -> callback_kind(Module) =/= none;
calls_back_itself(_Initial) -> false.

%% The callback module is in the loop's stack frame, which only a dump shows.
called_back(Pid, Changed) ->
    case process_info(Pid, total_heap_size) of
        {total_heap_size, Words} when Words =< ?LOOK_CLOSER_MAX_WORDS ->
            {backtrace, Dump} = process_info_or(Pid, backtrace, {backtrace, <<>>}),
            in_frame(binary:split(Dump, <<"\n">>, [global]), names(Changed));
        _ ->
            unknown
    end.

process_info_or(Pid, Item, Default) ->
    case process_info(Pid, Item) of
        undefined -> Default;
        Info -> Info
    end.

names(Changed) ->
    Own = maps:from_list([{iolist_to_binary(io_lib:format("~w", [Module])), Module} || Module <- maps:keys(Changed)]),
    Own#{<<"'Elixir.Agent.Server'">> => agent}.

in_frame([<<"y(", Line/binary>> | Lines], Names) ->
    [_Register, Word | _] = binary:split(Line, <<")     ">>) ++ [<<>>],
    case Names of
        #{Word := Callback} -> Callback;
        _ -> in_frame(Lines, Names)
    end;
in_frame([<<>> | _], _Names) ->
    unknown;
in_frame([_ | Lines], Names) ->
    in_frame(Lines, Names);
in_frame([], _Names) ->
    unknown.

%% A busy process of a changed module: checks whether a behaviour's loop is below on its stack.
by_frames({Module, _, _} = Initial, Pid) ->
    {current_stacktrace, Frames} = process_info_or(Pid, current_stacktrace, {current_stacktrace, []}),
    case [Kind || {M, F, A, _} <- Frames, Kind <- [loop_of({M, F, A})], Kind =/= none] of
        [event | _] -> {manager, Pid};
        [Kind | _] -> user(Kind, Initial, Pid);
        [] -> {plain, Pid, Module}
    end.

by_functions(Functions, Pid, Changed) ->
    case [Module || {Module, _, _} <- Functions, is_map_key(Module, Changed)] of
        [Module | _] when map_get(Module, Changed) =:= special -> #user{pid = Pid, kind = special, modules = [Module]};
        [Module | _] -> {plain, Pid, Module};
        [] -> {unknown, Pid}
    end.

by_stack(Pids, _Changed) when length(Pids) > ?STACKS_MAX ->
    [];
by_stack(Pids, Changed) ->
    [
        {Pid, Module}
     || Pid <- Pids,
        {current_stacktrace, Frames} <- [process_info(Pid, current_stacktrace)],
        not lists:any(fun({M, F, A, _}) -> loop_of({M, F, A}) =/= none end, Frames),
        Module <- first([Module || {Module, _, _, _} <- Frames, is_map_key(Module, Changed)])
    ].

first([]) -> [];
first([First | _]) -> [First].

%% An event manager reports the modules of its handlers. It is known to be a manager, so it
%% understands the request.
event_users([], _Changed) ->
    [];
event_users(Managers, Changed) ->
    case lists:any(fun(Module) -> erlang:function_exported(Module, handle_event, 2) end, maps:keys(Changed)) of
        true ->
            Requests = [{Pid, fun ask_handlers/1} || Pid <- Managers],
            Answers = sbx_reload_sysmsg:ask(Requests, {idle, ?HANDLERS_TIMEOUT_MS}),
            [
                #user{pid = Pid, kind = event, modules = Modules}
             || {Pid, {answer, Handlers}} <- maps:to_list(Answers), is_list(Handlers),
                [_ | _] = Modules <- [lists:usort([M || H <- Handlers, M <- [handler(H)], is_map_key(M, Changed)])]
            ];
        false ->
            []
    end.

ask_handlers(Tag) ->
    {self(), {self(), Tag}, which_handlers}.

handler({Module, _Id}) -> Module;
handler(Module) -> Module.
