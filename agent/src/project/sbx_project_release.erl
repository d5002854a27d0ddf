%%% Describes an OTP release as `mix release`, `rebar3 release` and relx make it: its applications, the
%%% order in which they start, and its configuration. Its ERTS, boot scripts and vm.args are not used.
-module(sbx_project_release).

-export([discover/1]).

%% Releases for tools, in the folder of the release itself.
-define(TOOL_RELEASES, ["start_clean", "no_dot_erlang"]).
-define(STARTED, [permanent, transient, temporary]).

-spec discover(file:filename()) -> sbx_project:project().
discover(Root) ->
    Dir = filename:join([Root, "releases", version(Root)]),
    RelFile = rel_file(Dir, Root),
    {Name, Erts, Listed} = release(RelFile, Root),
    Apps = [
        sbx_project_compiled:app(App, app_dir(App, Vsn, Root))
     || {App, Vsn, _Type} <- Listed, not sbx_project_compiled:is_installed(App)
    ],
    Apps =:= [] andalso fail("the release ~ts has no application that the toolchain does not have", [Name]),
    {Config, Runtime, Read, Problems} = configuration(Dir, Root),
    {Main, Ordered} = with_boot_order(Name, Apps, Listed),
    #{
        root => Root,
        apps => Ordered,
        main => Main,
        config => Config,
        runtime => Runtime,
        problems => toolchain(Erts, Listed) ++ Problems,
        loose => false,
        described_by => [start_data(Root), RelFile | Read] ++ sbx_project_compiled:described_by(Apps),
        consolidate => true,
        consolidated => sbx_project_compiled:consolidated([filename:join(Dir, "consolidated")]),
        missing => []
    }.

%% Which release of the folder

start_data(Root) ->
    filename:join([Root, "releases", "start_erl.data"]).

version(Root) ->
    case file:read_file(start_data(Root)) of
        {ok, Text} -> named(string:lexemes(unicode:characters_to_list(Text), " \t\r\n"));
        {error, _Absent} -> only([Dir || Dir <- sbx_files:subdirs(filename:join(Root, "releases")), rel_files(Dir) =/= []])
    end.

named([_Erts, Version]) when Version =/= ".", Version =/= ".." ->
    lists:member($/, Version) andalso fail("releases/start_erl.data names no version", []),
    Version;
named(_Other) ->
    fail("releases/start_erl.data does not hold the versions of ERTS and of the release", []).

only([Dir]) -> filename:basename(Dir);
only([]) -> fail("the release has neither releases/start_erl.data nor releases/VERSION/NAME.rel", []);
only(Dirs) -> fail("the release has several versions (~ts) and no releases/start_erl.data", [names(Dirs)]).

names(Paths) ->
    lists:join(", ", [filename:basename(Path) || Path <- Paths]).

rel_files(Dir) ->
    [
        filename:join(Dir, File)
     || File <- lists:sort(filelib:wildcard("*.rel", Dir)), not lists:member(filename:rootname(File), ?TOOL_RELEASES)
    ].

rel_file(Dir, Root) ->
    case rel_files(Dir) of
        [File] -> File;
        [] -> fail("the release has no ~ts/NAME.rel, which lists its applications", [sbx_files:relative(Dir, Root)]);
        Files -> fail("~ts has several releases (~ts)", [sbx_files:relative(Dir, Root), names(Files)])
    end.

%% What it lists

release(File, Root) ->
    case consult(File, Root) of
        {release, {Name, _Vsn}, {erts, Erts}, Apps} when is_list(Name), is_list(Erts), is_list(Apps) ->
            {Name, Erts, [entry(App, File, Root) || App <- Apps]};
        _Other ->
            fail("~ts is not {release, {Name, Version}, {erts, Version}, Applications}", [sbx_files:relative(File, Root)])
    end.

