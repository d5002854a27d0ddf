#!/bin/sh
# Everything beside what one would use instead, in one run: a table, and when all rows were run also docs/benchmarks.json,
# docs/benchmarks.svg and the table between its marks in docs/benchmarks.md. All values are in BUILD_DIR/bench.json. A row
# that fails is told, and the others go on.
# usage: tools/bench/comparison/bench.sh BUILD_DIR ROUNDS [ROW…]
set -eu

# shellcheck source=tools/bench/common.sh
. "$(dirname "$0")/../common.sh"
unset SANDBOX_WARM_NODES # here they are part of what is measured
rounds=$2
shift 2
all="create destroy list eval work hundred thousand"
rows=${*:-$all}
row_max=180 # seconds

end_services() {
    for home in "$work"/*/home*; do
        [ ! -d "$home" ] || "$build/bin/sandbox" --home "$home" shutdown --no-autostart >/dev/null 2>&1 || true
    done
}
# shellcheck disable=SC2317
clean_up() {
    end_services
    rm -rf "$work"
}

ELIXIR_LIB=$(dirname "$(elixir -e 'IO.puts(:code.lib_dir(:elixir))')")
export ELIXIR_LIB
failed=""
for row in $rows; do
    mkdir "$work/$row"
    timeout "$row_max" "$build/tools/bench" "$build/bin" "$root/examples" "$root/tools/bench/comparison/rivals.escript" \
        "$work/$row" "$rounds" "$row" >"$work/$row.json" || failed="$failed $row"
    end_services
done
find "$work" -maxdepth 1 -name '*.json' -size +0 -exec jq -s add {} + >"$work/values"
mv "$work/values" "$work/values.json"
machine="$(this_machine); $rounds rounds, more of what takes milliseconds. Times in ms."

jq --arg machine "$machine" '{machine: $machine, values: .}' "$work/values.json" >"$build/bench.json"
jq --arg machine "$machine" -f "$root/tools/bench/comparison/report.jq" "$work/values.json" >"$work/report.json"
jq -r -f "$root/tools/bench/comparison/table.jq" "$work/report.json" >"$work/table.md"
cat "$work/table.md"
[ -z "$failed" ] || echo "These rows failed:$failed." | tee -a "$work/table.md"
[ "$rows" = "$all" ] || exit 0

cp "$work/report.json" "$root/docs/benchmarks.json"
jq -r -f "$root/tools/bench/comparison/plot.jq" "$work/report.json" >"$root/docs/benchmarks.svg"
put_table "$root/docs/benchmarks.md" "the run"
