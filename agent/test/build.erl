%%% Compiles a project in a compiler node and lays the result out as the service does:
%%% <dir>/<app>/ebin.
-module(build).

-export([start/0, stop/0, compile/3, forms/1, example/2, scratch/0, with/1, install/1, examples/0, start_args/2]).

%% One compiler node serves all tests, one compilation at a time: booting a node costs more than
%% most compilations.
start() ->
    Server = spawn_link(fun() -> serve(compiler:start(), #{}) end),
    true = register(?MODULE, Server),
    ok.

%% Examples are compiled once.
serve(Vm, Examples) ->
    receive
        {compile, From, Tag, Kind, Source, File} ->
            From ! {Tag, compile(Vm, Kind, Source, File)},
            serve(Vm, Examples);
        {forms, From, Tag, Forms} ->
            From ! {Tag, compile_forms(Vm, Forms)},
            serve(Vm, Examples);
        {example, From, Tag, _Kind, Name} when is_map_key(Name, Examples) ->
            From ! {Tag, map_get(Name, Examples)},
            serve(Vm, Examples);
        {example, From, Tag, Kind, Name} ->
            {ok, Built} = compile(Vm, Kind, filename:join(examples(), Name), nil),
            From ! {Tag, Built},
            serve(Vm, Examples#{Name => Built});
        {with, From, Tag, Use} ->
            From ! {Tag, Use(Vm)},
            serve(Vm, Examples);
        {scratch, From, Tag} ->
            From ! {Tag, filelib:wildcard("*", vm:dir(Vm))},
            serve(Vm, Examples);
        {stop, From, Tag} ->
            vm:stop(Vm),
            From ! {Tag, ok}
    end.

stop() ->
    request({stop, self(), make_ref()}).

compile(Kind, Source, File) ->
    request({compile, self(), make_ref(), Kind, Source, File}).

%% Compiles a single module here, where the compiler is loaded already.
forms(Forms) ->
    request({forms, self(), make_ref(), Forms}).

example(Kind, Name) ->
    request({example, self(), make_ref(), Kind, Name}).

%% Makes calls of its own to the compiler node, of which the first describes a project.
with(Use) ->
    request({with, self(), make_ref(), Use}).

%% The files in the compiler node's working directory.
scratch() ->
    request({scratch, self(), make_ref()}).

request(Request) ->
    Tag = element(3, Request),
    ?MODULE ! Request,
    receive
        {Tag, Result} -> Result
    end.

%% Makes all calls for a whole project that was not compiled before. {Kind, Env} is a project in an
%% environment or a profile.
compile(Vm, {Kind, Env}, Source, File) ->
    Args = #{source => unicode:characters_to_binary(Source), kind => Kind, file => File, name => <<"My Project">>},
    compile(Vm, Args#{mix_env => Env});
compile(Vm, Kind, Source, File) ->
    compile(Vm, {Kind, nil}, Source, File).

compile(Vm, Args) ->
    try
        #{apps := Apps, problems := Problems} = Project = call(Vm, project, Args),
        Compiled = [App#{files => compile_app(Vm, App)} || App <- Apps],
        Finish = #{apps => [maps:with([name, modules], with_modules(App)) || App <- Compiled], consolidate => true},
        {ok, built(Project, Compiled, call(Vm, finish, Finish), Problems)}
    catch
        throw:{refused, Error} -> {error, Error}
    end.

compile_forms(Vm, Forms) ->
    Sent = base64:encode(term_to_binary(Forms)),
    Code = ["compile:forms(binary_to_term(base64:decode(\"", Sent, "\")), [deterministic, debug_info, return_errors])"],
    {ok, #{term := {ok, Module, Beam}}} = vm:eval(Vm, Code),
    {Module, Beam}.

call(Vm, Op, Args) ->
    case vm:call(Vm, Op, Args) of
        {ok, Result} -> Result;
        {error, Error} -> throw({refused, Error})
    end.

compile_app(Vm, #{name := Name, sources := Sources}) ->
    Forget = persistent_term:get({?MODULE, Name}, []),
    #{files := Files} = call(Vm, compile, #{app => Name, files => Sources, forget => Forget}),
    persistent_term:put({?MODULE, Name}, [Module || #{modules := Modules} <- Files, #{module := Module} <- Modules]),
    Files.

with_modules(#{files := Files} = App) ->
    App#{modules => [Module || #{modules := Modules} <- Files, #{module := Module} <- Modules]}.

built(#{main := Main, config := Config, program := Program}, Compiled, Finished, Problems) ->
    #{apps := Described, supervisor := Supervisor, consolidated := Consolidated} = Finished,
    Apps = [app(App, Finish) || {App, Finish} <- lists:zip(Compiled, Described)],
    {First, Others} = lists:partition(fun(#{name := Name}) -> Name =:= Main end, Apps),
    #{
        apps => First ++ Others,
        main => Main,
        program => Program,
        config => Config,
        language => hd([Language || #{language := Language, modules := [_ | _]} <- First ++ Others]),
        supervisor => Supervisor,
        consolidated => Consolidated,
        warnings => Problems ++ maps:get(warnings, Finished, []) ++ [W || #{files := Files} <- Compiled, #{warnings := Warnings} <- Files, W <- Warnings]
    }.

app(#{files := Files} = App, Finished) ->
    Modules = [M#{source => File} || #{file := File, modules := Modules} <- Files, M <- Modules],
    Sorted = lists:sort(fun(#{module := A}, #{module := B}) -> A =< B end, Modules),
    maps:merge(maps:with([name, dir, priv], App), Finished#{modules => Sorted}).

%% Returns the apps as a start call names them.
install(#{apps := Apps}) ->
    Dir = test_dir:new(),
    lists:map(
        fun(#{name := Name, app_file := AppFile, modules := Modules}) ->
            AppDir = filename:join(Dir, Name),
            test_dir:write_bytes(filename:join([AppDir, "ebin", <<Name/binary, ".app">>]), AppFile),
            [
                test_dir:write_bytes(filename:join([AppDir, "ebin", <<Module/binary, ".beam">>]), Beam)
             || #{module := Module, beam := Beam} <- Modules
            ],
            #{name => Name, dir => AppDir}
        end,
        Apps
    ).

%% The arguments of a start call for a compiled project.
start_args(#{main := Main, supervisor := Supervisor, language := Language, config := Config} = Built, More) ->
    Default = #{
        apps => install(Built),
        app => case Supervisor of nil -> Main; _ -> nil end,
        supervisor => Supervisor,
        elixir => Language =:= elixir,
        config => Config,
        processes => 100
    },
    maps:merge(Default, More).

examples() ->
    os:getenv("SANDBOX_EXAMPLES").
