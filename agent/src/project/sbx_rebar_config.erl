%%% Reads rebar.config as rebar3 does, without rebar3: its script, profiles, overrides of dependencies
%%% and definitions for some platforms.
-module(sbx_rebar_config).

-export([project/2, dependency/3]).
-export([read/2, for_app/3, options/1, source_dirs/1, hooks/1, unread/1, files/1, fail/3]).

%% Only rebar3 heeds these.
-define(UNREAD, [minimum_otp_vsn, blacklisted_otp_vsns, erlc_compiler, application_resource_extensions]).

-type config() :: [term()].

%% What sbx_rebar tells as well, where rebar3 is installed. The applications are to be looked for.
-spec project(file:filename(), atom() | nil) -> #{config := config(), apps := []}.
project(Root, Profile) ->
    #{config => read(Root, Profile), apps => []}.

-spec dependency(file:filename(), atom(), #{config := config(), _ => _}) -> config().
dependency(Dir, Name, #{config := Project}) ->
    with_profile(override(Name, read(Dir, nil), Project), prod).

%% The configuration in a folder, with that of the profile over it.
-spec read(file:filename(), atom() | nil) -> config().
read(Dir, Profile) ->
    with_profile(scripted(filename:join(Dir, "rebar.config"), Dir), Profile).

%% The files that it comes from.
-spec files(file:filename()) -> [file:filename()].
files(Dir) ->
    [filename:join(Dir, Name) || Name <- ["rebar.config", "rebar.config.script"]].

scripted(File, Dir) ->
    Config = terms(File, Dir),
    Script = File ++ ".script",
    case filelib:is_regular(Script) of
        true -> evaluated(Script, Config, Dir);
        false -> Config
    end.

terms(File, Dir) ->
    case file:consult(File) of
        {ok, Terms} -> Terms;
        {error, enoent} -> [];
        {error, Reason} -> fail(File, Reason, Dir)
    end.

%% Scripts read other files of their folder.
evaluated(Script, Config, Dir) ->
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(Dir),
    try file:script(Script, [{'CONFIG', Config}, {'SCRIPT', Script}]) of
        {ok, Evaluated} when is_list(Evaluated) -> Evaluated;
        {ok, _Other} -> throw({project, unicode:characters_to_binary([filename:basename(Script), " gives no list"])});
        {error, Reason} -> fail(Script, Reason, Dir)
    after
        file:set_cwd(Before)
    end.

-spec fail(file:filename(), term(), file:filename()) -> no_return().
fail(File, {Line, file, {Class, Reason, Stack}}, Dir) ->
    %% A script that raised. What it called is its own affair, but not what called it.
    Own = lists:takewhile(fun(Frame) -> element(1, Frame) =/= erl_eval end, Stack),
    Text = unicode:characters_to_binary(erl_error:format_exception(Class, Reason, Own)),
    throw({diagnostics, [sbx_diagnostic:new(compile, File, Line, string:trim(Text), Dir)]});
fail(File, {Line, Module, Description}, Dir) when is_atom(Module) ->
    throw({diagnostics, [sbx_diagnostic:new(syntax, File, Line, Module:format_error(Description), Dir)]});
fail(File, Reason, _Dir) ->
    throw({project, unicode:characters_to_binary([filename:basename(File), ": ", file:format_error(Reason)])}).

with_profile(Config, nil) ->
    Config;
with_profile(Config, Profile) ->
    Profiles = proplists:get_value(profiles, Config, []),
    merge(proplists:get_value(Profile, Profiles, []), Config).

%% Lists of the first come before those of the second; of other values the first's count.
merge(Over, Config) ->
    lists:foldl(fun put_over/2, Config, [Term || Term <- Over, is_tuple(Term), tuple_size(Term) =:= 2]).

put_over({Key, Value}, Config) ->
    case lists:keyfind(Key, 1, Config) of
        {Key, Before} when is_list(Before), is_list(Value) -> lists:keyreplace(Key, 1, Config, {Key, Value ++ Before});
        {Key, _Before} -> lists:keyreplace(Key, 1, Config, {Key, Value});
        _ -> [{Key, Value} | Config]
    end.

%% An application of a project has the project's options, and its own over them.
-spec for_app(file:filename(), config(), atom() | nil) -> config().
for_app(Dir, Project, Profile) ->
    Shared = [Term || {Key, _} = Term <- Project, lists:member(Key, [erl_opts, src_dirs])],
    merge(read(Dir, Profile), Shared).

%% What the project says of a dependency's configuration.
override(Name, Config, Project) ->
    lists:foldl(fun(Rule, Acc) -> apply_rule(Rule, Name, Acc) end, Config, proplists:get_value(overrides, Project, [])).

apply_rule({override, Name, Over}, Name, Config) -> replace(Over, Config);
apply_rule({override, Over}, _Name, Config) -> replace(Over, Config);
apply_rule({add, Name, More}, Name, Config) -> merge(More, Config);
apply_rule({add, More}, _Name, Config) -> merge(More, Config);
apply_rule({del, Name, Less}, Name, Config) -> remove(Less, Config);
apply_rule({del, Less}, _Name, Config) -> remove(Less, Config);
apply_rule(_Other, _Name, Config) -> Config.

replace(Over, Config) ->
    lists:foldl(fun({Key, _} = Term, Acc) -> lists:keystore(Key, 1, Acc, Term) end, Config, Over).

remove(Less, Config) ->
    lists:foldl(
        fun({Key, Values}, Acc) ->
            case lists:keyfind(Key, 1, Acc) of
                {Key, Before} when is_list(Before) -> lists:keyreplace(Key, 1, Acc, {Key, Before -- Values});
                _ -> Acc
            end
        end,
        Config,
        Less
    ).

%% The compiler's options.
-spec options(config()) -> [term()].
options(Config) ->
    lists:append([option(Option) || Option <- proplists:get_value(erl_opts, Config, [])]).

option({platform_define, Pattern, Key}) -> [{d, Key} || is_platform(Pattern)];
option({platform_define, Pattern, Key, Value}) -> [{d, Key, Value} || is_platform(Pattern)];
option({src_dirs, _Dirs}) -> [];
option(Option) -> [Option].

%% As rebar3 names a platform: release, architecture, word size.
is_platform(Pattern) ->
    Platform = lists:append([
        erlang:system_info(otp_release), "-", erlang:system_info(system_architecture), "-",
        integer_to_list(8 * erlang:system_info(wordsize))
    ]),
    re:run(Platform, Pattern, [{capture, none}]) =:= match.

%% The folders of sources; where it says so, without the folders below them.
-spec source_dirs(config()) -> [{file:filename(), all | top}].
source_dirs(Config) ->
    Listed = proplists:get_value(src_dirs, Config, proplists:get_value(src_dirs, erl_opts(Config), ["src"])),
    [source_dir(Dir) || Dir <- Listed].

erl_opts(Config) ->
    proplists:get_value(erl_opts, Config, []).

source_dir({Dir, Options}) when is_list(Options) ->
    case proplists:get_value(recursive, Options, true) of
        false -> {Dir, top};
        _ -> {Dir, all}
    end;
source_dir(Dir) ->
    {Dir, all}.

%% The commands and plugins that rebar3 would run when it compiles, as the file names them.
-spec hooks(config()) -> [string()].
hooks(Config) ->
    Commands = proplists:get_value(pre_hooks, Config, []) ++ proplists:get_value(post_hooks, Config, []),
    Providers = lists:append([
        Hooks || {_When, Hooks} <- proplists:get_value(provider_hooks, Config, []), is_list(Hooks)
    ]),
    lists:usort(lists:append([hook(Hook) || Hook <- Commands ++ Providers])).

hook({compile, Run}) -> [hook_text(Run)];
hook({_Platform, compile, Run}) -> [hook_text(Run)];
hook(_Other) -> [].

hook_text({Plugin, Provider}) -> lists:flatten(io_lib:format("~tp of the plugin ~tp", [Provider, Plugin]));
hook_text(Provider) when is_atom(Provider) -> lists:flatten(io_lib:format("~tp", [Provider]));
hook_text(Command) -> lists:flatten(io_lib:format("`~ts`", [Command])).

%% The keys that are not heeded here.
-spec unread(config()) -> [atom()].
unread(Config) ->
    [Key || Key <- ?UNREAD, lists:keymember(Key, 1, Config)].
