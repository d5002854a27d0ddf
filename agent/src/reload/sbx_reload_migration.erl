%%% Chooses how the states of each module's processes are migrated: by the caller's function if
%%% there is one, else by the module's code_change.
-module(sbx_reload_migration).

-export([plans/5]).

-include("sbx_reload.hrl").

%% Expressions are evaluated in a separate process, before any process is suspended. Wanted are the
%% changed modules, and those that only the caller's migrations name.
-spec plans([#change{}], [module()], #{binary() => map()}, up | down, timeout()) ->
    {ok, #{module() => sbx_reload_state:plan()}} | {error, binary(), binary()}.
plans(Changes, Wanted, Migrations, Direction, TimeoutMs) ->
    case functions(maps:to_list(Migrations), TimeoutMs, #{}) of
        {ok, Functions} ->
            Alone = Wanted -- [C#change.module || C <- Changes],
            {ok, maps:from_list(
                [{C#change.module, plan(C, Functions, Direction)} || C <- Changes] ++
                [{Module, {apply, map_get(atom_to_binary(Module), Functions), nil, nil}} || Module <- Alone]
            )};
        Error ->
            Error
    end.

plan(#change{action = delete}, _Functions, _Direction) ->
    keep;
plan(#change{module = Module, old_version = Old, version = New} = Change, Functions, Direction) ->
    case maps:get(atom_to_binary(Module), Functions, maps:get(<<"*">>, Functions, none)) of
        none -> {code_change, vsn(Change, Direction)};
        Function -> {apply, Function, Old, New}
    end.

vsn(#change{module = Module}, up) -> sbx_reload_load:vsn(Module);
vsn(#change{beam = Beam}, down) -> {down, sbx_reload_load:vsn(Beam)}.

functions([], _TimeoutMs, Functions) ->
    {ok, Functions};
functions([{Name, Migration} | Rest], TimeoutMs, Functions) ->
    case function(Migration, TimeoutMs) of
        {ok, Function} -> functions(Rest, TimeoutMs, Functions#{Name => Function});
        {error, Text} -> {error, Name, Text}
    end.

function(#{kind := function, module := Module, function := Function}, _TimeoutMs) ->
    {M, F} = {binary_to_atom(Module), binary_to_atom(Function)},
    {ok, fun(State, Old, New) -> M:F(State, Old, New) end};
function(#{kind := expression, language := Language, code := Code}, TimeoutMs) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({value, sbx_eval:value_of(Language, Code)}) end),
    sbx_reload:helper(Pid),
    receive
        {'DOWN', Monitor, process, Pid, {value, {ok, Function}}} when is_function(Function, 3) ->
            {ok, Function};
        {'DOWN', Monitor, process, Pid, {value, {ok, Other}}} ->
            {error, sbx_reload_text:text("the migration is not a function of three arguments: ~tp", [Other])};
        {'DOWN', Monitor, process, Pid, {value, {error, #{message := Message}}}} ->
            {error, <<"the migration: ", Message/binary>>};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, sbx_reload_text:text("the migration: ~tp", [Reason])}
    after TimeoutMs ->
        exit(Pid, kill),
        demonitor(Monitor, [flush]),
        {error, sbx_reload_text:text("the migration was not evaluated within ~b ms", [TimeoutMs])}
    end.
