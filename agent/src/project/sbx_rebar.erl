%%% rebar3 inside the compiler node: it says what a rebar3 project is, where the host has it. It is
%%% asked for configurations only. It fetches nothing, runs no command and calls no plugin.
-module(sbx_rebar).

-export([is_there/0, inside/2, project/2, dependency/3]).

-export_type([config/0, found/0]).

%% As rebar.config has it, with what rebar3 makes of erl_opts and src_dirs.
-type config() :: [{atom(), term()}].
-type found() :: #{config := config(), apps := [{file:filename(), atom(), config()}], overrides := [term()]}.

%% Of the applications in rebar3's archive, those that read configurations.
-define(PARTS, ["rebar", "providers", "erlware_commons", "getopt", "cf", "bbmustache"]).
%% As in sbx_mix: files of the user's own, which a compiler node has none of.
-define(HOMES, ["HOME", "REBAR_CACHE_DIR", "REBAR_GLOBAL_CONFIG_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"]).
-define(UNSET, ["REBAR_PROFILE", "REBAR_CONFIG", "REBAR_BASE_DIR", "REBAR_DEFAULT_CONFIG", "REBAR_CHECKOUTS_DIR", "DEBUG"]).
-define(SCRIPT, "rebar.config.script").
%% Copied as they are for an application.
-define(KEPT, [erl_first_files, overrides, pre_hooks, post_hooks, provider_hooks, plugins]).

%% Whether the node was given rebar3's program, and this OTP can read it.
-spec is_there() -> boolean().
is_there() ->
    case file_of() of
        false -> false;
        File -> extract(File) =/= none
    end.

file_of() ->
    case os:getenv("SANDBOX_REBAR3") of
        false -> false;
        File -> filelib:is_regular(File) andalso File
    end.

%% The program is a script with an archive behind it. Returns where its parts lie.
extract(File) ->
    Dir = filename:join(sbx_scratch:build_path(), "rebar3"),
    case filelib:is_regular(filename:join(Dir, "rebar/ebin/rebar3.beam")) of
        true -> Dir;
        false -> unpacked(File, Dir)
    end.

unpacked(File, Dir) ->
    maybe_archive(escript:extract(File, []), fun(Archive) ->
        Wanted = fun(Entry) -> is_part(filename:split(element(2, Entry))) end,
        {ok, _Files} = zip:unzip(Archive, [{cwd, Dir}, {file_filter, Wanted}]),
        Dir
    end).

maybe_archive({ok, Sections}, Fun) ->
    case lists:keyfind(archive, 1, Sections) of
        {archive, Archive} -> Fun(Archive);
        false -> none
    end;
maybe_archive(_Error, _Fun) ->
    none.

is_part([Part, "ebin", _File]) -> lists:member(Part, ?PARTS);
is_part(_Other) -> false.

%% Runs Fun while rebar3's modules can be called, in the project's folder. A project may have modules
%% of these names, so they come first only as long as Fun runs.
-spec inside(file:filename(), fun(() -> Result)) -> Result.
inside(Root, Fun) ->
    Dirs = [filename:join([extract(file_of()), Part, "ebin"]) || Part <- ?PARTS],
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(Root),
    ok = environment(),
    ok = code:add_pathsa(Dirs),
    ok = unload(Dirs),
    try
        _ = application:load(rebar),
        %% What it tells is discarded. The errors that matter are thrown.
        _ = rebar_log:init(api, rebar_log:error_level()),
        Fun()
    catch
        throw:{error, {Module, Reason}} when is_atom(Module) -> refused(Module, Reason, Root);
        throw:rebar_abort -> throw({project, <<"rebar3 refuses the project's rebar.config">>});
        error:{badmatch, {error, {Line, file, Why}}} -> refused(rebar_config, {bad_config_file, ?SCRIPT, {Line, file, Why}}, Root)
    after
        _ = application:unload(rebar),
        lists:foreach(fun code:del_path/1, Dirs),
        ok = unload(Dirs),
        file:set_cwd(Before)
    end.

