#!/bin/sh
# The service under siege: what a neighbour's info and eval take while a stranger attacks, beside what they take by turns
# without. The table goes between its marks in docs/limits.md, all figures as JSON lines in BUILD_DIR/bench_siege.json.
# With ATTACKs, just those families, and only shown.
# usage: tools/bench/siege/siege.sh [BUILD_DIR [WINDOW_MS [ROUNDS [ATTACK…]]]]
set -eu
# shellcheck source=tools/bench/common.sh
. "$(dirname "$0")/../common.sh"
export SANDBOX_SPARE_COMPILERS=0 SANDBOX_SETTLE=0
window_ms=${2:-1000}
rounds=${3:-4}
shift "$(($# < 3 ? $# : 3))"

# Where users without rights can read them.
cp -r "$root/examples/counter_erl" "$root/tools/bench/siege/inside/siege.erl" "$work/"
chmod -R a+rX "$work/counter_erl" "$work/siege.erl"
# What was stopped as the unused user stays stopped when the benchmark is cut short.
trap 'pkill -KILL -U 61234 || true; clean_up' EXIT
install -d -m 755 -o 61234 -g 61234 "$work/large"

measure "$build/tools/bench_siege" "$work" "$window_ms" "$rounds" "$@"
jq -s --arg machine "$(this_machine); $rounds windows of $window_ms ms." '{machine: $machine, rows: .}' \
    "$work/times.json" >"$build/bench_siege.json"

tabulate "$build/bench_siege.json" <<'END_OF_TABLE'
def median: sort | if length == 0 then null else (.[((length - 1) / 2) | floor] + .[(length / 2) | floor]) / 2 end;
def figure(f): map(f | select(. >= 0)) | if length == 0 then "none" else median | shown end;
def spread(f): map(f | select(. >= 0)) | if length == 0 then "none"
    else "\(median | shown) (\(min | shown) to \(max | shown))" end;
def p99(f): map(f | .p99 | select(. >= 0)) | if length == 0 then 1e9 else median end;
def is_reached(f): ([3 * (.quiet | p99(f)), 3] | max) as $bound | (.attacked | p99(f)) <= $bound;
def failed(f): map(f | .failed) | add // 0;
def reached: .victims.ended == 0 and is_reached(.info) and is_reached(.eval);
def refusals: (.attacked | failed(.newcomers)) as $new | (.attacked | failed(.create)) as $create
    | if $new + $create == 0 then "" else ", \($new + $create) failed" end;
def newcomers: [.attacked[].newcomers.worst | select(. >= 0)] | if length == 0 then "none" else max | shown end;
def turns: if .loop == null then "not told" elif .loop.turns_over_5ms == 0 then "0"
    else (.loop.worst | max_by(.cpu_us)) as $worst
    | "\(.loop.turns_over_5ms): worst \(($worst.cpu_us // 0) / 1000 | shown) ms, \($worst.work // "")" end;
def name: if .attacker.status == 0 then .tries else "\(.tries) (it could not begin)" end;
.machine, "",
"| attack | from | info quiet, ms: p50, p99 | info attacked: p50, p99 (spread) | eval quiet, ms: p50, p99 | eval attacked: p50, p99 (spread) | new client, worst ms | create, ms: quiet, attacked | sandboxes ended | daemon, MiB | turns over 5 ms | aim |",
"|---|---|---|---|---|---|---|---|---|---|---|---|",
(.rows[] | "| \(name) | \(.from) | \(.quiet | figure(.info.p50)), \(.quiet | figure(.info.p99)) | \(.attacked | figure(.info.p50)), \(.attacked | spread(.info.p99)) | \(.quiet | figure(.eval.p50)), \(.quiet | figure(.eval.p99)) | \(.attacked | figure(.eval.p50)), \(.attacked | spread(.eval.p99)) | \(newcomers)\(refusals) | \(.quiet | figure(.create.p50)), \(.attacked | figure(.create.p50)) | \(.victims.ended) of \(.victims.of) | \(.peak_mib) | \(turns) | \(if reached then "reached" else "missed" end) |"), "",
"Aim reached in \([.rows[] | select(reached)] | length) of \(.rows | length) rows; sandboxes ended that did not attack: \([.rows[].victims.ended] | add)."
END_OF_TABLE
[ $# -eq 0 ] || exit 0
put_table "$root/docs/limits.md" siege
