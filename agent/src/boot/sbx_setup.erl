%%% Runs once after the VM has booted and before the agent says hello to the daemon.
-module(sbx_setup).

-export([run/0, forget/1, forget_loading/0]).

%% Modules that only booting calls.
-define(BOOTING, [erl_features, inet_config, kernel_config, peer]).

-spec run() -> ok.
run() ->
    true = group_leader(whereis(user), self()),
    ok = sbx_io:take_standard_error(),
    ok = sbx_log:install(),
    ok = sbx_gave_up:install(),
    ok = sbx_native:install(),
    ok = look_up_names(),
    ok = start_global(),
    ok = sbx_reload_timers:watch(),
    ok = forget(?BOOTING),
    ok = start_elixir(os:getenv("SANDBOX_ELIXIR", "0")),
    collect_garbage().

%% The VM resolves names itself. Its default, a program that uses the C library, would need an
%% execve.
look_up_names() ->
    ok = inet_db:add_host({127, 0, 0, 1}, ["localhost", "sandbox.local", "sandbox"]),
    look_up_names(inet:parse_address(os:getenv("SANDBOX_RESOLVER", "none"))).

look_up_names({ok, Resolver}) ->
    %% An empty path: a missing resolv.conf would count as one without name servers.
    ok = inet_db:set_resolv_conf(""),
    ok = inet_db:add_ns(Resolver),
    inet_db:set_lookup([file, dns]);
look_up_names(_None) ->
    inet_db:set_lookup([file]).

%% OTP starts `global` and `rex` only with distribution, but both work without it.
start_global() ->
    lists:foreach(
        fun({Name, Module}) ->
            Start = {Module, start_link, []},
            Spec = #{id => Name, start => Start, shutdown => 2000, modules => [Module]},
            {ok, _Pid} = supervisor:start_child(kernel_sup, Spec)
        end,
        [{rex, rpc}, {global_name_server, global}]
    ).

start_elixir("1") ->
    sbx_elixir:boot();
start_elixir(_No) ->
    ok.

%% Unloads modules. A later call loads them again; until then the application's modules use the
%% memory.
-spec forget([module()]) -> ok.
forget(Modules) ->
    lists:foreach(fun(Module) -> code:delete(Module) andalso code:soft_purge(Module) end, Modules).

%% Processes that read code keep its bytes as garbage while they idle. Returns at once.
-spec forget_loading() -> ok.
forget_loading() ->
    Readers = [whereis(Name) || Name <- [code_server, erl_prim_loader, application_controller, sbx_app]],
    lists:foreach(fun(Pid) -> erlang:garbage_collect(Pid, [{async, Pid}]) end, Readers).

%% Booting leaves garbage in long-lived processes, which an idle node would keep for good.
collect_garbage() ->
    lists:foreach(fun erlang:garbage_collect/1, processes()).
