# The values of a run (subject → array) as rows: what was measured, beside what, and whether it is as wanted.
# Usage: jq --arg machine TEXT -f report.jq values.json

def at(p): sort | .[((length - 1) * p) | round];
def spread: {median: at(0.5), low: at(0.1), high: at(0.9), p99: at(0.99), count: length};

# kind: how ours is judged. wanted: at most so much, except for "rate".
[
  {what: "warm create of `examples/counter`, compiled before", ours: "create.warm", name: "`peer:start`", theirs: "peer.start", kind: "ratio", wanted: 0.05},
  {what: "warm create of `examples/counter`, 99 of 100", ours: "create.warm", name: "`peer:start`", theirs: "peer.start", kind: "ratio99", wanted: 0.125},
  {what: "warm create of `examples/counter_erl`", ours: "create.warm_erlang", name: "`peer:start`", theirs: "peer.start", kind: "ratio", wanted: 0.05},
  {what: "cold create of `examples/counter_erl`", ours: "create.cold_erlang", name: "`erl` booted", theirs: "erl.boot", kind: "ratio", wanted: 1.25},
  {what: "cold create of `examples/counter_erl`", ours: "create.cold_erlang", name: "`erl` booted in `bwrap`", theirs: "bwrap.erl", kind: "ratio", wanted: null},
  {what: "cold create of `examples/counter`", ours: "create.cold", name: "`elixir` booted", theirs: "elixir.boot", kind: "ratio", wanted: 1.25},
  {what: "destroy of an idle one, 99 of 100", ours: "destroy.idle", kind: "p99", wanted: 20},
  {what: "destroy of one that spins with 2 % of a core, 99 of 100", ours: "destroy.throttled", kind: "p99", wanted: 20},
  {what: "destroy of a frozen one, 99 of 100", ours: "destroy.frozen", kind: "p99", wanted: 20},
  {what: "`sandbox list`, the whole command", ours: "list", name: "`true` by the same shell", theirs: "true", kind: "difference", wanted: 8},
  {what: "`eval` of a sum, over the socket", ours: "eval", name: "`erpc:call` between two local nodes", theirs: "erpc", kind: "ratio", wanted: 1.5},
  {what: "`eval` of a text that is new each time", ours: "eval.new", name: "the same", theirs: "erpc", kind: "ratio"},
  {what: "work inside: CPU", ours: "work.cpu", name: "`erl` with the same schedulers", theirs: "erl.cpu", kind: "pairs", wanted: 1.03},
  {what: "work inside: messages", ours: "work.messages", name: "`erl` with the same schedulers", theirs: "erl.messages", kind: "pairs", wanted: 1.03},
  {what: "work inside: CPU, of CPU time", ours: "work.cpu.cpu_time", name: "the same", theirs: "erl.cpu.cpu_time", kind: "pairs", wanted: 1.03},
  {what: "work inside: messages, of CPU time", ours: "work.messages.cpu_time", name: "the same", theirs: "erl.messages.cpu_time", kind: "pairs", wanted: 1.03},
  {what: "100 created at once, none waits", ours: "burst.ours", name: "100 `peer:start`", theirs: "burst.peers", kind: "ratio", wanted: 1.1},
  {what: "memory of an idle one, 100 alive, MB: Erlang", ours: "memory_mb.ours", name: "a `peer` node", theirs: "memory_mb.peer", kind: "ratio", wanted: 0.5},
  {what: "memory of an idle one, 100 alive, MB: Elixir", ours: "memory_mb.ours_elixir", name: "a `peer` node with Elixir", theirs: "memory_mb.peer_elixir", kind: "ratio", wanted: 0.5},
  {what: "`info` over HTTP, 100 alive, a second", ours: "info.per_second", kind: "rate", wanted: 15000},
  {what: "`info` over HTTP, 99 of 100", ours: "info", kind: "p99", wanted: 5},
  {what: "1,000 alive: memory of all, MB", ours: "thousand.memory_mb", kind: "value", wanted: 15000},
  {what: "1,000 alive: idle, % of a core", ours: "thousand.idle_percent", kind: "value", wanted: 10},
  {what: "1,000 created", ours: "thousand.create", kind: "value", wanted: null},
  {what: "1,000 answered their first `eval`", ours: "thousand.eval", kind: "value", wanted: null},
  {what: "1,000 destroyed", ours: "thousand.destroy", kind: "value", wanted: null}
] as $rows |
. as $values |
{
  machine: $machine,
  rows: [
    $rows[] | select($values[.ours]) |
    . as $row | $values[$row.ours] as $ours | ($values[$row.theirs // ""] // null) as $theirs |
    {
      what, beside: $row.name, wanted, kind,
      ours: ($ours | spread),
      theirs: (if $theirs then $theirs | spread else null end),
      value: (
        if .kind == "ratio" then ($ours | at(0.5)) / ($theirs | at(0.5))
        elif .kind == "ratio99" then ($ours | at(0.99)) / ($theirs | at(0.5))
        elif .kind == "difference" then ($ours | at(0.5)) - ($theirs | at(0.5))
        elif .kind == "pairs" then [$ours, $theirs] | transpose | map(.[0] / .[1]) | at(0.5)
        elif .kind == "p99" then $ours | at(0.99)
        else $ours | at(0.5) end)
    } |
    .reached = (if .wanted == null then null elif .kind == "rate" then .value >= .wanted else .value <= .wanted end)
  ]
}
