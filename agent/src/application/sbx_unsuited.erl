%%% Settings for a developer's own machine that can't work in a sandbox, found by what the
%%% configuration says: programs that are started beside the application, and reloading its code.
-module(sbx_unsuited).

-export([turn_off/1]).

-type config() :: [{atom(), [{atom(), term()}]}].

%% The configuration without them, and a line for each module that had some.
-spec turn_off(config()) -> {config(), [binary()]}.
turn_off(Config) ->
    {Suited, Lines} = lists:unzip([app(App, Values) || {App, Values} <- Config]),
    {Suited, lists:append(Lines)}.

app(App, Values) ->
    {Suited, Lines} = lists:unzip([value(Value) || Value <- Values]),
    {{App, Suited}, lists:append(Lines)}.

value({Key, Options} = Value) when length(Options) >= 0 ->
    Found = [Option || Option <- Options, is_unsuited(Option)],
    case Found of
        [] -> {Value, []};
        [_ | _] -> {{Key, [off(Option) || Option <- Options]}, [line(Key, Found)]}
    end;
value(Value) ->
    {Value, []}.

%% A stock Phoenix endpoint has these. Another application may have a key of that name, so the value must
%% have the form of Phoenix's watchers too.
is_unsuited({watchers, Watchers}) when length(Watchers) > 0 -> lists:all(fun is_watcher/1, Watchers);
is_unsuited({code_reloader, true}) -> true;
is_unsuited(_Other) -> false.

%% A program's name with its arguments, or with a function that runs it.
is_watcher({Name, What}) -> (is_atom(Name) orelse is_binary(Name)) andalso (is_list(What) orelse is_tuple(What));
is_watcher(_Other) -> false.

off({watchers, _} = Option) -> off(Option, []);
off({code_reloader, _} = Option) -> off(Option, false);
off(Option) -> Option.

off({Key, _} = Option, Value) ->
    case is_unsuited(Option) of
        true -> {Key, Value};
        false -> Option
    end.

line(Key, Found) ->
    Words = lists:join("; ", [words(Option) || Option <- Found]),
    unicode:characters_to_binary(["sandbox: turned off in ", sbx_reason:module_name(Key), ": ", Words, $\n]).

words({watchers, Watchers}) ->
    Names = lists:join(", ", [name(Name) || {Name, _} <- Watchers]),
    ["watchers (", Names, "), which run programs of the host"];
words({code_reloader, true}) ->
    "code_reloader, since the sandbox reloads code itself".

name(Name) when is_atom(Name) -> sbx_reason:module_name(Name);
name(Name) -> Name.
