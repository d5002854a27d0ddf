#!/bin/sh
# check_sources.sh [ROOT]: all checks of the tree that need nothing but text tools. It is skipped where the sources are no
# clone: the checks read the files that git knows.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
git rev-parse --git-dir >/dev/null 2>&1 || exit 77
status=0
for check in includes layout sections language; do tests/check_$check.sh || status=1; done
exit $status
