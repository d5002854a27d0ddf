%%% Sends system messages to many processes at once and collects their answers with a deadline. It
%%% links no process and leaves no message behind; late answers are dropped.
-module(sbx_reload_sysmsg).

-export([ask/2, answer/2, call/3, run_inside/3, run_inside_each/3, dead_pid/0]).
-export([suspend/4, suspend_again/3, suspend_async/1, resume/3, resume_async/1]).

-export_type([answers/0, tag/0]).

%% How long to wait before checking whether late processes wait for a suspended one.
-define(LOOK_EVERY_MS, 10).
%% The pause before the next try, in which a chain of calls can finish.
-define(BREATH_MS, 5).

-type outcome() :: {answer, term()} | {down, term()} | late.
-type answers() :: #{pid() => outcome()}.
%% Until a time, or until this long after the last answer of any process.
-type deadline() :: {by, integer()} | {idle, timeout()}.
%% Marks an answer with its sender and the alias that a whole round shares. An alias for each
%% process would take more than twice the time.
-type tag() :: nonempty_improper_list(nonempty_improper_list(alias, reference()), pid()).
-type request() :: {pid(), fun((tag()) -> term())}.

%% Monitors that the caller has set already. Their messages during a round are sent to the caller
%% again after it.
-type watched() :: none | #{reference() => term()}.

