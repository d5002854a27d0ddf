%% The compile call: finds out what the project is, compiles its applications in order into a scratch folder, and
%% answers with their modules. The project's folder is only read.
-module(sbx_compile).

-export([compile/1]).

-record(state, {
    root :: file:filename(),
    scratch :: file:filename(),
    warnings = [] :: [sbx_diagnostic:diagnostic()],
    done = [] :: [map()]
}).

-spec compile(map()) -> sbx_call:result().
compile(Args) ->
    {ok, Home} = file:get_cwd(),
    Scratch = filename:join(Home, "build"),
    _ = file:del_dir_r(Scratch),
    try
        %% Elixir's compiler prints what it also returns.
        sbx_io:discard(standard_error, fun() -> project(sbx_project:discover(Args), Scratch) end)
    catch
        throw:{diagnostics, Errors} -> failed(Errors, []);
        throw:{failed, Errors, Warnings} -> failed(Errors, Warnings);
        throw:{project, Why} -> failed([sbx_diagnostic:new(compile, nil, nil, Why, "")], []);
        throw:{toolchain, Why} -> {error, #{kind => toolchain, message => Why}}
    after
        ok = file:set_cwd(Home),
        forget(Scratch)
    end.

%% The next compilation must see nothing of this one.
forget(Scratch) ->
    Ebins = filelib:wildcard(filename:join(Scratch, "*/ebin")),
    Files = lists:append([filelib:wildcard("*.beam", Ebin) || Ebin <- Ebins]),
    Modules = [list_to_atom(filename:basename(File, ".beam")) || File <- Files],
    lists:foreach(fun code:purge/1, Modules),
    lists:foreach(fun code:delete/1, Modules),
    lists:foreach(fun code:del_path/1, Ebins),
    file:del_dir_r(Scratch).

project(#{root := Root, apps := Apps, config := Config, problems := Problems} = Project, Scratch) ->
    {Warnings, Errors} = lists:partition(fun(#{kind := Kind}) -> Kind =:= warning end, Problems),
    Errors =:= [] orelse throw({failed, Errors, Warnings}),
    ok = application:set_env(Config, [{persistent, true}]),
    State = lists:foldl(fun app/2, #state{root = Root, scratch = Scratch, warnings = Warnings}, Apps),
    case [Module || #{modules := Modules} <- State#state.done, Module <- Modules] of
        [] -> sbx_call:failure(empty_project, "the project holds no modules", []);
        _ -> answer(Project, State)
    end.

failed([#{message := First} | _] = Errors, Warnings) ->
    Message =
        case length(Errors) of
            1 -> First;
            Count -> unicode:characters_to_binary(io_lib:format("~ts (and ~b more)", [First, Count - 1]))
        end,
    {error, #{kind => compile, message => Message, errors => Errors, warnings => Warnings}}.

%% One application

app(#{name := Name, dir := Dir} = App, #state{root = Root, scratch = Scratch} = State) ->
    Ebin = prepare(App, filename:join(Scratch, Name)),
    ok = file:set_cwd(Dir),
    Compiled = lists:foldl(
        fun(Compiler, Acc) -> step(Compiler(App, Ebin, Root), Acc) end,
        State,
        [fun copy/3, fun sbx_compile_erl:compile/3, fun sbx_compile_ex:compile/3]
    ),
    finish(App, Ebin, Compiled).

%% Looks like an installed application, so that include_lib and code:priv_dir/1 work while compiling.
prepare(#{dir := Dir}, Target) ->
    Ebin = filename:join(Target, "ebin"),
    ok = filelib:ensure_dir(filename:join(Ebin, "x")),
    [
        ok = file:make_symlink(filename:join(Dir, Sub), filename:join(Target, Sub))
     || Sub <- ["include", "priv", "src"], sbx_files:is_dir(filename:join(Dir, Sub))
    ],
    true = code:add_patha(Ebin),
    Ebin.

step({ok, Warnings}, #state{warnings = Before} = State) ->
    State#state{warnings = Before ++ Warnings};
step({error, Errors, Warnings}, #state{warnings = Before}) ->
    throw({failed, Errors, Before ++ Warnings}).

copy(#{prebuilt := none}, _Ebin, _Root) ->
    {ok, []};
copy(#{prebuilt := Dir}, Ebin, _Root) ->
    Copy = fun(File) -> {ok, _} = file:copy(filename:join(Dir, File), filename:join(Ebin, File)) end,
    lists:foreach(Copy, filelib:wildcard("*.beam", Dir)),
    {ok, []}.

finish(#{name := Name, dir := Dir, properties := Properties}, Ebin, #state{root = Root, done = Done} = State) ->
    Modules = [module(filename:join(Ebin, File), Dir, Root) || File <- lists:sort(filelib:wildcard("*.beam", Ebin))],
    Names = [binary_to_atom(Module) || #{module := Module} <- Modules],
    Described = sbx_app_file:complete(Name, sbx_guess:properties(Properties, Ebin, Names), Names),
    Text = sbx_app_file:text(Described),
    ok = file:write_file(filename:join(Ebin, [Name, ".app"]), Text),
    App = #{
        name => atom_to_binary(Name),
        app_file => Text,
        modules => Modules,
        priv => sbx_files:is_dir(filename:join(Dir, "priv")),
        dir => unicode:characters_to_binary(sbx_files:relative(Dir, Root))
    },
    State#state{done = [App | Done]}.

module(File, Dir, Root) ->
    {ok, Beam} = file:read_file(File),
    case beam_lib:chunks(Beam, [compile_info]) of
        {ok, {Module, [{compile_info, Info}]}} ->
            Source = filename:absname(proplists:get_value(source, Info, ""), Dir),
            #{module => atom_to_binary(Module), beam => Beam, source => source(Source, Root)};
        {error, beam_lib, _Reason} ->
            Name = filename:basename(File),
            throw({project, unicode:characters_to_binary([Name, " is not a compiled module"])})
    end.

source(Path, Root) ->
    case sbx_files:relative(Path, Root) of
        Path -> nil;
        "." -> nil;
        Inside -> unicode:characters_to_binary(Inside)
    end.

%% The answer: the application to start comes first.

answer(#{main := Main, config := Config} = Project, #state{done = Done, warnings = Warnings} = State) ->
    MainName = written(Main),
    {First, Others} = lists:partition(fun(#{name := Name}) -> Name =:= MainName end, lists:reverse(Done)),
    {ok, #{
        apps => First ++ Others,
        main => MainName,
        config => config(Config),
        language => language(First ++ Others),
        supervisor => supervisor(Project, State),
        warnings => Warnings
    }}.

config([]) -> nil;
config(Config) -> term_to_binary(Config).

language([#{modules := Modules} | Others]) when Modules =:= [], Others =/= [] ->
    language(Others);
language([#{modules := Modules} | _]) ->
    case lists:any(fun(#{module := Name}) -> binary:match(Name, <<"Elixir.">>) =:= {0, 7} end, Modules) of
        true -> elixir;
        false -> erlang
    end.

%% Only where nothing says how the project starts.
supervisor(#{loose := true, main := Main}, #state{scratch = Scratch}) ->
    written(sbx_guess:supervisor(filename:join([Scratch, Main, "ebin"])));
supervisor(_Project, _State) ->
    nil.

written(nil) -> nil;
written(Name) -> atom_to_binary(Name).
