#!/bin/sh
# How long it takes from a save to the new code's answer, beside the alternatives in the same run, and what watching a
# hundred projects of a thousand files costs: Markdown, which also goes between its marks in docs/benchmarks.md, and all
# times as JSON in BUILD_DIR/bench_watch.json.
# usage: tools/bench_watch.sh [BUILD_DIR [ROUNDS]]
set -eu
# Nodes that are booted ahead of time would disturb what is measured.
export SANDBOX_WARM_NODES=0

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
rounds=${2:-200}
document=$root/docs/benchmarks.md

work=$(mktemp -d /var/tmp/bench_watch.XXXXXX)
# The service runs as a user of its own and has to reach its home and the projects.
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
if ! "$build/tools/bench_watch" "$root/tools/bench_compile.exs" "$work" "$rounds" \
    >"$work/times.json" 2>"$work/errors"; then
    tail -n 5 "$work/errors" >&2
    exit 1
fi
memory_gib=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
otp=$(erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().')
machine="Linux $(uname -r), $(nproc) cores, $memory_gib GiB, OTP $otp, Elixir $(elixir --short-version), load $load_before before and $(load_of) after; $rounds saves of each."
"$build/tools/bench_watched" >"$work/crowd.json"
jq --arg machine "$machine" --slurpfile crowd "$work/crowd.json" '{machine: $machine, times_ms: ., crowd: $crowd[0]}' \
    "$work/times.json" >"$build/bench_watch.json"

jq -r '
def at(p): sort | .[((length - 1) * p) | round];
def shown: if . < 10 then . * 100 | round / 100 elif . < 100 then . * 10 | round / 10 else round end | tostring;
def cell: "\(at(0.5) | shown) (\(at(0.99) | shown))";
def yes: if . then "yes" else "no" end;
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
' "$build/bench_watch.json" >"$work/table.md"
cat "$work/table.md"

awk -v table="$work/table.md" '
/^<!-- end of watching -->/ { skip = 0 }
!skip { print }
/^<!-- watching -->/ { skip = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' "$document" >"$work/document.md"
cat "$work/document.md" >"$document"
