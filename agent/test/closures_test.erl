%%% Closures of code that is to be purged: wherever one is kept, the reload that would purge its code
%%% is refused, and the closure goes on working.
-module(closures_test).

-include_lib("stdlib/include/assert.hrl").

-export([kept_long_test/0]).

%% Places for a closure: where the search finds it, how it gets there, how it is called there, and
%% how it is forgotten. `F` is the closure, `keeper` the module that keeps it.
-define(PLACES, [
    {state, "keeper:start_server({here, F})", "keeper:call_server()", "keeper:stop()"},
    {state, "keeper:start_server(nothing), keeper:hide(F)", "keeper:call_hidden()", "keeper:stop()"},
    {mailbox, "keeper:start_deaf(), kept ! {run, F}", "keeper:run_mail()", "keeper:stop()"},
    {dictionary, "keeper:start_dictionary(F)", "keeper:call_plain()", "keeper:stop()"},
    {variables, "keeper:start_plain(F)", "keeper:call_plain()", "keeper:stop()"},
    {ets, "keeper:start_table(F)", "keeper:call_table()", "keeper:stop()"},
    {persistent_term, "persistent_term:put(kept, [F])", "(hd(persistent_term:get(kept)))()",
        "persistent_term:erase(kept)"},
    {timer, "keeper:start_timer(#{run => F})", "keeper:fire_timer()", "keeper:stop()"},
    %% The search can't see into these.
    {variables, "keeper:start_nested(F)", "keeper:call_plain()", "keeper:stop()"},
    {hibernates, "keeper:start_hibernating(F)", "keeper:call_plain()", "keeper:stop()"},
    {private_table, "keeper:start_private_table(F)", "keeper:call_plain()", "keeper:stop()"},
    {runs, "keeper:start_running(F)", "keeper:call_plain()", "keeper:stop()"}
]).

kept_long_test() ->
    Vm = started(),
    [{maker, Beam}] = maker(1),
    {ok, {maker, Md5}} = beam_lib:md5(Beam),
    Search = io_lib:format("sbx_reload_closures:search(~w)", [[{maker, Md5, sbx_reload_old_code:closures(Beam)}]]),
    lists:foreach(fun(Place) -> kept(Vm, Search, Place) end, ?PLACES),
    rehearsed(Vm),
    not_kept(Vm),
    killed(Vm),
    vm:stop(Vm).

