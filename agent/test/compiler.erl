%%% A compiler node for one test, and its calls.
-module(compiler).

-export([start/0, project/3, compile/3, compile/4, finish/3, file/2, scratch/1, is_loaded/2]).

%% Uses the service's own flags.
start() ->
    Flags = "-S 2:2 -SDcpu 1:1 -SDio 1 -A 1 -sbwt very_short -sbwtdcpu none -sbwtdio very_short -fnu -Bi",
    vm:start(#{arguments => string:lexemes(Flags, " "), env => rebar3()}).

%% Without it the node reads rebar.config by itself.
rebar3() ->
    [{"SANDBOX_REBAR3", File} || File <- [os:getenv("SANDBOX_REBAR3")], File =/= false].

project(Vm, Kind, Dir) ->
    Source = unicode:characters_to_binary(Dir),
    vm:call(Vm, project, #{source => Source, kind => Kind, file => nil, name => <<"my_app">>}).

compile(Vm, Files, Forget) ->
    compile(Vm, <<"my_app">>, Files, Forget).

compile(Vm, App, Files, Forget) ->
    vm:call(Vm, compile, #{app => App, files => Files, forget => Forget}).

finish(Vm, App, Modules) ->
    vm:call(Vm, finish, #{apps => [#{name => App, modules => Modules}], consolidate => true}).

%% The part of a compile call's answer about one file.
file(Name, {ok, #{files := Files}}) ->
    [File] = [File || #{file := N} = File <- Files, N =:= Name],
    File.

%% The modules in the node's scratch folder, and any other file in its working directory.
scratch(Vm) ->
    Beams = [filename:basename(Name) || Name <- filelib:wildcard("build/lib/*/ebin/*.beam", vm:dir(Vm))],
    lists:sort(Beams ++ (filelib:wildcard("*", vm:dir(Vm)) -- ["agent.sock", "build"])).

is_loaded(Vm, Module) ->
    {ok, #{term := Loaded}} = vm:eval(Vm, io_lib:format("erlang:module_loaded(~tp)", [Module])),
    Loaded.
