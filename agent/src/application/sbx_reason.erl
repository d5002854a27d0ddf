%%% Exit reasons and start errors as text for people: in Elixir's form where Elixir runs, else in
%%% Erlang's.
-module(sbx_reason).

-export([stopped/1, crashed/1, start_failure/2, exit_text/1, module_name/1, bounded/2]).

-define(TEXT_MAX_BYTES, 16384).

-spec stopped(term()) -> #{reason := normal | shutdown | crash, text := binary()}.
stopped(Reason) ->
    #{reason => class(Reason), text => bounded(exit_text(Reason), ?TEXT_MAX_BYTES)}.

-spec crashed(binary()) -> #{reason := crash, text := binary()}.
crashed(Text) ->
    #{reason => crash, text => bounded(Text, ?TEXT_MAX_BYTES)}.

class(normal) -> normal;
class(shutdown) -> shutdown;
class({shutdown, _}) -> shutdown;
class(_Reason) -> crash.

-spec exit_text(term()) -> binary().
exit_text(Reason) ->
    case sbx_elixir:is_started() of
        true -> sbx_elixir:format_exit(Reason);
        false -> text("~ts", [erlang_text(Reason)])
    end.

%% What is the name of an application or a module.
-spec start_failure(atom(), term()) -> binary().
start_failure(What, Reason) ->
    Text =
        case sbx_elixir:is_started() of
            true -> elixir_start_text(Reason);
            false -> erlang_start_text(Reason)
        end,
    bounded(text("~ts could not be started: ~ts", [module_name(What), Text]), ?TEXT_MAX_BYTES).

elixir_start_text({Reason, Stack}) when is_list(Stack) ->
    sbx_elixir:format_exit({Reason, Stack});
elixir_start_text(Reason) ->
    sbx_elixir:format_start_error(Reason).

erlang_start_text({Reason, {Module, start, [_Type, _Arguments]}}) when is_atom(Module) ->
    erlang_start_text(Reason);
erlang_start_text({bad_return, {_Call, {'EXIT', Reason}}}) ->
    erlang_start_text(Reason);
erlang_start_text({shutdown, {failed_to_start_child, Id, Reason}}) ->
    io_lib:format("child ~tp: ~ts", [Id, erlang_start_text(Reason)]);
erlang_start_text({Text, File}) when is_list(Text), is_list(File) ->
    io_lib:format("~ts: ~ts", [File, Text]);
erlang_start_text(Reason) ->
    erlang_text(Reason).

erlang_text({'EXIT', Reason}) ->
    erlang_text(Reason);
erlang_text({Reason, [{Module, Function, Arity, Location} | _] = Stack}) when
    is_atom(Module), is_atom(Function), is_list(Location), (is_integer(Arity) orelse is_list(Arity))
->
    erl_error:format_exception(error, Reason, Stack);
erlang_text(Reason) ->
    io_lib:format("~tp", [Reason]).

%% The name as the module's language writes it.
-spec module_name(atom()) -> binary().
module_name(Module) ->
    case atom_to_binary(Module) of
        <<"Elixir.", Name/binary>> -> Name;
        Name -> Name
    end.

%% Cuts a text to at most Max bytes, never inside a character.
-spec bounded(binary(), pos_integer()) -> binary().
bounded(Text, Max) when byte_size(Text) =< Max ->
    Text;
bounded(Text, Max) ->
    case unicode:characters_to_binary(binary:part(Text, 0, Max)) of
        {_, Whole, _Rest} -> <<Whole/binary, "…"/utf8>>;
        Whole -> <<Whole/binary, "…"/utf8>>
    end.

text(Format, Arguments) ->
    unicode:characters_to_binary(io_lib:format(Format, Arguments)).
