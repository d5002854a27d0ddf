%%% A bounded buffer for what the node sends without being asked: output, log records and events, in
%%% order.
%%%
%%% It hands the agent one item at a time and waits until that item was sent. A process that prints
%%% faster than the channel carries is slowed down. Without a daemon no process waits: the buffer
%%% drops the oldest items and reports how many bytes were dropped.
-module(sbx_outbox).

-export([start_link/1, put/2, post/2, await_sent/0]).

-include("sbx.hrl").

-define(BUFFER_MAX_BYTES, 65536).
%% Above this many bytes, processes that put more have to wait.
-define(FULL_BYTES, 32768).
%% The size of a log record besides its text.
-define(LOG_BYTES, 300).
%% What an item counts at least.
-define(ITEM_BYTES, 64).
%% The rate of the channel, well below what the daemon reads from one node.
-define(BYTES_PER_MS, 4096).
%% If the agent has not taken an item for this long, there is no daemon.
-define(PATIENCE_MS, 200).

-record(state, {
    agent :: pid(),
    queue = queue:new() :: queue:queue(item()),
    bytes = 0 :: non_neg_integer(),
    dropped = 0 :: non_neg_integer(),
    %% Waits for the agent to take an item of this size, or for the pause after an item to end.
    waiting = none :: none | {taken, reference(), non_neg_integer()} | {pause, reference()},
    %% Sent since the last pause.
    unpaused = 0 :: non_neg_integer(),
    %% There is no daemon: an item was not taken in time.
    absent = false :: boolean(),
    %% Processes that wait for room.
    putters = [] :: [{pid(), reference()}],
    %% Processes that wait until all is sent.
    awaiting = [] :: [{pid(), reference()}]
}).

-type item() :: {atom(), term(), non_neg_integer()}.

