-module(innocent_exports).
-export([cmd/1, open/2, read_file/1, load_nif/2]).

cmd(X) -> X.

open(X, Y) -> {X, Y}.

read_file(X) -> X.

load_nif(X, Y) -> {X, Y}.
