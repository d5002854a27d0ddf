%%% What an evaluation prints, kept for its answer instead of going to the log. Each evaluation's
%%% process has a row; the I/O servers find the row of the process that prints.
-module(sbx_capture).

-export([open/0, start/0, take/1, put/2]).

-define(MAX_BYTES, 1048576).
%% A process that the evaluation started counts as the evaluation, and one that this started.
-define(GENERATIONS, 4).

%% The agent owns the table. Rows are written by the evaluations and by the I/O servers.
-spec open() -> ok.
open() ->
    ?MODULE = ets:new(?MODULE, [named_table, public]),
    ok.

%% From now on, what this process prints is kept.
-spec start() -> ok.
start() ->
    true = ets:insert(?MODULE, {self(), 0, []}),
    ok.

%% What the process has printed. Afterwards nothing of it is kept.
-spec take(pid()) -> binary().
take(Pid) ->
    case ets:take(?MODULE, Pid) of
        [{Pid, _Bytes, Pieces}] -> iolist_to_binary(lists:reverse(Pieces));
        [] -> <<>>
    end.

%% Whether the text is kept. One that has no room goes to the log, as all that comes after the
%% evaluation.
-spec put(pid(), binary()) -> boolean().
put(From, Chars) ->
    case ets:info(?MODULE, size) of
        Rows when is_integer(Rows), Rows > 0 -> keep(row(From, ?GENERATIONS), Chars);
        _None -> false
    end.

keep([{Pid, Bytes, Pieces}], Chars) when Bytes + byte_size(Chars) =< ?MAX_BYTES ->
    ets:update_element(?MODULE, Pid, [{2, Bytes + byte_size(Chars)}, {3, [Chars | Pieces]}]);
keep(_None, _Chars) ->
    false.

row(Pid, Generations) when is_pid(Pid), node(Pid) =:= node(), Generations > 0 ->
    case ets:lookup(?MODULE, Pid) of
        [] -> row(parent(Pid), Generations - 1);
        Row -> Row
    end;
row(_None, _Generations) ->
    [].

parent(Pid) ->
    case process_info(Pid, parent) of
        {parent, Parent} -> Parent;
        undefined -> none
    end.