environment() ->
    Home = filename:join(sbx_scratch:build_path(), "home"),
    lists:foreach(fun(Name) -> os:putenv(Name, Home) end, ?HOMES),
    lists:foreach(fun os:unsetenv/1, ?UNSET).

%% Whatever modules of their names are loaded.
unload(Dirs) ->
    Files = [File || Dir <- Dirs, File <- filelib:wildcard("*.beam", Dir)],
    lists:foreach(fun sbx_scratch:unload/1, [list_to_atom(filename:rootname(File)) || File <- Files]).

-spec refused(module(), term(), file:filename()) -> no_return().
refused(_Module, {Unreadable, File, Reason}, Root) when Unreadable =:= bad_config_file; Unreadable =:= bad_term_file ->
    sbx_rebar_config:fail(filename:absname(File), Reason, Root);
refused(Module, Reason, _Root) ->
    throw({project, unicode:characters_to_binary(["rebar3: ", Module:format_error(Reason)])}).

%% The project's own applications, with the profile applied.
-spec project(file:filename(), atom() | nil) -> found().
project(Root, Profile) ->
    Read = rebar_config:consult_root(),
    ok = check_otp(Read),
    State = with_profile(rebar_state:new(Read), Profile),
    Found = rebar_app_discover:do(State, rebar_dir:lib_dirs(State)),
    Profiles = rebar_state:current_profiles(Found),
    Deps = lists:append([rebar_state:get(Found, {deps, One}, []) || One <- Profiles]),
    #{
        %% An application in the project's own folder takes its hooks over.
        config => [{deps, Deps} | described(rebar_state:opts(State))],
        apps => [app(Info, Root) || Info <- rebar_state:project_apps(Found)],
        overrides => rebar_state:get(Found, overrides, [])
    }.

with_profile(State, nil) -> State;
with_profile(State, Profile) -> rebar_state:apply_profiles(State, [Profile]).

%% rebar3 would say so and stop.
check_otp(Config) ->
    Least = proplists:get_value(minimum_otp_vsn, Config, undefined),
    try
        ok = rebar_utils:check_min_otp_version(Least)
    catch
        throw:_ ->
            Text = io_lib:format("rebar.config asks for OTP ~ts or newer, and this is OTP ~ts", [
                Least, erlang:system_info(otp_release)
            ]),
            throw({project, unicode:characters_to_binary(Text)})
    end.

app(Info, Root) ->
    Dir = sbx_files:normal(filename:absname(unicode:characters_to_list(rebar_app_info:dir(Info)), Root)),
    {Dir, binary_to_atom(rebar_app_info:name(Info)), described(rebar_app_info:opts(Info))}.

%% A dependency's configuration: what the project overrides of it, and its profile for production.
-spec dependency(file:filename(), atom(), found()) -> config().
dependency(Dir, Name, #{overrides := Overrides}) ->
    {ok, New} = rebar_app_info:new(atom_to_binary(Name), "0", Dir),
    Read = rebar_app_info:update_opts(New, rebar_app_info:opts(New), rebar_config:consult(Dir)),
    Info = rebar_app_info:apply_profiles(rebar_app_info:apply_overrides(Overrides, Read), [default, prod]),
    Deps = rebar_app_info:get(Info, {deps, default}, []) ++ rebar_app_info:get(Info, {deps, prod}, []),
    [{deps, Deps} | described(rebar_app_info:opts(Info))].

described(Opts) ->
    Dirs = [{Dir, [{recursive, rebar_dir:recursive(Opts, Dir)}]} || Dir <- rebar_dir:src_dirs(Opts, ["src"])],
    Kept = [{Key, Value} || Key <- ?KEPT, Value <- [rebar_opts:get(Opts, Key, [])], Value =/= []],
    [{erl_opts, rebar_opts:erl_opts(Opts)}, {src_dirs, Dirs} | Kept].
