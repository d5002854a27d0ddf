%% Loads in one step what is going to be needed together. One by one, as calls come to them, each module costs a copy
%% of the VM's table of exports, and is read and translated while the others wait.
-module(sbx_together).

-export([load/1]).

%% What this toolchain doesn't have is left out.
-spec load([module()]) -> ok.
load(Modules) ->
    case [Module || Module <- Modules, not erlang:module_loaded(Module)] of
        [] ->
            ok;
        Missing ->
            _ = sbx_limit:lend(length(Missing) + 1, fun() -> code:ensure_modules_loaded(Missing) end),
            ok
    end.
