#!/bin/sh
# How long compiling takes, beside the alternatives in the same run: a Markdown table, which also goes between its marks in
# docs/benchmarks.md, and all times as JSON in BUILD_DIR/bench_compile.json.
# usage: tools/bench_compile.sh [BUILD_DIR [ROUNDS]]
set -eu
# Nodes that are booted ahead of time would disturb what is measured.
export SANDBOX_WARM_NODES=0

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
rounds=${2:-20}
document=$root/docs/benchmarks.md

work=$(mktemp -d /var/tmp/bench_compile.XXXXXX)
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
if ! "$build/tools/bench_compile" "$build/bin/sandbox" "$root/tools/bench_compile.exs" "$work" "$rounds" \
    >"$work/times.json" 2>"$work/errors"; then
    tail -n 5 "$work/errors" >&2
    exit 1
fi
memory_gib=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
otp=$(erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().')
machine="Linux $(uname -r), $(nproc) cores, $memory_gib GiB, OTP $otp, Elixir $(elixir --short-version), load $load_before before and $(load_of) after; $rounds rounds, five times as many of what takes milliseconds."
jq --arg machine "$machine" '{machine: $machine, times_ms: .}' "$work/times.json" >"$build/bench_compile.json"

jq -r '
def at(p): sort | .[((length - 1) * p) | round];
def shown: if . < 10 then . * 100 | round / 100 elif . < 100 then . * 10 | round / 10 else round end | tostring;
def cell: if . == null then "" else "\(at(0.5) | shown) (\(at(0.1) | shown)–\(at(0.9) | shown))" end;
def tail: if length < 100 then "" else at(0.99) | shown end;
def verdict(ratio; target): if ratio <= target then "yes" else "no" end;
.machine, "",
"| compiled | ours, ms | 99 of 100 | beside | ms | ours / theirs | wanted | reached |",
"|---|---|---|---|---|---|---|---|",
(.times_ms as $times |
 ([
    ["one file of 20 changed, Mix project: the whole command", "one_file.command", "`mix compile`", "one_file.mix", 0.1],
    ["the same: the operation over the socket", "one_file.operation", "`mix compile`", "one_file.mix", 0.1],
    ["the same", "one_file.operation", "Mix in a VM that stays", "one_file.warm_mix", null],
    ["a GenServer of 50 lines changed, in a node that is kept", "genserver.operation", "`Code.compile_file` in a VM that stays", "genserver.compile_file", 1.3],
    ["an Erlang module changed, in a node that is kept", "erlang.operation", "`compile:file` in a VM that stays", "erlang.compile_file", 1.5],
    ["16 Elixir files, nothing kept, no spare node: the whole command", "cold.none", "`elixirc`", "cold.elixirc", 1.2],
    ["the same, with a spare node", "cold.spare", "`elixirc`", "cold.elixirc", 1.2]
 ][] | . as [$what, $ours, $name, $theirs, $target] |
   (($times[$ours] | at(0.5)) / ($times[$theirs] | at(0.5))) as $ratio |
   "| \($what) | \($times[$ours] | cell) | \($times[$ours] | tail) | \($name) | \($times[$theirs] | cell) | \($ratio | shown) | \(if $target then "at most \($target)" else "" end) | \(if $target then verdict($ratio; $target) else "" end) |"),
 ([
    ["20 modules as they were", "cached.same"],
    ["20 modules, one of them changed back to what it had been", "cached.back"]
 ][] | . as [$what, $ours] |
   "| \($what): from the cache | \($times[$ours] | cell) | \($times[$ours] | tail) | | | | under 5 ms | \(verdict($times[$ours] | at(0.5); 5)) |"))
' "$build/bench_compile.json" >"$work/table.md"
cat "$work/table.md"

awk -v table="$work/table.md" '
/^<!-- end of compiling -->/ { skip = 0 }
!skip { print }
/^<!-- compiling -->/ { skip = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' "$document" >"$work/document.md"
cat "$work/document.md" >"$document"
