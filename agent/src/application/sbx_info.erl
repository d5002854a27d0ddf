%%% Facts about the node for hello and the call `info`. They are cheap enough for the agent's own
%%% process: nothing here walks the process table.
-module(sbx_info).

-export([hello/0, get/0]).

-spec hello() -> map().
hello() ->
    #{
        otp => list_to_binary(erlang:system_info(otp_release)),
        erts => list_to_binary(erlang:system_info(version)),
        elixir => elixir_version(),
        uptime_ms => uptime_ms(),
        state => maps:get(state, sbx_app:facts())
    }.

-spec get() -> map().
get() ->
    Facts = sbx_app:facts(),
    Facts#{
        processes => sbx_limit:count(),
        atoms => erlang:system_info(atom_count),
        memory_bytes => erlang:memory(total),
        uptime_ms => uptime_ms(),
        run_queue => erlang:statistics(run_queue)
    }.

uptime_ms() ->
    erlang:convert_time_unit(erlang:monotonic_time() - erlang:system_info(start_time), native, millisecond).

elixir_version() ->
    case application:get_key(elixir, vsn) of
        {ok, Version} -> list_to_binary(Version);
        undefined -> nil
    end.
