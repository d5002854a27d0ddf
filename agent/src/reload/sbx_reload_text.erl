%%% Errors of the application's own code as bounded text for people, in the form of its language.
-module(sbx_reload_text).

-export([exception/3, text/2, pid/1]).

-define(TEXT_MAX_BYTES, 8192).
-define(CHARS_MAX, 4096).

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
