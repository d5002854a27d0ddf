-module(innocent_map).
-export([run/1]).

run(#{os := #{cmd := Command}} = Map) -> Map#{file => Command, start => now}.
