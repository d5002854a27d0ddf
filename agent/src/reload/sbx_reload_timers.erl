%%% Knows the closures in messages of timers that have not fired. No function of the VM shows such a
%%% message, so this process traces the functions that set timers.
%%%
%%% It does so only where the VM does not count closures (OTP 27 and later), in a trace session of
%%% its own. The trace leaves out messages without any part that could hold a closure, such as atoms.
-module(sbx_reload_timers).

-export([start_link/0, watch/0, holding/1, cancel/1, closures_are_counted/0]).

%% The process gives up when it falls behind by this many messages, or knows this many timers.
-define(BEHIND_MAX, 10000).
-define(TIMERS_MAX, 100000).
%% Timers that are over are forgotten when there are this many, and then twice as many as were left.
-define(FORGET_FROM, 256).
%% How many messages are taken between two looks at the length of the queue.
-define(LOOK_EVERY, 1000).
-define(PARTS_MAX, 100000).
-define(ANSWER_TIMEOUT_MS, 5000).

-record(state, {
    session :: term(),
    %% Processes that are inside a call which sets a timer with closures.
    setting = #{} :: #{pid() => {Destination :: term(), [sbx_reload_closures:kind()] | any}},
    timers = #{} :: #{reference() => {Destination :: term(), [sbx_reload_closures:kind()] | any}},
    forget_at = ?FORGET_FROM :: pos_integer(),
    until_look = ?LOOK_EVERY :: non_neg_integer()
}).

-spec start_link() -> pid().
start_link() ->
    spawn_opt(
        fun() ->
            register(?MODULE, self()),
            idle()
        end,
        [link, {message_queue_data, off_heap}]
    ).

%% Begins to trace, if the VM does not count closures. Called once the VM has booted, and before the
%% application starts. Returns when it is so.
-spec watch() -> ok.
watch() ->
    ok = ask(watch),
    sbx_setup:forget([trace]).

%% The living timers whose messages hold a closure of these versions, with the destinations of the
%% messages; or that it is not known.
-spec holding([sbx_reload_closures:kind()]) -> {ok, [{module(), reference(), Destination :: term()}]} | unknown.
holding(Kinds) ->
    ask({holding, Kinds}).

-spec cancel([reference()]) -> ok.
cancel(Timers) ->
    lists:foreach(fun(Timer) -> erlang:cancel_timer(Timer) end, Timers).

%% Whether the VM counts the closures of each kind: OTP 25 and 26 do.
-spec closures_are_counted() -> boolean().
closures_are_counted() ->
    First = counted_closure(1),
    {refc, One} = erlang:fun_info(First, refc),
    Second = counted_closure(2),
    {refc, Two} = erlang:fun_info(Second, refc),
    Two > One andalso First() =/= Second().

counted_closure(Value) ->
    fun() -> Value end.

ask(Request) ->
    Monitor = monitor(process, ?MODULE),
    ?MODULE ! {?MODULE, Request, self(), Monitor},
    receive
        {Monitor, Answer} ->
            demonitor(Monitor, [flush]),
            Answer;
        {'DOWN', Monitor, process, _, _Reason} ->
            unknown
    after ?ANSWER_TIMEOUT_MS ->
        demonitor(Monitor, [flush]),
        unknown
    end.

%% Without a trace nothing is known.
idle() ->
    receive
        {?MODULE, watch, From, Reference} ->
            Next = begun(),
            From ! {Reference, ok},
            case Next of
                none -> idle();
                State -> loop(State)
            end;
        {?MODULE, {holding, _Kinds}, From, Reference} ->
            From ! {Reference, unknown},
            idle();
        _Stray ->
            idle()
    end.

begun() ->
    case not closures_are_counted() andalso code:ensure_loaded(trace) of
        {module, Trace} ->
            Session = Trace:session_create(?MODULE, self(), []),
            [
                Trace:function(Session, {erlang, Name, Arity}, patterns(Arity), [meta])
             || Name <- [send_after, start_timer], Arity <- [3, 4]
            ],
            #state{session = Session};
        _NoneNeededOrNoSessions ->
            none
    end.

