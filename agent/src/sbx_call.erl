%% One call of the daemon's, run in a process of its own. That process also encodes the reply, since a large one would
%% keep the agent from its beats.
-module(sbx_call).

-export([start/4, frame/2, failure/3, bounded/3]).

-export_type([result/0]).

-include("sbx.hrl").

-type result() :: {ok, map()} | {error, #{kind := atom(), message := binary(), _ => _}}.

-spec start(pid(), integer(), atom(), map()) -> {pid(), reference()}.
start(Agent, Id, Op, Args) ->
    spawn_opt(
        fun() ->
            true = group_leader(whereis(user), self()),
            Agent ! {sbx_agent, reply, Id, bounded_frame(Id, Op, serve(Op, Args))}
        end,
        [monitor, {priority, normal}]
    ).

-spec frame(integer(), result()) -> binary().
frame(Id, Result) ->
    term_to_binary({reply, Id, Result}).

-spec failure(atom(), io:format(), [term()]) -> {error, map()}.
failure(Kind, Format, Arguments) ->
    {error, #{kind => Kind, message => unicode:characters_to_binary(io_lib:format(Format, Arguments))}}.

%% Runs Fun in a process that is killed after TimeoutMs, and with its caller. What that process started goes on unless
%% it was linked: it is the application's.
-spec bounded(fun(() -> Result), timeout(), fun(() -> Result)) -> Result | {error, map()}.
bounded(Fun, TimeoutMs, Late) ->
    Tag = make_ref(),
    Self = self(),
    process_flag(trap_exit, true),
    {Pid, Monitor} = spawn_opt(fun() -> Self ! {Tag, Fun()} end, [link, monitor]),
    receive
        {Tag, Result} ->
            demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, Pid, Reason} ->
            failure(killed, "the process was ended: ~tp", [Reason])
    after TimeoutMs ->
        exit(Pid, kill),
        Late()
    end.

serve(Op, Args) ->
    try
        run(Op, Args)
    catch
        error:{badkey, Key} ->
            failure(badarg, "~ts: the argument '~ts' is missing", [Op, Key]);
        Class:Reason:Stack ->
            failure(internal, "~ts: ~ts", [Op, erl_error:format_exception(Class, Reason, Stack)])
    end.

run(info, _Args) -> {ok, sbx_info:get()};
run(start, Args) -> sbx_app:start(Args);
run(stop, Args) -> sbx_app:stop(Args);
run(eval, Args) -> sbx_eval:eval(Args);
run(compile, Args) -> sbx_compile:compile(Args);
run(Op, _Args) -> failure(unknown_call, "no such call: ~tp", [Op]).

bounded_frame(Id, Op, Result) ->
    Max = frame_max(Op),
    case frame(Id, Result) of
        Frame when byte_size(Frame) =< Max -> Frame;
        Frame -> frame(Id, failure(too_large, "the answer has ~b bytes, ~b are allowed", [byte_size(Frame), Max]))
    end.

frame_max(compile) -> ?COMPILE_FRAME_MAX_BYTES;
frame_max(_Op) -> ?FRAME_MAX_BYTES.
