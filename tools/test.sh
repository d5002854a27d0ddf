#!/bin/sh
# Run the tests of a build folder and close with a line that counts them. usage: tools/test.sh BUILD [TEST…] (all)
# TESTS_AT_LENGTH=1: also the cases that are left to `make test-long`.
set -u
build=$1
shift
processes=$(($(nproc) * 4)) # many of them wait
slowness=${SLOWNESS:-3}     # how much longer than said a test may take

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
meson test -C "$build" --no-rebuild --num-processes "$processes" --print-errorlogs --timeout-multiplier "$slowness" "$@"
status=$?
ended=$(date +%s)

[ -f "$log" ] || exit 1
# A test that runs several says of each how it ended, in a line of its own.
counts=$(jq -rs '
    def told(word): [.stdout // "" | scan("(?:^|\n)" + word)] | length;
    map(select(.result != "SKIP") | {good: (.result == "OK"), ok: told("ok      "), failed: told("FAILED  ")})
    | map(if .ok + .failed == 0 and .good then .ok = 1 else . end)
    | map(if .failed == 0 and (.good | not) then .failed = 1 else . end)
    | "\(map(.ok) | add) passed, \(map(.failed) | add) failed"' "$log")
# Programs say how many cases they left to `make test-long`.
left=$(jq -rs '[.[].stdout // "" | scan("(?:^|\n)left to make test-long: ([0-9]+)") | .[0] | tonumber] | add // 0' "$log")
[ "$left" = 0 ] || echo "$left cases are left to make test-long"
echo "tests took $((ended - started)) s"
echo "$counts"
exit $status
