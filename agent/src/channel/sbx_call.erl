%%% One call of the daemon, run in a process of its own. That process also encodes and sends the
%%% reply, since encoding a large reply would keep the agent from answering beats.
-module(sbx_call).

-export([start/6, timeout_ms/2, frame/2, failure/3]).

-export_type([result/0]).

-include("sbx.hrl").

%% A call that loaded code took longer than this.
-define(LOADING_MIN_US, 500).

-type result() :: {ok, map()} | {error, #{kind := atom(), message := binary(), _ => _}}.

%% Once the reply is sent the agent gets {sbx_agent, answered, Id, Proof}. Loaded is the number of
%% modules that the node had when they were last counted.
-spec start(pid(), gen_tcp:socket(), {integer(), reference()}, atom(), map(), non_neg_integer()) ->
    {pid(), reference()}.
start(Agent, Socket, {Id, Proof}, Op, Args, Loaded) ->
    spawn_opt(
        fun() ->
            Begun = erlang:monotonic_time(microsecond),
            true = group_leader(whereis(user), self()),
            Keep = fun(Code, Expressions) -> Agent ! {sbx_agent, parsed, Id, Proof, Code, Expressions} end,
            ok = send(Socket, bounded_frame(Id, Op, serve(Op, with_keep(Op, Keep, Args)))),
            Agent ! {sbx_agent, answered, Id, Proof},
            erlang:monotonic_time(microsecond) - Begun < ?LOADING_MIN_US orelse
                collect(Agent, length(erlang:loaded()), Loaded)
        end,
        [monitor, {priority, normal} | heap(Op)]
    ).

with_keep(eval, Keep, Args) -> Args#{keep => Keep};
with_keep(_Op, _Keep, Args) -> Args.

%% The socket reports a failed send only to the sender. So the port is closed, which the agent
%% notices.
send(Socket, Frame) ->
    case gen_tcp:send(Socket, Frame) of
        ok -> ok;
        {error, _Reason} -> close(Socket)
    end.

close(Socket) ->
    try erlang:port_close(Socket) of
        true -> ok
    catch
        error:badarg -> ok
    end.

%% Processes that read code keep its bytes as garbage.
collect(_Agent, Loaded, Loaded) ->
    ok;
collect(Agent, Loaded, _Before) ->
    Agent ! {sbx_agent, loaded, Loaded},
    sbx_setup:forget_loading().

%% An evaluation is bounded as the application's processes are. The agent's own calls may need more.
heap(Op) when Op =:= eval; Op =:= program -> [];
heap(_Op) -> [{max_heap_size, 0}].

%% Only evaluations have a deadline in the agent. The daemon bounds the other calls.
-spec timeout_ms(atom(), map()) -> timeout().
timeout_ms(eval, #{timeout_ms := TimeoutMs}) when is_integer(TimeoutMs), TimeoutMs >= 0 -> TimeoutMs;
timeout_ms(_Op, _Args) -> infinity.

-spec frame(integer(), result()) -> binary().
frame(Id, Result) ->
    term_to_binary({reply, Id, Result}).

-spec failure(atom(), io:format(), [term()]) -> {error, map()}.
failure(Kind, Format, Arguments) ->
    {error, #{kind => Kind, message => unicode:characters_to_binary(io_lib:format(Format, Arguments))}}.

serve(Op, Args) ->
    try
        run(Op, Args)
    catch
        error:{badkey, Key} ->
            failure(badarg, "~ts: the argument '~ts' is missing", [Op, Key]);
        Class:Reason:Stack ->
            failure(internal, "~ts: ~ts", [Op, erl_error:format_exception(Class, Reason, Stack)])
    end.

run(info, #{usage := true}) -> {ok, maps:merge(sbx_usage:get(), sbx_info:get())};
run(info, _Args) -> {ok, sbx_info:get()};
run(top, Args) -> sbx_usage:top(Args);
run(limits, #{processes := Processes} = Limits) ->
    ok = sbx_limit:change(Processes),
    ok = sbx_quota:change(Limits),
    {ok, #{}};
run(relieve, #{limit := Limit}) when Limit =:= connections; Limit =:= network_rate; Limit =:= network_total ->
    {ok, #{killed => sbx_quota:relieve(Limit)}};
run(start, Args) -> sbx_app:start(Args);
run(configure, Args) -> sbx_runtime_config:change(Args);
run(eval, Args) -> sbx_eval:eval(Args);
run(program, Args) -> sbx_program:run(Args);
run(input, Args) -> sbx_input:put(Args);
run(reload, Args) -> sbx_reload:reload(Args);
run(code_state, Args) -> sbx_reload:code_state(Args);
run(snapshot_states, Args) -> sbx_states:snapshot(Args);
run(stop, _Args) -> sbx_stop:stop();
run(project, Args) -> sbx_compile:project(Args);
run(put, Args) -> sbx_compile:put(Args);
run(compile, Args) -> sbx_compile:compile(Args);
run(finish, Args) -> sbx_compile:finish(Args);
run(warm_up, Args) -> sbx_warm_up:run(Args);
run(Op, _Args) -> failure(unknown_call, "no such call: ~tp", [Op]).

bounded_frame(Id, Op, Result) ->
    Max = frame_max(Op),
    case frame(Id, Result) of
        Frame when byte_size(Frame) =< Max -> Frame;
        Frame -> frame(Id, failure(too_large, "the answer has ~b bytes, ~b are allowed", [byte_size(Frame), Max]))
    end.

frame_max(Op) when Op =:= project; Op =:= compile; Op =:= finish -> ?COMPILE_FRAME_MAX_BYTES;
frame_max(_Op) -> ?FRAME_MAX_BYTES.
