%%% Evaluates one expression in the application's language. It runs in the call's own process, which
%%% the agent kills at the deadline.
-module(sbx_eval).

-export([eval/1, value_of/2, keep/2, kept_bytes/0]).

-define(TEXT_MAX_BYTES, 1048576).
-define(CHARS_MAX, 65536).
-define(TERM_MAX_BYTES, 4194304).
%% Parsed expressions are kept: a caller that evaluates often evaluates the same text.
-define(KEPT_MAX, 16).
-define(KEPT_MAX_BYTES, 256).
-define(KEPT_MAX_WORDS, 2048).

%% The modules that evaluating loads.
-define(ERLANG_PARTS, [
    erl_anno, erl_eval, erl_internal, erl_parse, erl_scan, io_lib, io_lib_format, io_lib_pretty, ordsets
]).
-define(ELIXIR_PARTS, [
    'Elixir.Code', 'Elixir.Code.Identifier', 'Elixir.Inspect', 'Elixir.Inspect.Algebra',
    'Elixir.Inspect.Opts', 'Elixir.List', 'Elixir.Macro', 'Elixir.Module.ParallelChecker',
    'Elixir.String', elixir_aliases, elixir_dispatch, elixir_env, elixir_erl, elixir_erl_pass,
    elixir_erl_var, elixir_expand, elixir_locals, elixir_module, elixir_parser, elixir_quote,
    elixir_rewrite, elixir_tokenizer, elixir_utils, erl_anno, erl_eval, erl_internal, ordsets
]).

-spec eval(map()) -> sbx_call:result().
eval(Args) ->
    _ = maps:get(timeout_ms, Args),
    evaluate(maps:get(language, Args), maps:get(code, Args), maps:get(keep, Args)).

