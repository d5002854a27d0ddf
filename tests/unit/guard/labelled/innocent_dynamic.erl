-module(innocent_dynamic).
-export([run/3]).
-dynamic(1).

run(Module, Function, Arguments) -> apply(Module, Function, Arguments).
