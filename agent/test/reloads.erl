%%% Compiles modules from text, and reloads them in a node.
-module(reloads).

-export([compile/1, beam/1, new/1, change/3, change/4, delete/2, reload/2, reload/3, start_modules/2]).
-export([sentinel/1, revert/3, pasted/2]).
-export([eval/2, eval/3, spawn_server/3, server/3, supervisor/2, spawn_supervisor/2]).

%% [{Module, Beam}] of the modules in a text, each of which begins with its -module.
compile(Text) ->
    [compile_one("-module" ++ Part) || Part <- tl(string:split(lists:flatten(Text), "-module", all))].

compile_one(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    build:forms([form(Form) || Form <- forms(Tokens, [])]).

forms([], []) -> [];
forms([{dot, _} = Dot | Tokens], Form) -> [lists:reverse([Dot | Form]) | forms(Tokens, [])];
forms([Token | Tokens], Form) -> forms(Tokens, [Token | Form]).

form(Tokens) ->
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

beam(Text) ->
    [{_Module, Beam}] = compile(Text),
    Beam.

%% Entries of a reload call.
new(Modules) ->
    [entry(Module, load, Beam, nil, 1, nil) || {Module, Beam} <- Modules].

change(Old, New, Version) ->
    change(Old, New, Version, Version - 1).

change(Old, New, Version, OldVersion) ->
    [entry(Module, load, Beam, proplists:get_value(Module, Old, nil), Version, OldVersion) || {Module, Beam} <- New].

delete(Modules, Version) ->
    [entry(Module, delete, nil, Beam, Version, Version - 1) || {Module, Beam} <- Modules].

entry(Module, Action, Beam, Old, Version, OldVersion) ->
    #{
        module => atom_to_binary(Module), action => Action, beam => Beam, old_beam => Old, version => Version,
        old_version => OldVersion
    }.

