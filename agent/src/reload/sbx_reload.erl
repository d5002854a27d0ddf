%%% Takes the calls that change running code, lets one transaction run at a time, and remembers what
%%% ran and how it ended.
%%%
%%% The transaction is a process of its own that outlives the connection. If it dies without
%%% reporting an outcome, the node can't be trusted and ends too.
-module(sbx_reload).

-export([start_link/0, reload/1, code_state/1]).
-export([phase/1, loaded/1, outcome/2, identities/1, identities/0, remember/1, before/2]).
-export([helper/1, own_pids/0, helpers/0]).
-export([init/0]).

-include("sbx_reload.hrl").

-define(IN_ADVANCE, 4).

-record(state, {
    worker = none :: none | {pid(), reference()},
    id = nil :: binary() | nil,
    phase = <<"idle">> :: binary(),
    last = nil :: map() | nil,
    %% Requests that came after the outcome, while the transaction still cleans up.
    next = [] :: [{term(), pid(), reference()}]
}).

-spec start_link() -> pid().
start_link() ->
    proc_lib:spawn_link(?MODULE, init, []).

%% The calls

-spec reload(map()) -> sbx_call:result().
reload(Args) ->
    _ = [maps:get(Key, Args) || Key <- [id, modules]],
    request({reload, Args}).

-spec code_state(map()) -> sbx_call:result().
code_state(_Args) ->
    request(code_state).

request(Request) ->
    Monitor = monitor(process, ?MODULE),
    ?MODULE ! {?MODULE, call, Request, self(), Monitor},
    receive
        {Monitor, Result} ->
            demonitor(Monitor, [flush]),
            Result;
        {'DOWN', Monitor, process, _, Reason} ->
            sbx_call:failure(internal, "the process that reloads has ended: ~tp", [Reason])
    end.

%% Reports of the transaction

-spec phase(binary()) -> ok.
phase(Phase) ->
    tell({phase, Phase}).

%% The versions that run now; nil: the module is gone.
-spec loaded([{module(), integer() | nil}]) -> ok.
loaded(Versions) ->
    tell({loaded, Versions}).

%% `none`: a dry run, which changed nothing.
-spec outcome(binary(), committed | rolled_back | failed | none) -> ok.
outcome(Id, Outcome) ->
    tell({outcome, Id, Outcome}).

