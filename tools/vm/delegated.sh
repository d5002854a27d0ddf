#!/bin/sh
# The service of an ordinary user to whom a cgroup was delegated, as systemd does it for a login: limits hold there too.
# usage: tools/vm/delegated.sh (as root)
set -eu

user=12345
project=$(cd "$(dirname "$0")/../.." && pwd)
group=/sys/fs/cgroup/user.slice/delegated

# What systemd hands over: the directory, and the files that move processes and enable controllers.
delegate() {
    mkdir -p /sys/fs/cgroup/user.slice
    echo "+memory +cpu +pids" >/sys/fs/cgroup/user.slice/cgroup.subtree_control
    mkdir "$group"
    chown "$user" "$group" "$group/cgroup.procs" "$group/cgroup.threads" "$group/cgroup.subtree_control"
}

as_user() {
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$1" && shift && exec "$@"' sh "$group/cgroup.procs" \
        setpriv --reuid "$user" --regid "$user" --clear-groups env -u XDG_RUNTIME_DIR HOME="$folder" "$@"
}

fail() {
    echo "failed: $*"
    exit 1
}

use_the_service() {
    sandbox=$project/build/bin/sandbox
    export SANDBOX_HOME=$HOME/home
    lost=$("$sandbox" doctor --json | jq -r '.guarantees[] | select(.given | not) | .name' | tr '\n' ' ')
    echo "without: $lost"
    for kept in cgroups memory_limit cpu_limit task_limit freezer; do
        case " $lost" in *" $kept "*) fail "$kept is lost" ;; esac
    done
    "$sandbox" create a "$project/examples/counter_erl" --memory 64M
    [ "$("$sandbox" eval a 'counter:increment(5).')" = 5 ] || fail "it does not count"
    "$sandbox" freeze a
    "$sandbox" thaw a
    [ "$("$sandbox" eval a 'counter:value().')" = 5 ] || fail "it lost its state"
    "$sandbox" limits a memory=96M
    # The kernel ends it, and the service knows why.
    "$sandbox" eval a '(fun Grow(L) -> Grow([binary:copy(<<0:8192>>, 1024) | L]) end)([]).' || true
    "$sandbox" wait a --for error
    "$sandbox" info a --json | jq -e '.last_error.code == "limit_reached"' || fail "$("$sandbox" info a)"
    "$sandbox" destroy a
    "$sandbox" shutdown
}

if [ "${1:-}" = --user ]; then
    use_the_service
    exit
fi

folder=$(mktemp -d)
chown "$user" "$folder"
delegate
trap 'rm -rf "$folder"' EXIT
as_user sh "$0" --user
left=$(find "$group" -mindepth 1 -type d ! -name sandbox-service)
[ -z "$left" ] || fail "left: $left"
find "$group" -depth -type d -exec rmdir {} +
