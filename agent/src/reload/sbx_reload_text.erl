%%% Texts for people, all of them bounded: errors of the application's own code in the form of its
%%% language, and what keeps old code from being purged.
-module(sbx_reload_text).

-export([exception/3, text/2, pid/1, in_use/2]).

-define(TEXT_MAX_BYTES, 8192).
-define(CHARS_MAX, 4096).
%% How many places a text lists.
-define(DOUBTS_MAX, 3).

-spec exception(error | exit | throw, term(), list()) -> binary().
exception(throw, {sbx_reload, Format, Arguments}, _Stack) ->
    text(Format, Arguments);
exception(Class, Reason, Stack) ->
    try
        sbx_reason:bounded(written(Class, Reason, own_frames(Stack)), ?TEXT_MAX_BYTES)
    catch
        _:_ -> text("~tp", [Class])
    end.

written(Class, Reason, Stack) ->
    case sbx_elixir:is_started() of
        true ->
            Banner = sbx_elixir:format_banner(Class, Reason, Stack),
            iolist_to_binary([Banner, $\n, sbx_elixir:format_stacktrace(Stack)]);
        false ->
            unicode:characters_to_binary(erl_error:format_exception(Class, Reason, Stack))
    end.

%% Leaves out the agent's frames, and arguments, which may be whole states.
own_frames(Stack) ->
    Above = lists:takewhile(fun(Frame) -> not is_ours(element(1, Frame)) end, Stack),
    [without_arguments(Frame) || Frame <- Above].

is_ours(Module) ->
    lists:prefix("sbx_", atom_to_list(Module)).

without_arguments({Module, Function, Arguments, Location}) when is_list(Arguments) ->
    {Module, Function, length(Arguments), Location};
without_arguments(Frame) ->
    Frame.

-spec text(io:format(), [term()]) -> binary().
text(Format, Arguments) ->
    Chars = io_lib:format(Format, Arguments, [{chars_limit, ?CHARS_MAX}]),
    sbx_reason:bounded(unicode:characters_to_binary(Chars), ?TEXT_MAX_BYTES).

-spec pid(pid()) -> binary().
pid(Pid) ->
    list_to_binary(pid_to_list(Pid)).

%% Why old code can't be purged.
-spec in_use(module(), [sbx_reload_old_code:holder()]) -> binary().
in_use(Module, Holders) ->
    Name = sbx_reason:module_name(Module),
    case [Holder || #{how := How} = Holder <- Holders, How =/= undecided] of
        [] ->
            {Some, Rest} = lists:split(min(length(Holders), ?DOUBTS_MAX), Holders),
            More = [io_lib:format(" and ~b more", [length(Rest)]) || Rest =/= []],
            Places = lists:join(", ", [place(Where, Pid) || #{where := Where, pid := Pid} <- Some]),
            text("an earlier version of ~ts may still be in use and is kept: a closure of it could be in ~ts~ts", [
                Name, Places, More
            ]);
        Certain ->
            Count = length(lists:usort([Pid || #{pid := Pid} <- Certain])),
            Ending = case Count of 1 -> ""; _ -> "es" end,
            text("an earlier version of ~ts is still in use, by ~b process~ts", [Name, Count, Ending])
    end.

place(timer, nil) -> "the message of a timer";
place(time, nil) -> "what the search did not reach in time";
place(search, nil) -> "any process, since the search failed";
place(large, nil) -> "a term that is too large to be searched";
place(large, Pid) -> io_lib:format("~ts, which is too large to be searched", [pid(Pid)]);
place(hibernates, Pid) -> io_lib:format("~ts, which hibernates", [pid(Pid)]);
place(runs, Pid) -> io_lib:format("~ts, which runs without a pause", [pid(Pid)]);
place(variables, Pid) -> io_lib:format("another closure that ~ts holds", [pid(Pid)]);
place(private_table, Pid) -> io_lib:format("a private table of ~ts", [pid(Pid)]);
place(Where, _Pid) -> atom_to_list(Where).
