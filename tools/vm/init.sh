#!/bin/sh
# The first process of the virtual machine: sets the machine up, runs the checks, tells how each ended on the second
# serial port, and powers off.
# Names of checks in the kernel's option `checks=A,B` are those to run.
set -u

results=/dev/ttyS1
project=/project
sandbox=$project/build/bin/sandbox
tests=$project/build/tests/integration

set_up() {
    export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mountpoint -q /dev || mount -t devtmpfs dev /dev
    mount -o remount,rw /
    mkdir -p /dev/pts /dev/shm
    mount -t devpts devpts /dev/pts
    mount -t tmpfs -o mode=1777 shm /dev/shm
    mount -t tmpfs -o mode=755 run /run
    mount -t tmpfs -o mode=1777 tmp /tmp
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    ip link set lo up
    modprobe -a tun veth nf_tables nft_ct nft_limit nft_log nft_reject_inet
    hostname sandbox-vm
    export TMPDIR=/dev/shm
    # The group that systemd would have a service in, with controllers for all others.
    echo "+memory +cpu +pids" >/sys/fs/cgroup/cgroup.subtree_control
    mkdir -p /sys/fs/cgroup/system.slice/checks.service
    echo $$ >/sys/fs/cgroup/system.slice/checks.service/cgroup.procs
}

cgroups_are_v2_only() {
    [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ] && ! grep -q ' cgroup ' /proc/mounts
}

# The service finds cgroup v2, and everything in it that it bounds nodes with.
doctor() {
    home=$(mktemp -d)
    chmod 711 "$home"
    "$sandbox" --home "$home/home" doctor --json >"$home/found"
    "$sandbox" --home "$home/home" shutdown
    cat "$home/found"
    jq -e '.cgroup_version == 2 and (.guarantees | length > 0 and all(.given))' "$home/found" >/dev/null
    status=$?
    rm -rf "$home"
    return $status
}

demo() {
    "$sandbox" demo
}

# No process, cgroup, mount or namespace of any service that the checks started.
clean_up() {
    left=$(find /sys/fs/cgroup -mindepth 1 -type d -path '*sandbox*'
        awk '/sandbox/ { print "mount " $5 }' /proc/self/mountinfo
        ls -A /run/netns 2>/dev/null
        for process in /proc/[0-9]*; do
            name=$(cat "$process/comm" 2>/dev/null) || continue
            case $name in sandbox* | beam.smp | erl_child_setup | slirp4netns) echo "process $name" ;; esac
        done
        ls -A "$TMPDIR")
    [ -z "$left" ] && return 0
    echo "$left"
    return 1
}

# A line for the host: a check's name, how it ended, how many tests passed, and the seconds that it took.
check() {
    name=$1
    bound_s=$2
    shift 2
    case ",$wanted," in ,, | *,"$name",*) ;; *) return ;; esac
    echo "running $name" >$results
    started=$(cut -d. -f1 /proc/uptime)
    ended=passed
    run "$bound_s" "$@" >/tmp/check.log 2>&1 </dev/null || ended=FAILED
    took=$(($(cut -d. -f1 /proc/uptime) - started))
    [ $ended = passed ] || sed 's/^/log /' /tmp/check.log >$results
    echo "check $name $ended $(grep -c '^\[       OK \]' /tmp/check.log) $took" >$results
}

# timeout runs programs only, so what is a function here is run by this script again.
run() {
    bound_s=$1
    shift
    timeout --kill-after=5 "$bound_s" sh "$0" --run "$@"
}

if [ "${1:-}" = --run ]; then
    shift
    "$@"
    exit
fi

set_up
wanted=$(sed -n 's/.*checks=\([^ ]*\).*/\1/p' /proc/cmdline)
uname -r | sed 's/^/kernel /' >$results
check v2_only 10 cgroups_are_v2_only
check doctor 120 doctor
check demo 300 demo
check limits 600 "$tests/test_limits"
check freeze 200 "$tests/test_freeze"
check lifecycle 300 "$tests/test_lifecycle"
check recovery 300 "$tests/test_recovery"
check rootless 200 "$tests/test_rootless"
check delegated 200 sh "$project/tools/vm/delegated.sh"
check leftovers 200 "$tests/test_world"
check attacks_outside 400 "$tests/test_attacks" outside read_shadow read_a_neighbour 'fill_[dt]*' exec_a_shell \
    kill_by_system_call fork_bomb kill_everything binaries heap spawn_bomb close_the_channel
check attacks_kernel 400 "$tests/test_attacks" kernel
check clean_up 60 clean_up
echo "end" >$results
sync
echo o >/proc/sysrq-trigger
exec sleep 60
