%% Holds a number that several processes count up together.
-module(counter).
-behaviour(gen_server).

-export([start_link/1, increment/0, increment/1, value/0, reset/0]).
-export([init/1, handle_call/3, handle_cast/2]).

-spec start_link(integer()) -> gen_server:start_ret().
start_link(Initial) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Initial, []).

-spec increment() -> integer().
increment() ->
    increment(1).

%% Adds to the count and returns the new one.
-spec increment(pos_integer()) -> integer().
increment(By) when is_integer(By), By > 0 ->
    gen_server:call(?MODULE, {increment, By}).

-spec value() -> integer().
value() ->
    gen_server:call(?MODULE, value).

-spec reset() -> ok.
reset() ->
    gen_server:call(?MODULE, reset).

init(Initial) ->
    {ok, Initial}.

handle_call({increment, By}, _From, Count) ->
    {reply, Count + By, Count + By};
handle_call(value, _From, Count) ->
    {reply, Count, Count};
handle_call(reset, _From, _Count) ->
    {reply, ok, 0}.

handle_cast(_Message, Count) ->
    {noreply, Count}.