-record(round, {alias :: reference(), pids :: [pid()], watched :: #{reference() => term()}, monitors :: [reference()]}).

%% The function makes the message. The receiver answers with the tag as `gen:reply/2` does, or by
%% `answer/2`. Each process is asked once.
-spec ask([request()], deadline()) -> answers().
ask(Requests, Deadline) ->
    maps:from_list(outcomes(Requests, none, Deadline)).

%% The same as a list, in no order.
-spec outcomes([request()], watched(), deadline()) -> [{pid(), outcome()}].
outcomes(Requests, Watched, Deadline) ->
    Round = send(Requests, Watched),
    {Left, Answers, Ended} = collect(length(Requests), Round, Deadline, [], []),
    end_round(Round, Ended),
    Late = case Left of 0 -> []; _ -> Round#round.pids -- [Pid || {Pid, _} <- Answers] end,
    [{Pid, late} || Pid <- Late] ++ Answers.

-spec answer(tag(), term()) -> ok.
answer([[alias | Alias] | _Pid] = Tag, Answer) ->
    Alias ! {Tag, Answer},
    ok.

send(Requests, Watched) ->
    Alias = alias(),
    Pids = [Pid || {Pid, _} <- Requests],
    Round =
        case Watched of
            none -> #round{alias = Alias, pids = Pids, watched = #{}, monitors = monitors(Pids, Alias)};
            _ -> #round{alias = Alias, pids = Pids, watched = Watched, monitors = []}
        end,
    lists:foreach(fun({Pid, Message}) -> Pid ! Message([[alias | Alias] | Pid]) end, Requests),
    Round.

monitors(Pids, Alias) ->
    [monitor(process, Pid, [{tag, Alias}]) || Pid <- Pids].

%% Returns how many processes have neither answered nor ended by the deadline, the outcomes of the
%% others, and the exit messages of the caller's own monitors.
collect(0, _Round, _Deadline, Answers, Ended) ->
    {0, Answers, Ended};
collect(Left, #round{alias = Alias, watched = Watched} = Round, Deadline, Answers, Ended) ->
    receive
        {[[alias | Alias] | Pid], Answer} ->
            collect(Left - 1, Round, Deadline, [{Pid, {answer, Answer}} | Answers], Ended);
        {Alias, _Monitor, process, Pid, Reason} ->
            collect_ended(Pid, Reason, Left, Round, Deadline, Answers, Ended);
        {'DOWN', Monitor, process, Pid, Reason} = Down when is_map_key(Monitor, Watched) ->
            collect_ended(Pid, Reason, Left, Round, Deadline, Answers, [Down | Ended])
    after left(Deadline) ->
        {Left, Answers, Ended}
    end.

%% The process may have answered before it ended.
collect_ended(Pid, Reason, Left, #round{pids = Pids} = Round, Deadline, Answers, Ended) ->
    case lists:member(Pid, Pids) andalso not lists:keymember(Pid, 1, Answers) of
        true -> collect(Left - 1, Round, Deadline, [{Pid, {down, Reason}} | Answers], Ended);
        false -> collect(Left, Round, Deadline, Answers, Ended)
    end.

end_round(#round{alias = Alias, monitors = Monitors}, Ended) ->
    unalias(Alias),
    lists:foreach(fun demonitor/1, Monitors),
    flush(Alias),
    lists:foreach(fun(Down) -> self() ! Down end, Ended).

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

%% Suspends all or none: when one process is late, all resume. Announce is called before each try.
%% Returns the processes that have ended.
-spec suspend([pid()], watched(), non_neg_integer(), fun(() -> term())) ->
    {ok, Ended :: [pid()]} | {late, [pid(), ...]}.
suspend(Pids, Watched, TimeoutMs, Announce) ->
    End = now_ms() + TimeoutMs,
    %% A process may wait for a suspended one in a way that can't be seen. So there is a second try.
    suspend(Pids, Watched, [now_ms() + TimeoutMs div 2, End], End, Announce).

suspend(Pids, Watched, [Until | Untils], End, Announce) ->
    _ = Announce(),
    case attempt(Pids, Watched, Until) of
        {late, Late} ->
            case now_ms() < End of
                true ->
                    receive after ?BREATH_MS -> ok end,
                    suspend(Pids, Watched, next(Until, Untils, End), End, Announce);
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

%% A suspend request that was not answered takes effect later. Only a resume right behind it, from
%% the same sender, undoes it.
attempt(Pids, Watched, End) ->
    Round = send([{Pid, system(suspend)} || Pid <- Pids], Watched),
    {Late, Answers, Ended} = await_suspended(length(Pids), Round, End, [], []),
    end_round(Round, Ended),
    case Late of
        [] ->
            {ok, [Pid || {Pid, {down, _}} <- Answers]};
        _ ->
            resume_async(Pids),
            {late, Late}
    end.

await_suspended(Left, #round{pids = Pids} = Round, End, AnswersBefore, EndedBefore) ->
    Until = min(End, now_ms() + ?LOOK_EVERY_MS),
    case collect(Left, Round, {by, Until}, AnswersBefore, EndedBefore) of
        {0, Answers, Ended} ->
            {[], Answers, Ended};
        {Rest, Answers, Ended} ->
            Late = Pids -- [Pid || {Pid, _} <- Answers],
            case now_ms() >= End orelse lists:any(fun waits_for_another/1, Late) of
                true -> {Late, Answers, Ended};
                false -> await_suspended(Rest, Round, End, Answers, Ended)
            end
    end.

%% The process is in a call to another one, or is starting one, which may need a suspended process.
waits_for_another(Pid) ->
    case process_info(Pid, [status, current_function]) of
        [{status, waiting}, {current_function, {Module, Function, _}}] ->
            lists:member({Module, Function}, [{gen, do_call}, {proc_lib, sync_start}, {proc_lib, sync_start_link}]);
        _ ->
            false
    end.

%% Suspends more processes while others are suspended.
-spec suspend_again([pid()], watched(), integer()) -> {ok, [pid()]} | {late, [pid(), ...]}.
suspend_again([], _Watched, _TimeoutMs) -> {ok, []};
suspend_again(Pids, Watched, TimeoutMs) -> attempt(Pids, Watched, now_ms() + TimeoutMs).

-spec resume([pid()], watched(), timeout()) -> ok.
resume(Pids, Watched, TimeoutMs) ->
    _ = outcomes([{Pid, system(resume)} || Pid <- Pids], Watched, {idle, TimeoutMs}),
    ok.

%% Suspends without waiting for an answer: the next request finds the process suspended.
-spec suspend_async([pid()]) -> ok.
suspend_async(Pids) ->
    tell(Pids, suspend).

%% Resumes without waiting for an answer.
-spec resume_async([pid()]) -> ok.
resume_async(Pids) ->
    tell(Pids, resume).

tell(Pids, Request) ->
    DeadPid = dead_pid(),
    lists:foreach(fun(Pid) -> Pid ! {system, {DeadPid, nil}, Request} end, Pids).

%% Makes each process run a function on its state, which sends its own answer. The answer of `sys`
%% would be the whole state. It is addressed to a dead process, so that it is not copied.
-spec run_inside([pid()], fun((pid(), tag()) -> fun((term()) -> term())), timeout()) -> answers().
run_inside(Pids, MakeFun, TimeoutMs) ->
    maps:from_list(run_inside_each([{Pid, fun(Tag) -> MakeFun(Pid, Tag) end} || Pid <- Pids], none, TimeoutMs)).

%% The same with a separate function for each process.
-spec run_inside_each([{pid(), fun((tag()) -> fun((term()) -> term()))}], watched(), timeout()) -> [{pid(), outcome()}].
run_inside_each(Visits, Watched, TimeoutMs) ->
    DeadPid = dead_pid(),
    Message = fun(MakeFun) -> fun(Tag) -> {system, {DeadPid, nil}, {replace_state, MakeFun(Tag)}} end end,
    outcomes([{Pid, Message(MakeFun)} || {Pid, MakeFun} <- Visits], Watched, {idle, TimeoutMs}).

%% Sends one system message and returns its own answer.
-spec call([pid()], fun((pid()) -> term()), timeout()) -> answers().
call(Pids, Request, TimeoutMs) ->
    ask([{Pid, system(Request(Pid))} || Pid <- Pids], {idle, TimeoutMs}).

%% A process that has ended, to which unwanted answers are addressed.
-spec dead_pid() -> pid().
dead_pid() ->
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