%% Returns only the value, for expressions whose result is not printed.
-spec value_of(elixir | erlang, binary()) -> {ok, term()} | {error, map()}.
value_of(Language, Code) ->
    try ready(Language), value(Language, Code, fun(_, _) -> ok end) of
        Value -> {ok, Value}
    catch
        throw:{?MODULE, Kind, Message} -> {error, #{kind => Kind, message => Message}};
        Class:Reason:Stack -> {error, exception(Language, Class, Reason, own_frames(Stack))}
    end.

%% Printing and measuring also run before the deadline: a term with shared parts can take for ever
%% to print.
evaluate(Language, Code, Keep) ->
    Begin = erlang:monotonic_time(microsecond),
    try ready(Language), value(Language, Code, Keep) of
        Value ->
            Duration = erlang:monotonic_time(microsecond) - Begin,
            Text = sbx_reason:bounded(text(Language, Value), ?TEXT_MAX_BYTES),
            {ok, with_term(Value, #{text => Text, duration_us => Duration})}
    catch
        throw:{?MODULE, Kind, Message} ->
            {error, #{kind => Kind, message => Message}};
        Class:Reason:Stack ->
            {error, exception(Language, Class, Reason, own_frames(Stack))}
    end.

with_term(Value, Result) ->
    case erlang:external_size(Value) of
        Size when Size =< ?TERM_MAX_BYTES -> Result#{term => Value};
        _TooLarge -> Result
    end.

%% One loaded module means that all of them are.
ready(erlang) ->
    erlang:module_loaded(erl_eval) orelse sbx_batch_load:load_few(?ERLANG_PARTS);
ready(elixir) ->
    case sbx_elixir:start() of
        ok -> erlang:module_loaded(elixir_expand) orelse sbx_batch_load:load_few(?ELIXIR_PARTS);
        {error, _Reason} -> throw({?MODULE, toolchain, <<"this node has no Elixir">>})
    end.

value(elixir, Code, _Keep) ->
    {Value, _Bindings} = sbx_elixir:with_errors(fun() -> 'Elixir.Code':eval_string(Code, [], [{file, <<"eval">>}]) end),
    Value;
value(erlang, Code, Keep) ->
    %% With a handler of local functions, even an empty one, erl_eval does not call erl_lint, which
    %% is large.
    {value, Value, _Bindings} = erl_eval:exprs(parsed(Code, Keep), erl_eval:new_bindings(), none),
    Value.

parsed(Code, Keep) ->
    case ets:lookup(?MODULE, Code) of
        [{_Code, Expressions}] ->
            Expressions;
        [] ->
            Expressions = parse(Code),
            _ = is_small(Code, Expressions) andalso Keep(Code, Expressions),
            Expressions
    end.

is_small(Code, Expressions) ->
    byte_size(Code) =< ?KEPT_MAX_BYTES andalso erts_debug:flat_size(Expressions) =< ?KEPT_MAX_WORDS.

%% Called by the agent, which owns the table: the application can't write to it. The size is checked
%% again, because the application may have sent the message.
-spec keep(binary(), [erl_parse:abstract_expr()]) -> ok.
keep(Code, Expressions) ->
    case is_binary(Code) andalso is_small(Code, Expressions) of
        true ->
            _ = ets:info(?MODULE, size) < ?KEPT_MAX orelse ets:delete_all_objects(?MODULE),
            true = ets:insert(?MODULE, {binary:copy(Code), Expressions}),
            ok;
        false ->
            ok
    end.

%% The memory of kept expressions, which does not count as the application's.
-spec kept_bytes() -> non_neg_integer().
kept_bytes() ->
    ets:info(?MODULE, memory) * erlang:system_info(wordsize).

parse(Code) ->
    Text = unicode:characters_to_list(Code),
    Lines = 1 + length([Newline || Newline = $\n <- Text]),
    case erl_scan:string(dotted(Text)) of
        {ok, Tokens, _End} ->
            case erl_parse:parse_exprs(Tokens) of
                {ok, Expressions} -> Expressions;
                {error, Info} -> syntax_error(Info, Lines)
            end;
        {error, Info, _Location} ->
            syntax_error(Info, Lines)
    end.

%% The dot gets its own line, since the last line may end with a comment. The string module is
%% avoided: it loads Unicode's tables, which take half a megabyte.
dotted(Text) ->
    case lists:dropwhile(fun(Char) -> Char =< $\s end, lists:reverse(Text)) of
        [$. | _] -> Text;
        _ -> Text ++ "\n."
    end.

-spec syntax_error({erl_anno:location(), module(), term()}, pos_integer()) -> no_return().
syntax_error({Location, Module, Description}, Lines) ->
    Line = erl_anno:line(erl_anno:new(Location)),
    Message = io_lib:format("line ~b: ~ts", [min(Line, Lines), Module:format_error(Description)]),
    throw({?MODULE, syntax, unicode:characters_to_binary(Message)}).

text(elixir, Value) -> sbx_elixir:inspect(Value);
%% Most results are small integers. The printer is large, and most of its time is spent on loading
%% it into the CPU's caches.
text(erlang, Value) when is_integer(Value), abs(Value) < 1 bsl 59 -> integer_to_binary(Value);
text(erlang, Value) -> unicode:characters_to_binary(io_lib:format("~tp", [Value], [{chars_limit, ?CHARS_MAX}])).

exception(elixir, Class, Reason, Stack) ->
    Message = sbx_elixir:format_banner(Class, Reason, Stack),
    failure(Class, Message, sbx_elixir:format_stacktrace(Stack));
exception(erlang, Class, Reason, Stack) ->
    Banner = erl_error:format_exception(Class, Reason, []),
    Frames = [io_lib:format("~tp~n", [Frame]) || Frame <- Stack],
    failure(Class, text_of(Banner), text_of(Frames)).

failure(Class, Message, Stack) ->
    #{
        kind => exception,
        class => Class,
        message => sbx_reason:bounded(Message, ?TEXT_MAX_BYTES),
        stacktrace => sbx_reason:bounded(Stack, ?TEXT_MAX_BYTES)
    }.

text_of(Chars) ->
    unicode:characters_to_binary(Chars).

%% Leaves out the evaluator's own frames.
own_frames(Stack) ->
    lists:takewhile(fun(Frame) -> not lists:member(element(1, Frame), [?MODULE, erl_eval, elixir]) end, Stack).
