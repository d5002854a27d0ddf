%%% Runs the compilers that a Mix project lists besides Mix's own, such as LiveView's or a project's
%%% own task. They write into the scratch folder. What they leave in an application's folder becomes
%%% part of the build.
-module(sbx_mix_compilers).

-export([own/1, native/1, before/2, run/2, made/2]).

%% What these would do is done here.
-define(BUILT_IN, [yecc, leex, erlang, elixir, app, protocols]).
%% These run programs, which a compiler node can't. What they built before is used.
-define(NATIVE, [elixir_make, make, cmake, rustler, zig, nif]).
-define(FILES_MAX_BYTES, 33554432).

%% Those that are run, in their order.
-spec own(sbx_project:app()) -> [atom()].
own(#{compilers := Compilers}) ->
    Compilers -- (?BUILT_IN ++ ?NATIVE).

-spec native(sbx_project:app()) -> [atom()].
native(#{compilers := Compilers}) ->
    [Name || Name <- Compilers, lists:member(Name, ?NATIVE)].

%% Runs those that come before Elixir's. What they want to do after another one is not kept: all run
%% once more at the end.
-spec before(sbx_project:app(), file:filename()) -> ok.
before(#{compilers := Compilers} = App, Root) ->
    case [Name || Name <- own(App), lists:member(Name, first(Compilers))] of
        [] ->
            ok;
        First ->
            {_Warnings, Errors} = parted([Found || Name <- First, Found <- compile(Name, Root)]),
            lists:foreach(fun 'Elixir.Mix.ProjectStack':pop_after_compiler/1, Compilers),
            Errors =:= [] orelse throw({failed, Errors, []}),
            ok
    end.

first(Compilers) ->
    lists:takewhile(fun(Name) -> Name =/= elixir end, Compilers).

%% Runs all of them once the modules are compiled. Returns their warnings.
-spec run(sbx_project:app(), file:filename()) -> [sbx_diagnostic:diagnostic()].
run(#{compilers := Compilers}, Root) ->
    Ran = [Name || Name <- Compilers, not lists:member(Name, ?NATIVE)],
    {Warnings, Errors} = parted([Found || Name <- Ran, Found <- compile(Name, Root)]),
    Errors =:= [] orelse throw({failed, Errors, Warnings}),
    Warnings.

parted(Diagnostics) ->
    lists:partition(fun(#{kind := Kind}) -> Kind =:= warning end, Diagnostics).

compile(Name, Root) ->
    try
        {Status, Diagnostics} = lists:foldl(
            fun(After, Before) -> After(Before) end,
            normal(task(Name)),
            'Elixir.Mix.ProjectStack':pop_after_compiler(Name)
        ),
        told(Name, Status, [diagnostic(Diagnostic, Root) || Diagnostic <- Diagnostics])
    catch
        throw:Thrown -> throw(Thrown);
        exit:{shutdown, _} -> [failed(Name)];
        Class:Reason:Stack -> [sbx_diagnostic:from_script("mix.exs", {Class, Reason, Stack}, Root)]
    end.

task(Name) ->
    case lists:member(Name, ?BUILT_IN) of
        true ->
            {ok, []};
        false ->
            Task = <<"compile.", (atom_to_binary(Name))/binary>>,
            'Elixir.Mix.Task':reenable(Task),
            'Elixir.Mix.Task':run(Task, [<<"--return-errors">>])
    end.

normal({Status, Diagnostics}) when is_list(Diagnostics) -> {Status, Diagnostics};
normal(error) -> {error, []};
normal(_Other) -> {ok, []}.

%% One that fails says why, or else prints it.
told(Name, error, Diagnostics) ->
    case lists:any(fun(#{kind := Kind}) -> Kind =/= warning end, Diagnostics) of
        true -> Diagnostics;
        false -> [failed(Name) | Diagnostics]
    end;
told(_Name, _Status, Diagnostics) ->
    Diagnostics.

failed(Name) ->
    Said = [[": ", Text] || Text <- lists:sublist(sbx_mix_shell:take(), 1)],
    sbx_diagnostic:new(compile, nil, nil, io_lib:format("the project's compiler ~ts failed~ts", [Name, Said]), "").

diagnostic(#{severity := Severity, message := Message, file := File, position := Position}, Root) ->
    Kind =
        case Severity of
            error -> compile;
            _ -> warning
        end,
    sbx_diagnostic:new(Kind, path(File), Position, Message, Root).

path(nil) -> nil;
path(File) -> unicode:characters_to_list(File).

%% The files that they made: modules besides those that were compiled here, and files in priv.
-spec made(atom(), [module()]) -> [#{path := binary(), data := binary()}].
made(Name, Modules) ->
    Dir = filename:dirname(sbx_scratch:ebin(Name)),
    Ours = [sbx_scratch:name(Module) || Module <- Modules],
    Beams = [filename:join("ebin", Beam) || Beam <- filelib:wildcard("*.beam", filename:join(Dir, "ebin")) -- Ours],
    Files = Beams ++ [sbx_files:relative(File, Dir) || File <- sbx_files:regular(filename:join(Dir, "priv"))],
    read(lists:sort(Files), Dir, ?FILES_MAX_BYTES).

read([], _Dir, _Left) ->
    [];
read([File | Files], Dir, Left) ->
    {ok, Data} = file:read_file(filename:join(Dir, File)),
    case Left - byte_size(Data) of
        Less when Less >= 0 -> [#{path => unicode:characters_to_binary(File), data => Data} | read(Files, Dir, Less)];
        _ -> throw({project, <<"the project's compilers made more than 32 MiB of files">>})
    end.
