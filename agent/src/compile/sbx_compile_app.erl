%%% Compiles some of an application's files, and reports the modules and dependencies of each.
-module(sbx_compile_app).

-export([compile/2]).

%% The working directory is the application's.
-spec compile([binary()], sbx_hint:context()) -> sbx_call:result().
compile(Files, #{app := App, root := Root} = Context) ->
    ok = sbx_tracer:start(),
    try steps(App, [{File, path(File, Root)} || File <- Files], Root) of
        {Compiled, Warnings} -> {ok, #{files => answer(Files, Compiled, sbx_hint:add(Warnings, Context), Root)}}
    catch
        throw:{failed, Errors, Warnings} ->
            forget(App),
            throw({failed, sbx_hint:add(Errors, Context), sbx_hint:add(Warnings, Context)});
        Class:Reason:Stack ->
            forget(App),
            erlang:raise(Class, Reason, Stack)
    after
        ok = sbx_tracer:stop()
    end.

%% A file of another folder is named by the way up and down to it.
path(File, Root) ->
    sbx_files:normal(filename:join(Root, unicode:characters_to_list(File))).

%% A failed compilation leaves no modules behind.
forget(#{name := Name}) ->
    sbx_scratch:forget(Name, [Module || {Module, _File} <- sbx_tracer:defined()]).

%% Erlang is compiled before Elixir, as in Mix.
steps(#{name := Name} = App, Files, Root) ->
    #{prebuilt := Prebuilt, grammars := Grammars} = App,
    Paths = [Path || {_, Path} <- Files],
    Beams = [prebuilt(Name, Path, Root) || Path <- Paths, lists:member(Path, Prebuilt)],
    Sources = [Path || Path <- Paths, filename:extension(Path) =:= ".erl" orelse lists:member(Path, Grammars)],
    {Erlang, Warnings} = sbx_compile_erl:compile(App, Sources, Root),
    {Elixir, More} = sbx_compile_ex:compile(App, (Paths -- Prebuilt) -- Sources, Root),
    Defined = sbx_tracer:defined(),
    ok = refuse(sbx_diagnostic:reserved(Defined, Root)),
    ok = sbx_toolchain:shadow([Module || {Module, _File} <- Defined]),
    {Beams ++ [maps:merge(nothing(), One) || One <- Erlang ++ Elixir], Warnings ++ More}.

refuse([]) -> ok;
refuse(Errors) -> throw({failed, Errors, []}).

nothing() ->
    #{modules => [], compile => [], exports => [], runtime => [], includes => [], resources => [], config => false}.

prebuilt(Name, Path, Root) ->
    Modules = compiled(Name, Path),
    ok = refuse(sbx_diagnostic:reserved([{Module, Path} || {Module, _Beam} <- Modules], Root)),
    lists:foreach(
        fun({Module, Beam}) ->
            ok = sbx_tracer:defines(Path, Module),
            ok = sbx_scratch:put(Name, Module, Beam)
        end,
        Modules
    ),
    (nothing())#{file => Path, modules := Modules}.

compiled(Name, Path) ->
    case filename:extension(Path) of
        ".beam" -> [module(Path)];
        _Escript -> sbx_escript:modules(Name, Path)
    end.

module(Path) ->
    {ok, Beam} = file:read_file(Path),
    case beam_lib:info(Beam) of
        Info when is_list(Info) ->
            {proplists:get_value(module, Info), Beam};
        {error, beam_lib, _Reason} ->
            throw({project, unicode:characters_to_binary([filename:basename(Path), " is not a compiled module"])})
    end.

%% The answer lists the files in the order of the request.

answer(Files, Compiled, Warnings, Root) ->
    ByFile = maps:from_list([{File, One} || #{file := File} = One <- Compiled]),
    {Placed, Others} = lists:partition(fun(#{file := File}) -> lists:member(File, Files) end, Warnings),
    Told = [told(File, map_get(path(File, Root), ByFile), Root) || File <- Files],
    with_warnings(Told, maps:groups_from_list(fun(#{file := File}) -> File end, Placed), Others).

%% Warnings that belong to no file are added to the first.
with_warnings([], _ByFile, _Others) ->
    [];
with_warnings([#{file := File} = Told | Rest], ByFile, Others) ->
    [Told#{warnings => Others ++ maps:get(File, ByFile, [])} | with_warnings(Rest, ByFile, [])].

told(File, #{modules := Modules} = Compiled, Root) ->
    Own = [Module || {Module, _Beam} <- Modules],
    Names = fun(Kind) -> names(map_get(Kind, Compiled) -- Own) end,
    #{
        file => File,
        modules => [#{module => atom_to_binary(Module), beam => Beam} || {Module, Beam} <- Modules],
        compile => Names(compile),
        exports => Names(exports),
        runtime => Names(runtime),
        includes => inside(lists:filter(fun filelib:is_regular/1, map_get(includes, Compiled)), Root) -- [File],
        resources => inside(map_get(resources, Compiled), Root),
        config => map_get(config, Compiled)
    }.

names(Modules) ->
    [atom_to_binary(Module) || Module <- sbx_toolchain:project_modules(Modules)].

%% The paths inside the project, relative to its root.
inside(Paths, Root) ->
    Original = [sbx_scratch:original(sbx_files:normal(filename:absname(Path))) || Path <- Paths],
    [unicode:characters_to_binary(Path) || Path <- lists:usort(sbx_files:inside(Original, Root))].