entry({App, Vsn}, _, _) when is_atom(App), is_list(Vsn) -> {App, Vsn, permanent};
entry({App, Vsn, Type}, _, _) when is_atom(App), is_list(Vsn), is_atom(Type) -> {App, Vsn, Type};
entry({App, Vsn, Included}, _, _) when is_atom(App), is_list(Vsn), is_list(Included) -> {App, Vsn, permanent};
entry({App, Vsn, Type, _Included}, _, _) when is_atom(App), is_list(Vsn), is_atom(Type) -> {App, Vsn, Type};
entry(Other, File, Root) -> fail("~ts lists ~0tP, which is no application", [sbx_files:relative(File, Root), Other, 10]).

consult(File, Root) ->
    case file:consult(File) of
        {ok, [Term]} ->
            Term;
        {ok, _Several} ->
            fail("~ts holds more or less than one term", [sbx_files:relative(File, Root)]);
        {error, {Line, Module, Reason}} ->
            throw({diagnostics, [sbx_diagnostic:new(syntax, File, Line, Module:format_error(Reason), Root)]});
        {error, Reason} ->
            fail("~ts: ~ts", [sbx_files:relative(File, Root), file:format_error(Reason)])
    end.

%% The node does not have what a link out of the release leads to.
app_dir(App, Vsn, Root) ->
    Lib = filename:join(Root, "lib"),
    Candidates = [filename:join(Lib, Name) || Name <- [atom_to_list(App) ++ "-" ++ Vsn, atom_to_list(App)]],
    case [Dir || Dir <- Candidates, is_app(App, Dir)] of
        [Dir | _] -> Dir;
        [] -> fail("the release lacks lib/~ts-~ts/ebin/~ts.app~ts", [App, Vsn, App, link_words(hd(Candidates))])
    end.

is_app(App, Dir) ->
    is_own_folder(Dir) andalso filelib:is_regular(filename:join([Dir, "ebin", atom_to_list(App) ++ ".app"])).

is_own_folder(Dir) ->
    file:read_link(Dir) =:= {error, einval}.

link_words(Dir) ->
    case file:read_link(Dir) of
        {ok, _Target} -> ": the folder is a link, as relx makes it with dev_mode. Make the release with {mode, prod}";
        {error, _NoLink} -> ""
    end.

