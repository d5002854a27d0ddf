%%% Makes the boot file for the toolchain it runs under, and prints facts about the toolchain: one
%%% line `SBXBOOT <base64>` and a line `KEY value` per fact. Run with `-boot start_clean -noshell
%%% -pa EBIN -pa ELIXIR_EBIN -s sbx_boot main`.
-module(sbx_boot).

-export([main/0]).

%% The agent's modules that must be loaded before the code server: all that are not loaded on
%% demand.
-define(AGENT_MODULES, [
    sbx_agent, sbx_app, sbx_batch_load, sbx_busy_wait, sbx_call, sbx_capture, sbx_config, sbx_elixir, sbx_eval,
    sbx_gave_up, sbx_info, sbx_io, sbx_limit, sbx_log, sbx_native, sbx_outbox, sbx_poll_backoff, sbx_process_scan, sbx_quota,
    sbx_reason, sbx_reload, sbx_reload_timers, sbx_runtime_config, sbx_setup, sbx_spec, sbx_translate, sbx_usage
]).
%% OTP loads these into every VM. A node that never parses or evaluates text is a megabyte smaller
%% without them. They are loaded on demand.
-define(UNNEEDED, [erl_eval, erl_lint, erl_parse, file_io_server, heart]).
%% The code server calls these, and would not find them with fewer modules loaded before it.
-define(NEEDED, [proplists]).
%% Every node would load these before hello, one by one, each after a search along the code path.
-define(SOON_CALLED, [
    beam_lib, binary, erl_features, erl_signal_handler, gb_sets, gb_trees, gen_tcp, global, inet, inet_config, inet_db,
    inet_parse, inet_udp, kernel_config, kernel_refc, local_tcp, local_udp, logger_formatter,
    logger_handler_watcher, logger_olp, logger_proxy, logger_sup, maps, os, peer, queue, rpc, standard_error,
    supervisor_bridge, unicode, user_sup
]).
%% Only a few modules at a time: the VM keeps the peak memory of loading.
-define(AT_ONCE, 4).
%% Set here and not on the command line, since the VM would load a parser for its values. sbx_log
%% handles log records.
-define(KERNEL_ENV, [{start_distribution, false}, {logger, [{handler, default, undefined}]}]).
-define(AGENT, {kernelProcess, sbx_agent, {sbx_agent, start_link, []}}).

-spec main() -> no_return().
main() ->
    Status =
        try
            ok = check_elixir(),
            io:put_chars(["SBXBOOT ", base64:encode(term_to_binary(script())), $\n]),
            [io:format("~ts ~ts~n", [Key, Value]) || {Key, Value} <- facts()],
            0
        catch
            throw:{unusable, Why} ->
                io:put_chars(["SBXERROR ", Why, $\n]),
                1;
            Class:Reason:Stack ->
                io:put_chars(["SBXERROR ", erl_error:format_exception(Class, Reason, Stack), $\n]),
                1
        end,
    erlang:halt(Status).

facts() ->
    [
        {"OTP_RELEASE", erlang:system_info(otp_release)},
        {"ERTS_VERSION", erlang:system_info(version)},
        {"ROOT_DIR", code:root_dir()}
        | [{string:uppercase(atom_to_list(App)) ++ "_DIR", Dir} || App <- library_apps(), {ok, Dir} <- [lib_dir(App)]]
    ] ++ [{"OTP_VERSION", Version} || Version <- otp_version()] ++
        [{"ELIXIR_VERSION", Version} || Version <- elixir_version()].

%% "27.2", where the release is 27.
otp_version() ->
    File = filename:join([code:root_dir(), "releases", erlang:system_info(otp_release), "OTP_VERSION"]),
    case file:read_file(File) of
        {ok, Text} -> [string:trim(Text)];
        {error, _Reason} -> []
    end.

%% An Elixir that was compiled by a newer OTP does not load.
check_elixir() ->
    case [Version || Version <- elixir_version(), code:ensure_loaded('Elixir.Kernel') =/= {module, 'Elixir.Kernel'}] of
        [] ->
            ok;
        [Version] ->
            Text = "Elixir ~ts does not load on OTP ~ts: it was made for another, or is not whole",
            throw({unusable, io_lib:format(Text, [Version, erlang:system_info(otp_release)])})
    end.

