#!/bin/sh
# How long changing running code takes, beside the same by hand in a plain VM and in the same run: a Markdown table, which
# also goes between its marks in docs/benchmarks.md, and all times as JSON in BUILD_DIR/bench_reload.json.
# usage: tools/bench_reload.sh [BUILD_DIR [ROUNDS]]
set -eu
# Nodes that are booted ahead of time would disturb what is measured.
export SANDBOX_WARM_NODES=0

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
rounds=${2:-100}
document=$root/docs/benchmarks.md

# A home that lasts lies on a disk that lasts. The service runs as a user of its own and has to reach it.
work=$(mktemp -d /var/tmp/bench_reload.XXXXXX)
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
if ! "$build/tools/bench_reload" "$root/tools/bench_reload.escript" "$work" "$rounds" \
    >"$work/times.json" 2>"$work/errors"; then
    tail -n 5 "$work/errors" >&2
    exit 1
fi
memory_gib=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
otp=$(erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().')
machine="Linux $(uname -r), $(nproc) cores, $memory_gib GiB, OTP $otp, load $load_before before and $(load_of) after; $rounds rounds, half as many with 1,000 servers and a fifth with 100,000 processes."
jq --arg machine "$machine" '{machine: $machine, times_ms: .}' "$work/times.json" >"$build/bench_reload.json"

jq -r '
def at(p): sort | .[((length - 1) * p) | round];
def shown: if . < 10 then . * 100 | round / 100 elif . < 100 then . * 10 | round / 10 else round end | tostring;
def cell: "\(at(0.5) | shown) (\(at(0.99) | shown))";
def yes: if . then "yes" else "no" end;
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
 row("100,000 processes, 10 of them GenServers of the module: reload"; "crowd"; "reload"; "pause under 10 ms";
     median("crowd.reload.pause") < 10 | yes),
 row("rollback"; "crowd"; "rollback"; "no slower than the reload"; not_slower("crowd")))
' "$build/bench_reload.json" >"$work/table.md"
cat "$work/table.md"

awk -v table="$work/table.md" '
/^<!-- end of changing running code -->/ { skip = 0 }
!skip { print }
/^<!-- changing running code -->/ { skip = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' "$document" >"$work/document.md"
cat "$work/document.md" >"$document"
