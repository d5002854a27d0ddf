#!/bin/sh
# How long compiling takes, beside the alternatives in the same run: a Markdown table, which also goes between its marks in
# docs/benchmarks.md, and all times as JSON in BUILD_DIR/bench_compile.json.
# usage: tools/bench/compile/bench_compile.sh [BUILD_DIR [ROUNDS]]
set -eu
# shellcheck source=tools/bench/common.sh
. "$(dirname "$0")/../common.sh"
rounds=${2:-20}

measure "$build/tools/bench_compile" "$build/bin/sandbox" "$root/tools/bench/compile/bench_compile.exs" "$work" "$rounds"
jq --arg machine "$(this_machine); $rounds rounds, five times as many of what takes milliseconds." \
    '{machine: $machine, times_ms: .}' "$work/times.json" >"$build/bench_compile.json"

tabulate "$build/bench_compile.json" <<'END'
def cell: if . == null then "" else "\(at(0.5) | shown) (\(at(0.1) | shown)–\(at(0.9) | shown))" end;
def tail: if length < 100 then "" else at(0.99) | shown end;
def verdict(ratio; target): ratio <= target | yes;
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
END
put_table "$root/docs/benchmarks.md" compiling
