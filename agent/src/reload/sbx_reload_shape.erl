%%% Compares the shape of a state before and after a migration: the keys of maps and structs, the
%%% tag and size of records.
-module(sbx_reload_shape).

-export([difference/3]).

-export_type([difference/0]).

%% A map with more keys holds data, not fields.
-define(KEYS_MAX, 64).
-define(KEY_CHARS_MAX, 100).

-type difference() :: #{missing := [binary()], added := [binary()]}.

%% Compares a state with its migrated form. A struct is also compared with its module's present
%% definition.
-spec difference(module(), term(), term()) -> none | difference().
difference(Module, Before, After) ->
    case {keys(Before), keys(After)} of
        {none, none} -> none;
        {Same, Same} -> against_struct(Module, After, Same);
        {none, _} -> none;
        {_, none} -> none;
        {Old, New} -> compared(Old, New)
    end.

%% A struct that was not migrated has the fields of its old definition.
against_struct(Module, #{'__struct__' := Module}, Keys) ->
    case erlang:function_exported(Module, '__struct__', 0) of
        true -> compared(keys(Module:'__struct__'()), Keys);
        false -> none
    end;
against_struct(_Module, _State, _Keys) ->
    none.

compared(Old, New) ->
    case {Old -- New, New -- Old} of
        {[], []} -> none;
        {Missing, Added} -> #{missing => written(Missing), added => written(Added)}
    end.

keys(State) when is_map(State), map_size(State) =< ?KEYS_MAX -> maps:keys(State);
keys(State) when is_tuple(State), tuple_size(State) > 0, tuple_size(State) =< ?KEYS_MAX, is_atom(element(1, State)) ->
    [element(1, State) | lists:seq(2, tuple_size(State))];
keys(_State) -> none.

written(Keys) ->
    [unicode:characters_to_binary(io_lib:format("~tp", [Key], [{chars_limit, ?KEY_CHARS_MAX}])) || Key <- Keys].