elixir_version() ->
    _ = application:load(elixir),
    case application:get_key(elixir, vsn) of
        {ok, Version} -> [Version];
        undefined -> []
    end.

%% OTP's start_clean with absolute paths, the agent's modules, and the agent as a kernel process.
%% The agent starts before the application controller, so that it outlives the applications when the
%% VM stops in order.
script() ->
    {script, _Name, Clean} = clean_script(),
    {script, {"sandbox", erlang:system_info(otp_release)}, lists:flatmap(fun instruction/1, Clean)}.

clean_script() ->
    Root = code:root_dir(),
    Release = erlang:system_info(otp_release),
    Candidates = [
        filename:join([Root, "releases", Release, "start_clean.boot"]),
        filename:join([Root, "bin", "start_clean.boot"])
    ],
    [Binary | _] = [Read || File <- Candidates, {ok, Read} <- [file:read_file(File)]],
    binary_to_term(Binary).

%% In interactive mode the VM loads only modules listed before kernel_load_completed.
instruction({kernel_load_completed}) ->
    loads(?AGENT_MODULES ++ ?SOON_CALLED) ++ [{kernel_load_completed}];
instruction({primLoad, [error_handler | _] = Modules}) ->
    loads((Modules -- ?UNNEEDED) ++ ?NEEDED);
instruction({path, Dirs}) ->
    [{path, [absolute(Dir) || Dir <- Dirs] ++ library_paths()}];
instruction({kernelProcess, heart, _}) ->
    [];
instruction({kernelProcess, Name, {application_controller, start, [Kernel]}}) ->
    [?AGENT, {kernelProcess, Name, {application_controller, start, [configured(Kernel)]}}];
%% This would look for a user's .erlang file, but a node has no user.
instruction({apply, {c, erlangrc, _}}) ->
    [{apply, {sbx_elixir, know, [elixir_specs()]}}];
instruction(Other) ->
    [Other].

%% Each module is loaded from its own folder, since a failed search costs as much as a successful
%% one.
loads(Modules) ->
    Dirs = [{Dir, Module} || Module <- Modules, Dir <- folder(code:which(Module))],
    lists:flatmap(
        fun(Dir) -> [{path, [Dir]} | few([Module || {D, Module} <- Dirs, D =:= Dir])] end,
        lists:usort([Dir || {Dir, _} <- Dirs])
    ).

%% Empty for a module that the toolchain does not have.
folder(File) when is_list(File) -> [filename:dirname(File)];
folder(_None) -> [].

few(Modules) when length(Modules) =< ?AT_ONCE ->
    [{primLoad, Modules}];
few(Modules) ->
    {Some, Rest} = lists:split(?AT_ONCE, Modules),
    [{primLoad, Some} | few(Rest)].

configured({application, kernel, Keys}) ->
    Env = proplists:get_value(env, Keys, []),
    Merged = lists:ukeymerge(1, lists:ukeysort(1, ?KERNEL_ENV), lists:ukeysort(1, Env)),
    {application, kernel, lists:keystore(env, 1, Keys, {env, Merged})}.

%% The applications that Elixir consists of.
elixir_specs() ->
    [spec(App) || {ok, _} <- [lib_dir(elixir)], App <- [compiler, elixir, logger]].

spec(App) ->
    {ok, Dir} = lib_dir(App),
    {ok, [Spec]} = file:consult(filename:join([Dir, "ebin", atom_to_list(App) ++ ".app"])),
    Spec.

absolute("$ROOT" ++ Rest) -> code:root_dir() ++ Rest;
absolute(Dir) -> Dir.

library_paths() ->
    [filename:join(Dir, "ebin") || App <- library_apps(), {ok, Dir} <- [lib_dir(App)]] ++ [agent_dir()].

library_apps() ->
    [kernel, stdlib, compiler, elixir, logger, eex].

lib_dir(App) when App =:= elixir; App =:= logger; App =:= eex ->
    case code:lib_dir(elixir) of
        {error, bad_name} -> error;
        Dir -> {ok, filename:join(filename:dirname(Dir), App)}
    end;
lib_dir(App) ->
    {ok, code:lib_dir(App)}.

agent_dir() ->
    filename:dirname(code:which(?MODULE)).
