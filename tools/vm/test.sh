#!/bin/sh
# Boot Debian 13 with its own kernel in QEMU, where cgroups are v2 only, run a selection of the real tests there, and
# print one table.
# usage: tools/vm/test.sh [CHECK…] (all; tools/vm/init.sh names them). FRESH=1 makes the root again.
# The machine is emulated, and its clock counts the instructions that it has run, so that no deadline in it depends on
# how fast or busy this one is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
checks=$(echo "$*" | tr ' ' ,)
bound_s=${VM_TEST_SECONDS:-1800}

install_missing() {
    missing=""
    for package in qemu-system-x86 e2fsprogs debootstrap; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' $package 2>/dev/null || true)" = installed ] || missing="$missing $package"
    done
    # shellcheck disable=SC2086
    [ -z "$missing" ] || DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null
}

build_project() {
    # shellcheck disable=SC2016
    "$here/../distros/inside.sh" "$root" sh -euc '
        make -C /project
        sh /project/tests/integration/seed.sh make /project/build/tests/integration/seed /project/build' \
        >"$scratch/build.log" 2>&1 || { tail -n 20 "$scratch/build.log" >&2 && exit 1; }
}

make_image() {
    kilobytes=$(du -sxk "$root" | cut -f1)
    truncate -s "$((kilobytes * 5 / 4 + 200000))K" "$scratch/image"
    mkfs.ext4 -q -d "$root" -O ^has_journal "$scratch/image" >/dev/null
}

# One thread: with more the guest's kernel dies of code that it patches. No network card, so nothing gets out. Without
# mitigations the kernel keeps one set of page tables a process: changing them is slow when it is emulated.
boot() {
    timeout --kill-after=10 "$bound_s" qemu-system-x86_64 -M pc -m 4096 -smp 1 \
        -accel tcg,thread=single -icount shift=0,sleep=on -rtc clock=vm -cpu qemu64 -nic none \
        -kernel "$(ls "$root"/boot/vmlinuz-*)" -initrd "$(ls "$root"/boot/initrd.img-*)" \
        -append "root=/dev/vda rw console=ttyS0 quiet panic=-1 mitigations=off init=/project/tools/vm/init.sh checks=$checks" \
        -drive "file=$scratch/image,format=raw,if=virtio,cache=unsafe" \
        -no-reboot -display none -monitor none -serial "file:$scratch/console.log" -serial stdio </dev/null
}

# What the machine tells, as it comes: progress and words of failed checks go to standard error.
follow() {
    while IFS= read -r line; do
        line=$(printf %s "$line" | tr -d '\r')
        case $line in
        check\ *) echo "${line#check }" >>"$scratch/checks" ;;
        kernel\ *) echo "${line#kernel }" >"$scratch/kernel" ;;
        log\ *) echo "${line#log }" >&2 ;;
        running\ *) echo "$line" >&2 ;;
        end) : >"$scratch/ended" ;;
        esac
    done
}

print_table() {
    printf '| check (Linux %s, cgroup v2) | result | tests | seconds |\n|---|---|---|---|\n' "$(cat "$scratch/kernel")"
    while read -r name result tests seconds; do
        printf '| %-28s | %-6s | %5s | %7s |\n' "$name" "$result" "$tests" "$seconds"
    done <"$scratch/checks"
}

install_missing
root=$("$here/root.sh")
scratch=$(mktemp -d -p "$(dirname "$root")" vm-test.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
: >"$scratch/checks"
echo unknown >"$scratch/kernel"
echo "building in $root" >&2
"$here/../distros/copy.sh" "$root"
build_project
echo "booting" >&2
make_image
boot | follow
print_table
for check in "$@"; do
    grep -q "^$check " "$scratch/checks" || echo "$check FAILED: there is no such check" | tee -a "$scratch/checks" >&2
done
[ -e "$scratch/ended" ] || { echo "the machine did not end by itself" && tail -n 20 "$scratch/console.log"; } >&2
[ -e "$scratch/ended" ] && [ -s "$scratch/checks" ] && ! grep -q FAILED "$scratch/checks"
