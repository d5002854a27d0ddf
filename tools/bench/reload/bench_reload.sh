#!/bin/sh
# How long changing running code takes, beside the same by hand in a plain VM and in the same run: a Markdown table, which
# also goes between its marks in docs/benchmarks.md, and all times as JSON in BUILD_DIR/bench_reload.json.
# usage: tools/bench/reload/bench_reload.sh [BUILD_DIR [ROUNDS]]
set -eu
# shellcheck source=tools/bench/common.sh
. "$(dirname "$0")/../common.sh"
rounds=${2:-100}

measure "$build/tools/bench_reload" "$root/tools/bench/reload/bench_reload.escript" "$work" "$rounds"
jq --arg machine "$(this_machine); $rounds rounds, half as many with 1,000 servers and a fifth with 100,000 processes." \
    '{machine: $machine, times_ms: .}' "$work/times.json" >"$build/bench_reload.json"

tabulate "$build/bench_reload.json" <<'END'
def cell: "\(at(0.5) | shown) (\(at(0.99) | shown))";
.machine, "",
"| change | the caller waited, ms | in the node, ms | pause, ms | by hand: all of it, ms | by hand: pause, ms | wanted | reached |",
"|---|---|---|---|---|---|---|---|",
(.times_ms as $t |
 def median(key): $t[key] | at(0.5);
 def row(what; subject; way; wanted; reached):
   "| \(what) | \($t["\(subject).\(way).whole"] | cell) | \($t["\(subject).\(way).node"] | cell) | \($t["\(subject).\(way).pause"] | cell) | \($t["\(subject).hand.whole"] | cell) | \($t["\(subject).hand.pause"] | cell) | \(wanted) | \(reached) |";
 # They take the same when they take the same to a twentieth: medians of so many rounds differ by as much.
 def not_slower(subject): median("\(subject).rollback.whole") <= 1.05 * median("\(subject).reload.whole") | yes;
 row("one GenServer: reload"; "one"; "reload"; "at most 3 ms over it by hand";
     median("one.reload.whole") - median("one.hand.whole") <= 3 | yes),
 row("rollback"; "one"; "rollback"; "no slower than the reload"; not_slower("one")),
 row("1,000 GenServers: reload"; "thousand"; "reload"; "pause at most 1.2 times it by hand";
     median("thousand.reload.pause") <= 1.2 * median("thousand.hand.pause") | yes),
 row("rollback"; "thousand"; "rollback"; "no slower than the reload"; not_slower("thousand")),
 row("100,000 processes, 10 of them GenServers of the module: reload"; "many"; "reload"; "pause under 10 ms";
     median("many.reload.pause") < 10 | yes),
 row("rollback"; "many"; "rollback"; "no slower than the reload"; not_slower("many")))
END
put_table "$root/docs/benchmarks.md" "changing running code"
