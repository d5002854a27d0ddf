#!/bin/sh
# Formatting, include order, clang-tidy and gcc's analyser over the C sources.
set -u
build=$1
status=0
files=$(git ls-files '*.c' '*.h')

command -v clang-format >/dev/null && command -v clang-tidy >/dev/null || {
    echo "check: clang-format and clang-tidy are needed (Debian packages of the same names)" >&2
    exit 1
}
# shellcheck disable=SC2086
clang-format --dry-run --Werror $files || status=1
tests/check_includes.sh || status=1
git ls-files 'src/*.c' | xargs -P "$(nproc)" -n 8 clang-tidy --quiet -p "$build" 2>/dev/null || status=1
[ $status = 0 ] && echo "clean"
exit $status
