%%% Loads a module with an on_load function, which is the application's code and may never return.
-module(sbx_reload_on_load).

-export([load/4]).

-spec load(module(), file:filename(), binary(), timeout()) -> ok | {error, binary()}.
load(Module, File, Beam, TimeoutMs) ->
    Before = watched_by_code_server(),
    {Pid, Monitor} = spawn_monitor(fun() -> exit(code:load_binary(Module, File, Beam)) end),
    sbx_reload:helper(Pid),
    receive
        {'DOWN', Monitor, process, Pid, Result} -> result(Result)
    after TimeoutMs ->
        %% The code server waits for the process that runs the function. Only killing that process
        %% ends the wait.
        [exit(Runner, kill) || Runner <- watched_by_code_server() -- Before],
        receive
            {'DOWN', Monitor, process, Pid, Result} -> late(Result, TimeoutMs)
        end
    end.

result({module, _Module}) -> ok;
result({error, on_load_failure}) -> {error, <<"its on_load function failed">>};
result(Other) -> {error, sbx_reload_text:text("~tp", [Other])}.

late({module, _Module}, _TimeoutMs) ->
    ok;
late(_Failed, TimeoutMs) ->
    {error, sbx_reload_text:text("its on_load function did not return within ~b ms", [TimeoutMs])}.

watched_by_code_server() ->
    {monitors, Monitors} = process_info(whereis(code_server), monitors),
    [Pid || {process, Pid} <- Monitors, is_pid(Pid)].
