%%% Stops the application in order before its VM is ended, where files outlive the VM: what its processes
%%% have not written yet is written as they end.
-module(sbx_stop).

-export([stop/0]).

%% A restart took the states of processes that stand still since. Those that others wait for while they end
%% go on after this time.
-define(STILL_MS, 100).
%% The agent needs these, and the logger's words of the end.
-define(KEPT, [kernel, stdlib, compiler, elixir, logger]).

-spec stop() -> sbx_call:result().
stop() ->
    {Pid, Monitor} = spawn_monitor(fun stop_in_order/0),
    receive
        {'DOWN', Monitor, process, Pid, _Reason} -> ok
    after ?STILL_MS ->
        ok = sbx_states:go_on(),
        receive
            {'DOWN', Monitor, process, Pid, _Reason} -> ok
        end
    end,
    {ok, #{}}.

%% Last started, first stopped.
stop_in_order() ->
    ok = sbx_app:stop(),
    Started = [App || {App, _Description, _Version} <- application:which_applications()],
    lists:foreach(fun application:stop/1, Started -- ?KEPT).
