#!/bin/sh
# Each limit under attack: how long until it held, and what a small evaluation in a neighbouring sandbox takes meanwhile,
# beside what it takes with the attacker frozen. The table goes between its marks in docs/limits.md, all times as JSON in
# BUILD_DIR/bench_limits.json. With LIMITs, just those, and only shown.
# usage: tools/bench_limits.sh [BUILD_DIR [WINDOW_MS [LIMIT…]]]
set -eu
# Nodes that are booted ahead of time would disturb what is measured.
export SANDBOX_WARM_NODES=0 SANDBOX_SPARE_COMPILERS=0

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
window_ms=${2:-2500}
shift "$(($# < 2 ? $# : 2))"
document=$root/docs/limits.md

work=$(mktemp -d /var/tmp/bench_limits.XXXXXX)
# The service runs as a user of its own and has to reach its home.
chmod 755 "$work"
# shellcheck disable=SC2317
clean_up() {
    [ ! -d "$work/home" ] || "$build/bin/sandbox" --home "$work/home" shutdown --no-autostart >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

load_of() { cut -d ' ' -f 1 /proc/loadavg; }

load_before=$(load_of)
if ! "$build/tools/bench_limits" "$root/examples/counter_erl" "$work" "$window_ms" "$@" \
    >"$work/rows.json" 2>"$work/errors"; then
    tail -n 5 "$work/errors" >&2
    exit 1
fi
memory_gib=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
otp=$(erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().')
machine="Linux $(uname -r), $(nproc) cores, $memory_gib GiB, OTP $otp, load $load_before before and $(load_of) after; each attack goes on for $window_ms ms."
jq --arg machine "$machine" '{machine: $machine, rows: .}' "$work/rows.json" >"$build/bench_limits.json"

jq -r '
def at(p): sort | .[((length - 1) * p) | round];
def shown: if . < 10 then . * 100 | round / 100 elif . < 100 then . * 10 | round / 10 else round end | tostring;
def held: if .held_ms != null then "\(.held_ms | shown) ms"
    elif .limit == "cpu" then "\(.used_per_ms * 100 | round) % used of \(.bound)"
    else "\(.used_per_ms * 1000 / 1048576 | shown) MiB/s written of \(.bound)" end;
def times: (.attacked_ms | at(0.99)) / (.quiet_ms | at(0.99));
.machine, "",
"| limit | attack | held after | neighbour quiet, ms: p50, p99 | under attack, ms: p50, p99 | p99, times |",
"|---|---|---|---|---|---|",
(.rows[] | "| \(.limit) | \(.tries) | \(held) | \(.quiet_ms | at(0.5) | shown), \(.quiet_ms | at(0.99) | shown) | \(.attacked_ms | at(0.5) | shown), \(.attacked_ms | at(0.99) | shown) | \(times | shown) |"), "",
"All attacks together: p99 \([.rows[].quiet_ms[]] | at(0.99) | shown) ms quiet, \([.rows[].attacked_ms[]] | at(0.99) | shown) ms under attack: \(([.rows[].attacked_ms[]] | at(0.99)) / ([.rows[].quiet_ms[]] | at(0.99)) | shown) times."
' "$build/bench_limits.json" >"$work/table.md"
cat "$work/table.md"
[ $# -eq 0 ] || exit 0

awk -v table="$work/table.md" '
/^<!-- end of measured -->/ { skip = 0 }
!skip { print }
/^<!-- measured -->/ { skip = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' "$document" >"$work/document.md"
cat "$work/document.md" >"$document"
