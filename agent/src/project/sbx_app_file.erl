%%% Reads application resource files, and completes them with the compiled modules.
-module(sbx_app_file).

-export([read/1, complete/3, text/1, safe_name/1]).

-type app() :: {application, atom(), [{atom(), term()}]}.

%% Reads a .app or .app.src file.
-spec read(file:filename()) -> {ok, app()} | {error, binary()}.
read(File) ->
    case file:consult(File) of
        {ok, [{application, Name, Properties}]} when is_atom(Name), is_list(Properties) ->
            {ok, {application, Name, Properties}};
        {ok, _Other} ->
            {error, <<"is not an application resource file">>};
        {error, Reason} ->
            {error, unicode:characters_to_binary(file:format_error(Reason))}
    end.

%% Adds the properties that a running system needs. The project's own come first.
-spec complete(atom(), [{atom(), term()}], [module()]) -> app().
complete(Name, Properties, Modules) ->
    Defaults = [
        {description, atom_to_list(Name)},
        {vsn, "0.1.0"},
        {registered, []},
        {applications, [kernel, stdlib]},
        {env, []}
    ],
    Kept = [Property || {Key, _} = Property <- Properties, Key =/= modules],
    Added = [Default || {Key, _} = Default <- Defaults, not lists:keymember(Key, 1, Kept)],
    Versioned = [version(Property) || Property <- Kept ++ Added],
    {application, Name, [{modules, lists:sort(Modules)} | Versioned]}.

%% rebar3 replaces a version such as `git`. Here the written one is all there is.
version({vsn, Version}) when not is_list(Version) -> {vsn, "0"};
version(Property) -> Property.

-spec text(app()) -> binary().
text(App) ->
    unicode:characters_to_binary([io_lib:format("~tp.~n", [App]), sbx_spec:comment(App)]).

%% Makes an application's name from a folder's or a file's: an atom that needs no quotes.
-spec safe_name(string()) -> atom().
safe_name(Text) ->
    Lower = string:lowercase(Text),
    Safe = [
        case is_safe(Char) of
            true -> Char;
            false -> $_
        end
     || Char <- lists:sublist(Lower, 64)
    ],
    case Safe of
        [First | _] when First >= $a, First =< $z -> list_to_atom(Safe);
        _ -> list_to_atom("app_" ++ Safe)
    end.

is_safe(Char) when Char >= $a, Char =< $z -> true;
is_safe(Char) when Char >= $0, Char =< $9 -> true;
is_safe(Char) -> Char =:= $_.
