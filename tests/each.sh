#!/bin/sh
# Runs programs one after the other and says how each ended. A test of its own for each would have meson spend more on
# starting it than most of them take. Only the words of those that fail are shown: meson cuts off what is long.
set -u
failed=0
for program in "$@"; do
    # Programs of another architecture run in the emulator that meson was told of.
    output=$(${MESON_EXE_WRAPPER:-} "$program" 2>&1)
    status=$?
    if [ $status = 0 ]; then
        echo "ok      ${program##*/}"
    else
        printf '%s\n' "$output"
        echo "FAILED  ${program##*/}: exit status $status"
        failed=1
    fi
done
exit $failed
