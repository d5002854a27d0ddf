%%% Runs a program in the foreground: an Elixir script, main/1 of a module (an Erlang file's or an
%%% escript's), or a task of Mix. The VM ends with the program and has its exit status, as with the
%%% languages' own commands.
-module(sbx_program).

-export([run/1]).

%% Returns only if something failed or there is no program. Otherwise the VM has ended.
-spec run(map()) -> sbx_call:result().
run(#{kind := script, file := File, code := Code, args := Args}) ->
    in_elixir(fun() ->
        Path = filename:join(<<"/data">>, File),
        ok = file:write_file(Path, Code),
        %% It reports exceptions, runs the functions of System.at_exit, and ends the VM.
        'Elixir.Kernel.CLI':main([unicode:characters_to_list(Word) || Word <- [Path | Args]]),
        {ok, #{is_running => true}}
    end);
run(#{kind := mix} = Args) ->
    in_elixir(fun() -> sbx_mix_task:run(Args) end);
run(#{kind := module, module := Name, args := Args}) ->
    Module = binary_to_atom(Name),
    _ = code:ensure_loaded(Module),
    case erlang:function_exported(Module, main, 1) of
        true -> main(Module, [unicode:characters_to_list(Word) || Word <- Args]);
        false when Args =:= [] -> {ok, #{is_running => true}};
        false -> sbx_call:failure(start, "~ts exports no main/1, which would take the arguments", [Name])
    end.

in_elixir(Fun) ->
    ok = begin_output(),
    case sbx_elixir:start() of
        ok ->
            ok = sbx_compile_parts:load(elixir),
            ok = know_elixir(),
            Fun();
        {error, Reason} ->
            sbx_call:failure(start, "Elixir could not be started: ~0tp", [Reason])
    end.

%% Elixir's own command has all of Elixir's applications on its code path.
know_elixir() ->
    Libraries = filename:dirname(code:lib_dir(elixir)),
    _ = [code:add_pathz(filename:join([Libraries, App, "ebin"])) || App <- ["eex", "ex_unit", "iex", "mix"]],
    ok.

-spec main(module(), [string()]) -> no_return().
main(Module, Args) ->
    sbx_elixir:is_started() orelse sbx_input:give(list),
    ok = begin_output(),
    try
        _ = Module:main(Args),
        halt(0)
    catch
        Class:Reason:Stack ->
            io:put_chars(standard_error, [words(Class, Reason, own_frames(Stack)), $\n]),
            halt(1)
    end.

%% Elixir's exceptions are structs, which erl_error knows nothing of.
words(Class, Reason, Stack) ->
    case is_map(Reason) andalso sbx_elixir:is_started() of
        true -> [sbx_elixir:format_banner(Class, Reason, Stack), $\n, sbx_elixir:format_stacktrace(Stack)];
        false -> erl_error:format_exception(Class, Reason, Stack)
    end.

own_frames(Stack) ->
    lists:takewhile(fun(Frame) -> element(1, Frame) =/= ?MODULE end, Stack).

begin_output() ->
    ok = sbx_io:be_prompt(),
    sbx_input:open().
