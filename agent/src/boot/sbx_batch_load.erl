%% Loads in one step what is going to be needed together. One by one, as calls come to them, each module costs a copy
%% of the VM's table of exports, and is read and translated while the others wait.
-module(sbx_batch_load).

-export([load/1, load_few/1]).

-define(FEW, 4).

%% What this toolchain doesn't have is left out.
-spec load([module()]) -> ok.
load(Modules) ->
    load(missing(Modules), length(Modules)).

%% A few at a time, in a node that is to stay small: it keeps the memory that loading takes at its height.
-spec load_few([module()]) -> ok.
load_few(Modules) ->
    load(missing(Modules), ?FEW).

missing(Modules) ->
    [Module || Module <- Modules, not erlang:module_loaded(Module)].

load([], _AtOnce) ->
    ok;
load(Missing, AtOnce) ->
    {Some, Rest} = lists:split(min(AtOnce, length(Missing)), Missing),
    _ = sbx_limit:with_extra(length(Some) + 1, fun() -> code:ensure_modules_loaded(Some) end),
    load(Rest, AtOnce).
