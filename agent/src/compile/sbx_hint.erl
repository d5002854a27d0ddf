%%% Adds hints to diagnostics: the name that was probably meant, the folders that were searched, the
%%% missing dependency. A hint is the last line of a diagnostic's message.
-module(sbx_hint).

-export([add/2]).

-export_type([context/0]).

%% More hints would hide the first ones.
-define(HINTS_MAX, 20).
-define(NAME_MAX_CHARS, 64).
%% The compilers' messages and the hints for them. The first group is a name.
-define(HINTS, [
    {"module ([\\w.]+) is not loaded and could not be found", fun absent_module/3},
    {"([\\w.]+)\\.__struct__/\\d is undefined, cannot expand struct", fun absent_module/3},
    {"module ([\\w.]+) is not available or is yet to be defined", fun absent_module/3},
    {"undefined function (\\w+[?!]?)/\\d+ \\(expected", fun absent_function/3},
    {"^function (\\w+)/\\d+ undefined$", fun absent_function/3},
    {"can't find include file \"([^\"]+)\"", fun absent_include/3},
    {"can't find include lib \"([^\"/]+)", fun absent_application/3}
]).

-type context() :: #{root := file:filename(), app := sbx_project:app(), missing := [atom()]}.

-spec add([sbx_diagnostic:diagnostic()], context()) -> [sbx_diagnostic:diagnostic()].
add(Diagnostics, Context) ->
    {First, Rest} = lists:split(min(?HINTS_MAX, length(Diagnostics)), Diagnostics),
    [with_hint(Diagnostic, Context) || Diagnostic <- First] ++ Rest.

%% Since OTP 28 the compiler itself ends some messages with a suggestion.
with_hint(#{message := Message} = Diagnostic, Context) ->
    case re:run(Message, "^(.*), (did you mean [^?\\n]+\\?)$", [dotall, {capture, all_but_first, binary}]) of
        {match, [Text, Hint]} -> Diagnostic#{message := <<Text/binary, "\nhint: ", Hint/binary>>};
        nomatch -> with_own_hint(Diagnostic, Context)
    end.

with_own_hint(#{message := Message} = Diagnostic, Context) ->
    case [Hint || Row <- ?HINTS, Hint <- [hint(Row, Diagnostic, Context)], Hint =/= none] of
        [Hint | _] -> Diagnostic#{message := unicode:characters_to_binary([Message, "\nhint: ", Hint])};
        [] -> Diagnostic
    end.

hint({Pattern, Find}, #{message := Message} = Diagnostic, Context) ->
    case re:run(Message, Pattern, [unicode, ucp, {capture, all_but_first, list}]) of
        {match, [Name]} -> Find(Name, Diagnostic, Context);
        nomatch -> none
    end.

%% Modules

absent_module(Name, #{kind := Kind}, #{missing := Missing}) ->
    case [Dep || Dep <- Missing, is_named_after(Name, Dep)] of
        [Dep | _] -> ["it belongs to the dependency ", atom_to_list(Dep), ", which is not in the project"];
        [] -> similar_module(Name, Kind)
    end.

%% By convention Phoenix.LiveView comes from phoenix_live_view or from phoenix.
is_named_after(Name, Dep) ->
    Folded = string:lowercase([Char || Char <- Name, Char =/= $.]),
    lists:prefix([Char || Char <- atom_to_list(Dep), Char =/= $_], Folded).

similar_module(Name, Kind) ->
    case nearest(Name, [Known || "Elixir." ++ Known <- sbx_toolchain:names() ++ sbx_scratch:names()]) of
        {ok, Near} -> ["did you mean ", Near, "?"];
        none when Kind =:= warning -> none;
        none -> "no file of the project defines it, nor does Elixir; dependencies have to be inside the project"
    end.

%% Functions

absent_function(Name, #{file := File}, #{root := Root}) when File =/= nil ->
    case file:read_file(filename:join(Root, File)) of
        {ok, Text} -> similar_function(Name, defined(filename:extension(File), Text));
        {error, _Reason} -> none
    end;
absent_function(_Name, _Diagnostic, _Context) ->
    none.

similar_function(Name, Known) ->
    case nearest(Name, Known) of
        {ok, Near} -> ["did you mean ", Near, "?"];
        none -> none
    end.

defined(<<".erl">>, Text) -> matches(Text, "^([a-z]\\w*)\\s*\\(");
defined(_Elixir, Text) -> matches(Text, "^\\s*def(?:macro)?p?\\s+([a-z_]\\w*[?!]?)").

matches(Text, Pattern) ->
    case re:run(Text, Pattern, [global, multiline, {capture, all_but_first, list}]) of
        {match, Found} -> lists:usort([Name || [Name] <- Found]);
        nomatch -> []
    end.

%% Headers

absent_include(_Name, #{file := File}, #{app := #{include := Include}, root := Root}) ->
    Own = [filename:dirname(unicode:characters_to_list(File)) || File =/= nil],
    Dirs = Own ++ [sbx_files:relative(Dir, Root) || Dir <- Include],
    ["it was looked for in ", lists:join(", ", unique(Dirs))].

unique([]) -> [];
unique([Dir | Dirs]) -> [Dir | unique([Other || Other <- Dirs, Other =/= Dir])].

absent_application(Name, _Diagnostic, _Context) ->
    case code:lib_dir(list_to_atom(Name)) of
        {error, bad_name} -> ["neither the project nor the installation has an application ", Name];
        Dir -> ["the application ", Name, " is there, but that file is not in ", filename:basename(Dir)]
    end.

%% The name with the smallest distance, if that is small.
nearest(Name, Known) ->
    Allowed = max(1, length(Name) div 4),
    Near = [Other || Other <- Known, Other =/= Name, abs(length(Other) - length(Name)) =< Allowed],
    case lists:sort([{distance(bounded(Name), bounded(Other)), Other} || Other <- Near]) of
        [{Distance, Best} | _] when Distance =< Allowed -> {ok, Best};
        _ -> none
    end.

bounded(Name) -> lists:sublist(Name, ?NAME_MAX_CHARS).

%% Levenshtein distance, a row at a time. Row I holds the distances of the first I characters from
%% each prefix of the other name.
distance(Name, Other) ->
    First = lists:seq(0, length(Other)),
    lists:last(lists:foldl(fun(Char, [Above | _] = Row) -> next(Char, Other, Row, [Above + 1]) end, First, Name)).

next(_Char, [], _Row, Done) ->
    lists:reverse(Done);
next(Char, [Other | Others], [Corner, Above | Row], [Left | _] = Done) ->
    Cost =
        case Char =:= Other of
            true -> 0;
            false -> 1
        end,
    next(Char, Others, [Above | Row], [lists:min([Corner + Cost, Above + 1, Left + 1]) | Done]).
