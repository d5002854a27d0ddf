%%% Diagnostics of all compilers in one form, with paths relative to the project.
-module(sbx_diagnostic).

-export([new/5, from_erlang/3, from_elixir/3, from_script/3, without_root/2, dependency/2, doubled/4, reserved/2]).

-export_type([diagnostic/0]).

-type diagnostic() :: #{
    file := binary() | nil,
    line := pos_integer() | nil,
    column := pos_integer() | nil,
    message := binary(),
    kind := syntax | compile | dependency | warning
}.

-define(MESSAGE_MAX_BYTES, 16384).
-define(RESERVED, " can't be named so: names that begin with sbx_ are reserved for the agent inside each node").

-spec new(atom(), file:filename() | nil, term(), iodata(), file:filename()) -> diagnostic().
new(Kind, File, Position, Message, Root) ->
    {Line, Column} = position(Position),
    #{
        file => file(File, Root),
        line => Line,
        column => Column,
        message => sbx_reason:bounded(unicode:characters_to_binary(Message), ?MESSAGE_MAX_BYTES),
        kind => Kind
    }.

-spec dependency(string(), [term()]) -> diagnostic().
dependency(Format, Arguments) ->
    new(dependency, nil, nil, io_lib:format(Format, Arguments), "").

-spec doubled(module(), binary(), binary(), file:filename()) -> diagnostic().
doubled(Module, File, Other, Root) ->
    Text = ["the module ", sbx_reason:module_name(Module), " is also defined in ", file(path(Other), Root)],
    new(warning, path(File), nil, Text, Root).

%% Refuses module names of the agent: one module would be loaded in place of the other.
-spec reserved([{module(), file:filename() | binary()}], file:filename()) -> [diagnostic()].
reserved(Defined, Root) ->
    [
        new(compile, path(File), nil, ["the module ", Name, ?RESERVED], Root)
     || {Module, File} <- Defined, "sbx_" ++ _ = Name <- [atom_to_list(Module)]
    ].

file(nil, _Root) -> nil;
file(File, Root) ->
    Path = sbx_scratch:original(sbx_files:normal(filename:absname(File))),
    unicode:characters_to_binary(sbx_files:relative(Path, Root)).

position({Line, Column}) when is_integer(Line), is_integer(Column) -> {positive(Line), positive(Column)};
position({Line, Column, _EndLine, _EndColumn}) -> position({Line, Column});
position(Line) when is_integer(Line) -> {positive(Line), nil};
position(_None) -> {nil, nil}.

positive(N) when N > 0 -> N;
positive(_) -> nil.

%% The lists that Erlang's compiler, yecc and leex return.
-spec from_erlang(error | warning, [{file:filename(), [term()]}], file:filename()) -> [diagnostic()].
from_erlang(Severity, Infos, Root) ->
    [from_erlang_info(Severity, File, Info, Root) || {File, Listed} <- Infos, Info <- Listed].

from_erlang_info(Severity, File, {Location, Module, Description}, Root) ->
    new(erlang_kind(Severity, Module), File, Location, Module:format_error(Description), Root);
from_erlang_info(Severity, File, {Module, Description}, Root) ->
    new(erlang_kind(Severity, Module), File, nil, Module:format_error(Description), Root).

erlang_kind(warning, _Module) -> warning;
erlang_kind(error, Module) ->
    case lists:member(Module, [erl_parse, erl_scan, epp, yeccparser]) of
        true -> syntax;
        false -> compile
    end.

%% The result of Kernel.ParallelCompiler: a tuple before Elixir 1.15, a map since.
-spec from_elixir(error | warning, tuple() | map(), file:filename()) -> diagnostic().
from_elixir(Severity, {File, Position, Message}, Root) ->
    elixir(Severity, File, Position, Message, Root);
