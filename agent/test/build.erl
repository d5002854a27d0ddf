%% Compiles a project in a compiler node and lays the result out as the service does: <dir>/<app>/ebin.
-module(build).

-export([compile/3, compile/4, install/1, examples/0, start_args/2]).

compile(Kind, Source, File) ->
    Vm = vm:start(#{arguments => ["-S", "2:2", "-sbwt", "none", "-fnu"]}),
    Result = compile(Vm, Kind, Source, File),
    vm:stop(Vm),
    Result.

compile(Vm, Kind, Source, File) ->
    vm:call(Vm, compile, #{
        source => unicode:characters_to_binary(Source), kind => Kind, file => File, name => <<"My Project">>
    }).

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

%% A start call's arguments for what was compiled.
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
