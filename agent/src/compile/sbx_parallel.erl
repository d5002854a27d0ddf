%%% A parallel map with as many processes at a time as there are schedulers.
-module(sbx_parallel).

-export([map/2]).

%% A call that crashed gives {crashed, Reason}.
-spec map(fun((Item) -> Result), [Item]) -> [Result | {crashed, term()}].
map(Fun, Items) ->
    Slots = erlang:system_info(schedulers_online),
    {First, Rest} = lists:split(min(Slots, length(Items)), Items),
    collect(Fun, [start(Fun, Item) || Item <- First], Rest, []).

start(Fun, Item) ->
    {_Pid, Monitor} = spawn_monitor(fun() -> exit({done, Fun(Item)}) end),
    Monitor.

%% Results come in order: the next call starts when the oldest has ended.
collect(_Fun, [], [], Results) ->
    lists:reverse(Results);
collect(Fun, [Oldest | Running], Waiting, Results) ->
    Result =
        receive
            {'DOWN', Oldest, process, _Pid, {done, Value}} -> Value;
            {'DOWN', Oldest, process, _Pid, Reason} -> {crashed, Reason}
        end,
    case Waiting of
        [] -> collect(Fun, Running, [], [Result | Results]);
        [Item | Rest] -> collect(Fun, Running ++ [start(Fun, Item)], Rest, [Result | Results])
    end.
