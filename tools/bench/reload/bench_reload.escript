#!/usr/bin/env escript
%%! +S 1:1 +P 262144
%% Changing running code by hand, for comparison, in a VM that stays and has as many schedulers as a node: does what each
%% line of its input asks, and prints microseconds.
-mode(compile).

main([]) ->
    loop().

loop() ->
    case io:get_line("") of
        eof -> ok;
        Line -> answer(string:lexemes(string:trim(Line), " ")), loop()
    end.

%% Versions of a server, from 0 on, as FOLDER/NUMBER.beam.
answer(["compile", Source, Folder, Count]) ->
    {ok, Text} = file:read_file(Source),
    [compile(Text, N, Folder) || N <- lists:seq(0, list_to_integer(Count) - 1)],
    io:format("0~n");
%% So many servers of a module, and so many processes that have nothing to do with it.
answer(["many", Module, File, Servers, Others]) ->
    Name = list_to_atom(Module),
    {module, Name} = code:load_binary(Name, File, bytes(File)),
    put(servers, [begin {ok, Pid} = gen_server:start(Name, 0, []), Pid end || _ <- number(Servers)]),
    [spawn(fun() -> receive stop -> ok end end) || _ <- number(Others)],
    io:format("0~n");
%% The pause, and all of it.
answer(["reload", Module, File]) ->
    {Name, Bytes, Servers} = {list_to_atom(Module), bytes(File), get(servers)},
    Began = erlang:monotonic_time(),
    code:purge(Name),
    Paused = erlang:monotonic_time(),
    [ok = sys:suspend(Pid) || Pid <- Servers],
    {module, Name} = code:load_binary(Name, File, Bytes),
    [ok = sys:change_code(Pid, Name, undefined, []) || Pid <- Servers],
    [ok = sys:resume(Pid) || Pid <- Servers],
    Ended = erlang:monotonic_time(),
    io:format("~b ~b~n", [microseconds(Ended - Paused), microseconds(Ended - Began)]).

compile(Text, N, Folder) ->
    Source = filename:join(Folder, "source.erl"),
    ok = file:write_file(Source, string:replace(Text, "f() -> 0.", io_lib:format("f() -> ~b.", [N]))),
    {ok, _Module, Beam} = compile:file(Source, [binary]),
    ok = file:write_file(filename:join(Folder, integer_to_list(N) ++ ".beam"), Beam).

bytes(File) ->
    {ok, Bytes} = file:read_file(File),
    Bytes.

number(Text) ->
    lists:seq(1, list_to_integer(Text)).

microseconds(Native) ->
    erlang:convert_time_unit(Native, native, microsecond).
