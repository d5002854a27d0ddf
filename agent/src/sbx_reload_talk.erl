%% System messages to many processes at once, each answer awaited with a deadline. Nothing is linked, nothing is left in
%% anybody's mailbox, and an answer that comes too late goes nowhere.
-module(sbx_reload_talk).

-export([ask/2, suspend/3, suspend_again/2, resume/2, stop/1, let_go/1, visit/3, call/3, nobody/0]).

-export_type([answers/0]).

%% How long a suspension may take before it is looked at what the late ones wait for.
-define(LOOK_EVERY_MS, 10).
%% What a chain of calls gets to come to its end before the next attempt.
-define(BREATH_MS, 5).

-type outcome() :: {answer, term()} | {down, term()} | late.
-type answers() :: #{pid() => outcome()}.
%% By a moment; or within so long after the last answer of any of them.
-type deadline() :: {by, integer()} | {idle, timeout()}.
-type request() :: {pid(), fun((reference()) -> term())}.

%% The fun makes the message; an answer is `{[alias | Reference], Term}`.
-spec ask([request()], deadline()) -> answers().
ask(Requests, Deadline) ->
    Waiting = maps:from_list([{send(Pid, Message), Pid} || {Pid, Message} <- Requests]),
    collect(Waiting, Deadline, #{}).

send(Pid, Message) ->
    Reference = monitor(process, Pid, [{alias, reply_demonitor}]),
    Pid ! Message(Reference),
    Reference.

collect(Waiting, _Deadline, Answers) when map_size(Waiting) =:= 0 ->
    Answers;
collect(Waiting, Deadline, Answers) ->
    receive
        {[alias | Reference], Answer} when is_map_key(Reference, Waiting) ->
            {Pid, Rest} = maps:take(Reference, Waiting),
            collect(Rest, Deadline, Answers#{Pid => {answer, Answer}});
        {'DOWN', Reference, process, Pid, Reason} when is_map_key(Reference, Waiting) ->
            collect(maps:remove(Reference, Waiting), Deadline, Answers#{Pid => {down, Reason}})
    after left(Deadline) ->
        maps:fold(fun give_up/3, Answers, Waiting)
    end.

give_up(Reference, Pid, Answers) ->
    demonitor(Reference, [flush]),
    Answers#{Pid => late}.

left({by, End}) -> max(0, End - now_ms());
left({idle, TimeoutMs}) -> TimeoutMs.

system(Request) ->
    fun(Reference) -> {system, {self(), [alias | Reference]}, Request} end.

%% All or none: when one does not stop in time, all go on. Each attempt is announced. Returns those that have ended.
-spec suspend([pid()], non_neg_integer(), fun(() -> term())) -> {ok, Ended :: [pid()]} | {late, [pid(), ...]}.
suspend(Pids, TimeoutMs, Announce) ->
    End = now_ms() + TimeoutMs,
    %% Who waits for one that is stopped already, in a way that nobody can see, gets a second chance.
    suspend(Pids, [now_ms() + TimeoutMs div 2, End], End, Announce).

suspend(Pids, [Until | Untils], End, Announce) ->
    _ = Announce(),
    case attempt(Pids, Until) of
        {late, Late} ->
            case now_ms() < End of
                true ->
                    receive after ?BREATH_MS -> ok end,
                    suspend(Pids, next(Until, Untils, End), End, Announce);
                false ->
                    {late, Late}
            end;
        Suspended ->
            Suspended
    end.

next(Until, Untils, End) ->
    case now_ms() < Until of
        true -> [Until | Untils];
        false -> [End]
    end.

%% A suspend that is not answered takes effect when the process gets to it: only a resume right behind it, from the same
%% sender, undoes that.
attempt(Pids, End) ->
    Waiting = maps:from_list([{send(Pid, system(suspend)), Pid} || Pid <- Pids]),
    case await_suspended(Waiting, End, []) of
        {ok, Ended} ->
            {ok, Ended};
        {late, Late} ->
            let_go(Pids),
            {late, Late}
    end.

await_suspended(Waiting, End, Ended) ->
    Answers = collect_some(Waiting, min(End, now_ms() + ?LOOK_EVERY_MS), Ended),
    case Answers of
        {Rest, Gone} when map_size(Rest) =:= 0 ->
            {ok, Gone};
        {Rest, Gone} ->
            case now_ms() >= End orelse lists:any(fun waits_for_another/1, maps:values(Rest)) of
                true ->
                    maps:foreach(fun(Reference, _Pid) -> demonitor(Reference, [flush]) end, Rest),
                    {late, maps:values(Rest)};
                false ->
                    await_suspended(Rest, End, Gone)
            end
    end.

collect_some(Waiting, _Until, Ended) when map_size(Waiting) =:= 0 ->
    {Waiting, Ended};
collect_some(Waiting, Until, Ended) ->
    receive
        {[alias | Reference], _Ok} when is_map_key(Reference, Waiting) ->
            collect_some(maps:remove(Reference, Waiting), Until, Ended);
        {'DOWN', Reference, process, Pid, _Reason} when is_map_key(Reference, Waiting) ->
            collect_some(maps:remove(Reference, Waiting), Until, [Pid | Ended])
    after max(0, Until - now_ms()) ->
        {Waiting, Ended}
    end.

%% A server in the middle of a call to another, or of starting one: that may need one that is suspended.
waits_for_another(Pid) ->
    case process_info(Pid, [status, current_function]) of
        [{status, waiting}, {current_function, {Module, Function, _}}] ->
            lists:member({Module, Function}, [{gen, do_call}, {proc_lib, sync_start}, {proc_lib, sync_start_link}]);
        _ ->
            false
    end.

%% More of them, while the others are suspended.
-spec suspend_again([pid()], integer()) -> {ok, [pid()]} | {late, [pid(), ...]}.
suspend_again([], _TimeoutMs) -> {ok, []};
suspend_again(Pids, TimeoutMs) -> attempt(Pids, now_ms() + TimeoutMs).

-spec resume([pid()], timeout()) -> answers().
resume(Pids, TimeoutMs) ->
    ask([{Pid, system(resume)} || Pid <- Pids], {idle, TimeoutMs}).

%% Suspends without waiting for an answer: what is asked next is asked of a process that stands still.
-spec stop([pid()]) -> ok.
stop(Pids) ->
    tell(Pids, suspend).

%% Resumes without waiting for an answer.
-spec let_go([pid()]) -> ok.
let_go(Pids) ->
    tell(Pids, resume).

tell(Pids, Request) ->
    Nobody = nobody(),
    lists:foreach(fun(Pid) -> Pid ! {system, {Nobody, nil}, Request} end, Pids).

%% Has each process run a fun on its state, which answers through the reference by itself. What `sys` would answer is
%% the whole state: it is sent to nobody, which copies nothing.
-spec visit([pid()], fun((pid(), reference()) -> fun((term()) -> term())), timeout()) -> answers().
visit(Pids, MakeFun, TimeoutMs) ->
    Nobody = nobody(),
    Message = fun(Pid) ->
        fun(Reference) -> {system, {Nobody, nil}, {replace_state, MakeFun(Pid, Reference)}} end
    end,
    ask([{Pid, Message(Pid)} || Pid <- Pids], {idle, TimeoutMs}).

%% One system message whose own answer is wanted.
-spec call([pid()], fun((pid()) -> term()), timeout()) -> answers().
call(Pids, Request, TimeoutMs) ->
    ask([{Pid, system(Request(Pid))} || Pid <- Pids], {idle, TimeoutMs}).

%% A process that has ended.
-spec nobody() -> pid().
nobody() ->
    case get(?MODULE) of
        undefined ->
            {Pid, Monitor} = spawn_monitor(fun() -> ok end),
            receive
                {'DOWN', Monitor, process, Pid, _} -> ok
            end,
            put(?MODULE, Pid),
            Pid;
        Pid ->
            Pid
    end.

now_ms() ->
    erlang:monotonic_time(millisecond).
