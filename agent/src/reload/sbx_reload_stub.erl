%%% Makes an empty module with another module's name. It replaces a deleted module whose file is
%%% still on the code path, because the next call would load that file again.
-module(sbx_reload_stub).

-export([beam/1]).

%% The compiled empty module. Its first atom is its name.
-define(EMPTY, sbx_reload_empty).

-spec beam(module()) -> binary().
beam(Module) ->
    {?EMPTY, Beam, _File} = code:get_object_code(?EMPTY),
    {ok, ?EMPTY, Chunks} = beam_lib:all_chunks(Beam),
    {ok, Renamed} = beam_lib:build_module([chunk(Chunk, Module) || Chunk <- Chunks]),
    Renamed.

chunk({"AtU8", Atoms}, Module) ->
    {"AtU8", renamed(Atoms, atom_to_binary(Module))};
chunk(Chunk, _Module) ->
    Chunk.

%% Since OTP 28 the compiler writes the number of atoms negated, and lengths as operands of code.
renamed(Atoms, Name) ->
    Count = binary:part(Atoms, 0, 4),
    {Head, Size, Length} =
        case binary:first(Count) < 128 of
            true -> {1, binary:at(Atoms, 4), <<(byte_size(Name)):8>>};
            false -> operand(binary:at(Atoms, 4), binary:at(Atoms, 5), byte_size(Name))
        end,
    From = 4 + Head + Size,
    Others = binary:part(Atoms, From, byte_size(Atoms) - From),
    <<Count/binary, Length/binary, Name/binary, Others/binary>>.

%% Reads an operand of up to 11 bits, and writes another in its place.
operand(First, _Second, New) when First band 8 =:= 0 -> {1, First bsr 4, as_operand(New)};
operand(First, Second, New) -> {2, (First bsr 5) bsl 8 bor Second, as_operand(New)}.

as_operand(Value) when Value < 16 -> <<Value:4, 0:4>>;
as_operand(Value) -> <<(Value bsr 8):3, 1:2, 0:3, Value:8>>.
