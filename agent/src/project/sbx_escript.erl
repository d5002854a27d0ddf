%%% Describes an escript: source text, one compiled module, or an archive of applications as
%%% `mix escript.build` and `rebar3 escriptize` make it. Its code does not run here.
-module(sbx_escript).

-include_lib("stdlib/include/zip.hrl").

-export([is_escript/1, discover/2, modules/2, write_module/2]).

-type app_entry() :: {atom(), [{atom(), term()}], [file:filename()]}.

%% Arguments for the emulator that change nothing here, so no warning names them.
-define(NEEDLESS, ["-smp", "-noshell", "-noinput", "-hidden", "+sbtu"]).

-spec is_escript(file:filename()) -> boolean().
is_escript(Path) ->
    case file:open(Path, [read, raw, binary]) of
        {ok, File} ->
            Begin = file:read(File, 2),
            ok = file:close(File),
            Begin =:= {ok, <<"#!">>};
        {error, _Reason} ->
            false
    end.

-spec discover(file:filename(), file:filename()) -> sbx_project:project().
discover(Root, Path) ->
    {Body, Arguments} = read(Path),
    {Main, Left} = main_module(string:lexemes(Arguments, " \t"), script_name(Path)),
    Apps = apps(Body, Path, Root),
    #{
        root => Root,
        apps => Apps,
        main => nil,
        program => program(Body, Path, Main),
        config => [],
        runtime => none,
        problems => ignored(Left),
        loose => false,
        described_by => [Path],
        consolidate => false,
        missing => []
    }.

script_name(Path) ->
    filename:rootname(filename:basename(Path)).

%% `-escript main Module` is what the tools write.
main_module(["-escript", "main", Name | Left], _Default) -> {Name, Left};
main_module([Word | Words], Default) ->
    {Name, Left} = main_module(Words, Default),
    {Name, [Word | Left]};
main_module([], Default) -> {Default, []}.

