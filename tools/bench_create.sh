#!/bin/sh
# How long creating, destroying and calling takes, beside the alternatives in the same run: a Markdown table, which also
# goes between its marks in docs/benchmarks.md, and all times as JSON in BUILD_DIR/bench_create.json.
# usage: tools/bench_create.sh [BUILD_DIR [ROUNDS]]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
rounds=${2:-20}
document=$root/docs/benchmarks.md

work=$(mktemp -d)
# The service runs as a user of its own and has to reach its home and the projects.
chmod 755 "$work"
# shellcheck disable=SC2317
clean_up() {
    for home in "$work"/home*; do
        [ ! -d "$home" ] || "$build/bin/sandbox" --home "$home" shutdown --no-autostart >/dev/null 2>&1 || true
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

load_of() { cut -d ' ' -f 1 /proc/loadavg; }

load_before=$(load_of)
if ! "$build/tools/bench_create" "$root/examples" "$root/tools/bench_create.escript" "$work" "$rounds" \
    >"$work/times.json" 2>"$work/errors"; then
    tail -n 5 "$work/errors" >&2
    exit 1
fi
memory_gib=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
otp=$(erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().')
machine="Linux $(uname -r), $(nproc) cores, $memory_gib GiB, OTP $otp, Elixir $(elixir --short-version), load $load_before before and $(load_of) after; $rounds rounds, five times as many of warm creates and calls."
jq --arg machine "$machine" '{machine: $machine, times_ms: .}' "$work/times.json" >"$build/bench_create.json"

jq -r '
def at(p): sort | .[((length - 1) * p) | round];
def shown: if . < 10 then . * 100 | round / 100 elif . < 100 then . * 10 | round / 10 else round end | tostring;
def cell: "\(at(0.5) | shown) (\(at(0.1) | shown)–\(at(0.9) | shown))";
def verdict(reached): if reached then "yes" else "no" end;
.machine, "",
"| what | ours, ms | 99 of 100 | beside | ms | ours / theirs | wanted | reached |",
"|---|---|---|---|---|---|---|---|",
(.times_ms as $times |
 ([
    ["a node that waited is taken: `examples/counter`, compiled before", "create.warm", "`peer:start`", "peer.start", 0.5, 0.05],
    ["the same, 99 of 100", "create.warm", "`peer:start`", "peer.start", 0.99, 0.125],
    ["a node that waited is taken: `examples/counter_erl`", "create.warm_erlang", "`peer:start`", "peer.start", 0.5, 0.05],
    ["a node is booted: `examples/counter`", "create.cold", "`elixir` booted", "elixir.boot", 0.5, 1.25],
    ["a node is booted: `examples/counter_erl`", "create.cold_erlang", "`erl` booted", "erl.boot", 0.5, 1.25],
    ["`eval` of a sum, over the socket", "eval.sum", "`erpc:call` between two local nodes", "erpc.sum", 0.5, 1.5]
 ][] | . as [$what, $ours, $name, $theirs, $point, $target] |
   (($times[$ours] | at($point)) / ($times[$theirs] | at(0.5))) as $ratio |
   "| \($what) | \($times[$ours] | cell) | \($times[$ours] | at(0.99) | shown) | \($name) | \($times[$theirs] | cell) | \($ratio * 1000 | round / 1000) | at most \($target) | \(verdict($ratio <= $target)) |"),
 ([
    ["destroyed: an idle one", "destroy.idle"],
    ["destroyed: one that spins with 2 % of a core", "destroy.throttled"],
    ["destroyed: a frozen one", "destroy.frozen"]
 ][] | . as [$what, $ours] |
   "| \($what) | \($times[$ours] | cell) | \($times[$ours] | at(0.99) | shown) | | | | 99 of 100 within 20 ms | \(verdict(($times[$ours] | at(0.99)) <= 20)) |"))
' "$build/bench_create.json" >"$work/table.md"
cat "$work/table.md"

awk -v table="$work/table.md" '
/^<!-- end of creating -->/ { skip = 0 }
!skip { print }
/^<!-- creating -->/ { skip = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' "$document" >"$work/document.md"
cat "$work/document.md" >"$document"