%% The closures that the replaced versions can have made.
-spec identities(#{module() => sbx_reload_old_code:identity()}) -> ok.
identities(Identities) ->
    tell({identities, Identities}).

-spec identities() -> #{module() => sbx_reload_old_code:identity()}.
identities() ->
    maps:from_list([{Module, Identity} || {{identity, Module}, Identity} <- ets:tab2list(?MODULE)]).

%% The states from before the last change of each module.
-spec remember([{pid(), module(), {New :: term(), Old :: term()}, unchanged | {kept, term()} | none}]) -> ok.
remember(Entries) ->
    tell({remember, Entries}).

-spec before(pid(), #change{}) -> unchanged | {kept, term()} | none.
before(Pid, #change{module = Module, version = Target, old_version = Running}) ->
    case ets:lookup(?MODULE, {before, Pid, Module}) of
        [{_, {Running, Target}, Before}] -> Before;
        _ -> none
    end.

tell(What) ->
    ?MODULE ! {?MODULE, told, self(), What},
    ok.

%% A process that works for a transaction does not count as the application's.
-spec helper(pid()) -> ok.
helper(Pid) ->
    case whereis(?MODULE) of
        undefined -> ok;
        Reload -> Reload ! {?MODULE, helper, Pid}, ok
    end.

%% A helper is reported a moment after it starts. So a few are counted in advance while a
%% transaction runs.
-spec helpers() -> [pid()].
helpers() ->
    try
        Helpers = [Pid || {{helper, Pid}} <- ets:match_object(?MODULE, {{helper, '_'}})],
        Helpers ++ [Pid || {advance, Pid} <- ets:lookup(?MODULE, advance), _ <- lists:seq(1, ?IN_ADVANCE)]
    catch
        error:badarg -> []
    end.

-spec own_pids() -> #{pid() => []}.
own_pids() ->
    Named = [whereis(Name) || Name <- [sbx_agent, sbx_outbox, sbx_app, sbx_limit, ?MODULE, user, code_server]],
    maps:from_keys([self() | Named] ++ sbx_agent:call_pids(), []).

%% The process

-spec init() -> no_return().
init() ->
    process_flag(trap_exit, true),
    ?MODULE = ets:new(?MODULE, [named_table, protected]),
    register(?MODULE, self()),
    loop(#state{}).

loop(State) ->
    receive
        {?MODULE, call, Request, From, Reference} ->
            loop(serve(Request, From, Reference, State));
        {?MODULE, told, Worker, What} when element(1, State#state.worker) =:= Worker ->
            loop(told(What, State));
        {?MODULE, helper, Pid} ->
            _ = monitor(process, Pid),
            true = ets:insert(?MODULE, {{helper, Pid}}),
            loop(State);
        {'DOWN', Monitor, process, Worker, Reason} when State#state.worker =:= {Worker, Monitor} ->
            loop(ended(Worker, Reason, State));
        {'DOWN', _Monitor, process, Pid, _Reason} ->
            true = ets:delete(?MODULE, {helper, Pid}),
            loop(State);
        {'EXIT', Pid, Reason} when is_pid(Pid) ->
            exited(Pid, Reason, State);
        _Stray ->
            loop(State)
    end.

%% Only the agent is linked to this process, but any process can send the message.
exited(Pid, Reason, State) ->
    case whereis(sbx_agent) of
        Pid -> exit(Reason);
        _ -> loop(State)
    end.

serve({reload, #{follows := Id}}, From, Reference, #state{last = #{id := Id, outcome := Outcome}} = State) when
    Outcome =/= committed
->
    From ! {Reference, sbx_call:failure(conflict, "the reload ~ts has been taken back", [Id])},
    State;
serve({reload, #{id := Id} = Args}, From, Reference, #state{worker = none} = State) ->
    true = ets:insert(?MODULE, {advance, self()}),
    {Pid, Monitor} = spawn_opt(
        fun() -> sbx_reload_run:run(Args, From, Reference) end, [monitor, {priority, high}, {max_heap_size, 0}]
    ),
    true = ets:insert(?MODULE, {{helper, Pid}}),
    State#state{worker = {Pid, Monitor}, id = Id, phase = <<"prepare">>};
%% A dry run changes nothing, so the reload on probation stays on probation.
serve({reload, #{dry_run := true} = Args}, From, Reference, #state{phase = <<"probation">>} = State) ->
    {Pid, _Monitor} = spawn_opt(fun() -> sbx_reload_run:run(Args, From, Reference) end, [monitor, {max_heap_size, 0}]),
    true = ets:insert(?MODULE, {{helper, Pid}}),
    State;
%% The reload that this one follows is committed, unless it was just taken back.
serve({reload, #{follows := Id} = Args} = Request, From, Reference, #state{id = Id, worker = {Worker, _}} = State) when
    is_binary(Id)
->
    Worker ! {?MODULE, followed, [Module || #{module := Module} <- maps:get(modules, Args)]},
    State#state{next = State#state.next ++ [{Request, From, Reference}]};
serve({reload, _Args} = Request, From, Reference, #state{id = nil, next = Next} = State) ->
    State#state{next = Next ++ [{Request, From, Reference}]};
serve({reload, _Args}, From, Reference, #state{id = Id} = State) ->
    From ! {Reference, sbx_call:failure(conflict, "the reload ~ts is not settled yet", [Id])},
    State;
serve(code_state, From, Reference, State) ->
    From ! {Reference, {ok, described(State)}},
    State.

described(#state{id = Id, phase = Phase, last = Last}) ->
    Transaction = case Id of nil -> nil; _ -> #{id => Id, phase => Phase} end,
    #{transaction => Transaction, last => Last, modules => modules()}.

modules() ->
    Versions = maps:from_list([{Module, Version} || {{version, Module}, Version} <- ets:tab2list(?MODULE)]),
    #{modules := Written} = sbx_app:facts(),
    Known = lists:usort(maps:keys(Versions) ++ [binary_to_atom(Name) || Name <- Written]),
    [
        #{
            module => atom_to_binary(Module),
            version => maps:get(Module, Versions, nil),
            md5 => erlang:get_module_info(Module, md5)
        }
     || Module <- Known, erlang:module_loaded(Module)
    ].

told({phase, Phase}, State) ->
    State#state{phase = Phase};
told({loaded, Versions}, State) ->
    [true = ets:insert(?MODULE, {{version, Module}, Version}) || {Module, Version} <- Versions],
    State;
told({identities, Identities}, State) ->
    maps:foreach(fun(Module, Identity) -> true = ets:insert(?MODULE, {{identity, Module}, Identity}) end, Identities),
    State;
told({remember, Entries}, State) ->
    Modules = lists:usort([Module || {_, Module, _, _} <- Entries]),
    [true = ets:match_delete(?MODULE, {{before, '_', Module}, '_', '_'}) || Module <- Modules],
    [true = ets:insert(?MODULE, {{before, Pid, M}, Versions, Before}) || {Pid, M, Versions, Before} <- Entries],
    State;
told({outcome, _Id, none}, State) ->
    State#state{id = nil, phase = <<"idle">>};
told({outcome, Id, Outcome}, State) ->
    State#state{last = #{id => Id, outcome => Outcome}, id = nil, phase = <<"idle">>}.

%% Only now may the next transaction begin: the last one cleaned up after it had reported its
%% outcome.
ended(Worker, normal, #state{next = Next} = State) ->
    true = ets:delete(?MODULE, {helper, Worker}),
    true = ets:delete(?MODULE, advance),
    Idle = State#state{worker = none, id = nil, phase = <<"idle">>, next = []},
    lists:foldl(fun({Request, From, Reference}, S) -> serve(Request, From, Reference, S) end, Idle, Next);
ended(_Worker, Reason, _State) ->
    exit({reload, Reason}).
