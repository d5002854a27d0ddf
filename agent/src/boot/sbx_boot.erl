%% Makes the boot file for the toolchain it runs under, and says on standard output what that toolchain is: one line
%% `SBXBOOT <base64>` and a line `KEY value` per fact. Run with `-boot start_clean -noshell -pa EBIN -pa ELIXIR_EBIN
%% -s sbx_boot main`.
-module(sbx_boot).

-export([main/0]).

%% Ours that must be there before the code server is: all but what a call loads on demand.
-define(AGENT_MODULES, [
    sbx_agent, sbx_app, sbx_batch_load, sbx_busy_wait, sbx_call, sbx_elixir, sbx_eval, sbx_info, sbx_io, sbx_limit,
    sbx_log, sbx_outbox, sbx_poll_backoff, sbx_process_scan, sbx_quota, sbx_reason, sbx_reload, sbx_setup, sbx_spec,
    sbx_usage
]).
%% OTP loads these into every VM; a node that never parses or evaluates a text is a megabyte smaller without. Who calls
%% one loads it.
-define(UNNEEDED, [erl_eval, erl_lint, erl_parse, file_io_server, heart]).
%% What the code server itself calls and, with less loaded before it, would not find.
-define(NEEDED, [proplists]).
%% What every node would load by itself before it says hello: one by one, each after a search along the code path.
-define(SOON_CALLED, [
    beam_lib, binary, erl_features, erl_signal_handler, gb_sets, gb_trees, gen_tcp, inet, inet_config, inet_db,
    inet_parse, inet_udp, kernel_config, kernel_refc, local_tcp, local_udp, logger_formatter,
    logger_handler_watcher, logger_olp, logger_proxy, logger_sup, maps, os, peer, queue, standard_error,
    supervisor_bridge, unicode, user_sup
]).
%% A few at a time: a node keeps the memory that loading takes at its height.
-define(AT_ONCE, 4).
%% Said here and not on the command line, whose values are text that the VM would load a parser for. Records are taken
%% by sbx_log.
-define(KERNEL_ENV, [{start_distribution, false}, {logger, [{handler, default, undefined}]}]).
-define(AGENT, {kernelProcess, sbx_agent, {sbx_agent, start_link, []}}).

-spec main() -> no_return().
main() ->
    Status =
        try
            io:put_chars(["SBXBOOT ", base64:encode(term_to_binary(script())), $\n]),
            [io:format("~ts ~ts~n", [Key, Value]) || {Key, Value} <- facts()],
            0
        catch
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
    ] ++ [{"ELIXIR_VERSION", Version} || Version <- elixir_version()].

elixir_version() ->
    _ = application:load(elixir),
    case application:get_key(elixir, vsn) of
        {ok, Version} -> [Version];
        undefined -> []
    end.

%% OTP's own start_clean, with absolute paths, our modules, and the agent as a kernel process. The agent comes before
%% the application controller so that, when the VM is stopped in order, it outlives the applications.
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

%% In interactive mode only what is loaded before kernel_load_completed is loaded at all.
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
%% Looks for a user's .erlang: a node has no user.
instruction({apply, {c, erlangrc, _}}) ->
    [{apply, {sbx_elixir, know, [elixir_specs()]}}];
instruction(Other) ->
    [Other].

%% Each from its own folder, since a file that isn't there costs as much as one that is.
loads(Modules) ->
    Dirs = [{Dir, Module} || Module <- Modules, Dir <- folder(code:which(Module))],
    lists:flatmap(
        fun(Dir) -> [{path, [Dir]} | few([Module || {D, Module} <- Dirs, D =:= Dir])] end,
        lists:usort([Dir || {Dir, _} <- Dirs])
    ).

%% None for what this toolchain doesn't have.
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

%% The applications that Elixir is.
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