from_elixir(Severity, #{file := File, position := Position, message := Message}, Root) ->
    elixir(Severity, File, Position, Message, Root).

elixir(warning, File, Position, Message, Root) ->
    new(warning, path(File), Position, string:trim(Message), Root);
elixir(error, File, Position, Message, Root) ->
    {Kind, Place, Text} = elixir_error(unicode:characters_to_binary(Message), Position),
    new(Kind, path(File), Place, Text, Root).

path(nil) -> nil;
path(File) -> unicode:characters_to_list(File).

with_column(Line, Column) when is_integer(Line), is_integer(Column) -> {Line, Column};
with_column(Position, _Column) -> Position.

%% Before 1.15 the message has the terminal's form: "** (SyntaxError) lib/a.ex:3:7: text" and a
%% stack trace.
elixir_error(Message, Position) ->
    {Kind, Rest} =
        case re:run(Message, "^\\*\\* \\(([A-Za-z.]+)\\) (.*)$", [{capture, all_but_first, binary}, dotall]) of
            {match, [Exception, Text]} -> {elixir_kind(Exception), Text};
            nomatch -> {elixir_kind_of_text(Message), Message}
        end,
    case drawn(Rest) of
        {Place, Drawn, Expected} ->
            {Kind, Place, [Drawn | opened(Expected, Position)]};
        none ->
            {Column, Unplaced} = unplaced(Rest),
            {Kind, with_column(Position, Column), string:trim(without_stack(Unplaced))}
    end.

%% Since 1.16 the message of a syntax error is a drawing: a place, the text, and lines of the file
%% with the delimiter that is expected. The command line shows such lines for every diagnostic.
drawn(Text) ->
    Pattern =
        "\\A[a-z ]+ on [^\\n]+?:(\\d+):(\\d+):\\n\\s*error: (.*?)\\n\\s*(?:\\x{2502}|\\x{2514})"
        "(?:.*delimiter \\(expected \"?(.+?)\"?\\)$)?",
    case re:run(Text, Pattern, [{capture, all_but_first, binary}, dotall, multiline, unicode]) of
        {match, [Line, Column, Message | Expected]} ->
            Place = {binary_to_integer(Line), binary_to_integer(Column)},
            {Place, re:replace(string:trim(Message), "\\n {1,4}", "\n", [global, {return, binary}]), Expected};
        nomatch ->
            none
    end.

%% The position of such an error is that of the delimiter that is not closed.
opened([Expected], Position) ->
    case position(Position) of
        {nil, _Column} -> [];
        {Line, _Column} -> ["\nhint: ", Expected, " is missing for what line ", integer_to_list(Line), " opens"]
    end;
opened([], _Position) ->
    [].

unplaced(Text) ->
    case re:run(Text, "^[^\\s:]+:\\d+(?::(\\d+))?: (.*)$", [{capture, all_but_first, binary}, dotall]) of
        {match, [<<>>, Rest]} -> {nil, Rest};
        {match, [Column, Rest]} -> {binary_to_integer(Column), Rest};
        nomatch -> {nil, Text}
    end.

without_stack(Text) ->
    [Message | _Frames] = re:split(Text, "\\n    (?=\\(|[^\\s:]+:\\d+: )", [{parts, 2}]),
    Message.

elixir_kind(<<"SyntaxError">>) -> syntax;
elixir_kind(<<"TokenMissingError">>) -> syntax;
elixir_kind(<<"MismatchedDelimiterError">>) -> syntax;
elixir_kind(_Exception) -> compile.

elixir_kind_of_text(Text) ->
    case string:prefix(Text, "syntax error") of
        nomatch -> compile;
        _ -> syntax
    end.

%% An exception from an evaluated file: a mix.exs, config.exs. The exception itself, or the frames of
%% the call, may name a better one than File: a dependency's.
-spec from_script(file:filename(), {error | exit | throw, term(), list()}, file:filename()) -> diagnostic().
from_script(File, {Class, Reason, Stack}, Root) ->
    {Script, Line} = script(Reason, Stack, filename:absname(File, Root)),
    {Kind, Place, Text} = elixir_error(sbx_elixir:format_banner(Class, Reason, Stack), Line),
    new(Kind, Script, Place, without_root(Text, Root), Root).

script(#{file := File, line := Line}, _Stack, _Default) when is_binary(File), is_integer(Line) ->
    {path(File), Line};
script(_Reason, Stack, Default) ->
    Frames = [
        {filename:absname(File), proplists:get_value(line, Location)}
     || {_, _, _, Location} <- Stack,
        File <- [proplists:get_value(file, Location, "")],
        filename:extension(File) =:= ".exs"
    ],
    case Frames of
        [Frame | _] -> Frame;
        [] -> {Default, nil}
    end.

%% The project's files are the user's, wherever the node sees them.
-spec without_root(iodata(), file:filename()) -> binary().
without_root(Text, Root) ->
    Written = unicode:characters_to_binary(Text),
    binary:replace(Written, unicode:characters_to_binary([Root, "/"]), <<>>, [global]).
