#!/usr/bin/env escript
%% What bench_beam does, with OTP's own beam_lib: bench_beam.escript PASSES DIRECTORY…
%% The chunks that bench_beam looks at, and the md5; microseconds for a file.
-mode(compile).

main([Passes | Directories]) ->
    Files = lists:append([filelib:wildcard(Directory ++ "/**/*.beam") || Directory <- Directories]),
    read_all(Files),
    Times = lists:sort([time(Files) || _ <- lists:seq(1, list_to_integer(Passes))]),
    io:format("files ~b~ntotal ~.1f ~.1f ~.1f~n",
              [length(Files), lists:nth(length(Times) div 2 + 1, Times), hd(Times), lists:last(Times)]).

time(Files) ->
    {Time, ok} = timer:tc(fun() -> read_all(Files) end),
    Time / length(Files).

read_all(Files) ->
    Chunks = [atoms, imports, exports, locals, attributes, compile_info,
              "Code", "StrT", "FunT", "LitT", "Line", "Type", "Meta", "Dbgi", "Docs", "ExCk"],
    lists:foreach(fun(File) ->
                          {ok, _} = beam_lib:chunks(File, Chunks, [allow_missing_chunks]),
                          {ok, _} = beam_lib:md5(File)
                  end, Files).
