-module(innocent_dynamic_function).
-export([run/1]).
-dynamic(1).

run(Function) -> os:Function().