started() ->
    Vm = vm:start(#{}),
    {ok, _} = reloads:reload(Vm, reloads:new(reloads:compile(keeper()))),
    {ok, _} = reloads:reload(Vm, reloads:new(maker(1))),
    Vm.

maker(N) ->
    Text = "-module(maker).\n-export([make/1, use/1]).\nmake(X) -> fun() -> {~b, X} end.\n"
        "use(List) -> lists:map(fun(X) -> X + ~b end, List).\n",
    reloads:compile(io_lib:format(Text, [N, N])).

%% The first reload replaces the closure's code, the second would have to purge it. The search names
%% the place on every release, also where the VM counts closures.
kept(Vm, Search, {Where, Keep, Call, Forget} = Place) ->
    try
        _ = reloads:eval(Vm, "F = maker:make(me), " ++ Keep ++ ", ok"),
        {ok, _} = reloads:reload(Vm, reloads:change(maker(1), maker(2), 2)),
        ?assertEqual([], [Where || not lists:keymember(Where, 1, found(reloads:eval(Vm, Search)))]),
        {error, Refused} = reloads:reload(Vm, reloads:change(maker(2), maker(3), 3), #{on_busy => refuse}),
        ?assertMatch(#{step := busy, module := <<"maker">>, holders := [_ | _]}, Refused),
        ?assertEqual({1, me}, reloads:eval(Vm, Call)),
        _ = reloads:eval(Vm, Forget ++ ", ok"),
        Options = #{on_busy => wait, busy_timeout_ms => 5000},
        {ok, _} = reloads:reload(Vm, reloads:change(maker(2), maker(1), 3), Options)
    catch
        Class:Reason:Stack -> erlang:raise(Class, {Place, Reason}, Stack)
    end.

%% A dry run tells it too, and purges nothing.
rehearsed(Vm) ->
    _ = reloads:eval(Vm, "F = maker:make(me), keeper:start_plain(F), ok"),
    {ok, _} = reloads:reload(Vm, reloads:change(maker(1), maker(2), 2)),
    Entries = reloads:change(maker(2), maker(1), 3),
    ?assertMatch({error, #{step := busy}}, reloads:reload(Vm, Entries, #{dry_run => true})),
    ?assertEqual({1, me}, reloads:eval(Vm, "keeper:call_plain()")),
    _ = reloads:eval(Vm, "keeper:stop()"),
    ?assertMatch({ok, _}, reloads:reload(Vm, Entries, #{dry_run => true})),
    {ok, _} = reloads:reload(Vm, Entries).

%% Closures that come and go, and timers without closures, keep no reload from its work.
not_kept(Vm) ->
    _ = reloads:eval(Vm, "erlang:send_after(3600000, whereis(init), tick), ok"),
    _ = reloads:eval(Vm, "erlang:start_timer(3600000, whereis(init), #{tick => [1, {2}]}), ok"),
    lists:foreach(
        fun(N) ->
            [_, _] = reloads:eval(Vm, "maker:use([1, 2])"),
            {ok, _} = reloads:reload(Vm, reloads:change(maker(N), maker(N + 1), N + 1), #{on_busy => refuse})
        end,
        [1, 2, 3]
    ),
    {ok, _} = reloads:reload(Vm, reloads:change(maker(4), maker(1), 5)).

%% With `kill` the processes that may hold one end, and the reload succeeds.
killed(Vm) ->
    lists:foreach(
        fun(Keep) ->
            Pid = reloads:eval(Vm, "F = maker:make(me), " ++ Keep ++ ", whereis(kept)"),
            {ok, _} = reloads:reload(Vm, reloads:change(maker(1), maker(2), 2)),
            {ok, _} = reloads:reload(Vm, reloads:change(maker(2), maker(1), 3), #{on_busy => kill}),
            ?assertEqual(false, vm_alive(Vm, Pid))
        end,
        ["keeper:start_plain(F)", "keeper:start_nested(F)"] ++
            %% Where the VM counts closures, the messages of timers are unknown.
            ["keeper:start_timer({run, F})" || not sbx_reload_timers:closures_are_counted()]
    ).

vm_alive(Vm, Pid) ->
    reloads:eval(Vm, io_lib:format("is_process_alive(list_to_pid(~p))", [local(Pid)])).

%% The identifier as its own node writes it.
local(Pid) ->
    [_Node | Numbers] = string:lexemes(pid_to_list(Pid), "<.>"),
    "<" ++ lists:flatten(lists:join(".", ["0" | Numbers])) ++ ">".

found(Places) ->
    [{Where, Place} || #{where := Where} = Place <- Places].

keeper() ->
    "-module(keeper).\n"
    "-compile(export_all).\n-compile(nowarn_export_all).\n"
    "init(State) -> {ok, State}.\n"
    "handle_call(get, _, S) -> {reply, S, S};\n"
    "handle_call({hide, F}, _, S) -> T = ets:new(hidden, [private]), ets:insert(T, {f, F}), {reply, ok, {T, S}};\n"
    "handle_call(hidden, _, {T, _} = S) -> [{f, F}] = ets:lookup(T, f), {reply, F(), S}.\n"
    "handle_cast(_, S) -> {noreply, S}.\n"
    "start_server(State) -> gen_server:start({local, kept}, keeper, State, []).\n"
    "call_server() -> {here, F} = gen_server:call(kept, get), F().\n"
    "hide(F) -> gen_server:call(kept, {hide, F}).\n"
    "call_hidden() -> gen_server:call(kept, hidden).\n"
    "started(Pid) -> register(kept, Pid), Pid ! ready, ok.\n"
    "ready() -> receive ready -> ok end.\n"
    "stop() -> P = whereis(kept), M = monitor(process, P), exit(P, kill),\n"
    "    receive {'DOWN', M, _, _, _} -> ok end.\n"
    "start_deaf() -> started(spawn(keeper, deaf, [])).\n"
    "deaf() -> ready(), receive {go, From} -> receive {run, F} -> From ! {ran, F()}, deaf() end end.\n"
    "run_mail() -> kept ! {go, self()}, answer().\n"
    "answer() -> receive {ran, Result} -> Result end.\n"
    "call_plain() -> kept ! {run, self()}, answer().\n"
    "start_dictionary(F) -> started(spawn(keeper, dictionary, [F])).\n"
    "dictionary(F) -> ready(), put(f, F), dictionary().\n"
    "dictionary() -> receive {run, From} -> From ! {ran, (get(f))()}, dictionary() end.\n"
    "start_plain(F) -> started(spawn(keeper, plain, [F])).\n"
    "plain(F) -> ready(), plainly(F).\n"
    "plainly(F) -> receive {run, From} -> From ! {ran, F()}, plainly(F) end.\n"
    "start_nested(F) -> started(spawn(keeper, nested, [F])).\n"
    "nested(F) -> ready(), nest(fun() -> {in, F()} end).\n"
    "nest(G) -> receive {run, From} -> {in, Result} = G(), From ! {ran, Result}, nest(G) end.\n"
    "start_hibernating(F) -> started(spawn(keeper, hibernating, [F])).\n"
    "hibernating(F) -> ready(), erlang:hibernate(keeper, woken, [F]).\n"
    "woken(F) -> receive {run, From} -> From ! {ran, F()}, erlang:hibernate(keeper, woken, [F]) end.\n"
    "start_table(F) -> started(spawn(keeper, table, [F])).\n"
    "table(F) -> ets:new(kept, [named_table, public]), ets:insert(kept, {f, F}), ready(), table().\n"
    "table() -> receive never -> ok end.\n"
    "call_table() -> [{f, F}] = ets:lookup(kept, f), F().\n"
    "start_private_table(F) -> started(spawn(keeper, private_table, [F])).\n"
    "private_table(F) -> T = ets:new(kept, [private]), ets:insert(T, {f, F}), ready(), private(T).\n"
    "private(T) -> receive {run, From} -> [{f, F}] = ets:lookup(T, f), From ! {ran, F()}, private(T) end.\n"
    "start_timer(Message) -> started(spawn(keeper, timed, [])), kept ! {arm, Message, self()}, answer().\n"
    "timed() -> ready(), timed(none).\n"
    "timed(T) -> receive {arm, M, From} ->\n"
    "        T2 = erlang:send_after(3600000, self(), M), From ! {ran, ok}, timed({T2, term_to_binary(M)});\n"
    "    {fire, From} -> {Timer, Message} = T, true = is_integer(erlang:cancel_timer(Timer)),\n"
    "        #{run := F} = binary_to_term(Message), From ! {ran, F()}, timed(T) end.\n"
    "fire_timer() -> kept ! {fire, self()}, answer().\n"
    "start_running(F) -> started(spawn(keeper, running, [F])).\n"
    "running(F) -> ready(), run(F, 1).\n"
    "run(F, N) -> receive {run, From} -> From ! {ran, F()}, run(F, N) after 0 -> run(F, N + 1) end.\n".
