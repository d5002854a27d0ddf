%% A state by which to know whether a neighbour is still the same.
-module(victim_counter).
-behaviour(gen_server).

-export([start_link/0, add/1, value/0]).
-export([init/1, handle_call/3, handle_cast/2]).

start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

add(Number) ->
    gen_server:call(?MODULE, {add, Number}).

value() ->
    add(0).

init([]) ->
    {ok, 0}.

handle_call({add, Number}, _From, Value) ->
    {reply, Value + Number, Value + Number}.

handle_cast(_Request, Value) ->
    {noreply, Value}.
