#!/bin/sh
# Formatting, the checks of the tree (tests/check_sources.sh), and what clang-tidy and gcc's analyser say of the C sources.
set -u
build=$1
status=0

command -v clang-format >/dev/null && command -v clang-tidy >/dev/null || {
    echo "check: clang-format and clang-tidy are needed (Debian packages of the same names)" >&2
    exit 1
}

# gcc knows cleanup attributes, which clang doesn't: what is used after it was freed is its part, and NULL is both's. gcc 12
# loses sight of what is stored in an array: leaks are LeakSanitizer's part, and what was never set is clang's.
analyse() {
    flags='-fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-use-of-uninitialized-value -U_FORTIFY_SOURCE'
    test -f "$1/build.ninja" || CC=gcc meson setup "$1" . -Doptimization=0 "-Dc_args=$flags" >/dev/null || return 1
    ninja -C "$1" --quiet build.ninja >/dev/null || return 1
    ninja -C "$1" -t targets all | sed -n 's/^\(src\/.*\.c\.o\): .*/\1/p' | xargs ninja -C "$1" -k 0 --quiet
}

# One process for each file: of several, clang-tidy 14 takes every va_list but the first file's for uninitialized.
tidy() {
    git ls-files 'src/*.c' | xargs -P "$(nproc)" -n 1 clang-tidy --quiet -p "$1" 2>/dev/null
}

git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror || status=1
tests/check_sources.sh || status=1
analyse "$build-analyse" || status=1
tidy "$build" || status=1
[ $status = 0 ] && echo "clean"
exit $status
