-module(innocent_server).
-export([start_link/0, init/1, handle_call/3, handle_cast/2]).
-behaviour(gen_server).

start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

init([]) -> {ok, #{file => none}}.

handle_call(file, _From, #{file := File} = State) -> {reply, File, State};
handle_call({open, File}, _From, State) -> {reply, ok, State#{file := File}}.

handle_cast(_Message, State) -> {noreply, State}.
