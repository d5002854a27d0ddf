%%% Loads modules together that are needed together. Loaded one by one on demand, each module costs
%%% a copy of the VM's export table, and the caller waits for each.
-module(sbx_batch_load).

-export([load/1, load_few/1]).

-define(FEW, 4).

%% Modules that the toolchain does not have are left out.
-spec load([module()]) -> ok.
load(Modules) ->
    load(missing(Modules), length(Modules)).

%% Loads a few at a time, for a node that is to stay small: the VM keeps the peak memory of loading.
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
