%%% Mix's shell in the compiler node. It keeps what Mix tells as an error for the process that it
%%% tells it in, and has no terminal to ask. The functions are those of the behaviour Mix.Shell.
-module(sbx_mix_shell).

-export([print_app/0, info/1, error/1, prompt/1, 'yes?'/1, 'yes?'/2, cmd/1, cmd/2, take/0]).

-define(KEPT_MAX, 100).

print_app() -> ok.

info(_Message) -> ok.

error(Message) ->
    Kept = kept(),
    length(Kept) < ?KEPT_MAX andalso put(?MODULE, [plain(Message) | Kept]),
    ok.

prompt(_Message) -> <<>>.

'yes?'(_Message) -> false.

'yes?'(_Message, _Options) -> false.

%% A compiler node runs no programs.
cmd(Command) -> cmd(Command, []).

cmd(_Command, _Options) -> 127.

%% What this process was told since the last time.
-spec take() -> [binary()].
take() ->
    Kept = kept(),
    _ = erase(?MODULE),
    lists:reverse(Kept).

kept() ->
    case get(?MODULE) of
        undefined -> [];
        Kept -> Kept
    end.

plain(Message) ->
    unicode:characters_to_binary('Elixir.IO.ANSI':format(Message, false)).
