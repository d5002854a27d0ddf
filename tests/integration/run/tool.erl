%% What an escript of an archive holds: an application, and the program that starts it.
-module(tool).

-export([main/1]).

main(["wait"]) ->
    io:format("begun~n"),
    timer:sleep(infinity);
main(Args) ->
    {ok, _} = application:ensure_all_started(tool),
    io:format("~p ~p ~p~n", [Args, application:get_env(tool, size), io:get_line("name? ")]),
    halt(9).