reload(Vm, Entries) ->
    reload(Vm, Entries, #{}).

%% The option `settle` says how the probation ends: `commit` at once, `revert` by a crash, or `none`
%% of both.
reload(Vm, Entries, #{settle := revert} = Options) ->
    {Name, More} = sentinel(Vm),
    Id = new_id("reverted"),
    {ok, Result} = reload(Vm, Entries ++ More, Options#{settle := none, id => Id}),
    revert(Vm, Name, Id),
    {ok, without(Name, Result)};
reload(Vm, Entries, #{settle := none} = Options) ->
    call(Vm, Entries, maps:remove(settle, Options));
reload(Vm, Entries, Options) ->
    Id = maps:get(id, Options, new_id("committed")),
    case call(Vm, Entries, maps:merge(#{probation_ms => 1}, Options#{id => Id})) of
        {ok, #{status := hot_reloaded} = Result} ->
            committed = settled(Vm, Id),
            {ok, Result};
        Result ->
            Result
    end.

new_id(Kind) ->
    iolist_to_binary([Kind, $-, integer_to_list(erlang:unique_integer([positive]))]).

call(Vm, Entries, Options) ->
    Default = #{
        id => new_id("reload"), modules => Entries, order => [], migrations => #{}, direction => up, on_busy => refuse,
        busy_timeout_ms => 200, suspend_timeout_ms => 2000, migrate_timeout_ms => 2000, probation_ms => 60000,
        restart_changed => false, run_start => false, dry_run => false
    },
    vm:call(Vm, reload, maps:merge(Default, Options)).

settled(Vm, Id) ->
    #{outcome := Outcome} = vm:event(Vm, reload_settled, fun(#{id := Settled}) -> Settled =:= Id end),
    Outcome.

%% A server of its own module, and the entries that change the module. A reload with these entries
%% is taken back when the server crashes. The server has neither a name nor a supervisor, so that
%% the agent awaits no successor.
sentinel(Vm) ->
    Name = "sentinel_" ++ integer_to_list(erlang:unique_integer([positive])),
    [Old, New] = [compile(server(Name, Vsn, "f() -> 1.\ncode_change(_, S, _) -> {ok, S}.\n")) || Vsn <- [one, two]],
    {ok, _} = reload(Vm, new(Old)),
    ok = eval(Vm, "{ok, P} = gen_server:start(~ts, 0, []), persistent_term:put(~ts, P)", [Name, Name]),
    {Name, change(Old, New, 2)}.

revert(Vm, Name, Id) ->
    true = eval(Vm, "exit(persistent_term:get(~ts), kill)", [Name]),
    rolled_back = settled(Vm, Id).

%% The migrations that warnings tell, as the daemon reads what a shell hands on.
pasted(Language, Warnings) ->
    Pattern = "--migrate '([^=]+)=((?:[^']|'\\\\'')*)'",
    {match, Found} = re:run(lists:join("\n", Warnings), Pattern, [global, {capture, [1, 2], binary}]),
    maps:from_list([
        {module(Language, Module), #{
            kind => expression, language => Language, code => iolist_to_binary(string:replace(Code, "'\\''", "'", all))
        }}
     || [Module, Code] <- Found
    ]).

module(elixir, Name) -> <<"Elixir.", Name/binary>>;
module(erlang, Name) -> Name.

without(Name, Result) ->
    Keep = fun(List) -> [One || #{module := Module} = One <- List, Module =/= list_to_binary(Name)] end,
    #{modules := Modules, processes := Processes, shapes := Shapes} = Result,
    Result#{modules := Keep(Modules), processes := Keep(Processes), shapes := Keep(Shapes)}.

start_modules(Vm, Text) ->
    Modules = compile(Text),
    {ok, #{status := hot_reloaded}} = reload(Vm, new(Modules)),
    Modules.

eval(Vm, Format, Arguments) ->
    eval(Vm, io_lib:format(Format, Arguments)).

eval(Vm, Code) ->
    case vm:eval(Vm, Code) of
        {ok, #{term := Term}} -> Term;
        Error -> error({Error, lists:flatten(Code)})
    end.

%% A server that outlives the call that starts it.
spawn_server(Vm, Module, Argument) ->
    eval(Vm, "{ok, P} = gen_server:start({local, ~tp}, ~tp, ~tp, []), P", [Module, Module, Argument]).

%% The text of a server that answers `get` with its state. More may begin with clauses of
%% code_change/3, or define `f/0`.
server(Name, Vsn, More) ->
    io_lib:format(
        "-module(~ts).\n-vsn(~tp).\n-behaviour(gen_server).\n"
        "-export([start_link/1, init/1, handle_call/3, handle_cast/2, handle_info/2, code_change/3, f/0]).\n"
        "start_link(S) -> gen_server:start_link({local, ~ts}, ~ts, S, []).\n"
        "init(S) -> {ok, S}.\n"
        "handle_call({apply, F}, _, S) -> {reply, F(S), S};\n"
        "handle_call({become, New}, _, _) -> {reply, ok, New};\n"
        "handle_call(get, _, S) -> {reply, S, S}.\n"
        "handle_cast(F, S) -> {noreply, F(S)}.\n"
        "handle_info(_, S) -> {noreply, S}.\n~ts\n",
        [Name, Vsn, Name, Name, More]
    ).

%% The text of a supervisor; its children are {Id, Module, Argument}.
supervisor(Name, Children) ->
    Specs = [
        io_lib:format("#{id => ~tp, start => {~tp, start_link, [~tp]}, shutdown => 1000}", [Id, Module, Argument])
     || {Id, Module, Argument} <- Children
    ],
    io_lib:format(
        "-module(~ts).\n-behaviour(supervisor).\n-export([init/1]).\n"
        "init(_) -> counters:add(persistent_term:get(inits), 1, 1), {ok, {#{intensity => 50}, [~ts]}}.\n",
        [Name, lists:join(", ", Specs)]
    ).

spawn_supervisor(Vm, Module) ->
    eval(Vm,
        "persistent_term:put(inits, counters:new(1, [])), Me = self(), "
        "spawn(fun() -> {ok, P} = supervisor:start_link({local, ~tp}, ~tp, []), unlink(P), Me ! {pid, P} end), "
        "receive {pid, P} -> P end",
        [Module, Module]).
