#!/usr/bin/env escript
%% What bench_beam does, with OTP's own beam_lib: bench_beam.escript PASSES DIRECTORY…
%% The chunks that bench_beam looks at, and the md5; microseconds for a file.
-mode(compile).

main([Passes | Directories]) ->
    Files = lists:append([filelib:wildcard(Directory ++ "/**/*.beam") || Directory <- Directories]),
    read_all(Files),
    {Times, CpuTimes} = lists:unzip([time(Files) || _ <- lists:seq(1, list_to_integer(Passes))]),
    Sorted = lists:sort(Times),
    io:format("files ~b~ntotal ~.1f ~.1f ~.1f~ncpu ~.1f~n",
              [length(Files), median(Times), hd(Sorted), lists:last(Sorted), median(CpuTimes)]).

median(Times) ->
    lists:nth(length(Times) div 2 + 1, lists:sort(Times)).

time(Files) ->
    {CpuBefore, _} = statistics(runtime),
    {Time, ok} = timer:tc(fun() -> read_all(Files) end),
    {CpuAfter, _} = statistics(runtime),
    {Time / length(Files), (CpuAfter - CpuBefore) * 1000 / length(Files)}.

read_all(Files) ->
    Chunks = [atoms, imports, exports, locals, attributes, compile_info,
              "Code", "StrT", "FunT", "LitT", "Line", "Type", "Meta", "Dbgi", "Docs", "ExCk"],
    lists:foreach(fun(File) ->
                          {ok, _} = beam_lib:chunks(File, Chunks, [allow_missing_chunks]),
                          {ok, _} = beam_lib:md5(File)
                  end, Files).
