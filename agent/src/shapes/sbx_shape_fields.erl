%%% Finds the structs and records that a change of code defines anew: their fields before and after,
%%% and the defaults of new fields. Structs are in the literals of a BEAM file, records in its debug
%%% information.
-module(sbx_shape_fields).

-export([changes/2]).

-export_type([change/0]).

-include("../reload/sbx_reload.hrl").

%% Larger chunks, which generated modules have, are not read.
-define(CHUNK_MAX_BYTES, 1048576).
-define(INFLATED_MAX_BYTES, 16777216).
%% The debug information of at most this many modules is read.
-define(DEBUGGED_MAX, 64).

-type change() :: #{
    kind := struct | record,
    module := module(),
    name := atom(),
    %% The fields in their order, without a struct's name.
    before := [atom()],
    now := [atom()],
    defaults := #{atom() => term()}
}.

%% Served are the modules that have processes: only there is a record of the module looked for.
-spec changes([#change{}], [module()]) -> [change()].
changes(Changes, Served) ->
    Loads = [C || #change{action = load, beam = New, old_beam = Old} = C <- Changes, is_binary(New), is_binary(Old)],
    Debugged = [C || #change{module = Module} = C <- Loads, lists:member(Module, Served), not is_elixir(Module)],
    lists:append([struct(C) || C <- Loads] ++ [records(C) || C <- lists:sublist(Debugged, ?DEBUGGED_MAX)]).

is_elixir(Module) ->
    lists:prefix("Elixir.", atom_to_list(Module)).

%% Structs

struct(#change{module = Module, old_beam = Old, beam = New}) ->
    case erlang:function_exported(Module, '__struct__', 0) of
        true -> struct(Module, literal_structs(Module, Old), literal_structs(Module, New), New);
        false -> []
    end.

struct(Module, [First | _], [Now | _] = All, Beam) ->
    {Old, New} = {maps:keys(First), maps:keys(Now)},
    Gained = New -- Old,
    [
        #{
            kind => struct, module => Module, name => Module, before => Old -- ['__struct__'],
            now => New -- ['__struct__'], defaults => defaults(Gained, All, Beam)
        }
     || Old =/= New
    ];
struct(_Module, _Before, _Now, _Beam) ->
    [].

%% The literals that are whole structs of the module: __struct__/0 returns one of them.
literal_structs(Module, Beam) ->
    Structs = [Map || #{'__struct__' := M} = Map <- literals(Beam), M =:= Module],
    Size = lists:max([0 | [map_size(Map) || Map <- Structs]]),
    [Map || Map <- Structs, map_size(Map) =:= Size].

literals(Beam) ->
    case chunk(Beam, "LitT") of
        <<0:32, Plain/bitstring>> -> literal_terms(Plain);
        <<Size:32, Packed/bitstring>> when Size =< ?INFLATED_MAX_BYTES -> literal_terms(zlib:uncompress(Packed));
        _ -> []
    end.

%% Bit strings in patterns, since OTP 29 does not load the test for whole bytes.
literal_terms(<<_Count:32, Entries/bitstring>>) ->
    Terms = [Term || <<Size:32, Term:Size/binary>> <= Entries],
    [binary_to_term(Term) || Term <- Terms, binary:match(Term, <<"__struct__">>) =/= nomatch].

%% The module may have other literals of its struct, with other values.
defaults(Fields, Structs, Beam) ->
    Values = fun(Field) -> lists:usort([maps:get(Field, Struct) || Struct <- Structs]) end,
    maps:from_list(lists:append([default(Field, Values(Field), Beam) || Field <- Fields])).

default(Field, [Value], _Beam) ->
    [{Field, Value}];
default(Field, _Values, Beam) ->
    case debug_info(Beam) of
        {debug_info_v1, elixir_erl, {elixir_v1, #{definitions := Definitions}, _}} ->
            [{Field, Value} || Value <- quoted_defaults(Field, Definitions), is_itself(Value)];
        _ ->
            []
    end.

%% Whether a quoted value is the value.
is_itself(Quoted) ->
    is_atom(Quoted) orelse is_number(Quoted) orelse is_binary(Quoted) orelse Quoted =:= [].

quoted_defaults(Field, Definitions) ->
    [
        Value
     || {{'__struct__', 0}, _, _, [{_, _, _, {'%{}', _, Pairs}}]} <- Definitions,
        is_list(Pairs), {Key, Value} <- Pairs, Key =:= Field
    ].

%% Records

records(#change{module = Module, old_beam = Old, beam = New}) ->
    Before = defined(Old),
    [
        #{
            kind => record, module => Module, name => Name, before => names(map_get(Name, Before)),
            now => names(Fields), defaults => maps:from_list([{F, V} || {F, {ok, V}} <- Fields])
        }
     || {Name, Fields} <- maps:to_list(defined(New)), is_map_key(Name, Before),
        names(map_get(Name, Before)) =/= names(Fields)
    ].

names(Fields) ->
    [Name || {Name, _} <- Fields].

defined(Beam) ->
    case debug_info(Beam) of
        {debug_info_v1, erl_abstract_code, {Forms, _}} when is_list(Forms) ->
            maps:from_list([
                {Name, [field(F) || F <- Fields]}
             || {attribute, _, record, {Name, Fields}} <- Forms, is_list(Fields)
            ]);
        _ ->
            #{}
    end.

field({typed_record_field, Field, _Type}) -> field(Field);
field({record_field, _, {atom, _, Name}}) -> {Name, {ok, undefined}};
field({record_field, _, {atom, _, Name}, Default}) -> {Name, value(Default)}.

value(Form) ->
    try
        {ok, erl_parse:normalise(Form)}
    catch
        _:_ -> unknown
    end.

%% Chunks

debug_info(Beam) ->
    case chunk(Beam, "Dbgi") of
        <<131, 80, Size:32, _/bitstring>> when Size > ?INFLATED_MAX_BYTES -> none;
        <<>> -> none;
        Chunk -> binary_to_term(Chunk)
    end.

chunk(Beam, Name) ->
    case beam_lib:chunks(Beam, [Name]) of
        {ok, {_Module, [{Name, Chunk}]}} when byte_size(Chunk) =< ?CHUNK_MAX_BYTES -> Chunk;
        _ -> <<>>
    end.
