-module(innocent_other_cmd).
-export([run/1]).

run(X) -> shop:cmd(X) + os_shop:cmd(X).
