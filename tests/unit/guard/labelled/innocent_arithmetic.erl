-module(innocent_arithmetic).
-export([run/1]).

run(X) -> math:sqrt(X) + lists:sum([X, abs(X)]) + erlang:system_time().
