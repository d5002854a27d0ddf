#!/bin/sh
# Runs programs one after the other and says how each ended. A test of its own for each would have meson spend more on
# starting it than most of them take.
set -u
failed=0
for program in "$@"; do
    # Programs of another architecture run in the emulator that meson was told of.
    if ${MESON_EXE_WRAPPER:-} "$program" 2>&1; then
        echo "ok      ${program##*/}"
    else
        echo "FAILED  ${program##*/}: exit status $?"
        failed=1
    fi
done
exit $failed
