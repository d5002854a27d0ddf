%% A compiler node of a test's own, and its calls.
-module(compiler).

-export([start/0, project/3, compile/3, compile/4]).

start() ->
    vm:start(#{arguments => string:lexemes("-S 2:2 -sbwt none -sbwtdcpu none -sbwtdio none -fnu", " ")}).

project(Vm, Kind, Dir) ->
    vm:call(Vm, project, #{source => unicode:characters_to_binary(Dir), kind => Kind, file => nil, name => <<"my_app">>}).

compile(Vm, Files, Forget) ->
    compile(Vm, <<"my_app">>, Files, Forget).

compile(Vm, App, Files, Forget) ->
    vm:call(Vm, compile, #{app => App, files => Files, forget => Forget}).