-spec start_link(pid()) -> pid().
start_link(Agent) ->
    spawn_opt(
        fun() ->
            register(?MODULE, self()),
            loop(#state{agent = Agent})
        end,
        [link, {priority, high}, {message_queue_data, off_heap}]
    ).

%% Returns once the outbox has room, so that endless output is slowed down to the channel's rate.
-spec put(atom(), term()) -> ok.
put(Kind, Data) ->
    case whereis(?MODULE) of
        undefined -> ok;
        Outbox -> put(Outbox, Kind, Data)
    end.

put(Outbox, Kind, Data) ->
    Monitor = monitor(process, Outbox),
    Outbox ! {?MODULE, put, self(), Monitor, Kind, Data},
    await(Outbox, Monitor).

%% Returns once all that was put has been sent, or there is no daemon.
-spec await_sent() -> ok.
await_sent() ->
    case whereis(?MODULE) of
        undefined ->
            ok;
        Outbox ->
            Monitor = monitor(process, Outbox),
            Outbox ! {?MODULE, await_sent, self(), Monitor},
            await(Outbox, Monitor)
    end.

await(Outbox, Monitor) ->
    receive
        {Monitor, ok} ->
            demonitor(Monitor, [flush]),
            ok;
        {'DOWN', Monitor, process, Outbox, _Reason} ->
            ok
    end.

%% For rare and short events, from a process that must not wait.
-spec post(atom(), term()) -> ok.
post(Kind, Data) ->
    ?MODULE ! {?MODULE, post, Kind, Data},
    ok.

loop(State) ->
    receive
        {?MODULE, post, Kind, Data} ->
            loop(hand_over(bounded(add(Kind, Data, State))));
        {?MODULE, put, From, Reference, Kind, Data} ->
            Putters = [{From, Reference} | State#state.putters],
            loop(release_putters(hand_over(bounded(add(Kind, Data, State#state{putters = Putters})))));
        {?MODULE, await_sent, From, Reference} ->
            loop(release_awaiting(State#state{awaiting = [{From, Reference} | State#state.awaiting]}));
        {sbx_agent, taken} ->
            loop(release_awaiting(release_putters(taken(State))));
        {timeout, Timer, ?MODULE} ->
            loop(release_awaiting(release_putters(expired(Timer, State))));
        _Stray ->
            loop(State)
    end.

%% Adjacent pieces of output are joined.
add(output, Bytes, #state{queue = Queue, bytes = Total} = State) ->
    Size = byte_size(Bytes),
    case queue:peek_r(Queue) of
        {value, {output, Before, BeforeSize}} when BeforeSize + Size =< ?OUTPUT_MAX_BYTES ->
            Joined = {output, [Before | Bytes], BeforeSize + Size},
            State#state{queue = queue:in(Joined, queue:drop_r(Queue)), bytes = Total + Size};
        _ ->
            State#state{queue = queue:in({output, Bytes, Size}, Queue), bytes = Total + Size}
    end;
add(log, #{text := Text} = Record, #state{queue = Queue, bytes = Total} = State) ->
    Size = byte_size(Text) + ?LOG_BYTES,
    State#state{queue = queue:in({log, Record, Size}, Queue), bytes = Total + Size};
add(Kind, Data, #state{queue = Queue} = State) ->
    State#state{queue = queue:in({Kind, Data, 0}, Queue)}.

%% Only output and log records count. Other events are few and are never dropped.
bounded(#state{bytes = Bytes} = State) when Bytes =< ?BUFFER_MAX_BYTES ->
    State;
bounded(#state{queue = Queue, bytes = Bytes, dropped = Dropped} = State) ->
    Kept = drop_oldest(queue:to_list(Queue), Bytes - ?BUFFER_MAX_BYTES),
    Left = lists:sum([Size || {_Kind, _Data, Size} <- Kept]),
    State#state{queue = queue:from_list(Kept), bytes = Left, dropped = Dropped + Bytes - Left}.

-spec drop_oldest([item()], integer()) -> [item()].
drop_oldest([{_Kind, _Data, 0} = Item | Items], Excess) ->
    [Item | drop_oldest(Items, Excess)];
drop_oldest([{output, Bytes, Size} | Items], Excess) when Size > Excess ->
    Whole = skip_continuation(binary:part(iolist_to_binary(Bytes), Size, Excess - Size)),
    [{output, Whole, byte_size(Whole)} | Items];
drop_oldest([{_Kind, _Data, Size} | Items], Excess) when Size < Excess ->
    drop_oldest(Items, Excess - Size);
drop_oldest([_Item | Items], _Excess) ->
    Items.

%% Drops the rest of a character that was cut.
skip_continuation(<<>>) ->
    <<>>;
skip_continuation(Bytes) ->
    case binary:first(Bytes) bsr 6 of
        2#10 -> skip_continuation(binary:part(Bytes, 1, byte_size(Bytes) - 1));
        _ -> Bytes
    end.

%% Answers the waiting processes once there is room, or no daemon to wait for.
release_putters(#state{bytes = Bytes, absent = false} = State) when Bytes > ?FULL_BYTES ->
    State;
release_putters(#state{putters = Putters} = State) ->
    [From ! {Reference, ok} || {From, Reference} <- Putters],
    State#state{putters = []}.

release_awaiting(#state{awaiting = []} = State) ->
    State;
release_awaiting(#state{absent = false, waiting = {taken, _, _}} = State) ->
    State;
release_awaiting(#state{absent = false, bytes = Bytes} = State) when Bytes > 0 ->
    State;
release_awaiting(#state{awaiting = Awaiting} = State) ->
    [From ! {Reference, ok} || {From, Reference} <- Awaiting],
    State#state{awaiting = []}.

expired(Timer, #state{waiting = {pause, Timer}} = State) -> hand_over(State#state{waiting = none});
expired(Timer, #state{waiting = {taken, Timer, _Size}} = State) -> State#state{absent = true};
expired(_Timer, State) -> State.

%% Small items share a pause.
taken(#state{waiting = {taken, Timer, Size}, unpaused = Before} = State) ->
    _ = erlang:cancel_timer(Timer),
    case Before + max(Size, ?ITEM_BYTES) of
        Few when Few < ?BYTES_PER_MS ->
            hand_over(State#state{waiting = none, absent = false, unpaused = Few});
        Bytes ->
            Pause = erlang:start_timer(1 + Bytes div ?BYTES_PER_MS, self(), ?MODULE),
            State#state{waiting = {pause, Pause}, absent = false, unpaused = 0}
    end;
taken(State) ->
    State.

hand_over(#state{waiting = Waiting} = State) when Waiting =/= none ->
    State;
hand_over(#state{dropped = Dropped} = State) when Dropped > 0 ->
    Note = unicode:characters_to_binary(io_lib:format("\n~ts ~b bytes dropped\n", [[16#2026], Dropped])),
    tell(output, Note, byte_size(Note), State#state{dropped = 0});
hand_over(#state{queue = Queue, bytes = Bytes} = State) ->
    case queue:out(Queue) of
        {empty, _} ->
            State;
        {{value, {Kind, Data, Size}}, Rest} ->
            tell(Kind, flat(Kind, Data), Size, State#state{queue = Rest, bytes = Bytes - Size})
    end.

tell(Kind, Data, Size, #state{agent = Agent} = State) ->
    Agent ! {sbx_agent, event, self(), Kind, Data},
    State#state{waiting = {taken, erlang:start_timer(?PATIENCE_MS, self(), ?MODULE), Size}}.

flat(output, Bytes) -> iolist_to_binary(Bytes);
flat(_Kind, Data) -> Data.
