-module(innocent_comment).
-export([run/0]).

%% os:cmd("rm -rf /"), file:delete("/etc/passwd")
run() -> "os:cmd(\"rm -rf /\")".
