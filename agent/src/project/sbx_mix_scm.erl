%%% Mix's view of dependencies that are vendored: whatever has no path of its own lies in the
%%% project's folder of dependencies, as `mix deps.get` left it. Nothing is fetched, and no lock is
%%% checked. The functions are those of the behaviour Mix.SCM.
-module(sbx_mix_scm).

-export(['fetchable?'/0, format/1, format_lock/1, accepts_options/2, 'checked_out?'/1, checkout/1, update/1]).
-export([lock_status/1, 'equal?'/2, managers/1, is_git/1]).

-define(GIT, 'Elixir.Mix.SCM.Git').

%% Then Mix says of a missing one that `mix deps.get` brings it.
'fetchable?'() -> true.

format(Options) ->
    case lists:keyfind(git, 1, Options) of
        {git, Url} -> Url;
        false -> <<"Hex package">>
    end.

format_lock(_Options) -> nil.

%% Git's options may name a folder below the one that was fetched.
accepts_options(App, Options) ->
    case ?GIT:accepts_options(App, Options) of
        nil -> package_of(App, Options);
        Known -> Known
    end.

'checked_out?'(Options) ->
    sbx_files:is_dir(unicode:characters_to_list(dest(Options))).

checkout(Options) -> refuse(Options).

update(Options) -> refuse(Options).

refuse(Options) ->
    'Elixir.Mix':raise(<<"nothing is fetched here: ", (dest(Options))/binary>>).

lock_status(_Options) -> ok.

'equal?'(One, Other) ->
    case {is_git(One), is_git(Other)} of
        {true, true} -> ?GIT:'equal?'(One, Other);
        {false, false} -> package(One) =:= package(Other);
        _ -> false
    end.

-spec is_git([{atom(), term()}]) -> boolean().
is_git(Options) -> lists:keymember(git, 1, Options).

%% The lock names each package and its repository, where a project leaves out what is usual.
package_of(App, Options) ->
    Repository =
        case proplists:get_value(organization, Options) of
            undefined -> <<"hexpm">>;
            Organization -> <<"hexpm:", (text(Organization))/binary>>
        end,
    Options ++ [Default || {Key, _} = Default <- [{hex, App}, {repo, Repository}], not lists:keymember(Key, 1, Options)].

package(Options) -> [text(proplists:get_value(Key, Options)) || Key <- [hex, repo]].

text(Name) when is_atom(Name) -> atom_to_binary(Name);
text(Name) -> unicode:characters_to_binary(Name).

%% The lock says with which tools a package was built. A package may hold the files of others too.
managers(Options) ->
    case proplists:get_value(lock, Options) of
        Lock when is_tuple(Lock), element(1, Lock) =:= hex, tuple_size(Lock) >= 5 -> atoms(element(5, Lock));
        _ -> []
    end.

atoms(List) when is_list(List) -> [Item || Item <- List, is_atom(Item)];
atoms(_Other) -> [].

dest(Options) ->
    {dest, Dest} = lists:keyfind(dest, 1, Options),
    Dest.
