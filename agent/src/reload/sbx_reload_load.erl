%%% Loads a set of modules in one atomic step, and undoes it. Both directions are prepared before
%%% anything changes.
-module(sbx_reload_load).

-export([prepare/1, load/2, unload/2, vsn/1, has_code_change/1]).

-include("sbx_reload.hrl").

-record(set, {
    %% Handles of prepared code. To finish a handle twice would crash the VM, so each is used in one
    %% place only.
    forth :: none | code:prepared_code(),
    back :: none | code:prepared_code(),
    %% Modules with an on_load function can't be loaded together with others.
    forth_single :: [item()],
    back_single :: [item()],
    %% Modules to delete when loading, and when undoing it.
    deleted :: [module()],
    added :: [module()]
}).

-opaque set() :: #set{}.
-type item() :: {module(), file:filename(), binary()}.
-type problem() :: {module(), binary()}.

-export_type([set/0]).

-spec prepare([#change{}]) -> {ok, set()} | {error, problem()}.
prepare(Changes) ->
    try
        lists:foreach(fun check/1, Changes),
        {Forth, ForthSingle} = prepare_items([item(C, Beam) || #change{beam = Beam} = C <- Changes, is_binary(Beam)]),
        {Back, BackSingle} = prepare_items([item(C, Old) || C <- Changes, Old <- [running(C)], is_binary(Old)]),
        {ok, #set{
            forth = Forth,
            back = Back,
            forth_single = ForthSingle,
            back_single = BackSingle,
            deleted = [M || #change{module = M, action = delete} <- Changes, not_findable(M)],
            added = [M || #change{module = M, old_beam = nil} <- Changes, not erlang:module_loaded(M)]
        }}
    catch
        throw:{?MODULE, Problem} -> {error, Problem}
    end.

check(#change{module = Module}) ->
    case code:is_sticky(Module) orelse is_ours(Module) of
        true -> fail(Module, "it belongs to the runtime", []);
        false -> ok
    end.

is_ours(Module) ->
    case code:is_loaded(Module) of
        {file, File} when is_list(File) -> filename:dirname(File) =:= filename:dirname(code:which(?MODULE));
        _ -> false
    end.

%% The running code, which a failure must restore, even where the caller did not send it.
running(#change{old_beam = Old}) when is_binary(Old) ->
    Old;
running(#change{module = Module}) ->
    erlang:module_loaded(Module) andalso on_disk(Module).

on_disk(Module) ->
    case code:get_object_code(Module) of
        {Module, Beam, _File} ->
            Running = erlang:get_module_info(Module, md5),
            case beam_lib:md5(Beam) of
                {ok, {Module, Running}} -> Beam;
                _ -> fail_unknown(Module)
            end;
        error ->
            fail_unknown(Module)
    end.

-spec fail_unknown(module()) -> no_return().
fail_unknown(Module) ->
    fail(Module, "what runs was loaded by somebody else", []).

item(#change{module = Module}, Beam) ->
    File =
        case code:is_loaded(Module) of
            {file, Loaded} when is_list(Loaded) -> Loaded;
            _ -> atom_to_list(Module) ++ ".beam"
        end,
    {Module, File, Beam}.

prepare_items([]) ->
    {none, []};
prepare_items(Items) ->
    %% The code server starts a process for each module, and one more.
    case sbx_limit:with_extra(length(Items) + 1, fun() -> code:prepare_loading(Items) end) of
        {ok, Prepared} ->
            {Prepared, []};
        {error, Errors} ->
            Single = [Module || {Module, on_load_not_allowed} <- Errors],
            [fail(Module, "~tp", [Reason]) || {Module, Reason} <- Errors, Reason =/= on_load_not_allowed],
            {Alone, Together} = lists:partition(fun({Module, _, _}) -> lists:member(Module, Single) end, Items),
            {Prepared, []} = prepare_items(Together),
            {Prepared, Alone}
    end.

%% A module that is on the code path is loaded again by the next call.
not_findable(Module) ->
    code:where_is_file(atom_to_list(Module) ++ ".beam") =:= non_existing.

%% After `unchanged` nothing has changed; after `partly` the caller must undo the rest.
-spec load(set(), timeout()) -> ok | {unchanged | partly, load | on_load, problem()}.
load(#set{forth = Forth, forth_single = Single, deleted = Deleted}, TimeoutMs) ->
    case finish(Forth) of
        ok ->
            lists:foreach(fun code:delete/1, Deleted),
            load_single(Single, TimeoutMs);
        {error, Problem} ->
            {unchanged, load, Problem}
    end.

load_single([], _TimeoutMs) ->
    ok;
load_single([{Module, File, Beam} | Rest], TimeoutMs) ->
    case sbx_reload_on_load:load(Module, File, Beam, TimeoutMs) of
        ok -> load_single(Rest, TimeoutMs);
        {error, Text} -> {partly, on_load, {Module, Text}}
    end.

finish(none) ->
    ok;
finish(Prepared) ->
    case code:finish_loading(Prepared) of
        ok ->
            ok;
        {error, [{_, not_purged} | _] = Errors} ->
            %% The application loaded a module in between. The handle is still valid.
            lists:foreach(fun({Module, _}) -> code:soft_purge(Module) end, Errors),
            finish_purged(Prepared);
        {error, [Error | _]} ->
            {error, problem(Error)}
    end.

finish_purged(Prepared) ->
    case code:finish_loading(Prepared) of
        ok -> ok;
        {error, [Error | _]} -> {error, problem(Error)}
    end.

problem({Module, Reason}) ->
    {Module, unicode:characters_to_binary(io_lib:format("~tp", [Reason]))}.

%% Loads the old code again. Processes that still run code which has to be purged first are killed:
%% the VM has no other way to unload code. Returns those modules.
-spec unload(set(), timeout()) -> [module()].
unload(#set{back = Back, back_single = Single, added = Added} = Set, TimeoutMs) ->
    Modules = modules(Set),
    StillUsed = [Module || Module <- Modules, not code:soft_purge(Module)],
    lists:foreach(fun code:purge/1, StillUsed),
    _ = Back =:= none orelse (ok = code:finish_loading(Back)),
    lists:foreach(fun({Module, File, Beam}) -> sbx_reload_on_load:load(Module, File, Beam, TimeoutMs) end, Single),
    lists:foreach(fun(Module) -> code:delete(Module), code:soft_purge(Module) end, Added),
    StillUsed.

modules(#set{back = Back, back_single = Single, added = Added}) ->
    Prepared = case Back of none -> []; {'$prepared$', List} -> [Module || {Module, _} <- List] end,
    Prepared ++ [Module || {Module, _, _} <- Single] ++ Added.

%% The version that code_change gets: the module's `vsn` attribute.
-spec vsn(binary() | module()) -> term().
vsn(Beam) when is_binary(Beam) ->
    case beam_lib:version(Beam) of
        {ok, {_Module, Vsn}} -> single(Vsn);
        {error, beam_lib, _} -> undefined
    end;
vsn(Module) ->
    try single(proplists:get_value(vsn, erlang:get_module_info(Module, attributes), undefined))
    catch error:badarg -> undefined
    end.

single([Vsn]) -> Vsn;
single(Vsn) -> Vsn.

-spec has_code_change(binary()) -> boolean().
has_code_change(Beam) ->
    case beam_lib:chunks(Beam, [exports]) of
        {ok, {_Module, [{exports, Exports}]}} -> lists:any(fun({Name, _}) -> Name =:= code_change end, Exports);
        {error, beam_lib, _} -> false
    end.

-spec fail(module(), io:format(), [term()]) -> no_return().
fail(Module, Format, Arguments) ->
    throw({?MODULE, {Module, unicode:characters_to_binary(io_lib:format(Format, Arguments))}}).
