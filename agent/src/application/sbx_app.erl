%%% Starts the application's supervision tree and reports its end. The process here is the tree's
%%% parent, and its death ends the agent.
-module(sbx_app).

-export([start_link/0, start/1, stop/0, facts/0, gave_up/2]).
-export([init/0]).

%% A start that goes wrong in so long a time has failed. It is waited for only where something tells that it
%% may: an error was logged, or a limit reached.
-define(FIRST_MS, 1000).
%% How long the application may be busy after its start before it counts as started.
-define(BUSY_MAX_MS, 50).

-record(tree, {
    app = nil :: atom(),
    supervisor = nil :: module() | nil,
    app_pid = nil :: pid() | nil,
    supervisor_pid = nil :: pid() | nil,
    is_supervisor = false :: boolean(),
    modules = [] :: [binary()],
    %% The supervisor that gave up last, with a text, and the last text that names a cause.
    gave_up = none :: none | {pid(), binary()},
    cause = none :: none | binary()
}).

-spec start_link() -> pid().
start_link() ->
    proc_lib:spawn_link(?MODULE, init, []).

-spec start(map()) -> sbx_call:result().
start(Args) ->
    _ = [maps:get(Key, Args) || Key <- [apps, app, supervisor, elixir]],
    request({start, Args}).

%% A supervisor that was started without its application ends for its parent alone.
-spec stop() -> ok.
stop() ->
    case facts() of
        #{app_pid := Top, supervisor_pid := Top} when is_pid(Top) ->
            Monitor = monitor(process, Top),
            ?MODULE ! {?MODULE, {stop, Top}},
            receive
                {'DOWN', Monitor, process, Top, _Reason} -> ok
            end;
        _ ->
            ok
    end.

%% Can be read at any time, also while a start hangs.
-spec facts() -> map().
facts() ->
    case ets:lookup(?MODULE, facts) of
        [{facts, Facts}] -> Facts;
        [] -> facts(idle, #tree{})
    end.

%% A supervisor gave up; the text names what ended too often where HasCause says so.
-spec gave_up(pid(), {binary(), HasCause :: boolean()}) -> ok.
gave_up(Supervisor, {Text, HasCause}) ->
    ?MODULE ! {?MODULE, {gave_up, Supervisor, Text, HasCause}},
    ok.

facts(State, #tree{app = App, supervisor = Supervisor} = Tree) ->
    #{
        state => State,
        app_name => written(App),
        supervisor => written(Supervisor),
        app_pid => Tree#tree.app_pid,
        supervisor_pid => Tree#tree.supervisor_pid,
        modules => Tree#tree.modules
    }.

publish(State, Tree) ->
    true = ets:insert(?MODULE, {facts, facts(State, Tree)}),
    ok.

request(Request) ->
    Monitor = monitor(process, ?MODULE),
    ?MODULE ! {?MODULE, Request, self(), Monitor},
    receive
        {Monitor, Result} ->
            demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, _, Reason} ->
            sbx_call:failure(internal, "the application's holder ended: ~tp", [Reason])
    end.

-spec init() -> no_return().
init() ->
    process_flag(trap_exit, true),
    ?MODULE = ets:new(?MODULE, [named_table, protected]),
    register(?MODULE, self()),
    idle().

%% Waiting

idle() ->
    receive
        {?MODULE, {start, Args}, From, Reference} ->
            true = group_leader(whereis(user), self()),
            {Result, Tree} = start_tree(Args),
            From ! {Reference, Result},
            case Tree of
                none -> idle();
                #tree{} -> watch(Tree)
            end;
        _Stray ->
            idle()
    end.

