#!/bin/sh
# What an idle sandbox costs: memory of its cgroup, kernel memory included, as a Markdown table.
# usage: tools/bench/memory/bench_memory.sh [BUILD_DIR [COUNT]]
set -eu
# Nodes that are booted ahead of time would disturb what is measured.
export SANDBOX_WARM_NODES=0 SANDBOX_SETTLE=0

root=$(cd "$(dirname "$0")/../../.." && pwd)
build=${1:-$root/build}
count=${2:-50}
sandbox=$build/bin/sandbox
samples_max=30

work=$(mktemp -d)
# The service runs as a user of its own and has to reach its home.
chmod 711 "$work"
export SANDBOX_HOME="$work/home"
# shellcheck disable=SC2317
clean_up() {
    "$sandbox" shutdown --no-autostart >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# A process's memory cgroup. Files and their names differ between the two versions of cgroups.
cgroup_of() {
    path=$(sed -n 's/^[0-9]*:memory://p' "/proc/$1/cgroup")
    if [ -n "$path" ]; then
        echo "/sys/fs/cgroup/memory$path"
    else
        echo "/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$1/cgroup")"
    fi
}

# Bytes of one cgroup: in all, anonymous, shared (the machine code that the VM made), kernel.
usage_of() {
    if [ -e "$1/memory.current" ]; then
        total=$(cat "$1/memory.current")
        awk -v total="$total" '{ of[$1] = $2 } END { print total, of["anon"], of["shmem"], of["kernel"] }' \
            "$1/memory.stat"
    else
        total=$(cat "$1/memory.usage_in_bytes")
        kernel=$(cat "$1/memory.kmem.usage_in_bytes")
        awk -v total="$total" -v kernel="$kernel" '{ of[$1] = $2 } END { print total, of["rss"], of["shmem"], kernel }' \
            "$1/memory.stat"
    fi
}

sample() {
    while read -r cgroup; do usage_of "$cgroup"; done <"$work/cgroups" | sort -n >"$work/usage"
    awk '{ sum += $1 } END { printf "%d\n", sum / 1000000 / NR * 10 }' "$work/usage"
}

# Steady: the mean, to a tenth of a megabyte, is what it was a second ago.
await_steady() {
    before=none
    for _ in $(seq $samples_max); do
        now=$(sample)
        [ "$now" = "$before" ] && return
        before=$now
        sleep 1
    done
    echo "bench_memory: $1 was not steady after $samples_max s" >&2
}

create_all() {
    : >"$work/cgroups"
    for i in $(seq "$count"); do
        "$sandbox" create "bench$i" "$root/examples/$1" >/dev/null 2>&1
        cgroup_of "$("$sandbox" info "bench$i" --json | jq .os_pid)" >>"$work/cgroups"
    done
}

destroy_all() {
    for i in $(seq "$count"); do "$sandbox" destroy "bench$i" >/dev/null 2>&1; done
}

# The parts are those of the sandbox with the median.
row() {
    awk -v name="$1" '
        { total[NR] = $1; anonymous[NR] = $2; code[NR] = $3; kernel[NR] = $4 }
        END {
            middle = int((NR + 1) / 2)
            printf "| %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f |\n", name, NR, total[middle] / 1e6, total[NR] / 1e6,
                anonymous[middle] / 1e6, code[middle] / 1e6, kernel[middle] / 1e6
        }' "$work/usage"
}

memory_gib=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
otp=$(erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().')
elixir=$(elixir --short-version 2>/dev/null || echo none)
echo "Linux $(uname -r), $(nproc) cores, $memory_gib GiB, OTP $otp, Elixir $elixir."
echo
echo "| example | sandboxes | median MB | largest MB | anonymous | machine code | kernel |"
echo "|---|---|---|---|---|---|---|"
for example in counter_erl counter; do
    create_all $example
    await_steady $example
    row $example
    destroy_all
done
