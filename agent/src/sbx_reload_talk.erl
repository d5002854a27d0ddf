%% System messages to many processes at once, each answer awaited with a deadline. Nothing is linked, nothing is left in
%% anybody's mailbox, and an answer that comes too late goes nowhere.
-module(sbx_reload_talk).

-export([ask/2, answer/2, suspend/3, suspend_again/2, resume/2, stop/1, let_go/1, visit/3, visits/2, call/3, nobody/0]).

-export_type([answers/0, tag/0]).

%% How long a suspension may take before it is looked at what the late ones wait for.
-define(LOOK_EVERY_MS, 10).
%% What a chain of calls gets to come to its end before the next attempt.
-define(BREATH_MS, 5).

-type outcome() :: {answer, term()} | {down, term()} | late.
-type answers() :: #{pid() => outcome()}.
%% By a moment; or within so long after the last answer of any of them.
-type deadline() :: {by, integer()} | {idle, timeout()}.
%% What an answer is marked with: who answers, and the address that all of one round have in common. A round for each
%% process to answer to would take more than twice the time.
-type tag() :: nonempty_improper_list(nonempty_improper_list(alias, reference()), pid()).
-type request() :: {pid(), fun((tag()) -> term())}.

-record(round, {alias :: reference(), monitors :: [reference()]}).

%% The fun makes the message, whose receiver answers as `gen:reply/2` does with a tag, or by `answer/2`. Each process is
%% asked once.
-spec ask([request()], deadline()) -> answers().
ask(Requests, Deadline) ->
    maps:from_list(outcomes(Requests, Deadline)).

%% The same, in no order.
-spec outcomes([request()], deadline()) -> [{pid(), outcome()}].
outcomes(Requests, Deadline) ->
    Round = send(Requests),
    {Left, Answers} = collect(length(Requests), Round, Deadline, []),
    end_round(Round),
    Late = case Left of 0 -> []; _ -> [Pid || {Pid, _} <- Requests] -- [Pid || {Pid, _} <- Answers] end,
    [{Pid, late} || Pid <- Late] ++ Answers.

-spec answer(tag(), term()) -> ok.
answer([[alias | Alias] | _Pid] = Tag, Answer) ->
    Alias ! {Tag, Answer},
    ok.

send(Requests) ->
    Alias = alias(),
    Monitors = [
        begin
            Monitor = monitor(process, Pid, [{tag, Alias}]),
            Pid ! Message([[alias | Alias] | Pid]),
            Monitor
        end
     || {Pid, Message} <- Requests
    ],
    #round{alias = Alias, monitors = Monitors}.

%% How many have neither answered nor ended by the deadline, and what came of the others.
collect(0, _Round, _Deadline, Answers) ->
    {0, Answers};
collect(Left, #round{alias = Alias} = Round, Deadline, Answers) ->
    receive
        {[[alias | Alias] | Pid], Answer} ->
            collect(Left - 1, Round, Deadline, [{Pid, {answer, Answer}} | Answers]);
        {Alias, _Monitor, process, Pid, Reason} ->
            case lists:keymember(Pid, 1, Answers) of
                true -> collect(Left, Round, Deadline, Answers);
                false -> collect(Left - 1, Round, Deadline, [{Pid, {down, Reason}} | Answers])
            end
    after left(Deadline) ->
        {Left, Answers}
    end.

end_round(#round{alias = Alias, monitors = Monitors}) ->
    unalias(Alias),
    lists:foreach(fun demonitor/1, Monitors),
    flush(Alias).

flush(Alias) ->
    receive
        {[[alias | Alias] | _Pid], _Answer} -> flush(Alias);
        {Alias, _Monitor, process, _Pid, _Reason} -> flush(Alias)
    after 0 -> ok
    end.

left({by, End}) -> max(0, End - now_ms());
left({idle, TimeoutMs}) -> TimeoutMs.

system(Request) ->
    fun(Tag) -> {system, {self(), Tag}, Request} end.

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
    Round = send([{Pid, system(suspend)} || Pid <- Pids]),
    Outcome = await_suspended(Pids, length(Pids), Round, End, []),
    end_round(Round),
    _ = element(1, Outcome) =:= late andalso let_go(Pids),
    Outcome.

await_suspended(Pids, Left, Round, End, Before) ->
    case collect(Left, Round, {by, min(End, now_ms() + ?LOOK_EVERY_MS)}, Before) of
        {0, Answers} ->
            {ok, [Pid || {Pid, {down, _}} <- Answers]};
        {Rest, Answers} ->
            Late = Pids -- [Pid || {Pid, _} <- Answers],
            case now_ms() >= End orelse lists:any(fun waits_for_another/1, Late) of
                true -> {late, Late};
                false -> await_suspended(Pids, Rest, Round, End, Answers)
            end
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

-spec resume([pid()], timeout()) -> ok.
resume(Pids, TimeoutMs) ->
    _ = outcomes([{Pid, system(resume)} || Pid <- Pids], {idle, TimeoutMs}),
    ok.

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

%% Has each process run a fun on its state, which answers by itself. What `sys` would answer is the whole state: it is
%% sent to nobody, which copies nothing.
-spec visit([pid()], fun((pid(), tag()) -> fun((term()) -> term())), timeout()) -> answers().
visit(Pids, MakeFun, TimeoutMs) ->
    maps:from_list(visits([{Pid, fun(Tag) -> MakeFun(Pid, Tag) end} || Pid <- Pids], TimeoutMs)).

%% The same, each with a fun of its own.
-spec visits([{pid(), fun((tag()) -> fun((term()) -> term()))}], timeout()) -> [{pid(), outcome()}].
visits(Visits, TimeoutMs) ->
    Nobody = nobody(),
    Message = fun(MakeFun) -> fun(Tag) -> {system, {Nobody, nil}, {replace_state, MakeFun(Tag)}} end end,
    outcomes([{Pid, Message(MakeFun)} || {Pid, MakeFun} <- Visits], {idle, TimeoutMs}).

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
