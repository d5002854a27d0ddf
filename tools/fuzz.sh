#!/bin/sh
# Fuzz one target with libFuzzer for a while: tools/fuzz.sh TARGET [SECONDS]
# Starts from a copy of its corpus; a finding is kept in the directory it was called from and fails the run.
set -eu

target=${1:?"usage: tools/fuzz.sh TARGET [SECONDS]"}
seconds=${2:-60}
root=$(cd "$(dirname "$0")/.." && pwd)

# The modules a target needs, single files of others, and the libraries they use.
files=
case $target in
term) modules="base term" libraries="jansson zlib" ;;
plan | wire) modules="base" files="jail/plan.c jail/plan_text.c jail/wire.c" libraries="libuv" ;;
*)
    echo "fuzz.sh: there is no target '$target'" >&2
    exit 2
    ;;
esac

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM
cp -r "$root/tests/fuzz/corpus/$target" "$scratch/corpus"

sources="$root/tests/fuzz/fuzz_$target.c"
for module in $modules; do
    sources="$sources $(ls "$root/src/$module"/*.c | tr '\n' ' ')"
done
for file in $files; do
    sources="$sources $root/src/$file"
done
# shellcheck disable=SC2046,SC2086 # lists of files and flags
clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -D_GNU_SOURCE -I"$root/src" \
    -I"$root/tests" $sources $(pkg-config --cflags --libs $libraries) -lm -o "$scratch/fuzz"

"$scratch/fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len=4096 -print_final_stats=1 \
    -artifact_prefix="$PWD/finding-$target-" "$scratch/corpus"
