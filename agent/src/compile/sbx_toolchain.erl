%%% The modules of the installation. They never change, so a dependency on one of them is not
%%% reported.
-module(sbx_toolchain).

-export([project_modules/1, shadow/1, names/0]).

-define(KEY(What), {?MODULE, What}).

%% The modules that belong to the project or could: a missing module could.
-spec project_modules([module()]) -> [module()].
project_modules(Modules) ->
    Installed = installed(),
    Shadowed = persistent_term:get(?KEY(shadowed), []),
    [Module || Module <- Modules, not is_map_key(Module, Installed) orelse lists:member(Module, Shadowed)].

%% Notes modules of the project that may have the name of an installed module.
-spec shadow([module()]) -> ok.
shadow(Modules) ->
    Installed = installed(),
    Shadowed = persistent_term:get(?KEY(shadowed), []),
    case [Module || Module <- Modules, is_map_key(Module, Installed)] -- Shadowed of
        [] -> ok;
        New -> persistent_term:put(?KEY(shadowed), New ++ Shadowed)
    end.

-spec names() -> [string()].
names() ->
    [atom_to_list(Module) || Module <- maps:keys(installed())].

installed() ->
    case persistent_term:get(?KEY(installed), none) of
        none ->
            Names = maps:from_keys(lists:append([names(Dir) || Dir <- dirs()]) ++ erlang:pre_loaded(), true),
            persistent_term:put(?KEY(installed), Names),
            Names;
        Names ->
            Names
    end.

%% The code path without the project's folders.
dirs() ->
    Elixir = [filename:join([filename:dirname(Dir), App, "ebin"]) || Dir <- elixir(), App <- ["mix", "eex", "ex_unit"]],
    lists:usort(code:get_path() -- sbx_scratch:ebins()) ++ Elixir.

elixir() ->
    case code:lib_dir(elixir) of
        {error, bad_name} -> [];
        Dir -> [Dir]
    end.

names(Dir) ->
    case file:list_dir(Dir) of
        {ok, Files} -> [list_to_atom(filename:rootname(File)) || File <- Files, filename:extension(File) =:= ".beam"];
        {error, _Reason} -> []
    end.