%% Calls whose message is of simple terms, or a small tuple of such terms, are not told.
patterns(Arity) ->
    Head = fun(Message) -> ['_', '_', Message | ['_' || _ <- lists:seq(4, Arity)]] end,
    Tuples = [lists:sublist(['$1', '$2', '$3', '$4'], Size) || Size <- lists:seq(1, 4)],
    [{Head('$1'), [simple('$1')], [{message, false}]}] ++
        [{Head(list_to_tuple(Parts)), [simple(Part) || Part <- Parts], [{message, false}]} || Parts <- Tuples] ++
        [{'_', [], [{return_trace}]}].

simple(Part) ->
    {'orelse', {is_atom, Part}, {is_number, Part}, {is_binary, Part}, {is_pid, Part}, {is_reference, Part}}.

loop(#state{until_look = 0} = State) ->
    case process_info(self(), message_queue_len) of
        {message_queue_len, Behind} when Behind > ?BEHIND_MAX -> give_up(State);
        _ -> loop(State#state{until_look = ?LOOK_EVERY})
    end;
loop(#state{timers = Timers, forget_at = ForgetAt} = State) when map_size(Timers) >= ForgetAt ->
    Living = living(Timers),
    case map_size(Living) > ?TIMERS_MAX of
        true -> give_up(State);
        false -> loop(forgotten(Living, State))
    end;
loop(#state{until_look = Left} = State) ->
    receive
        Told when element(1, Told) =:= trace_ts ->
            loop(noted(Told, State#state{until_look = Left - 1}));
        {?MODULE, {holding, Kinds}, From, Reference} ->
            Now = caught_up(State),
            From ! {Reference, {ok, lists:flatmap(fun(Kind) -> found(Kind, Now) end, Kinds)}},
            loop(Now);
        _Stray ->
            loop(State)
    end.

noted({trace_ts, Pid, call, {erlang, _, [_Time, Destination, Message | _]}, _}, #state{setting = Setting} = State) ->
    case sbx_reload_closures:kinds(Message, ?PARTS_MAX) of
        [] -> State#state{setting = maps:remove(Pid, Setting)};
        Kinds -> State#state{setting = Setting#{Pid => {Destination, Kinds}}}
    end;
noted({trace_ts, Pid, return_from, _, Timer, _}, #state{setting = Setting, timers = Timers} = State) ->
    case maps:take(Pid, Setting) of
        {Set, Others} -> State#state{setting = Others, timers = Timers#{Timer => Set}};
        error -> State
    end;
noted(_Stray, State) ->
    State.

living(Timers) ->
    maps:filter(fun(Timer, _) -> erlang:read_timer(Timer) =/= false end, Timers).

forgotten(Living, #state{setting = Setting} = State) ->
    State#state{
        timers = Living,
        setting = maps:filter(fun(Pid, _) -> is_process_alive(Pid) end, Setting),
        forget_at = max(?FORGET_FROM, 2 * map_size(Living))
    }.

%% From here on nothing is known about timers.
-spec give_up(#state{}) -> no_return().
give_up(#state{session = Session}) ->
    _ = trace:session_destroy(Session),
    drop(),
    idle().

drop() ->
    receive
        Told when element(1, Told) =:= trace_ts -> drop()
    after 0 -> ok
    end.

%% Takes the calls that were made before the question.
caught_up(#state{session = Session} = State) ->
    Delivered = trace:delivered(Session, all),
    receive
        {trace_delivered, all, Delivered} -> taken(State)
    end.

taken(State) ->
    receive
        Told when element(1, Told) =:= trace_ts -> taken(noted(Told, State))
    after 0 -> State
    end.

%% A process that is about to set a timer counts as if it had.
found({Module, _Md5} = Kind, #state{setting = Setting, timers = Timers}) ->
    About = [{Module, make_ref(), Destination} || {Destination, Kinds} <- maps:values(Setting), holds(Kind, Kinds)],
    Holding = maps:filter(fun(_Timer, {_Destination, Kinds}) -> holds(Kind, Kinds) end, Timers),
    About ++ [{Module, Timer, Destination} || {Timer, {Destination, _}} <- maps:to_list(living(Holding))].

holds(_Kind, any) -> true;
holds(Kind, Kinds) -> lists:member(Kind, Kinds).
