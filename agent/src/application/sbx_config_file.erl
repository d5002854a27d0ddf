%%% One file of configuration that is evaluated where the application runs: a runtime.exs, a
%%% sys.config, or a release's sys.config.src. What it holds may be secret, so an error tells the place and no value.
-module(sbx_config_file).

-export([read/4, masked/2]).

-type config() :: [{atom(), [{atom(), term()}]}].
%% A file of the caller's, or the project's own in its environment.
-type source() :: {caller | atom(), {Name :: binary(), Text :: binary()}}.

-define(SECRET_MIN_BYTES, 6).
-define(VARIABLE, "\\$\\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\\}").

%% The configuration with what the file says over it. Throws {start, Text}.
-spec read(atom(), source(), config(), [{binary(), binary()}]) -> config().
read(Env, {Owner, {Name, Text}} = Source, Config, Variables) ->
    Evaluated = in_process(fun() -> evaluate(language(Name), Env, Source, Config) end),
    case Evaluated of
        {ok, Merged} -> Merged;
        {failed, Words} -> throw({start, masked(Words, values(Variables) ++ quoted(Owner, Text))});
        {ended, Reason} -> fail("~ts: its evaluation was ended: ~ts", [Name, sbx_reason:exit_text(Reason)])
    end.

language(Name) ->
    case filename:extension(Name) of
        <<".exs">> -> elixir;
        <<".src">> -> template;
        _Other -> erlang
    end.

%% The file's code may exit, or be killed for the memory that it uses, and ends its process then.
in_process(Fun) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({?MODULE, Fun()}) end),
    receive
        {'DOWN', Monitor, process, Pid, {?MODULE, Outcome}} -> Outcome;
        {'DOWN', Monitor, process, Pid, Reason} -> {ended, Reason}
    end.

%% Elixir

evaluate(elixir, Env, {Owner, {Name, Text}}, Config) ->
    sbx_elixir:is_started() orelse fail("~ts is written in Elixir, and the project is not: give a sys.config", [Name]),
    Options = [{env, Env}, {target, host}, {imports, disabled}],
    Read = fun() -> 'Elixir.Config.Reader':'eval!'(Name, Text, Options) end,
    try
        {ok, 'Elixir.Config.Reader':merge(Config, sbx_elixir:with_errors(Read, Owner =/= caller))}
    catch
        Class:Reason:Stack -> {failed, failure(Name, Class, Reason, Stack)}
    end;
%% Erlang
evaluate(template, Env, {Owner, {Name, Text}}, Config) ->
    case with_variables(Text) of
        {ok, Whole} -> evaluate(erlang, Env, {Owner, {Name, Whole}}, Config);
        {unset, Variable} -> {failed, words("~ts: ~ts is not set; give it with --env ~ts=VALUE", [Name, Variable, Variable])}
    end;
evaluate(erlang, _Env, {_Owner, {Name, Text}}, Config) ->
    case erl_scan:string(unicode:characters_to_list(Text)) of
        {ok, Tokens, _End} -> parsed(Name, erl_parse:parse_term(Tokens), Config);
        {error, {Line, _Module, _Words}, _End} -> {failed, words("~ts:~b: the syntax is wrong", [Name, Line])}
    end.

%% Replaces ${NAME} and ${NAME:-default}, as relx does when a release starts. A variable's value may hold
%% `${` itself: it is not replaced again.
with_variables(Text) ->
    try
        {ok, replaced(Text, re:run(Text, ?VARIABLE, [global, {capture, all, index}, unicode]))}
    catch
        throw:{unset, Name} -> {unset, Name}
    end.

replaced(Text, nomatch) ->
    Text;
replaced(Text, {match, Matches}) ->
    {Parts, End} = lists:mapfoldl(
        fun([{At, Length} | _] = Match, From) ->
            {[binary:part(Text, From, At - From), value([binary:part(Text, Part) || Part <- Match])], At + Length}
        end,
        0,
        Matches
    ),
    iolist_to_binary([Parts, binary:part(Text, End, byte_size(Text) - End)]).

