%%% What the packages of Hex need, as Hex itself tells Mix: what the project's lock says of each. A
%%% package's own rebar.config may name other sources, such as a tag of git, that fit no other
%%% package's. The functions are those of the behaviour Mix.RemoteConverger.
-module(sbx_mix_hex).

-export(['remote?'/1, converge/2, deps/2, post_converge/0]).

'remote?'(#{scm := sbx_mix_scm, opts := Options}) -> not sbx_mix_scm:is_git(Options);
'remote?'(_Dep) -> false.

%% Nothing is fetched, so the lock stays as it is.
converge(_Deps, Lock) -> Lock.

%% Without a lock that fits, nil: Mix reads the files of the package.
deps(#{app := App, opts := Options}, Lock) ->
    case Lock of
        #{App := Locked} when is_tuple(Locked), tuple_size(Locked) >= 6, element(1, Locked) =:= hex ->
            fitting(element(3, Locked), element(6, Locked), unpacked(Options));
        _ ->
            nil
    end.

post_converge() -> ok.

fitting(Version, Deps, Unpacked) when is_list(Deps), Unpacked =:= none; is_list(Deps), Unpacked =:= Version -> Deps;
fitting(_Version, _Deps, _Unpacked) -> nil.

%% Hex writes down which version it unpacked. The folder may have been filled in another way.
unpacked(Options) ->
    Dest = unicode:characters_to_list(proplists:get_value(dest, Options)),
    case file:read_file(filename:join(Dest, ".hex")) of
        {ok, Manifest} -> version(Manifest);
        _ -> none
    end.

version(Manifest) ->
    try binary_to_term(Manifest) of
        {{hex, _, _}, #{version := Version}} -> Version;
        _ -> none
    catch
        error:badarg -> none
    end.
