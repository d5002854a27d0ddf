-module(guilty_load).
-export([run/2]).
-finding("run/2 call code:load_binary/3 code_loading").

run(Module, Binary) -> code:load_binary(Module, "nowhere", Binary).
