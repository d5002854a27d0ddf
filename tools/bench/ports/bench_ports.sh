#!/bin/sh
# A small HTTP server in a sandbox, through a published port, beside the same server in a plain VM on the host: by turns,
# in one run. A Markdown table, and all figures as JSON in BUILD_DIR/bench_ports.json.
# usage: tools/bench/ports/bench_ports.sh [BUILD_DIR [WINDOW_MS [ROUNDS]]]
set -eu
# shellcheck source=tools/bench/common.sh
. "$(dirname "$0")/../common.sh"
window_ms=${2:-2000}
rounds=${3:-5}
export SANDBOX_HOME="$work/home" SANDBOX_SPARE_COMPILERS=0

mkdir "$work/hello" "$work/ebin"
cp "$root/tools/bench/ports/hello.erl" "$work/hello"
erlc -o "$work/ebin" "$work/hello/hello.erl"
published=$("$build/bin/sandbox" create hello "$work/hello/hello.erl" --supervisor hello --profile low -p 0:4000 --json |
    jq '.published[0].port')
# The scheduler as a sandbox's VM has it.
host_port=$((published > 40000 ? published - 10007 : published + 10007))
erl +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -noshell -pa "$work/ebin" -s hello main "$host_port" >/dev/null 2>&1 &
host=$!
trap 'kill $host 2>/dev/null || true; clean_up' EXIT
until "$build/tools/bench_ports" "$host_port" 1 50 keep >/dev/null 2>&1; do :; done

measure_all() {
    for round in $(seq "$rounds"); do
        for way in keep close; do
            for connections in 1 64; do
                for place in host sandbox; do
                    port=$([ "$place" = host ] && echo "$host_port" || echo "$published")
                    "$build/tools/bench_ports" "$port" "$connections" "$window_ms" "$way" |
                        jq -c --arg row "$way.$connections.$place" --argjson round "$round" '. + {row: $row, round: $round}'
                done
            done
        done
    done | jq -s 'group_by(.row) | map({key: .[0].row, value: .}) | from_entries'
}

measure measure_all
jq --arg machine "$(this_machine); $rounds rounds of $window_ms ms." '{machine: $machine, rows: .}' "$work/times.json" \
    >"$build/bench_ports.json"
tabulate "$build/bench_ports.json" <<'END'
.machine, "",
"| connections | on the host, requests/s (p50, p99 µs) | through the port, requests/s (p50, p99 µs) | of the host's | failed | wanted | reached |",
"|---|---|---|---|---|---|---|",
(.rows as $r |
 def median(row; key): [$r[row][] | .[key]] | at(0.5);
 def cell(row): "\(median(row; "requests_per_s")) (\(median(row; "p50_us")), \(median(row; "p99_us")))";
 def row(what; name):
   (median("\(name).sandbox"; "requests_per_s") / median("\(name).host"; "requests_per_s")) as $part |
   "| \(what) | \(cell("\(name).host")) | \(cell("\(name).sandbox")) | \($part | shown) | \([$r["\(name).sandbox"][].failed] | add) | 0.5 | \($part >= 0.5 | yes) |";
 row("1 that stays"; "keep.1"), row("64 that stay"; "keep.64"),
 row("1 at a time, a new one for each request"; "close.1"), row("64 at a time, a new one for each request"; "close.64"))
END
put_table "$root/docs/benchmarks.md" "published ports"
