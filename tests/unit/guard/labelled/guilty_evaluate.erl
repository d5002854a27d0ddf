-module(guilty_evaluate).
-export([run/1]).
-finding("run/1 call erl_eval:exprs/2 code_loading").

run(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    erl_eval:exprs(Expressions, []).
