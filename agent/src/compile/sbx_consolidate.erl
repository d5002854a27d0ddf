%%% Consolidates protocols over the whole project, so that an implementation is looked up and not
%%% searched.
-module(sbx_consolidate).

-export([begin_ahead/0, protocols/0]).

-define(KEY, ?MODULE).

%% Elixir's own protocols take longer than the other steps that end a first compilation, and rarely
%% have further implementations. So a low-priority process makes them beside the compilers, once in
%% a node.
-spec begin_ahead() -> ok.
begin_ahead() ->
    case persistent_term:get({?KEY, maker}, none) of
        none ->
            ok = sbx_elixir:need("the project"),
            persistent_term:put({?KEY, maker}, spawn_opt(fun make_ahead/0, [{priority, low}]));
        _Maker ->
            ok
    end.

make_ahead() ->
    Keys = [wanted(Protocol, []) || Protocol <- elixir_protocols()],
    Results = sbx_parallel:map(fun(Key) -> process_flag(priority, low), made(Key, #{}) end, Keys),
    persistent_term:put({?KEY, ahead}, maps:from_list(lists:append([result(Result) || Result <- Results]))).

%% The caller has no other work, so it waits for the maker.
made_ahead() ->
    Monitor = monitor(process, persistent_term:get({?KEY, maker}, undefined)),
    receive
        {'DOWN', Monitor, process, _Maker, _Reason} -> persistent_term:get({?KEY, ahead}, #{})
    end.

%% The protocols of the project and of Elixir. A protocol with the same implementations as before is
%% not made again.
-spec protocols() -> [#{module := binary(), beam := binary()}].
protocols() ->
    ok = begin_ahead(),
    Ahead = made_ahead(),
    Ebins = sbx_scratch:ebins(),
    Own = [{Protocol, [], Digest} || Module <- sbx_scratch:protocols(), {Protocol, Digest} <- protocol(Module)],
    Known = maps:merge(Ahead, persistent_term:get(?KEY, #{})),
    Wanted = [wanted(Protocol, Ebins) || Protocol <- Own ++ elixir_protocols()],
    Results = sbx_parallel:map(fun(Key) -> made(Key, Known) end, Wanted),
    Made = lists:append([result(Result) || Result <- Results]),
    ok = remember(maps:from_list(Made)),
    [#{module => atom_to_binary(Protocol), beam => Beam} || {{Protocol, _Impls, _Digest}, Beam} <- Made].

%% Changing a persistent term makes the VM scan all processes.
remember(Made) ->
    Made =:= persistent_term:get(?KEY, #{}) orelse persistent_term:put(?KEY, Made),
    ok.

wanted({Protocol, ElixirImpls, Digest}, Ebins) ->
    Impls = 'Elixir.Protocol':extract_impls(Protocol, Ebins),
    {Protocol, lists:usort(ElixirImpls ++ Impls), Digest}.

made(Key, Known) when is_map_key(Key, Known) ->
    {ok, {Key, map_get(Key, Known)}};
made({Protocol, Impls, _Digest} = Key, _Known) ->
    case 'Elixir.Protocol':consolidate(Protocol, Impls) of
        {ok, Beam} -> {ok, {Key, Beam}};
        {error, Reason} -> {error, Reason}
    end.

%% A protocol without debug information stays as it is, as in a release, whose modules are stripped.
result({ok, Made}) -> [Made];
result({error, no_beam_info}) -> [].

protocol(Module) ->
    {ok, Beam} = file:read_file(code:which(Module)),
    {ok, {Module, Chunks}} = beam_lib:chunks(Beam, [attributes, "Dbgi", "ExCk"], [allow_missing_chunks]),
    {value, {attributes, Attributes}, Needed} = lists:keytake(attributes, 1, Chunks),
    IsWhole = not lists:keymember(missing_chunk, 2, Needed),
    [{Module, erlang:md5(Beam)} || IsWhole, lists:keymember('__protocol__', 1, Attributes)].

%% Elixir's protocols and its own implementations never change.
elixir_protocols() ->
    case persistent_term:get({?KEY, elixir}, none) of
        none ->
            Dirs = [filename:join(code:lib_dir(App), "ebin") || App <- [elixir, logger]],
            Found = [
                {Protocol, 'Elixir.Protocol':extract_impls(Protocol, Dirs), elixir}
             || Protocol <- 'Elixir.Protocol':extract_protocols(Dirs)
            ],
            persistent_term:put({?KEY, elixir}, Found),
            Found;
        Found ->
            Found
    end.
