#!/bin/sh
# How long it takes from a save to the new code's answer, beside the alternatives in the same run, and what watching a
# hundred projects of a thousand files costs: Markdown, which also goes between its marks in docs/benchmarks.md, and all
# times as JSON in BUILD_DIR/bench_watch.json.
# usage: tools/bench/watch/bench_watch.sh [BUILD_DIR [ROUNDS]]
set -eu
# shellcheck source=tools/bench/common.sh
. "$(dirname "$0")/../common.sh"
rounds=${2:-200}

measure "$build/tools/bench_watch" "$root/tools/bench/compile/bench_compile.exs" "$work" "$rounds"
machine="$(this_machine); $rounds saves of each."
"$build/tools/bench_watched" >"$work/crowd.json"
jq --arg machine "$machine" --slurpfile crowd "$work/crowd.json" '{machine: $machine, times_ms: ., crowd: $crowd[0]}' \
    "$work/times.json" >"$build/bench_watch.json"

tabulate "$build/bench_watch.json" <<'END'
def cell: "\(at(0.5) | shown) (\(at(0.99) | shown))";
.machine, "",
"| | Elixir, ms | Erlang, ms | wanted | reached |",
"|---|---|---|---|---|",
(.times_ms as $t |
 def row(what; key; wanted; reached): "| \(what) | \($t["elixir.\(key)"] | cell) | \($t["erlang.\(key)"] | cell) | \(wanted) | \(reached) |";
 def median(key): $t[key] | at(0.5);
 def no_wait(name): median("\(name).live") - median("\(name).debounce");
 row("save to detection, debounce included"; "detection"; "99 of 100 under 10 ms";
     ($t["elixir.detection"] | at(0.99)) < 10 and ($t["erlang.detection"] | at(0.99)) < 10 | yes),
 row("of that, debounce and look"; "debounce"; ""; ""),
 row("save to the new code answering"; "live"; "median at most 100 and 40 ms";
     median("elixir.live") <= 100 and median("erlang.live") <= 40 | yes),
 row("`reload` by hand of the same, warm"; "reload"; "ours without debounce at most 1.5 times it";
     no_wait("elixir") <= 1.5 * median("elixir.reload") and no_wait("erlang") <= 1.5 * median("erlang.reload") | yes),
 row("recompiling inside a VM that stays, without reloading processes"; "inside"; ""; ""),
 row("compiling and starting anew: `mix run`; `erlc` and `erl`"; "restart"; ""; "")), "",
(.crowd |
 "\(.watches) folders of \(.files) files watched by one daemon: \(.idle_cpu_percent | shown) % of one core while nothing happens for \(.idle_seconds) s; a save is detected in \(.detection_ms | cell) ms, \(.saves) saves in turn; \(.memory_mib | shown) MiB for all of them.")
END
put_table "$root/docs/benchmarks.md" watching