ignored(Arguments) ->
    case without_needless(Arguments) of
        [] ->
            [];
        Left ->
            Text = "the arguments that the escript has for its emulator are ignored: ~ts",
            [(sbx_diagnostic:dependency(Text, [lists:join(" ", Left)]))#{kind := warning}]
    end.

without_needless([Flag | Left]) ->
    case lists:member(Flag, ?NEEDLESS) of
        true -> without_needless(lists:dropwhile(fun is_value/1, Left));
        false -> [Flag | without_needless(Left)]
    end;
without_needless([]) ->
    [].

is_value([First | _]) -> First =/= $- andalso First =/= $+.

%% Reading

%% The body below its first lines, and the emulator's arguments in these.
-spec read(file:filename()) -> {{source | beam | archive, binary()}, string()}.
read(Path) ->
    ok = names_escript(Path),
    try escript:extract(Path, []) of
        {ok, Sections} ->
            Bodies = [Body || {Kind, Bytes} = Body <- Sections, lists:member(Kind, [source, beam, archive]), is_binary(Bytes)],
            {hd(Bodies), text(proplists:get_value(emu_args, Sections))};
        {error, _Reason} ->
            fail(Path, "it is no escript that can be read")
    catch
        %% It raises where the body is none of the three.
        _Class:_Reason -> fail(Path, "it is no escript that can be read")
    end.

text(Chars) when is_list(Chars) -> Chars;
text(_Default) -> "".

names_escript(Path) ->
    {ok, File} = file:open(Path, [read, raw, binary]),
    {ok, Begin} = file:read(File, 1024),
    ok = file:close(File),
    [Line | _] = binary:split(Begin, <<"\n">>),
    case binary:match(Line, <<"escript">>) of
        nomatch -> fail(Path, "it is a script of another interpreter: its first line does not name escript");
        _Found -> ok
    end.

program({source, Text}, Path, _Main) -> list_to_atom(source_name(Text, Path));
program({beam, Beam}, _Path, _Main) -> proplists:get_value(module, beam_lib:info(Beam));
program({archive, _Bytes}, _Path, Main) -> list_to_atom(Main).

%% Applications

%% escript calls main/1 whether it is exported or not.
apps({source, _Text}, Path, Root) ->
    [(own(Path, Root))#{grammars := [Path], erlang_options := [export_all, nowarn_export_all]}];
apps({beam, _Beam}, Path, Root) ->
    [(own(Path, Root))#{prebuilt := [Path]}];
apps({archive, Bytes}, Path, Root) ->
    {Found, Others} = entries(Bytes, Path),
    Own = [(own(Path, Root))#{prebuilt := [Path]} || Others =/= []],
    Own ++ [(sbx_project:new_app(Name, Root))#{prebuilt := [Path], properties := Its} || {Name, Its, _Files} <- Found].

%% The modules that belong to none of the applications.
own(Path, Root) ->
    sbx_project:new_app(own_name(Path), Root).

own_name(Path) ->
    sbx_app_file:safe_name(script_name(Path) ++ "_escript").

%% The modules of one of its applications, except those that the toolchain has.
-spec modules(atom(), file:filename()) -> [{module(), binary()}].
modules(Name, Path) ->
    case read(Path) of
        {{beam, Beam}, _} -> [named(Beam, Path)];
        {{archive, Bytes}, _} -> modules(Name, Bytes, Path)
    end.

modules(Name, Bytes, Path) ->
    {Found, Others} = entries(Bytes, Path),
    Wanted =
        case lists:keyfind(Name, 1, Found) of
            {Name, _Properties, Files} -> Files;
            false -> Others
        end,
    [named(Beam, Path) || {_File, Beam} <- unzipped(Bytes, Wanted, Path)].

named(Beam, Path) ->
    case beam_lib:info(Beam) of
        Info when is_list(Info) -> {proplists:get_value(module, Info), Beam};
        {error, beam_lib, _Reason} -> fail(Path, "it holds a file that is no compiled module")
    end.

%% The applications with the files of their modules, and the files that belong to none. Those that the
%% toolchain has, such as Elixir itself, are left out.
-spec entries(binary(), file:filename()) -> {[app_entry()], [file:filename()]}.
entries(Bytes, Path) ->
    Files = listed(Bytes, Path),
    Texts = unzipped(Bytes, [File || File <- Files, filename:extension(File) =:= ".app"], Path),
    Described = [described(File, Text, Path) || {File, Text} <- Texts],
    Installed = maps:from_keys(sbx_toolchain:names(), true),
    Beams = [File || File <- Files, filename:extension(File) =:= ".beam", not is_map_key(filename:basename(File, ".beam"), Installed)],
    {Found, Left} = lists:mapfoldl(fun take_files/2, Beams, Described),
    {[Entry || {Name, _, _} = Entry <- Found, not sbx_project_compiled:is_installed(Name)], Left}.

%% Takes an application's files out of the rest. Mix puts the files of all applications into one folder,
%% rebar3 keeps a folder for each.
take_files({Name, Properties, Dir}, Beams) ->
    Modules = maps:from_keys([atom_to_list(Module) || Module <- proplists:get_value(modules, Properties, [])], true),
    IsIts = fun(File) ->
        (Dir =/= "." andalso filename:dirname(File) =:= Dir) orelse is_map_key(filename:basename(File, ".beam"), Modules)
    end,
    {Its, Left} = lists:partition(IsIts, Beams),
    {{Name, Properties, Its}, Left}.

described(File, Text, Path) ->
    case erl_scan:string(unicode:characters_to_list(Text)) of
        {ok, Tokens, _End} ->
            case erl_parse:parse_term(Tokens) of
                {ok, {application, Name, Properties}} when is_atom(Name), is_list(Properties) ->
                    {Name, Properties, filename:dirname(File)};
                _NoApplication ->
                    fail(Path, [File, " in it is no application resource file"])
            end;
        _NoTokens ->
            fail(Path, [File, " in it is no application resource file"])
    end.

listed(Bytes, Path) ->
    case zip:table(Bytes) of
        {ok, Entries} -> [Name || #zip_file{name = Name} <- Entries, lists:last(Name) =/= $/];
        {error, _Reason} -> fail(Path, "its archive is damaged")
    end.

unzipped(_Bytes, [], _Path) ->
    [];
unzipped(Bytes, Files, Path) ->
    case zip:unzip(Bytes, [memory, {file_list, Files}]) of
        {ok, Unzipped} -> Unzipped;
        {error, _Reason} -> fail(Path, "its archive is damaged")
    end.

%% Source text

%% Writes the source text as a module to Dir. Its lines keep their numbers.
-spec write_module(file:filename(), file:filename()) -> file:filename().
write_module(Path, Dir) ->
    {{source, Text}, _} = read(Path),
    Name = source_name(Text, Path),
    Target = filename:join(Dir, Name ++ ".erl"),
    {ok, Whole} = file:read_file(Path),
    [_HashBang, Lines] = binary:split(Whole, <<"\n">>),
    First = io_lib:format("-file(~tp, 1). ~ts\n", [Path, header(Text, Name)]),
    ok = file:write_file(Target, [unicode:characters_to_binary(First), Lines]),
    Target.

source_name(Text, Path) ->
    case re:run(Text, "^-module\\(\\s*'?([A-Za-z0-9_@.-]+)'?\\s*\\)", [multiline, {capture, all_but_first, list}]) of
        {match, [Name]} -> Name;
        nomatch -> atom_to_list(sbx_app_file:safe_name(script_name(Path)))
    end.

header(Text, Name) ->
    case re:run(Text, "^-module\\(", [multiline]) of
        nomatch -> io_lib:format("-module(~tp).", [list_to_atom(Name)]);
        _Own -> ""
    end.

-spec fail(file:filename(), iodata()) -> no_return().
fail(Path, Why) ->
    throw({project, unicode:characters_to_binary([filename:basename(Path), ": ", Why])}).
