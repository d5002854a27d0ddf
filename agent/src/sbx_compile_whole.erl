%% The whole project in one call: what the daemon asks that doesn't compile file by file.
-module(sbx_compile_whole).

-export([compile/1]).

-spec compile(map()) -> sbx_call:result().
compile(Args) ->
    try
        {ok, #{apps := Apps, problems := Problems} = Project} = ok(sbx_compile:project(Args)),
        Compiled = [{App, compile_app(App)} || App <- Apps],
        {ok, Finished} = ok(sbx_compile:finish(#{apps => [modules(One) || One <- Compiled], consolidate => false})),
        answer(Project, Compiled, Finished, Problems)
    catch
        throw:{error, #{warnings := Warnings} = Error} -> {error, Error#{warnings := Warnings}};
        throw:{error, Error} -> {error, Error}
    after
        sbx_scratch:close()
    end.

ok({ok, Result}) -> {ok, Result};
ok({error, Error}) -> throw({error, Error}).

compile_app(#{name := Name, sources := Sources}) ->
    {ok, #{files := Files}} = ok(sbx_compile:compile(#{app => Name, files => Sources, forget => []})),
    Files.

modules({#{name := Name}, Files}) ->
    #{name => Name, modules => [Module || #{modules := Modules} <- Files, #{module := Module} <- Modules]}.

answer(#{main := Main, config := Config}, Compiled, #{apps := Finished, supervisor := Supervisor}, Problems) ->
    Apps = [app(App, Files, One) || {{App, Files}, One} <- lists:zip(Compiled, Finished)],
    {First, Others} = lists:partition(fun(#{name := Name}) -> Name =:= Main end, Apps),
    {ok, #{
        apps => First ++ Others,
        main => Main,
        config => Config,
        language => hd([L || #{modules := Modules, language := L} <- First ++ Others, Modules =/= []]),
        supervisor => Supervisor,
        warnings => Problems ++ [W || {_, Files} <- Compiled, #{warnings := Warnings} <- Files, W <- Warnings]
    }}.

app(#{name := Name, dir := Dir, priv := Priv}, Files, #{app_file := Text, language := Language}) ->
    Modules = [
        #{module => Module, beam => Beam, source => File}
     || #{file := File, modules := Modules} <- Files, #{module := Module, beam := Beam} <- Modules
    ],
    #{
        name => Name,
        dir => Dir,
        priv => Priv,
        app_file => Text,
        language => Language,
        modules => lists:sort(fun(#{module := A}, #{module := B}) -> A =< B end, Modules)
    }.
