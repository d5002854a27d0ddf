-module(innocent_dynamic_call).
-export([run/2]).
-dynamic(1).

run(Module, X) -> Module:handle(X).
