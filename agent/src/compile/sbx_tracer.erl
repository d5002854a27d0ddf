%%% Records what the compilation of each file used and defined. For Elixir it is a compiler tracer:
%%% the compiler calls trace/2 in the processes that compile. It distinguishes the kinds of
%%% dependency as Elixir does:
%%%   compile   code of the module runs, or can run, while the file is compiled
%%%   exports   the file is compiled against the module's functions, macros or struct
%%%   runtime   functions of the file refer to the module
-module(sbx_tracer).

-export([start/0, stop/0, trace/2, defines/2, defined/0, defined/1, uses/1]).

-type uses() :: #{compile := [module()], exports := [module()], runtime := [module()], config := boolean()}.

%% The table belongs to the call that compiles.
-spec start() -> ok.
start() ->
    ?MODULE = ets:new(?MODULE, [named_table, public, ordered_set, {write_concurrency, true}]),
    ok.

-spec stop() -> ok.
stop() ->
    true = ets:delete(?MODULE),
    ok.

-spec defines(file:filename(), module()) -> ok.
defines(File, Module) ->
    true = ets:insert(?MODULE, {{unicode:characters_to_binary(File), module, Module}}),
    ok.

%% All modules so far, with their files.
-spec defined() -> [{module(), binary()}].
defined() ->
    [{Module, File} || [File, Module] <- ets:match(?MODULE, {{'$1', module, '$2'}})].

-spec defined(binary()) -> [module()].
defined(File) ->
    [Module || [Module] <- ets:match(?MODULE, {{File, module, '$1'}})].

-spec uses(binary()) -> uses().
uses(File) ->
    Of = fun(Kind) -> [Module || [Module] <- ets:match(?MODULE, {{File, Kind, '$1'}})] end,
    Compile = Of(compile),
    #{compile => Compile, exports => Of(exports), runtime => Of(runtime) -- Compile, config => Of(config) =/= []}.

%% Every def, if and @ of a file causes this event.
trace({_Event, _Meta, 'Elixir.Kernel', _Name, _Arity}, _Env) ->
    ok;
%% Logger's configuration decides whether a message is compiled in at all.
trace({remote_macro, _Meta, 'Elixir.Logger', _Name, _Arity}, Env) ->
    add(config, true, Env);
trace({remote_macro, _Meta, Module, _Name, _Arity}, Env) ->
    add(compile, Module, Env);
trace({imported_macro, _Meta, Module, _Name, _Arity}, Env) ->
    add(compile, Module, Env);
trace({remote_function, _Meta, 'Elixir.Application', Name, _Arity}, #{function := nil} = Env) ->
    reads_config(Name) andalso add(config, true, Env),
    ok;
trace({remote_function, _Meta, Module, _Name, _Arity}, Env) ->
    add(mode(Env), Module, Env);
trace({imported_function, _Meta, Module, _Name, _Arity}, Env) ->
    add(mode(Env), Module, Env);
trace({alias_reference, _Meta, Module}, Env) ->
    add(mode(Env), Module, Env);
trace({import, _Meta, Module, _Options}, Env) ->
    add(exports, Module, Env);
trace({require, Meta, Module, _Options}, Env) ->
    case lists:keyfind(from_macro, 1, Meta) of
        {from_macro, true} -> add(compile, Module, Env);
        _ -> add(exports, Module, Env)
    end;
trace({struct_expansion, _Meta, Module, _Keys}, Env) ->
    add(exports, Module, Env);
trace({compile_env, _App, _Path, _Return}, Env) ->
    add(config, true, Env);
trace({on_module, _Bytecode, _Ignored}, #{module := Module} = Env) ->
    add(module, Module, Env);
trace(_Event, _Env) ->
    ok.

mode(#{function := nil}) -> compile;
mode(_Env) -> runtime.

reads_config(Name) ->
    lists:member(Name, [get_env, get_all_env, fetch_env, 'fetch_env!']).

add(Kind, Module, Env) ->
    true = ets:insert(?MODULE, {{file(Env), Kind, Module}}),
    ok.

%% Code quoted in another file keeps that file's name. The file that is being compiled counts.
file(#{file := File}) ->
    case get(elixir_compiler_file) of
        undefined -> File;
        Compiled -> Compiled
    end.
