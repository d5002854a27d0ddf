%% Protocols consolidated over all of the project: which implementation a value has is then looked up, not searched.
-module(sbx_consolidate).

-export([protocols/0]).

-define(KEY, ?MODULE).

%% Those of the project and of Elixir itself. A protocol whose implementations are those of the last time is not made
%% again.
-spec protocols() -> [#{module := binary(), beam := binary()}].
protocols() ->
    ok = sbx_elixir:need("the project"),
    Ebins = sbx_scratch:ebins(),
    Own = [{Protocol, [], Digest} || Module <- sbx_scratch:protocols(), {Protocol, Digest} <- protocol(Module)],
    Known = persistent_term:get(?KEY, #{}),
    Wanted = [wanted(Protocol, Ebins) || Protocol <- Own ++ elixir_protocols()],
    Results = sbx_parallel:map(fun(Key) -> made(Key, Known) end, Wanted),
    Made = lists:append([result(Result) || Result <- Results]),
    maps:from_list(Made) =:= Known orelse persistent_term:put(?KEY, maps:from_list(Made)),
    [#{module => atom_to_binary(Protocol), beam => Beam} || {{Protocol, _Impls, _Digest}, Beam} <- Made].

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

%% One that was compiled without debug information stays as it is.
result({ok, Made}) -> [Made];
result({error, no_beam_info}) -> [].

protocol(Module) ->
    {ok, Beam} = file:read_file(code:which(Module)),
    {ok, {Module, [{attributes, Attributes}]}} = beam_lib:chunks(Beam, [attributes]),
    [{Module, erlang:md5(Beam)} || lists:keymember('__protocol__', 1, Attributes)].

%% They never change, nor do the implementations that Elixir has.
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
