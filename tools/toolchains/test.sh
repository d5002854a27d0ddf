#!/bin/sh
# Run the tests that touch the VM with the OTP and Elixir of other Debian releases, then sandboxes of all of them in one
# service, and print one table.
# usage: tools/toolchains/test.sh BUILD_DIR [SUITE…] (trixie forky). TOOLCHAIN_ROOTS="DIR…" names roots that are there.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${1:?"usage: test.sh BUILD_DIR [SUITE…]"}" && pwd)
shift
suites=${*:-"trixie forky"}
programs=${TOOLCHAIN_TESTS:-"lifecycle reload pool freeze recovery"}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM

# Roots are made once. Erlang and Elixir are installed where the root has none yet.
make_root() {
    root=$("$here/../distros/root.sh" "$1")
    if [ ! -e "$root/usr/bin/elixir" ]; then
        "$here/../distros/inside.sh" "$root" sh -c \
            'apt-get update && apt-get install -y --no-install-recommends erlang-base erlang-dev erlang-crypto erlang-ssl \
                erlang-tools erlang-parsetools erlang-inets erlang-runtime-tools elixir' >"$logs/$1.install" 2>&1 ||
            { tail -n 20 "$logs/$1.install" >&2 && return 1; }
    fi
    echo "$root"
}

if [ -z "${TOOLCHAIN_ROOTS:-}" ]; then
    TOOLCHAIN_ROOTS=
    for suite in $suites; do TOOLCHAIN_ROOTS="$TOOLCHAIN_ROOTS $(make_root "$suite")"; done
fi

status=0
printf '%-28s %-10s %-12s %s\n' ROOT OTP TEST RESULT
for root in $TOOLCHAIN_ROOTS; do
    version=$(cat "$root"/usr/lib/erlang/releases/*/OTP_VERSION)
    for program in $programs; do
        log=$logs/$(basename "$root").$program
        result=passed
        SANDBOX_TEST_TOOLCHAIN=$root "$build/tests/integration/test_$program" >"$log" 2>&1 || result=FAILED
        printf '%-28s %-10s %-12s %s\n' "$root" "$version" "$program" "$result"
        [ "$result" = passed ] || { status=1 && grep -E '^\[  FAILED|^ERROR|error:' "$log" | head -n 20 >&2; }
    done
done
# shellcheck disable=SC2086
"$here/several.sh" "$build" $TOOLCHAIN_ROOTS || status=1
exit $status
