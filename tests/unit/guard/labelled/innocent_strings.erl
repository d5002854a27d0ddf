-module(innocent_strings).
-export([run/1]).

run(Text) -> string:uppercase(re:replace(Text, "os:cmd", "", [{return, list}])).
