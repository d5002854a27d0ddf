%%% The node's `user` process (`-user sbx_io`) and its `standard_error`: I/O servers that send
%%% output to the daemon. Reading returns end of file, unless a program runs that has input.
-module(sbx_io).

-export([start/0, take_standard_error/0, discard_output/2, be_prompt/0]).

-include("sbx.hrl").

-define(COLUMNS, 120).

-spec start() -> pid().
start() ->
    serve_as(user, fun deliver/2).

%% Until this call, errors of the boot itself go to the VM's own descriptor.
-spec take_standard_error() -> ok.
take_standard_error() ->
    %% The process starts by itself, and on OTP 29 it needs its name until it serves.
    _ = io:getopts(standard_error),
    true = unregister(standard_error),
    _ = serve_as(standard_error, fun deliver/2),
    ok.

%% Runs Fun and discards what it and its children print. Throws when they print more than MaxBytes.
-spec discard_output(pos_integer(), fun(() -> Result)) -> Result.
discard_output(MaxBytes, Fun) ->
    [Leader, Usual] = [group_leader(), whereis(standard_error)],
    Written = atomics:new(1, []),
    true = unregister(standard_error),
    Silent = serve_as(standard_error, fun(_From, Chars) -> count(Written, byte_size(Chars), MaxBytes) end),
    true = group_leader(Silent, self()),
    try Fun() of
        Result -> in_bounds(Written, MaxBytes), Result
    catch
        Class:Reason:Stack -> in_bounds(Written, MaxBytes), erlang:raise(Class, Reason, Stack)
    after
        true = group_leader(Leader, self()),
        true = unregister(standard_error),
        exit(Silent, kill),
        true = register(standard_error, Usual)
    end.

%% Past the bound a write fails at once, which is fast for a program that ignores the error.
count(Written, Bytes, MaxBytes) ->
    case atomics:add_get(Written, 1, Bytes) of
        Sum when Sum =< MaxBytes -> ok;
        _TooMuch -> {error, enospc}
    end.

in_bounds(Written, MaxBytes) ->
    atomics:get(Written, 1) =< MaxBytes orelse throw({printed_more_than, MaxBytes}).

%% The name is registered before this returns, since other processes look it up at once.
serve_as(Name, Deliver) ->
    Pid = spawn(fun() -> receive go -> loop(Deliver) end end),
    true = register(Name, Pid),
    Pid ! go,
    Pid.

%% From now on, a process that prints goes on only when its output has been sent: a program may end the
%% VM at any moment.
-spec be_prompt() -> ok.
be_prompt() ->
    persistent_term:put(?MODULE, prompt).

%% What an evaluation prints belongs to its answer, the rest to the log.
deliver(From, Chars) ->
    case sbx_capture:put(From, Chars) of
        true -> ok;
        false -> send(Chars)
    end.

%% Output is cut into pieces that the outbox can hold. So a long output is slowed down instead of
%% being dropped.
send(<<>>) ->
    ok;
send(Chars) when byte_size(Chars) =< ?OUTPUT_MAX_BYTES ->
    ok = sbx_outbox:put(output, Chars),
    case persistent_term:get(?MODULE, patient) of
        prompt -> sbx_outbox:await_sent();
        patient -> ok
    end;
send(Chars) ->
    {Piece, Rest} = split_binary(Chars, boundary(Chars, ?OUTPUT_MAX_BYTES)),
    ok = sbx_outbox:put(output, Piece),
    send(Rest).

%% The last position up to Position at which a character begins.
boundary(Chars, Position) ->
    case binary:at(Chars, Position) of
        Byte when Byte band 2#11000000 =:= 2#10000000 -> boundary(Chars, Position - 1);
        _ -> Position
    end.

loop(Deliver) ->
    receive
        {io_request, From, ReplyAs, Request} ->
            serve(Request, fun(Chars) -> Deliver(From, Chars) end, fun(Answer) -> From ! {io_reply, ReplyAs, Answer} end),
            loop(Deliver);
        _Stray ->
            loop(Deliver)
    end.

%% A process that reads may wait while others print. Without input nothing asks for it.
serve(Request, Deliver, Reply) ->
    case is_input(Request) andalso whereis(sbx_input) of
        false ->
            Reply(request(Request, Deliver));
        undefined ->
            Reply(eof);
        _Open ->
            _ = put_chars(unicode, prompt(Request), Deliver),
            sbx_input:read(Request, Reply)
    end.

prompt(Request) when tuple_size(Request) > 2; element(1, Request) =:= get_line ->
    Prompt =
        case element(2, Request) of
            Encoding when Encoding =:= unicode; Encoding =:= latin1 -> element(3, Request);
            Older -> Older
        end,
    try
        prompt_text(Prompt)
    catch
        _:_ -> ""
    end;
prompt(_Request) ->
    "".

prompt_text({format, Format, Arguments}) -> io_lib:format(Format, Arguments);
prompt_text(Prompt) when is_atom(Prompt) -> atom_to_list(Prompt);
prompt_text(Prompt) -> unicode:characters_to_list(Prompt).

request({put_chars, Encoding, Chars}, Deliver) ->
    put_chars(Encoding, Chars, Deliver);
request({put_chars, Encoding, Module, Function, Arguments}, Deliver) ->
    try apply(Module, Function, Arguments) of
        Chars -> put_chars(Encoding, Chars, Deliver)
    catch
        _:_ -> {error, Function}
    end;
request({put_chars, Chars}, Deliver) ->
    put_chars(latin1, Chars, Deliver);
request({put_chars, Module, Function, Arguments}, Deliver) ->
    request({put_chars, latin1, Module, Function, Arguments}, Deliver);
request({requests, Requests}, Deliver) ->
    lists:foldl(
        fun
            (_Request, {error, _} = Error) -> Error;
            (Request, _Before) -> request(Request, Deliver)
        end,
        ok,
        Requests
    );
request({setopts, Options}, _Deliver) when length(Options) >= 0 ->
    _ = [sbx_input:give(binary) || Option <- Options, Option =:= binary orelse Option =:= {binary, true}],
    _ = [sbx_input:give(list) || Option <- Options, Option =:= list orelse Option =:= {binary, false}],
    ok;
request(getopts, _Deliver) ->
    [{binary, sbx_input:gives_binaries()}, {encoding, unicode}];
request({get_geometry, columns}, _Deliver) ->
    ?COLUMNS;
request(_Request, _Deliver) ->
    {error, request}.

put_chars(Encoding, Chars, Deliver) ->
    case unicode:characters_to_binary(Chars, Encoding, unicode) of
        Bytes when is_binary(Bytes) -> Deliver(Bytes);
        _Invalid -> {error, put_chars}
    end.

is_input(Request) when is_tuple(Request), tuple_size(Request) > 1 ->
    lists:member(element(1, Request), [get_line, get_chars, get_until, get_password]);
is_input(Request) ->
    Request =:= get_password.
