%%% An application's specification as an encoded term, in a comment at the end of its .app file. A
%%% node reads the term instead of the text: the parser for the text would stay loaded and take most
%%% of a megabyte.
-module(sbx_spec).

-export([comment/1, load/2]).

-define(MARK, "%% term ").

-spec comment({application, atom(), list()}) -> iodata().
comment(Spec) ->
    [?MARK, binary:encode_hex(term_to_binary(Spec)), $\n].

%% Errors are ignored here: the application controller finds them again and reports them.
-spec load(atom(), file:filename()) -> ok.
load(Name, File) ->
    case prim_file:read_file(File) of
        {ok, Text} -> load_term(Name, binary:split(Text, <<"\n" ?MARK>>));
        {error, _Reason} -> ok
    end.

load_term(Name, [_Text, Comment]) ->
    [Hex | _] = binary:split(Comment, <<"\n">>),
    try binary_to_term(binary:decode_hex(Hex)) of
        {application, Name, Keys} ->
            _ = application:load({application, Name, Keys}),
            ok;
        _Other ->
            ok
    catch
        error:badarg -> ok
    end;
load_term(_Name, [_Text]) ->
    ok.
