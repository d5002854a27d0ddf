%%% Writes the warnings about states that hold older shapes, and a migration for them that can be pasted
%%% into a command. The migration is in the project's language, as the daemon expects it.
-module(sbx_shape_text).

-export([warnings/2]).

%% Migrations are written for this many modules, and for paths of this many steps.
-define(HOLDERS_MAX, 4).
-define(STEPS_MAX, 4).
-define(VALUE_MAX_CHARS, 100).
-define(TOLD_MAX, 20).

%% Doubt is `done` after a reload. For a dry run it says of a module whether a code_change/3 might
%% migrate its states.
-spec warnings([sbx_shape_search:outdated()], fun((module()) -> boolean()) | done) -> [binary()].
warnings([], _Doubt) ->
    [];
warnings(Outdated, Doubt) ->
    Some = lists:sublist(Outdated, ?TOLD_MAX),
    [told(O, Doubt) || O <- Some] ++ migrations(Some).

told(#{change := #{before := Before, now := Now} = Change, count := Count} = Outdated, Doubt) ->
    {Gained, Lost} = {Now -- Before, Before -- Now},
    Changes = [["gained ", fields(Gained)] || Gained =/= []] ++ [["lost ", fields(Lost)] || Lost =/= []],
    Changed = lists:join(" and ", Changes),
    sbx_reload_text:text("~ts ~ts; ~ts~ts ~ts~ts", [
        name(Change), Changed, least(Outdated), processes(Count), verb(Count, Gained, Lost, Doubt),
        unless(Outdated, Doubt)
    ]).

name(#{kind := struct, name := Name}) -> sbx_reason:module_name(Name);
name(#{kind := record, name := Name, module := Module}) -> io_lib:format("#~tp{} of ~tp", [Name, Module]).

fields(Fields) ->
    lists:join(", ", [text(Field) || Field <- Fields]).

least(#{is_all := true}) -> "";
least(#{is_all := false}) -> "at least ".

processes(1) -> "1 process";
processes(Count) -> io_lib:format("~b processes", [Count]).

verb(Count, Gained, Lost, done) ->
    case {Gained, Lost, Count} of
        {_, [], 1} -> ["lacks ", it(Gained)];
        {_, [], _} -> ["lack ", it(Gained)];
        {[], _, 1} -> ["still has ", it(Lost)];
        {[], _, _} -> ["still have ", it(Lost)];
        {_, _, 1} -> "has the old fields";
        _ -> "have the old fields"
    end;
verb(_Count, Gained, [], _Doubt) -> ["would lack ", it(Gained)];
verb(_Count, [], Lost, _Doubt) -> ["would still have ", it(Lost)];
verb(_Count, _Gained, _Lost, _Doubt) -> "would have the old fields".

it([_]) -> "it";
it(_) -> "them".

unless(_Outdated, done) ->
    "";
unless(#{holders := Holders}, Doubt) ->
    case lists:any(Doubt, maps:keys(Holders)) of
        true -> ", unless a code_change migrates";
        false -> ""
    end.

%% One migration for each callback module, for all that its states hold.
migrations(Outdated) ->
    Holders = lists:usort(lists:append([maps:keys(Held) || #{holders := Held} <- Outdated])),
    Lines = lists:append([migration(Holder, Outdated) || Holder <- lists:sublist(Holders, ?HOLDERS_MAX)]),
    case Lines of
        [] -> [];
        _ -> [sbx_reload_text:text("to migrate such states: ~ts", [lists:join(" ", Lines)])]
    end.

migration(Holder, Outdated) ->
    Held = [{Path, Change} || #{holders := #{Holder := Path}, change := Change} <- Outdated],
    case lists:any(fun({Path, _}) -> length(Path) > ?STEPS_MAX end, Held) of
        true ->
            [];
        false ->
            Code = lists:foldl(fun({Path, Change}, Value) -> at(Path, Change, Value, 0) end, state(), Held),
            [["--migrate ", quoted([sbx_reason:module_name(Holder), "=", function(Code)])]]
    end.

%% In single quotes, for a shell.
quoted(Text) ->
    ["'", string:replace(unicode:characters_to_list(Text), "'", "'\\''", all), "'"].

%% Code

is_elixir() -> sbx_elixir:is_started().

choose(Elixir, Erlang) ->
    case is_elixir() of true -> Elixir; false -> Erlang end.

state() -> choose("state", "State").

function(Code) -> choose(["fn state, _, _ -> ", Code, " end"], ["fun(State, _, _) -> ", Code, " end"]).

%% The value with what is at the path migrated. A record is often in a state by itself, so it may be
%% migrated already, or be another value.
at([], #{kind := struct, before := Before, now := Now} = Change, Value, _Depth) ->
    Grown = lists:foldl(fun(Field, V) -> with(Field, default(Field, Change), V) end, Value, Now -- Before),
    lists:foldl(fun without/2, Grown, Before -- Now);
at([], #{kind := record, name := Name, before := Before, now := Now} = Change, Value, _Depth) ->
    Places = maps:from_list(lists:zip(Before, lists:seq(1, length(Before)))),
    Elements = [
        case Places of
            #{Field := At} -> element_of(At + 1, Value);
            _ -> default(Field, Change)
        end
     || Field <- Now
    ],
    ["{", lists:join(", ", [text(Name) | Elements]), "}"];
at([{key, Key} | Path], Change, Value, Depth) ->
    {Name, Inner} = inner(Path, Change, Depth),
    choose(
        io_lib:format("Map.update!(~ts, ~ts, fn ~ts -> ~ts end)", [Value, text(Key), Name, Inner]),
        io_lib:format("maps:update_with(~ts, fun(~ts) -> ~ts end, ~ts)", [text(Key), Name, Inner, Value])
    );
at([{element, At} | Path], Change, Value, Depth) ->
    Inner = at(Path, Change, element_of(At, Value), Depth),
    choose(
        io_lib:format("put_elem(~ts, ~b, ~ts)", [Value, At - 1, Inner]),
        io_lib:format("setelement(~b, ~ts, ~ts)", [At, Value, Inner])
    );
at([list | Path], Change, Value, Depth) ->
    choose(
        io_lib:format("Enum.map(~ts, fn ~ts end)", [Value, clauses("", Path, Change, Depth)]),
        io_lib:format("lists:map(fun~ts end, ~ts)", [clauses("", Path, Change, Depth), Value])
    );
at([values | Path], Change, Value, Depth) ->
    choose(
        io_lib:format(":maps.map(fn ~ts end, ~ts)", [clauses("_, ", Path, Change, Depth), Value]),
        io_lib:format("maps:map(fun~ts end, ~ts)", [clauses("_, ", Path, Change, Depth), Value])
    ).

inner(Path, Change, Depth) ->
    Name = variable(Depth),
    {Name, at(Path, Change, Name, Depth + 1)}.

variable(Depth) -> [choose($a, $A) + Depth].

%% A collection may hold other values too, which stay as they are.
clauses(First, Path, Change, Depth) ->
    {Name, Inner} = inner(Path, Change, Depth),
    Fits = fits(Path, Change, Name),
    choose(
        io_lib:format("~ts~ts when ~ts -> ~ts; ~ts~ts -> ~ts", [First, Name, Fits, Inner, First, Name, Name]),
        io_lib:format("(~ts~ts) when ~ts -> ~ts; (~ts~ts) -> ~ts", [First, Name, Fits, Inner, First, Name, Name])
    ).

fits([], #{kind := struct, name := Module}, Name) ->
    choose(
        io_lib:format("is_struct(~ts, ~ts)", [Name, text(Module)]),
        io_lib:format("map_get('__struct__', ~ts) =:= ~ts", [Name, text(Module)])
    );
fits([], #{kind := record, name := Record, before := Before}, Name) ->
    choose(
        io_lib:format("elem(~ts, 0) == ~ts and tuple_size(~ts) == ~b", [Name, text(Record), Name, length(Before) + 1]),
        io_lib:format("element(1, ~ts) =:= ~ts, tuple_size(~ts) =:= ~b", [Name, text(Record), Name, length(Before) + 1])
    );
fits([{key, Key} | _], _Change, Name) ->
    choose(
        io_lib:format("is_map_key(~ts, ~ts)", [Name, text(Key)]),
        io_lib:format("is_map_key(~ts, ~ts)", [text(Key), Name])
    );
fits([{element, At} | _], _Change, Name) -> io_lib:format("tuple_size(~ts) >= ~b", [Name, At]);
fits([values | _], _Change, Name) -> io_lib:format("is_map(~ts)", [Name]);
fits([list | _], _Change, Name) -> io_lib:format("is_list(~ts)", [Name]).

with(Field, Default, Value) ->
    choose(
        io_lib:format("Map.put_new(~ts, ~ts, ~ts)", [Value, text(Field), Default]),
        io_lib:format("maps:merge(#{~ts => ~ts}, ~ts)", [text(Field), Default, Value])
    ).

without(Field, Value) ->
    choose(
        io_lib:format("Map.delete(~ts, ~ts)", [Value, text(Field)]),
        io_lib:format("maps:remove(~ts, ~ts)", [text(Field), Value])
    ).

element_of(At, Value) ->
    choose(io_lib:format("elem(~ts, ~b)", [Value, At - 1]), io_lib:format("element(~b, ~ts)", [At, Value])).

%% The code has `nil` or `undefined` in place of a default that is long or can't be written as code.
default(Field, #{defaults := Defaults}) ->
    Nothing = choose(nil, undefined),
    Value = maps:get(Field, Defaults, Nothing),
    Text = case is_plain(Value) of true -> text(Value); false -> text(Nothing) end,
    case string:length(Text) =< ?VALUE_MAX_CHARS andalso not lists:member($\n, Text) of
        true -> Text;
        false -> text(Nothing)
    end.

is_plain(Value) when is_atom(Value); is_number(Value); is_binary(Value) -> true;
is_plain(List) when is_list(List) -> length(List) < ?VALUE_MAX_CHARS andalso lists:all(fun is_plain/1, List);
is_plain(Tuple) when is_tuple(Tuple) -> is_plain(tuple_to_list(Tuple));
is_plain(#{'__struct__' := _}) -> false;
is_plain(Map) when is_map(Map) -> map_size(Map) < ?VALUE_MAX_CHARS andalso is_plain(maps:to_list(Map));
is_plain(_Value) -> false.

text(Term) ->
    case is_elixir() of
        true -> unicode:characters_to_list(sbx_elixir:inspect(Term));
        false -> lists:flatten(io_lib:format("~0tp", [Term]))
    end.
