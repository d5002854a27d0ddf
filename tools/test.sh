#!/bin/sh
# Run the tests of a build folder and close with a line that counts them.
set -u
build=$1
shift
processes=$(($(nproc) * 3)) # many of them wait

log="$build/meson-logs/testlog.json"
rm -f "$log"
# meson would have every malloc of every VM filled with a pattern; the sanitizers see more, and `make asan` has them.
export MALLOC_PERTURB_=0
# Memory is the place for tens of thousands of short-lived files, where there is enough and programs may run from it.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df --output=avail /dev/shm | tail -1)" -gt 1000000 ] &&
    ! findmnt -n -o OPTIONS /dev/shm | grep -qw noexec; then
    export TMPDIR=/dev/shm
fi
# What the tests find compiled already is part of the build.
"$(dirname "$0")/../tests/integration/seed.sh" make "$build/tests/integration/seed" "$build"
started=$(date +%s)
if [ "${1:-}" = --suite ]; then
    shift
    suites=""
    for suite in "$@"; do suites="$suites --suite $suite"; done
    # shellcheck disable=SC2086
    meson test -C "$build" --no-rebuild --num-processes "$processes" --print-errorlogs $suites
else
    meson test -C "$build" --no-rebuild --num-processes "$processes" --print-errorlogs
fi
status=$?
ended=$(date +%s)

[ -f "$log" ] || exit 1
passed=$(jq -s '[.[] | select(.result == "OK")] | length' "$log")
failed=$(jq -s '[.[] | select(.result != "OK" and .result != "SKIP")] | length' "$log")
echo "tests took $((ended - started)) s"
echo "$passed passed, $failed failed"
exit $status
