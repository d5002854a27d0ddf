#!/bin/sh
# Run the tests that touch the VM with the OTP and Elixir of other Debian releases, then sandboxes of all of them in one
# service, and print one table.
# usage: tools/toolchains/test.sh BUILD_DIR [SUITE…] (trixie forky). TOOLCHAIN_ROOTS="DIR…" names roots that are there,
# or OTP:ELIXIR for two installations on this machine,
# TOOLCHAIN_TESTS="NAME…" the tests, as meson has them; NAME:GROUP is a part of one. LOGS=DIR keeps what they said.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mounted=$([ "${1:-}" = --mounted ] && echo yes || true)
[ -z "$mounted" ] || shift
build=$(cd "${1:?"usage: test.sh BUILD_DIR [SUITE…]"}" && pwd)
shift
suites=${*:-"trixie forky"}
programs=${TOOLCHAIN_TESTS:-"releases lifecycle reload pool freeze recovery compile mix watch limits input:sources attacks:agent"}
scratch=$(mktemp -d)
logs=${LOGS:-$scratch}
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# The daemon's user can't read a cache in a home that is closed to others. So each root is mounted on a folder of /mnt,
# in a mount namespace that ends with the tests.
mount_roots() {
    mount -t tmpfs -o mode=755 toolchains /mnt
    for suite in $suites; do
        mkdir "/mnt/$suite"
        mount --bind "$("$here/root.sh" "$suite")" "/mnt/$suite"
        TOOLCHAIN_ROOTS="${TOOLCHAIN_ROOTS:-} /mnt/$suite"
    done
}

run_tests() {
    root=$1
    case $root in *:*) otp=${root%:*} ;; *) otp=$root/usr/lib/erlang ;; esac
    version=$(cat "$otp"/releases/*/OTP_VERSION)
    for program in $programs; do
        log=$logs/$(basename "${root%/lib/erlang:*}").$program
        result=passed
        # shellcheck disable=SC2046,SC2086 # a program and its argument
        TESTS_AT_LENGTH=1 SANDBOX_SPARE_COMPILERS=0 SANDBOX_WARM_NODES=0 SANDBOX_SETTLE=0ms SANDBOX_TEST_TOOLCHAIN=$root "$build/tests/integration/test_"${program%:*} $(echo "$program:" | cut -d: -f2) >"$log" 2>&1 ||
            result=FAILED
        printf '%-20s %-10s %-16s %-6s %s\n' "$root" "$version" "$program" "$result" "$(grep -c '^\[       OK \]' "$log" || true)"
        [ "$result" = passed ] || { status=1 && grep -E '^\[  FAILED|^ERROR|error:' "$log" | head -n 20 >&2; }
    done
}

if [ -z "${TOOLCHAIN_ROOTS:-}" ] && [ -z "$mounted" ]; then
    for suite in $suites; do "$here/root.sh" "$suite" >/dev/null; done
    # shellcheck disable=SC2086
    exec unshare --mount --propagation private "$0" --mounted "$build" $suites
fi
[ -z "$mounted" ] || mount_roots

status=0
printf '%-20s %-10s %-16s %-6s %s\n' ROOT OTP TEST RESULT TESTS
for root in $TOOLCHAIN_ROOTS; do run_tests "$root"; done
# shellcheck disable=SC2086
"$here/several.sh" "$build" $TOOLCHAIN_ROOTS || status=1
exit $status
