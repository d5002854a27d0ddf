%%% Measures what the node uses, and which of its processes use most.
-module(sbx_usage).

-export([get/0, top/1]).

-define(TOP_MAX, 1000).
%% How long reductions are counted for a rate.
-define(RATE_MS, 100).
-define(TOP_ITEMS, [
    registered_name,
    initial_call,
    current_function,
    status,
    message_queue_len,
    memory,
    reductions,
    total_heap_size,
    dictionary
]).

-spec get() -> map().
get() ->
    {{input, Input}, {output, Output}} = erlang:statistics(io),
    {Collections, Words, _} = erlang:statistics(garbage_collection),
    Reductions = sbx_busy_wait:reductions(),
    {Switches, _} = erlang:statistics(context_switches),
    Memory = erlang:memory(),
    #{
        memory => maps:from_list(Memory),
        reductions => Reductions,
        context_switches => Switches,
        garbage_collections => Collections,
        garbage_bytes => Words * erlang:system_info(wordsize),
        io_in_bytes => Input,
        io_out_bytes => Output,
        ets_tables => own(ets_tables, length(ets:all())),
        ets_memory_bytes => own(ets_memory_bytes, sbx_quota:ets_memory_bytes()),
        vm_ports => own(vm_ports, length(erlang:ports())),
        sockets => own(sockets, sbx_quota:sockets()),
        message_queue => longest_queue(),
        schedulers => erlang:system_info(schedulers_online)
    }.

%% The amount above what the node has without the application.
own(Limit, Count) ->
    max(0, Count - sbx_quota:baseline(Limit)).

longest_queue() ->
    lists:foldl(fun(Pid, Longest) -> max(Longest, value(Pid, message_queue_len)) end, 0, processes()).

%% The processes that have most of the item, largest first.
-spec top(map()) -> {ok, map()}.
top(#{by := By, count := Count}) ->
    Item = item(By),
    %% Busy-waiting is not work of the application.
    Before = [{Pid, value(Pid, Item)} || Pid <- processes() -- [self(), whereis(sbx_busy_wait)]],
    Values = lists:reverse(lists:keysort(2, measure(By, Before))),
    Shown = lists:sublist(Values, min(Count, ?TOP_MAX)),
    {ok, #{processes => lists:append([describe(By, Pid, Value) || {Pid, Value} <- Shown])}}.

item(memory) -> memory;
item(queue) -> message_queue_len;
item(reductions) -> reductions.

%% A process's reductions since its start say little about its present work.
measure(reductions, Before) ->
    receive after ?RATE_MS -> ok end,
    [{Pid, max(0, value(Pid, reductions) - Value) * 1000 div ?RATE_MS} || {Pid, Value} <- Before];
measure(_By, Values) ->
    Values.

value(Pid, Item) ->
    case process_info(Pid, Item) of
        {Item, Value} -> Value;
        undefined -> 0
    end.

describe(By, Pid, Value) ->
    case process_info(Pid, ?TOP_ITEMS) of
        undefined -> [];
        Items -> [rate(By, Value, process(Pid, maps:from_list(Items)))]
    end.

rate(reductions, Value, Process) -> Process#{reductions_per_s => Value};
rate(_By, _Value, Process) -> Process.

process(Pid, #{memory := Memory, reductions := Reductions, status := Status} = Items) ->
    #{
        pid => Pid,
        name => name(maps:get(registered_name, Items)),
        initial_call => call(initial_call(Items)),
        current_function => call(maps:get(current_function, Items)),
        status => Status,
        message_queue_len => maps:get(message_queue_len, Items),
        memory_bytes => Memory,
        heap_bytes => maps:get(total_heap_size, Items) * erlang:system_info(wordsize),
        reductions => Reductions
    }.

name([]) -> nil;
name(Name) -> atom_to_binary(Name).

%% Processes of OTP's behaviours have their real initial call in the dictionary.
initial_call(#{dictionary := Dictionary, initial_call := Default}) ->
    case lists:keyfind('$initial_call', 1, Dictionary) of
        {_, {_, _, _} = Call} -> Call;
        _ -> Default
    end.

call({Module, Function, Arity}) when is_atom(Module), is_atom(Function), is_integer(Arity) ->
    unicode:characters_to_binary(io_lib:format("~ts:~ts/~b", [Module, Function, Arity]));
call(_Unknown) ->
    nil.
