%%% Describes one application of a Mix project: the project that is on top of Mix's stack, whose
%%% folder is the working directory.
-module(sbx_mix_app).

-export([describe/2]).

%% Missing names dependencies that can't be started.
-spec describe(file:filename(), [atom()]) -> sbx_project:app().
describe(Dir, Missing) ->
    Config = 'Elixir.Mix.Project':config(),
    Compilers = compilers(Config),
    Elixir = paths(Dir, Config, elixirc_paths),
    Erlang = paths(Dir, Config, erlc_paths),
    Include = filename:absname(text(proplists:get_value(erlc_include_path, Config)), Dir),
    {Name, Properties} = properties(Config),
    (sbx_project:new_app(Name, Dir))#{
        elixir := sources(elixir, Compilers, Elixir, [".ex"]),
        erlang := sources(erlang, Compilers, Erlang, [".erl"]),
        grammars := sources(erlang, Compilers, Erlang, [".yrl", ".xrl"]),
        include := [Include | Erlang],
        erlang_options := options(erlc_options, Config),
        elixir_options := with_excludes(options(elixirc_options, Config), Config),
        properties := without(Missing, Properties),
        compilers := Compilers,
        mix := #{module => 'Elixir.Mix.Project':get(), config => Config, env => 'Elixir.Mix':env()}
    }.

compilers(Config) ->
    case proplists:get_value(compilers, Config) of
        Listed when is_list(Listed) -> lists:delete(xref, Listed);
        _ -> 'Elixir.Mix':compilers()
    end.

sources(Compiler, Compilers, Dirs, Extensions) ->
    case lists:member(Compiler, Compilers) of
        true -> sbx_files:find_in(Dirs, Extensions);
        false -> []
    end.

paths(Dir, Config, Key) ->
    case proplists:get_value(Key, Config, []) of
        Paths when is_list(Paths) ->
            [sbx_files:normal(filename:absname(text(Path), Dir)) || Path <- Paths];
        Other ->
            'Elixir.Mix':raise(unicode:characters_to_binary(
                io_lib:format(":~ts should be a list of string paths, got: ~tp", [Key, Other])
            ))
    end.

options(Key, Config) ->
    case proplists:get_value(Key, Config, []) of
        Options when is_list(Options) -> Options;
        _ -> []
    end.

%% A library may call modules of dependencies that are optional.
with_excludes(Options, Config) ->
    case excluded(proplists:get_value(xref, Config, [])) of
        [] -> Options;
        Excluded -> 'Elixir.Keyword':update(Options, no_warn_undefined, Excluded, fun(Own) -> join(Own, Excluded) end)
    end.

excluded(Xref) when is_list(Xref) -> 'Elixir.List':wrap(proplists:get_value(exclude, Xref, []));
excluded(_Other) -> [].

join(Own, Excluded) -> 'Elixir.List':wrap(Own) ++ Excluded.

%% Mix itself makes the resource file. It lists no modules yet.
properties(Config) ->
    Dir = sbx_scratch:temporary("app"),
    %% Mix makes and links an application's folder where there is none.
    ok = filelib:ensure_dir(filename:join(text('Elixir.Mix.Project':app_path(Config)), "x")),
    _ = 'Elixir.Mix.Tasks.Compile.App':run([<<"--force">>, <<"--compile-path">>, unicode:characters_to_binary(Dir)]),
    [File] = filelib:wildcard(filename:join(Dir, "*.app")),
    {ok, [{application, Name, Properties}]} = file:consult(File),
    ok = file:del_dir_r(Dir),
    %% Since 1.17 the task loads what it wrote.
    _ = application:unload(Name),
    {Name, lists:keydelete(modules, 1, Properties)}.

without([], Properties) ->
    Properties;
without(Missing, Properties) ->
    [
        case Property of
            {Key, Names} when Key =:= applications; Key =:= optional_applications -> {Key, Names -- Missing};
            _ -> Property
        end
     || Property <- Properties
    ].

text(Chars) ->
    unicode:characters_to_list(Chars).