%% The application that stands for the release starts all others of it before itself, in the release's
%% order. It is the one with the release's name, or else the last that no other needs.
with_boot_order(Name, Apps, Listed) ->
    Included = lists:append([proplists:get_value(included_applications, Its, []) || #{properties := Its} <- Apps]),
    Boot = [App || {App, _Vsn, Type} <- Listed, lists:member(Type, ?STARTED), not lists:member(App, Included)],
    Roots = [Root || #{name := Root} <- sbx_project_compiled:roots(Apps), lists:member(Root, Boot)],
    case [Root || Root <- Roots, atom_to_list(Root) =:= Name] ++ lists:reverse(Roots) of
        [Main | _] -> {Main, [starting(Boot, App, Main) || App <- Apps]};
        [] -> fail("the release ~ts starts no application of its own", [Name])
    end.

starting(Boot, #{name := Main, properties := Properties} = App, Main) ->
    Own = proplists:get_value(applications, Properties, []),
    First = Boot -- [Main],
    App#{properties := lists:keystore(applications, 1, Properties, {applications, First ++ (Own -- First)})};
starting(_Boot, App, _Main) ->
    App.

%% Its configuration

%% Returns the values of sys.config, the file that the sandbox evaluates, the files that were looked for,
%% and warnings.
configuration(Dir, Root) ->
    [Config, Template, Runtime] = [filename:join(Dir, File) || File <- ["sys.config", "sys.config.src", "runtime.exs"]],
    {Values, Included} = values(Config, Root),
    {Providers, Rest} = providers(Values),
    Evaluated = [
        #{file => unicode:characters_to_binary(sbx_files:relative(File, Root)), text => Text, env => env(Providers)}
     || File <- [Template, Runtime], {ok, Text} <- [file:read_file(File)]
    ],
    {Rest, first(Evaluated), [Config, Template, Runtime | Included], unknown(Providers)}.

first([Source | _]) -> Source;
first([]) -> none.

%% A string in sys.config names another file, whose entries take its place.
values(File, Root) ->
    case filelib:is_regular(File) of
        true -> entries(consult(File, Root), File, Root);
        false -> {[], []}
    end.

entries(Entries, File, Root) when is_list(Entries) ->
    {Values, Files} = lists:unzip([entry_values(Entry, File, Root) || Entry <- Entries]),
    {merged(lists:append(Values)), lists:append(Files)};
entries(_Other, File, Root) ->
    fail("~ts is not a list of {Application, [{Key, Value}]}", [sbx_files:relative(File, Root)]).

entry_values({App, Values}, _File, _Root) when is_atom(App), is_list(Values) ->
    {[{App, Values}], []};
entry_values([_ | _] = Name, File, Root) ->
    Other = filename:join(filename:dirname(File), filename:rootname(Name, ".config") ++ ".config"),
    case consult(Other, Root) of
        Entries when is_list(Entries) -> {[Entry || {App, Values} = Entry <- Entries, is_atom(App), is_list(Values)], [Other]};
        _NoList -> fail("~ts is not a list of {Application, [{Key, Value}]}", [sbx_files:relative(Other, Root)])
    end;
entry_values(_Other, File, Root) ->
    fail("~ts is not a list of {Application, [{Key, Value}]}", [sbx_files:relative(File, Root)]).

merged(Entries) ->
    lists:foldl(
        fun({App, Values}, Config) ->
            Over = lists:foldl(
                fun
                    ({Key, _} = Value, All) -> lists:keystore(Key, 1, All, Value);
                    (_NoPair, All) -> All
                end,
                proplists:get_value(App, Config, []),
                Values
            ),
            lists:keystore(App, 1, Config, {App, Over})
        end,
        [],
        Entries
    ).

%% The config providers, and the configuration without them. A release would run them at its start and
%% boot once more. Here the sandbox evaluates runtime.exs.
providers(Config) ->
    Elixir = proplists:get_value(elixir, Config, []),
    case lists:keytake(config_provider_init, 1, Elixir) of
        {value, {_Key, #{providers := Providers}}, Rest} when is_list(Providers) ->
            {Providers, lists:keystore(elixir, 1, Config, {elixir, Rest})};
        _None ->
            {[], Config}
    end.

env(Providers) ->
    hd([Env || {'Elixir.Config.Reader', {_Path, Options}} <- Providers, {env, Env} <- Options] ++ [prod]).

unknown(Providers) ->
    [
        warning("the config provider ~ts of the release is not run. Give what it brings with --config", [
            sbx_reason:module_name(Module)
        ])
     || {Module, _State} <- Providers, Module =/= 'Elixir.Config.Reader'
    ].

%% The toolchain

%% Since OTP 22, the version of ERTS is that of OTP less 12.
toolchain(Erts, Listed) ->
    Otp = erlang:system_info(otp_release),
    case string:to_integer(Erts) of
        {Major, _} when is_integer(Major) ->
            [
                warning(
                    "the release was made with OTP ~b and runs on OTP ~ts: its own ERTS is not used. Choose another "
                    "toolchain with --toolchain",
                    [Major + 12, Otp]
                )
             || integer_to_list(Major + 12) =/= Otp
            ] ++ elixir(lists:keyfind(elixir, 1, Listed));
        _NoNumber ->
            fail("the release names no version of ERTS", [])
    end.

elixir({elixir, Made, _Type}) ->
    ok = sbx_elixir:need("the release"),
    Here = unicode:characters_to_list('Elixir.System':version()),
    [
        warning("the release was made with Elixir ~ts and runs on Elixir ~ts", [Made, Here])
     || minor(Made) =/= minor(Here)
    ];
elixir(false) ->
    [].

minor(Version) ->
    lists:sublist(string:lexemes(Version, "."), 2).

warning(Format, Arguments) ->
    (sbx_diagnostic:dependency(Format, Arguments))#{kind := warning}.

-spec fail(io:format(), [term()]) -> no_return().
fail(Format, Arguments) ->
    throw({project, unicode:characters_to_binary(io_lib:format(Format, Arguments))}).