watch(#tree{supervisor_pid = Top} = Tree) ->
    receive
        {?MODULE, {start, _Args}, From, Reference} ->
            From ! {Reference, sbx_call:failure(conflict, "an application runs already", [])},
            watch(Tree);
        {?MODULE, {gave_up, _, _, _} = GaveUp} ->
            watch(noted(GaveUp, Tree));
        {?MODULE, {stop, Top}} when is_pid(Top) ->
            exit(Top, shutdown),
            watch(Tree);
        {'DOWN', _Monitor, process, Top, Reason} when is_pid(Top) ->
            publish(stopped, Tree#tree{app_pid = nil, supervisor_pid = nil}),
            sbx_outbox:put(stopped, ended(Reason, Tree)),
            idle();
        _Stray ->
            watch(Tree)
    end.

noted({gave_up, Supervisor, Text, true}, Tree) -> Tree#tree{gave_up = {Supervisor, Text}, cause = Text};
noted({gave_up, Supervisor, Text, false}, Tree) -> Tree#tree{gave_up = {Supervisor, Text}}.

%% A supervisor that gives up exits as one that was asked to stop. Where reports don't tell, an exit
%% of the supervisor without a request of the daemon counts as giving up.
ended(shutdown, #tree{supervisor_pid = Top, gave_up = {Top, Text}, cause = Cause}) ->
    sbx_reason:crashed(cause(Text, Cause));
ended(shutdown, #tree{is_supervisor = true}) ->
    case sbx_gave_up:is_certain() of
        true -> sbx_reason:stopped(shutdown);
        false -> sbx_reason:crashed(<<"its supervisor ended: shutdown">>)
    end;
ended(Reason, _Tree) ->
    sbx_reason:stopped(Reason).

%% The supervisor at the top tells of a supervisor below, and that one told the cause.
cause(Text, none) -> Text;
cause(Text, Text) -> Text;
cause(Text, Cause) -> <<Text/binary, "; ", Cause/binary>>.

%% Starting

start_tree(#{apps := Apps, app := App, supervisor := Supervisor, elixir := Elixir} = Args) ->
    Errors = sbx_log:errors(),
    Modules = add_code(Apps),
    Names = lists:map(fun load_spec/1, Apps),
    publish(starting, #tree{modules = Modules}),
    try
        ok = enter_data(),
        ok = set_environment(maps:get(env, Args, [])),
        ok = set_hosts(maps:get(hosts, Args, [])),
        ok = ready_language(Elixir),
        _ = maps:get(serves, Args, false) andalso serve_endpoints(Names),
        %% The limits come first: configuration may be code.
        ok = sbx_limit:set(maps:get(processes, Args, nil)),
        ok = sbx_quota:start(maps:get(limits, Args, #{})),
        ok = configure(maps:merge(#{config => nil, files => []}, Args)),
        Tree = start_top(name(App), module(Supervisor), Names),
        Top = Tree#tree.supervisor_pid,
        _ = is_pid(Top) andalso monitor(process, Top),
        Whole = Tree#tree{modules = Modules, is_supervisor = is_supervisor(Top)},
        publish(running, Whole),
        Told = with_states(Args, Top, maps:remove(state, facts(running, Whole))),
        {{ok, Told}, settled(maps:get(settle_ms, Args, nil), Errors, Whole)}
    catch
        throw:{start, Text} ->
            publish(idle, #tree{}),
            Values = [Value || {_Name, Value} <- maps:get(env, Args, [])],
            Said = with_lines(Text, sbx_native:take()),
            {sbx_call:failure(start, "~ts", [sbx_config_file:masked(Said, Values)]), none};
        Class:Reason:Stack ->
            publish(idle, #tree{}),
            {sbx_call:failure(start, "~ts", [erl_error:format_exception(Class, Reason, Stack)]), none}
    end.

%% The application is watched for SettleMs at least; `nil`: not at all.
settled(nil, _Errors, Tree) ->
    Tree;
settled(SettleMs, Errors, Tree) ->
    Begun = now_ms(),
    IsOver = sbx_limit:look() =:= over,
    settle(Begun, SettleMs, fun() -> IsOver orelse sbx_log:errors() > Errors end, Tree).

settle(Begun, SettleMs, IsTroubled, #tree{supervisor_pid = Top} = Tree) ->
    MustWait = must_wait(now_ms() - Begun, SettleMs, IsTroubled),
    receive
        {?MODULE, {gave_up, _, _, _} = GaveUp} -> settle(Begun, SettleMs, IsTroubled, noted(GaveUp, Tree));
        {'DOWN', _Monitor, process, Top, Reason} = Down when is_pid(Top) -> ended_early(ended(Reason, Tree), Down, Tree)
    after case MustWait of true -> 1; false -> 0 end ->
        case MustWait of
            true -> settle(Begun, SettleMs, IsTroubled, Tree);
            false -> Tree
        end
    end.

must_wait(PassedMs, SettleMs, _IsTroubled) when PassedMs < SettleMs -> true;
must_wait(PassedMs, _SettleMs, _IsTroubled) when PassedMs >= ?FIRST_MS -> false;
must_wait(PassedMs, _SettleMs, IsTroubled) -> PassedMs < ?BUSY_MAX_MS andalso is_busy() orelse IsTroubled().

%% One that has done its work is no failure, and is told as any other end.
ended_early(#{reason := crash, text := Text}, _Down, _Tree) ->
    fail("it ended as soon as it had started: ~ts", [Text]);
ended_early(_Stopped, Down, Tree) ->
    self() ! Down,
    Tree.

is_busy() ->
    erlang:statistics(run_queue) > 0.

%% For a task of Mix nothing is started, and Mix decides what is configured.
configure(#{mix := true} = Args) -> sbx_mix_task:prepare(Args);
configure(Args) -> sbx_runtime_config:apply(Args).

with_lines(Text, Lines) ->
    unicode:characters_to_binary(lists:join($\n, [Text | Lines])).

%% Restores the states of the tree that ran before this one, and reports those that were lost.
with_states(#{states := [_ | _] = States}, Top, Facts) ->
    Lost = sbx_states:put_back(Top, States),
    _ = is_pid(Top) andalso not is_process_alive(Top) andalso fail("the application ended with the states it got", []),
    Facts#{lost => Lost};
with_states(_Args, _Top, Facts) ->
    Facts.

%% Consolidated protocols come before the ones they were made from. Elixir's own protocols are
%% loaded already and have to be loaded again.
add_code(Apps) ->
    Dirs = [unicode:characters_to_list(Dir) || #{dir := Dir} <- Apps],
    Ebins = listed([Dir ++ "/ebin" || Dir <- Dirs]),
    Consolidated = listed([Dir ++ "/consolidated" || Dir <- Dirs]),
    ok = code:add_pathsa(lists:reverse([Dir || {Dir, _Files} <- Consolidated ++ Ebins])),
    lists:foreach(fun load_again/1, [list_to_atom(Name) || Name <- beams(Consolidated)]),
    lists:usort([list_to_binary(Name) || Name <- beams(Ebins)]).

%% Existing folders with their files. prim_file avoids the file server, since each step of a start
%% counts.
listed(Dirs) ->
    [{Dir, Files} || Dir <- Dirs, {ok, Files} <- [prim_file:list_dir(Dir)]].

beams(Listed) ->
    [filename:rootname(File) || {_Dir, Files} <- Listed, File <- Files, filename:extension(File) =:= ".beam"].

load_again(Module) ->
    case erlang:module_loaded(Module) of
        true ->
            _ = code:soft_purge(Module) orelse code:purge(Module),
            _ = code:load_file(Module),
            _ = code:soft_purge(Module),
            ok;
        false ->
            ok
    end.

load_spec(#{name := Written, dir := Dir}) ->
    Name = binary_to_atom(Written),
    ok = sbx_spec:load(Name, filename:join([Dir, "ebin", <<Written/binary, ".app">>])),
    Name.

%% Services that the sandbox may connect to, by the names that it was given for them.
set_hosts(Hosts) ->
    lists:foreach(
        fun({Name, Address}) ->
            {ok, Parsed} = inet:parse_address(unicode:characters_to_list(Address)),
            ok = inet_db:add_host(Parsed, [unicode:characters_to_list(Name)])
        end,
        Hosts
    ).

%% A volume may have been mounted over the folder that the VM booted in: its path leads there now.
enter_data() ->
    case file:get_cwd() of
        {ok, "/data" = Data} -> file:set_cwd(Data);
        _ -> ok
    end.

%% A published port is there for a server. Phoenix has its endpoints listen only for `mix phx.server`, or where the
%% configuration says so, which goes over this.
serve_endpoints(Names) ->
    lists:member(phoenix, Names) andalso application:set_env(phoenix, serve_endpoints, true, [{persistent, true}]).

%% A pooled node was started without the application's environment variables.
set_environment(Env) ->
    lists:foreach(
        fun({Name, Value}) -> os:putenv(unicode:characters_to_list(Name), unicode:characters_to_list(Value)) end,
        Env
    ).

ready_language(false) ->
    ok;
ready_language(true) ->
    case sbx_elixir:boot() of
        ok -> ok;
        {error, Reason} -> fail("Elixir could not be started: ~tp", [Reason])
    end.

start_top(nil, nil, Names) ->
    lists:foreach(fun application:load/1, Names),
    #tree{};
start_top(App, nil, _Names) ->
    ok = start_application(App),
    {AppPid, Top} = application_pids(App),
    #tree{app = App, app_pid = AppPid, supervisor_pid = Top, supervisor = callback_module(Top)};
start_top(_App, Module, Names) ->
    Start = starter(Module),
    lists:foreach(fun application:load/1, Names),
    lists:foreach(fun start_application/1, needed_by(Module, Names)),
    Top = start_supervisor(Module, Start),
    #tree{app = owner(Module, Names), app_pid = Top, supervisor_pid = Top, supervisor = Module}.

start_application(App) ->
    case application:ensure_all_started(App, temporary) of
        {ok, _Started} -> ok;
        {error, {Failed, Reason}} -> throw({start, sbx_reason:start_failure(Failed, Reason)})
    end.

%% An application without a callback module (a library) has a master and no tree.
application_pids(App) ->
    case application_controller:get_master(App) of
        Master when is_pid(Master) ->
            case application_master:get_child(Master) of
                {Top, _Module} when is_pid(Top) -> {Master, Top};
                _ -> {Master, nil}
            end;
        undefined ->
            {nil, nil}
    end.

%% Everything that the supervisor's own application depends on. That application itself is left out,
%% because it would start the same tree.
needed_by(Module, Names) ->
    Owner = owner(Module, Names),
    Others = [Name || Name <- Names, Name =/= Owner],
    case application:get_key(Owner, applications) of
        {ok, Listed} -> lists:usort(Others ++ [App || App <- Listed, App =/= kernel, App =/= stdlib]);
        undefined -> Others
    end.

owner(Module, Names) ->
    Owns = fun(Name) ->
        {ok, Modules} = key(Name, modules),
        lists:member(Module, Modules)
    end,
    case lists:filter(Owns, Names) of
        [Name | _] -> Name;
        [] -> nil
    end.

key(Name, Key) ->
    case application:get_key(Name, Key) of
        {ok, Value} -> {ok, Value};
        undefined -> {ok, []}
    end.

%% Finds how to start the module before anything is started.
starter(Module) ->
    case code:ensure_loaded(Module) of
        {module, Module} -> ok;
        {error, _} -> fail("the module ~ts does not exist", [sbx_reason:module_name(Module)])
    end,
    case {erlang:function_exported(Module, start_link, 1), erlang:function_exported(Module, start_link, 0)} of
        {true, _} -> fun() -> Module:start_link([]) end;
        {false, true} -> fun() -> Module:start_link() end;
        {false, false} -> fail("~ts exports neither start_link/1 nor start_link/0", [sbx_reason:module_name(Module)])
    end.

start_supervisor(Module, Start) ->
    try Start() of
        {ok, Pid} when is_pid(Pid) -> Pid;
        {ok, Pid, _Info} when is_pid(Pid) -> Pid;
        ignore -> fail("~ts asked to be ignored", [sbx_reason:module_name(Module)]);
        {error, Reason} -> throw({start, sbx_reason:start_failure(Module, Reason)});
        Other -> fail("~ts:start_link returned ~tp", [sbx_reason:module_name(Module), Other])
    catch
        error:Reason:Stack -> throw({start, sbx_reason:start_failure(Module, {Reason, Stack})})
    end.

is_supervisor(nil) ->
    false;
is_supervisor(Top) ->
    lists:member(element(1, proc_lib:translate_initial_call(Top)), [supervisor, 'Elixir.DynamicSupervisor']).

callback_module(nil) ->
    nil;
callback_module(Top) ->
    case proc_lib:translate_initial_call(Top) of
        %% Elixir's Supervisor.start_link(children, options) runs a module that the user did not
        %% name.
        {supervisor, 'Elixir.Supervisor.Default', _Arity} -> nil;
        {supervisor, Module, _Arity} -> Module;
        _Other -> nil
    end.

%% Names

name(nil) -> nil;
name(Name) -> binary_to_atom(Name).

%% `Counter.Supervisor` and `Elixir.Counter.Supervisor` name the same module.
module(nil) -> nil;
module(Name) ->
    Prefix = <<"Elixir.">>,
    First = binary:first(Name),
    case binary:longest_common_prefix([Prefix, Name]) =:= byte_size(Prefix) of
        false when First >= $A, First =< $Z -> binary_to_atom(<<Prefix/binary, Name/binary>>);
        _ -> binary_to_atom(Name)
    end.

written(nil) -> nil;
written(Name) -> atom_to_binary(Name).

now_ms() ->
    erlang:monotonic_time(millisecond).

-spec fail(io:format(), [term()]) -> no_return().
fail(Format, Arguments) ->
    throw({start, unicode:characters_to_binary(io_lib:format(Format, Arguments))}).