value([_Whole, Name | Default]) ->
    case {os:getenv(unicode:characters_to_list(Name)), Default} of
        {false, []} -> throw({unset, Name});
        {false, [<<":-", Words/binary>>]} -> Words;
        {Value, _} -> unicode:characters_to_binary(Value)
    end.

parsed(Name, {ok, Terms}, Config) when is_list(Terms) ->
    case [Term || Term <- Terms, not is_entry(Term)] of
        [] -> {ok, lists:foldl(fun over/2, Config, Terms)};
        [_ | _] -> {failed, words("~ts: an entry is {Application, [{Key, Value}]}", [Name])}
    end;
parsed(Name, {ok, _Term}, _Config) ->
    {failed, words("~ts: it is not a list of {Application, [{Key, Value}]}", [Name])};
parsed(Name, {error, {Line, _Module, _Words}}, _Config) when is_integer(Line) ->
    {failed, words("~ts:~b: the syntax is wrong; it is one term with a dot at its end", [Name, Line])};
parsed(Name, {error, _Elsewhere}, _Config) ->
    {failed, words("~ts: the syntax is wrong; it is one term with a dot at its end", [Name])}.

is_entry({App, Values}) when is_atom(App), is_list(Values) ->
    lists:all(fun(Value) -> is_tuple(Value) andalso tuple_size(Value) =:= 2 andalso is_atom(element(1, Value)) end, Values);
is_entry(_Other) ->
    false.

%% Merges as the VM does: a later value replaces all of an earlier one.
over({App, Values}, Config) ->
    Before = proplists:get_value(App, Config, []),
    Merged = lists:foldl(fun({Key, _} = Value, All) -> lists:keystore(Key, 1, All, Value) end, Before, Values),
    lists:keystore(App, 1, Config, {App, Merged}).

%% Errors

failure(Name, _Class, #{'__struct__' := Kind, line := Line}, _Stack) when
    Kind =:= 'Elixir.SyntaxError'; Kind =:= 'Elixir.TokenMissingError'; Kind =:= 'Elixir.MismatchedDelimiterError'
->
    words("~ts:~b: the syntax is wrong (~ts)", [Name, Line, sbx_reason:module_name(Kind)]);
failure(Name, Class, Reason, Stack) ->
    Banner = sbx_elixir:format_banner(Class, Reason, Stack),
    unicode:characters_to_binary([Name, line(Name, Stack), ": ", Banner, advice(Reason)]).

line(Name, Stack) ->
    Path = unicode:characters_to_list(Name),
    Lines = [
        Line
     || {_Module, _Function, _Arity, Location} <- Stack,
        proplists:get_value(file, Location) =:= Path,
        Line <- [proplists:get_value(line, Location)],
        is_integer(Line)
    ],
    case Lines of
        [Line | _] -> [$:, integer_to_list(Line)];
        [] -> ""
    end.

advice(#{'__struct__' := 'Elixir.System.EnvError', env := Name}) when is_binary(Name) ->
    ["; give it with --env ", Name, "=VALUE"];
advice(_Reason) ->
    "".

%% Hiding

values(Variables) ->
    [Value || {_Name, Value} <- Variables].

quoted(caller, Text) ->
    case re:run(Text, <<"\"([^\"\n]*)\"|'([^'\n]*)'">>, [global, {capture, all_but_first, binary}]) of
        {match, Matches} -> lists:append(Matches);
        nomatch -> []
    end;
quoted(_Project, _Text) ->
    [].

%% The text without these values. Short ones would hide words of the message itself.
-spec masked(binary(), [binary()]) -> binary().
masked(Text, Values) ->
    Secrets = [Value || Value <- lists:usort(Values), byte_size(Value) >= ?SECRET_MIN_BYTES],
    case Secrets of
        [] -> Text;
        [_ | _] -> iolist_to_binary(lists:join(<<"…"/utf8>>, binary:split(Text, Secrets, [global])))
    end.

-spec fail(io:format(), [term()]) -> no_return().
fail(Format, Arguments) ->
    throw({start, words(Format, Arguments)}).

words(Format, Arguments) ->
    unicode:characters_to_binary(io_lib:format(Format, Arguments)).
