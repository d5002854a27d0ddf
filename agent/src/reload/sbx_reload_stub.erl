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

chunk({"AtU8", <<Count:32, Size:8, _Name:Size/binary, Rest/binary>>}, Module) ->
    Name = atom_to_binary(Module),
    {"AtU8", <<Count:32, (byte_size(Name)):8, Name/binary, Rest/binary>>};
chunk(Chunk, _Module) ->
    Chunk.
