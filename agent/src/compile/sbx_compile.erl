%%% The compiler's calls: project, put, compile, finish. The daemon decides which files are
%%% compiled; the node compiles them and reports their dependencies. Between calls the node keeps
%%% the project's description, the scratch folder and the loaded modules. It only reads the
%%% project's folder.
-module(sbx_compile).

-export([project/1, put/1, compile/1, finish/1, reset/0]).

%% The key of the project's description.
-define(KEY, ?MODULE).

%% A bound on what macros, parse transforms and build scripts print in one call. The output is
%% discarded.
-define(PRINTED_MAX_BYTES, 16777216).

%% The calls

-spec project(map()) -> sbx_call:result().
project(Args) ->
    guarded(fun() ->
        ok = sbx_compile_parts:load(ours),
        Project = sbx_project:discover(Args),
        #{apps := Apps, config := Config, problems := Problems} = Project,
        {Warnings, Errors} = lists:partition(fun(#{kind := Kind}) -> Kind =:= warning end, Problems),
        Errors =:= [] orelse throw({failed, Errors, Warnings}),
        ok = sbx_scratch:keep([Name || #{name := Name} <- Apps]),
        lists:foreach(fun add_app/1, Apps),
        ok = sbx_config:apply(Config),
        persistent_term:put(?KEY, Project),
        described(Project, Warnings)
    end).

-spec put(map()) -> sbx_call:result().
put(Args) ->
    Modules = maps:get(modules, Args),
    guarded(fun() ->
        Named = [{app(App), binary_to_atom(Module), Beam} || #{app := App, module := Module, beam := Beam} <- Modules],
        lists:foreach(fun({#{name := App}, Module, Beam}) -> ok = sbx_scratch:put(App, Module, Beam) end, Named),
        ok = sbx_toolchain:shadow([Module || {_App, Module, _Beam} <- Named]),
        {ok, #{}}
    end).

-spec compile(map()) -> sbx_call:result().
compile(Args) ->
    [Name, Files, Forget] = [maps:get(Key, Args) || Key <- [app, files, forget]],
    guarded(fun() ->
        #{name := App, dir := Dir} = Whole = app(Name),
        #{root := Root, missing := Missing} = Project = current(),
        consolidates(Project) andalso sbx_consolidate:begin_ahead(),
        ok = sbx_scratch:forget(App, [binary_to_atom(Module) || Module <- Forget]),
        ok = file:set_cwd(Dir),
        Context = #{root => Root, app => Whole, missing => Missing},
        sbx_project_mix:inside(Whole, fun() ->
            ok = run_before(Whole, Root),
            sbx_compile_app:compile(Files, Context)
        end)
    end).

-spec finish(map()) -> sbx_call:result().
finish(Args) ->
    [Apps, Consolidate] = [maps:get(Key, Args) || Key <- [apps, consolidate]],
    guarded(fun() ->
        Project = current(),
        case lists:all(fun(#{modules := Modules}) -> Modules =:= [] end, Apps) of
            true -> empty();
            false ->
                Described = [described_app(app(Name), Modules) || #{name := Name, modules := Modules} <- Apps],
                {Made, Warnings} = lists:unzip([compiled_app(App, Project) || App <- lists:zip(Described, Apps)]),
                {ok, #{
                    apps => Made,
                    warnings => lists:append(Warnings),
                    supervisor => supervisor(Project),
                    consolidated => consolidated(Consolidate, Project)
                }}
        end
    end).

%% Forgets the project and everything compiled.
-spec reset() -> ok.
reset() ->
    ok = sbx_scratch:close(),
    ok = sbx_config:apply([]),
    ok = sbx_project_mix:forget(),
    _ = persistent_term:erase(?KEY),
    ok.

empty() ->
    sbx_call:failure(empty_project, "the project holds no modules", []).

current() ->
    case persistent_term:get(?KEY, none) of
        none -> throw(no_project);
        Project -> Project
    end.

app(Name) ->
    #{apps := Apps} = current(),
    case [App || #{name := Atom} = App <- Apps, atom_to_binary(Atom) =:= Name] of
        [App] -> App;
        [] -> throw({unknown_app, Name})
    end.

%% Elixir's compiler prints what it also returns, so output is discarded. Each call restores the
%% working directory.
guarded(Fun) ->
    {ok, Home} = file:get_cwd(),
    ok = sbx_scratch:open(filename:join(Home, "build")),
    try
        sbx_io:discard_output(?PRINTED_MAX_BYTES, Fun)
    catch
        throw:{diagnostics, Errors} -> failed(Errors, []);
        throw:{failed, Errors, Warnings} -> failed(Errors, Warnings);
        throw:{printed_more_than, Bytes} ->
            failed([sbx_diagnostic:new(compile, nil, nil, printed(Bytes), "")], []);
        throw:{project, Why} -> failed([sbx_diagnostic:new(compile, nil, nil, Why, "")], []);
        throw:{unknown_app, Name} -> sbx_call:failure(badarg, "the project has no application ~ts", [Name]);
        throw:no_project -> sbx_call:failure(badarg, "there is no project yet", []);
        throw:{toolchain, Why} -> {error, #{kind => toolchain, message => Why}}
    after
        ok = file:set_cwd(Home)
    end.

printed(Bytes) ->
    io_lib:format("code that runs while compiling printed more than ~b MiB", [Bytes bsr 20]).

failed([#{message := First} | _] = Errors, Warnings) ->
    Message =
        case length(Errors) of
            1 -> First;
            Count -> unicode:characters_to_binary(io_lib:format("~ts (and ~b more)", [First, Count - 1]))
        end,
    {error, #{kind => compile, message => Message, errors => Errors, warnings => Warnings}}.

%% project

%% Code that is compiled against an application may read its description.
add_app(#{name := Name, dir := Dir, properties := Properties} = App) ->
    persistent_term:erase({?KEY, before, Name}),
    ok = sbx_scratch:add(Name, Dir, sbx_mix_compilers:own(App) =/= []),
    Properties =:= [] orelse describe_app(App).

%% As in Mix, the application that is compiled is not loaded itself.
describe_app(#{name := Name, properties := Properties, is_own := IsOwn}) ->
    Spec = sbx_app_file:complete(Name, Properties, []),
    IsOwn orelse application:load(Spec),
    write_app_file(Name, sbx_app_file:text(Spec)).

write_app_file(Name, Text) ->
    ok = file:write_file(filename:join(sbx_scratch:ebin(Name), [Name, ".app"]), Text).

described(#{root := Root, apps := Apps, main := Main, loose := Loose} = Project, Warnings) ->
    Told = [told(App, Root) || App <- Apps],
    case lists:all(fun(#{sources := Sources}) -> Sources =:= [] end, Told) of
        true ->
            empty();
        false ->
            {ok, #{
                apps => Told,
                main => written(Main),
                program => written(maps:get(program, Project, nil)),
                mix_env => written(maps:get(mix_env, Project, nil)),
                loose => Loose,
                config => config(Project),
                described_by => paths(maps:get(described_by, Project), Root),
                problems => Warnings
            }}
    end.

told(#{name := Name, dir := Dir, needs := Needs, is_own := IsOwn} = App, Root) ->
    #{
        name => atom_to_binary(Name),
        dir => unicode:characters_to_binary(sbx_files:relative(Dir, Root)),
        sources => paths(sbx_project:sources(App), Root),
        options => sbx_project:options(App, Root),
        needs => [atom_to_binary(Need) || Need <- Needs],
        priv => sbx_files:is_dir(filename:join(Dir, "priv")),
        own => IsOwn,
        compilers => sbx_mix_compilers:own(App) =/= []
    }.

paths(Paths, Root) ->
    [unicode:characters_to_binary(Path) || Path <- sbx_files:inside(Paths, Root)].

%% For sbx_runtime_config, in the node that runs the application.
config(#{config := [], runtime := none}) -> nil;
config(#{config := Config, runtime := none}) -> term_to_binary(Config);
config(#{config := Config, runtime := Runtime}) -> term_to_binary(#{config => Config, runtime => Runtime}).

%% finish

described_app(#{name := Name, properties := Properties}, Modules) ->
    Ebin = sbx_scratch:ebin(Name),
    Names = [binary_to_atom(Module) || Module <- Modules],
    Text = sbx_app_file:text(sbx_app_file:complete(Name, sbx_guess:properties(Properties, Ebin, Names), Names)),
    ok = write_app_file(Name, Text),
    #{name => atom_to_binary(Name), app_file => Text, language => language(Modules)}.

%% The project's own compilers run when all else is compiled.
compiled_app({Described, #{name := Name, modules := Modules}}, #{root := Root}) ->
    #{name := Atom, dir := Dir} = App = app(Name),
    case sbx_mix_compilers:own(App) of
        [] ->
            {Described, []};
        _Own ->
            ok = file:set_cwd(Dir),
            Warnings = sbx_project_mix:inside(App, fun() -> sbx_mix_compilers:run(App, Root) end),
            persistent_term:erase({?KEY, before, Atom}),
            {Described#{files => sbx_mix_compilers:made(Atom, [binary_to_atom(Module) || Module <- Modules])}, Warnings}
    end.

%% Once in a compilation, however many rounds it has.
run_before(#{name := Name} = App, Root) ->
    case sbx_mix_compilers:own(App) =:= [] orelse persistent_term:get({?KEY, before, Name}, false) of
        true ->
            ok;
        false ->
            ok = sbx_mix_compilers:before(App, Root),
            persistent_term:put({?KEY, before, Name}, true)
    end.

language(Modules) ->
    case lists:any(fun(Name) -> binary:match(Name, <<"Elixir.">>) =:= {0, 7} end, Modules) of
        true -> elixir;
        false -> erlang
    end.

%% Only for a project that does not say how it starts.
supervisor(#{loose := true, main := Main}) when Main =/= nil -> written(sbx_guess:supervisor(sbx_scratch:ebin(Main)));
supervisor(_Project) -> nil.

consolidated(Asked, Project) ->
    case Asked andalso consolidates(Project) of
        true -> with_given(sbx_consolidate:protocols(), maps:get(consolidated, Project, []));
        false -> []
    end.

%% Modules of a release have nothing left that they could be consolidated from.
with_given(Made, Files) ->
    Names = [Name || #{module := Name} <- Made],
    Given = [{list_to_binary(filename:basename(File, ".beam")), File} || File <- Files],
    Made ++ [#{module => Name, beam => read(File)} || {Name, File} <- Given, not lists:member(Name, Names)].

read(File) ->
    {ok, Bytes} = file:read_file(File),
    Bytes.

consolidates(#{consolidate := true, apps := Apps}) -> lists:any(fun sbx_project:is_elixir/1, Apps);
consolidates(_Project) -> false.

written(nil) -> nil;
written(Name) -> atom_to_binary(Name).
