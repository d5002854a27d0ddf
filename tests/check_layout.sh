#!/bin/sh
# The tree can be read by looking: a folder holds at most 25 source files; more want rooms (see docs/architecture.md).
# Data sets, which are read one file at a time, may be larger.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
status=0

large=$(git ls-files '*.c' '*.h' '*.erl' '*.hrl' | grep -v -e '^tests/unit/guard/labelled/' -e '^tests/fuzz/corpus/' |
    sed 's|/[^/]*$||' | sort | uniq -c | awk '$1 > 25 { print $2 " has " $1 " source files: give it rooms" }')
[ -z "$large" ] || { echo "$large"; status=1; }
exit $status
