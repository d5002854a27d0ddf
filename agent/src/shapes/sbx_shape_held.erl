%%% Finds values of an older shape in a process's state, and the paths to them. It runs inside the
%%% process, so it searches a bounded number of parts.
-module(sbx_shape_held).

-export([outdated/2]).

-export_type([wanted/0, path/0, key/0]).

-define(PARTS_MAX, 20000).
%% A map with more keys, or with keys that are not atoms, holds data, not fields.
-define(FIELDS_MAX, 64).

-type key() :: {struct | record, atom()}.
%% The fields that a struct has now; the size of the tuple that a record was before.
-type wanted() :: #{key() => [atom()] | pos_integer()}.
-type step() :: {key, atom()} | {element, pos_integer()} | values | list.
-type path() :: [step()].

%% The path to the first value of each outdated struct or record.
-spec outdated(term(), wanted()) -> #{key() => path()}.
outdated(State, Wanted) ->
    {_Left, Found} = search(State, [], Wanted, {?PARTS_MAX, #{}}),
    maps:map(fun(_Key, Path) -> lists:reverse(Path) end, Found).

search(_Term, _Path, _Wanted, {0, _} = Seen) ->
    Seen;
search(Map, Path, Wanted, Seen) when is_map(Map) ->
    in_map(maps:next(maps:iterator(Map)), is_fields(Map), Path, Wanted, noted(struct_of(Map, Wanted), Path, Seen));
search(Tuple, Path, Wanted, Seen) when is_tuple(Tuple) ->
    in_tuple(1, Tuple, Path, Wanted, noted(record_of(Tuple, Wanted), Path, Seen));
search([_ | _] = List, Path, Wanted, {Left, Found}) ->
    in_list(List, [list | Path], Wanted, {Left - 1, Found});
search(_Term, _Path, _Wanted, {Left, Found}) ->
    {Left - 1, Found}.

noted(none, _Path, {Left, Found}) -> {Left - 1, Found};
noted(Key, _Path, {Left, Found}) when is_map_key(Key, Found) -> {Left - 1, Found};
noted(Key, Path, {Left, Found}) -> {Left - 1, Found#{Key => Path}}.

struct_of(#{'__struct__' := Name} = Map, Wanted) when is_map_key({struct, Name}, Wanted) ->
    Fields = map_get({struct, Name}, Wanted),
    case map_size(Map) =:= length(Fields) + 1 andalso lists:all(fun(Field) -> is_map_key(Field, Map) end, Fields) of
        true -> none;
        false -> {struct, Name}
    end;
struct_of(_Map, _Wanted) ->
    none.

record_of(Tuple, Wanted) when tuple_size(Tuple) > 0, is_map_key({record, element(1, Tuple)}, Wanted) ->
    Key = {record, element(1, Tuple)},
    case map_get(Key, Wanted) =:= tuple_size(Tuple) of
        true -> Key;
        false -> none
    end;
record_of(_Tuple, _Wanted) ->
    none.

is_fields(#{'__struct__' := _}) -> true;
is_fields(Map) -> map_size(Map) =< ?FIELDS_MAX andalso lists:all(fun is_atom/1, maps:keys(Map)).

in_map(_Next, _IsFields, _Path, _Wanted, {0, _} = Seen) ->
    Seen;
in_map({Key, Value, Iterator}, true, Path, Wanted, Seen) ->
    in_map(maps:next(Iterator), true, Path, Wanted, search(Value, [{key, Key} | Path], Wanted, Seen));
in_map({_Key, Value, Iterator}, false, Path, Wanted, Seen) ->
    in_map(maps:next(Iterator), false, Path, Wanted, search(Value, [values | Path], Wanted, Seen));
in_map(none, _IsFields, _Path, _Wanted, Seen) ->
    Seen.

in_tuple(At, Tuple, _Path, _Wanted, {Left, _} = Seen) when At > tuple_size(Tuple); Left =:= 0 ->
    Seen;
in_tuple(At, Tuple, Path, Wanted, Seen) ->
    in_tuple(At + 1, Tuple, Path, Wanted, search(element(At, Tuple), [{element, At} | Path], Wanted, Seen)).

%% A list may be improper.
in_list(_List, _Path, _Wanted, {0, _} = Seen) ->
    Seen;
in_list([Head | Tail], Path, Wanted, Seen) ->
    in_list(Tail, Path, Wanted, search(Head, Path, Wanted, Seen));
in_list(_End, _Path, _Wanted, Seen) ->
    Seen.
