#!/bin/sh
# Each limit under attack: how long until it held, and what a small evaluation in a neighbouring sandbox takes meanwhile,
# beside what it takes with the attacker frozen. The table goes between its marks in docs/limits.md, all times as JSON in
# BUILD_DIR/bench_limits.json. With LIMITs, just those, and only shown.
# usage: tools/bench/limits/bench_limits.sh [BUILD_DIR [WINDOW_MS [LIMIT…]]]
set -eu
# shellcheck source=tools/bench/common.sh
. "$(dirname "$0")/../common.sh"
export SANDBOX_SPARE_COMPILERS=0 SANDBOX_SETTLE=0
window_ms=${2:-2500}
shift "$(($# < 2 ? $# : 2))"

measure "$build/tools/bench_limits" "$root/examples/counter_erl" "$work" "$window_ms" "$@"
jq --arg machine "$(this_machine); each attack goes on for $window_ms ms." '{machine: $machine, rows: .}' \
    "$work/times.json" >"$build/bench_limits.json"

tabulate "$build/bench_limits.json" <<'END'
def held: if .held_ms != null then "\(.held_ms | shown) ms"
    elif .limit == "cpu" then "\(.used_per_ms * 100 | round) % used of \(.bound)"
    else "\(.used_per_ms * 1000 / 1048576 | shown) MiB/s written of \(.bound)" end;
def times: (.attacked_ms | at(0.99)) / (.quiet_ms | at(0.99));
.machine, "",
"| limit | attack | held after | neighbour quiet, ms: p50, p99 | under attack, ms: p50, p99 | p99, times |",
"|---|---|---|---|---|---|",
(.rows[] | "| \(.limit) | \(.tries) | \(held) | \(.quiet_ms | at(0.5) | shown), \(.quiet_ms | at(0.99) | shown) | \(.attacked_ms | at(0.5) | shown), \(.attacked_ms | at(0.99) | shown) | \(times | shown) |"), "",
"All attacks together: p99 \([.rows[].quiet_ms[]] | at(0.99) | shown) ms quiet, \([.rows[].attacked_ms[]] | at(0.99) | shown) ms under attack: \(([.rows[].attacked_ms[]] | at(0.99)) / ([.rows[].quiet_ms[]] | at(0.99)) | shown) times."
END
[ $# -eq 0 ] || exit 0
put_table "$root/docs/limits.md" measured
