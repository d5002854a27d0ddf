%%% The standard input of a program that runs in the foreground. The daemon sends it piece by piece,
%%% and a piece is taken when there is room. The node's I/O server (sbx_io) passes on requests to read.
-module(sbx_input).

-export([open/0, put/1, read/2, gives_binaries/0, give/1]).

%% Above this many bytes, the next piece waits.
-define(FULL_BYTES, 65536).

-record(input, {
    bytes = <<>> :: binary(),
    ended = false :: boolean(),
    %% Reads that wait, the oldest first, and pieces that wait for room.
    readers = [] :: [{fun((term()) -> term()), tuple(), term()}],
    putters = [] :: [{pid(), reference()}]
}).

%% From now on, a read waits for what the daemon sends. Before, it returns the end of the input.
-spec open() -> ok.
open() ->
    case whereis(?MODULE) of
        undefined ->
            Pid = spawn(fun() -> receive go -> loop(#input{}) end end),
            try register(?MODULE, Pid) of
                true -> Pid ! go
            catch
                error:badarg -> exit(Pid, kill)
            end,
            ok;
        _Open ->
            ok
    end.

%% Whether lines and characters are read as binaries, as Elixir asks for when it starts. Erlang's own
%% programs get lists.
-spec gives_binaries() -> boolean().
gives_binaries() ->
    persistent_term:get({?MODULE, form}, binary) =:= binary.

-spec give(binary | list) -> ok.
give(Form) ->
    persistent_term:put({?MODULE, form}, Form).

%% Takes one piece, once there is room.
-spec put(map()) -> sbx_call:result().
put(#{data := Data, ended := Ended}) ->
    %% A piece may come before the program has started.
    ok = open(),
    case whereis(?MODULE) of
        undefined -> {ok, #{is_taken => false}};
        Pid -> put(Pid, Data, Ended)
    end.

put(Pid, Data, Ended) ->
    Monitor = monitor(process, Pid),
    Pid ! {?MODULE, put, self(), Monitor, Data, Ended},
    receive
        {Monitor, ok} ->
            demonitor(Monitor, [flush]),
            {ok, #{is_taken => true}};
        {'DOWN', Monitor, process, Pid, _Reason} ->
            {ok, #{is_taken => false}}
    end.

%% A request of the I/O protocol. Reply is called with the answer, here or later elsewhere.
-spec read(tuple() | atom(), fun((term()) -> term())) -> ok.
read(Request, Reply) ->
    case whereis(?MODULE) of
        undefined -> Reply(eof);
        Pid -> Pid ! {?MODULE, read, normal(Request), Reply}
    end,
    ok.

%% {Encoding, what to read} of a request. Forms without an encoding are from before Unicode.
normal({get_line, Encoding, _Prompt}) -> {Encoding, line};
normal({get_line, _Prompt}) -> {latin1, line};
normal({get_chars, Encoding, _Prompt, Count}) -> {Encoding, {chars, Count}};
normal({get_chars, _Prompt, Count}) -> {latin1, {chars, Count}};
normal({get_until, Encoding, _Prompt, Module, Function, Args}) -> {Encoding, {until, Module, Function, Args}};
normal({get_until, _Prompt, Module, Function, Args}) -> {latin1, {until, Module, Function, Args}};
normal({get_password, Encoding}) -> {Encoding, line};
normal(_Other) -> {unicode, line}.

loop(Input) ->
    receive
        {?MODULE, put, From, Reference, Data, Ended} when is_binary(Data), is_boolean(Ended) ->
            #input{bytes = Bytes, putters = Putters} = Input,
            More = Input#input{
                bytes = <<Bytes/binary, Data/binary>>,
                ended = Ended orelse Input#input.ended,
                putters = [{From, Reference} | Putters]
            },
            loop(release(serve(More)));
        {?MODULE, read, {Encoding, How}, Reply} ->
            #input{readers = Readers} = Input,
            loop(release(serve(Input#input{readers = Readers ++ [{Reply, {Encoding, How}, []}]})));
        _Stray ->
            loop(Input)
    end.

release(#input{bytes = Bytes, putters = Putters} = Input) when byte_size(Bytes) < ?FULL_BYTES ->
    [From ! {Reference, ok} || {From, Reference} <- Putters],
    Input#input{putters = []};
release(Input) ->
    Input.

serve(#input{readers = []} = Input) ->
    Input;
serve(#input{readers = [{Reply, {Encoding, How} = Request, State} | Others], bytes = Bytes, ended = Ended} = Input) ->
    case take(How, Encoding, Bytes, Ended, State) of
        {done, Answer, Rest} ->
            Reply(formed(How, Encoding, Answer)),
            serve(Input#input{readers = Others, bytes = Rest});
        {more, Next, Rest} ->
            Input#input{readers = [{Reply, Request, Next} | Others], bytes = Rest}
    end.

formed({until, _Module, _Function, _Args}, _Encoding, Answer) -> Answer;
formed(_How, Encoding, Answer) when is_binary(Answer) ->
    case gives_binaries() of
        true -> Answer;
        false -> unicode:characters_to_list(Answer, Encoding)
    end;
formed(_How, _Encoding, Answer) -> Answer.

take(_How, _Encoding, <<>>, true, []) ->
    {done, eof, <<>>};
take(line, Encoding, Bytes, Ended, State) ->
    case binary:match(Bytes, <<"\n">>) of
        {At, 1} ->
            {Line, Rest} = split_binary(Bytes, At + 1),
            {done, encoded(Encoding, Line), Rest};
        nomatch when Ended -> {done, encoded(Encoding, Bytes), <<>>};
        nomatch -> {more, State, Bytes}
    end;
take({chars, Count}, latin1, Bytes, Ended, State) ->
    case Bytes of
        <<Taken:Count/binary, Rest/binary>> -> {done, Taken, Rest};
        _ when Ended -> {done, Bytes, <<>>};
        _ -> {more, State, Bytes}
    end;
take({chars, Count}, _Encoding, Bytes, Ended, State) ->
    case position(Bytes, Count, 0) of
        {ok, At} ->
            {Taken, Rest} = split_binary(Bytes, At),
            {done, Taken, Rest};
        short when Ended -> {done, Bytes, <<>>};
        short -> {more, State, Bytes}
    end;
take({until, Module, Function, Args} = How, Encoding, Bytes, Ended, State) ->
    case take(line, Encoding, Bytes, Ended, State) of
        {done, Line, Rest} -> until(How, Encoding, {Module, Function, Args}, Line, Rest, Ended, State);
        {more, _State, _Bytes} -> {more, State, Bytes}
    end.

until(How, Encoding, {Module, Function, Args}, Line, Rest, Ended, State) ->
    try apply(Module, Function, [State, characters(Line) | Args]) of
        {done, Result, eof} -> {done, Result, Rest};
        {done, Result, Left} -> {done, Result, iolist_to_binary([unicode:characters_to_binary(Left), Rest])};
        {more, Next} when Rest =:= <<>>, Ended -> finish(Module, Function, Next, Args);
        {more, Next} -> take(How, Encoding, Rest, Ended, Next);
        _Other -> {done, {error, Function}, Rest}
    catch
        _:_ -> {done, {error, Function}, Rest}
    end.

finish(Module, Function, State, Args) ->
    case apply(Module, Function, [State, eof | Args]) of
        {done, Result, _Left} -> {done, Result, <<>>};
        _Other -> {done, {error, Function}, <<>>}
    end.

characters(eof) -> eof;
characters(Line) -> unicode:characters_to_list(Line).

%% The place in bytes at which the first Count characters end.
position(Bytes, 0, At) when At =< byte_size(Bytes) ->
    {ok, At};
position(Bytes, Count, At) when At < byte_size(Bytes) ->
    position(Bytes, Count - 1, At + character_bytes(binary:at(Bytes, At)));
position(_Bytes, _Count, _At) ->
    short.

%% The length of a character in UTF-8, by its first byte.
character_bytes(Byte) when Byte < 16#C0 -> 1;
character_bytes(Byte) when Byte < 16#E0 -> 2;
character_bytes(Byte) when Byte < 16#F0 -> 3;
character_bytes(_Byte) -> 4.

%% Bytes that are no UTF-8 are taken for Latin-1.
encoded(latin1, Bytes) ->
    Bytes;
encoded(_Encoding, Bytes) ->
    case unicode:characters_to_binary(Bytes) of
        Text when is_binary(Text) -> Text;
        _Invalid -> unicode:characters_to_binary(Bytes, latin1)
    end.
