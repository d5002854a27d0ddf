-module(innocent_names).
-export([run/1]).

run(Path) -> {filename:basename(Path), filename:join("a", Path), code:priv_dir(kernel)}.
