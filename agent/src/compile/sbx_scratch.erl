%%% The compiler's scratch folder. It holds `lib/<app>/ebin` for each application of the project, on
%%% the code path, so that files can be compiled against the modules in it. Mix takes it for the
%%% folder that it builds into.
-module(sbx_scratch).

-export([open/1, close/0, build_path/0, temporary/1, ebin/1, ebins/0, names/0, add/3, keep/1]).
-export([put/3, note/2, forget/2, forget_descriptions/0, unload/1, protocols/0, original/1, name/1]).

-define(LINKED, ["include", "priv", "src"]).

%% The folder, and the source folder of each application.
-record(scratch, {
    dir :: file:filename(),
    apps = #{} :: #{atom() => file:filename()},
    %% Elixir protocols, which are few among many modules.
    protocols = [] :: [module()]
}).

-spec open(file:filename()) -> ok.
open(Dir) ->
    case persistent_term:get(?MODULE, none) of
        #scratch{} ->
            ok;
        none ->
            _ = file:del_dir_r(Dir),
            %% Compiled modules are loaded, and must not replace the agent's.
            ok = code:stick_dir(filename:dirname(code:which(?MODULE))),
            persistent_term:put(?MODULE, #scratch{dir = Dir})
    end.

%% Removes everything that was compiled here, on disk and in the VM.
-spec close() -> ok.
close() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            ok;
        #scratch{dir = Dir} ->
            keep([]),
            _ = file:del_dir_r(Dir),
            _ = persistent_term:erase(?MODULE),
            ok
    end.

opened() ->
    persistent_term:get(?MODULE).

%% The folder itself.
-spec build_path() -> file:filename().
build_path() ->
    (opened())#scratch.dir.

%% A new, empty folder beside the applications'.
-spec temporary(string()) -> file:filename().
temporary(Name) ->
    Dir = filename:join(build_path(), Name),
    _ = file:del_dir_r(Dir),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    Dir.

home(App, Dir) ->
    filename:join([Dir, "lib", App]).

-spec ebin(atom()) -> file:filename().
ebin(App) ->
    filename:join(home(App, build_path()), "ebin").

-spec ebins() -> [file:filename()].
ebins() ->
    #scratch{apps = Apps} = opened(),
    [ebin(App) || App <- maps:keys(Apps)].

%% The names of all modules.
-spec names() -> [string()].
names() ->
    [filename:basename(File, ".beam") || Ebin <- ebins(), File <- beams(Ebin)].

%% Makes the folder look like an installed application, so that include_lib and code:priv_dir/1 work
%% while compiling. Compilers of the project's may write to its priv.
-spec add(atom(), file:filename(), boolean()) -> ok.
add(App, Source, HasCompilers) ->
    #scratch{dir = Dir, apps = Apps} = Scratch = opened(),
    Target = home(App, Dir),
    ok = filelib:ensure_dir(filename:join([Target, "ebin", "x"])),
    lists:foreach(fun(Sub) -> link_folder(filename:join(Source, Sub), filename:join(Target, Sub)) end, ?LINKED),
    HasCompilers andalso open_priv(filename:join(Source, "priv"), filename:join(Target, "priv")),
    true = code:add_patha(ebin(App)),
    case Apps of
        #{App := Source} -> ok;
        _ -> persistent_term:put(?MODULE, Scratch#scratch{apps = Apps#{App => Source}})
    end.

%% A folder with a link to each file of the project's own.
open_priv(Source, Target) ->
    _ = file:delete(Target),
    ok = filelib:ensure_dir(filename:join(Target, "x")),
    case file:list_dir(Source) of
        {ok, Names} -> lists:foreach(fun(Name) -> link_file(Name, Source, Target) end, Names);
        {error, _Reason} -> ok
    end.

link_file(Name, Source, Target) ->
    file:make_symlink(filename:join(Source, Name), filename:join(Target, Name)).

link_folder(Source, Target) ->
    _ = file:del_dir_r(Target),
    case sbx_files:is_dir(Source) of
        true -> ok = file:make_symlink(Source, Target);
        false -> ok
    end.

%% Drops the applications that are not in the list.
-spec keep([atom()]) -> ok.
keep(Names) ->
    #scratch{dir = Dir, apps = Apps} = opened(),
    Gone = maps:without(Names, Apps),
    lists:foreach(fun(App) -> drop(App, Dir) end, maps:keys(Gone)),
    case map_size(Gone) of
        0 -> ok;
        _ -> persistent_term:put(?MODULE, (opened())#scratch{apps = maps:with(Names, Apps)})
    end.

drop(App, Dir) ->
    Ebin = ebin(App),
    _ = application:unload(App),
    Modules = [list_to_atom(filename:basename(File, ".beam")) || File <- beams(Ebin)],
    lists:foreach(fun unload/1, Modules),
    ok = set_protocols(protocols() -- Modules),
    _ = code:del_path(Ebin),
    _ = file:del_dir_r(home(App, Dir)),
    ok.

beams(Ebin) ->
    filelib:wildcard("*.beam", Ebin).

%% Removes what is known of the applications besides their modules, before they are described anew.
-spec forget_descriptions() -> ok.
forget_descriptions() ->
    lists:foreach(
        fun(App) ->
            _ = application:unload(App),
            file:delete(filename:join(ebin(App), [App, ".app"]))
        end,
        maps:keys((opened())#scratch.apps)
    ).

%% Stores a module. Its next use loads this version.
-spec put(atom(), module(), binary()) -> ok.
put(App, Module, Beam) ->
    unload(Module),
    ok = note(Module, Beam),
    ok = file:write_file(filename:join(ebin(App), name(Module)), Beam, [raw]).

%% Must be called for each module that another program writes into the folder.
-spec note(module(), binary()) -> ok.
note(Module, Beam) ->
    case binary:match(Beam, <<"__protocol__">>) of
        nomatch -> ok;
        _Found -> set_protocols(lists:usort([Module | protocols()]))
    end.

%% The modules that may be protocols.
-spec protocols() -> [module()].
protocols() ->
    (opened())#scratch.protocols.

set_protocols(Modules) ->
    case opened() of
        #scratch{protocols = Modules} -> ok;
        Scratch -> persistent_term:put(?MODULE, Scratch#scratch{protocols = Modules})
    end.

-spec forget(atom(), [module()]) -> ok.
forget(App, Modules) ->
    Others = maps:keys(maps:remove(App, (opened())#scratch.apps)),
    ok = set_protocols(protocols() -- Modules),
    lists:foreach(
        fun(Module) ->
            unload(Module),
            delete([App | Others], name(Module))
        end,
        Modules
    ).

%% A module that moved to another application lies in that application's folder.
delete([], _Name) ->
    ok;
delete([App | Apps], Name) ->
    case file:delete(filename:join(ebin(App), Name), [raw]) of
        ok -> ok;
        {error, _Reason} -> delete(Apps, Name)
    end.

%% The old code is purged when the module is loaded again: purging takes most of the time.
-spec unload(module()) -> ok.
unload(Module) ->
    case erlang:module_loaded(Module) of
        true ->
            _ = code:purge(Module),
            _ = code:delete(Module),
            ok;
        false ->
            ok
    end.

%% The name of a module's file.
-spec name(module()) -> file:filename().
name(Module) ->
    Name = atom_to_list(Module),
    case lists:member($/, Name) of
        true -> throw({project, unicode:characters_to_binary(["a module can't be named ", Name])});
        false -> Name ++ ".beam"
    end.

%% The project's path of a file that the compiler saw through a link in the scratch folder.
-spec original(file:filename()) -> file:filename().
original(Path) ->
    case persistent_term:get(?MODULE, none) of
        #scratch{dir = Dir, apps = Apps} -> original(sbx_files:relative(Path, filename:join(Dir, "lib")), Path, Apps);
        none -> Path
    end.

original(Path, Path, _Apps) ->
    Path;
original(Inside, Path, Apps) ->
    case filename:split(Inside) of
        [App, Sub | Rest] ->
            Sources = [Source || {Name, Source} <- maps:to_list(Apps), atom_to_list(Name) =:= App],
            case lists:member(Sub, ?LINKED) of
                true when Sources =/= [] -> filename:join([hd(Sources), Sub | Rest]);
                _ -> Path
            end;
        _ ->
            Path
    end.
