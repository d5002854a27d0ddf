#!/bin/sh
# Fuzz one target, or all of them, with libFuzzer: tools/fuzz.sh TARGET|all [SECONDS]
# Starts from a copy of the corpus; a finding is kept in the folder it was called from and fails the run. An input that
# takes more CPU time than tests/fuzz/harness/fuzz.h allows is a finding too.
set -eu

wanted=${1:?"usage: tools/fuzz.sh TARGET|all [SECONDS]"}
seconds=${2:-60}
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-fuzz
scratch=$(mktemp -d /tmp/fuzz-XXXXXX) # short: targets make folders in it, and a test's folder has a short path
trap 'rm -rf "$scratch"' EXIT INT TERM

command -v clang >/dev/null || { echo "fuzz.sh: clang is needed (Debian packages clang and libclang-rt-14-dev)" >&2; exit 1; }
if [ ! -f "$build/build.ninja" ]; then
    CC=clang meson setup "$build" "$root" -Dfuzz=true -Dwerror=false -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
fi

# Slowness shows in long inputs; where each is a folder of files, or cheap to double, short ones find more.
longest() {
    case $1 in
    answer | http_request | objects | ops_check | plan | scan | settings | term | reload_answer | verbs | versions | wire) echo 65536 ;;
    elf | stream) echo 16384 ;;
    audit) echo 8192 ;;
    *) echo 4096 ;;
    esac
}

export TMPDIR="$scratch" UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
[ "$wanted" = all ] && targets=$(cd "$root/tests/fuzz" && ls fuzz_*.c | sed 's/^fuzz_//; s/\.c$//') || targets=$wanted
status=0
for target in $targets; do
    ninja -C "$build" --quiet "tests/fuzz/fuzz_$target"
    cp -r "$root/tests/fuzz/corpus/$target" "$scratch/$target"
    words=$root/tests/fuzz/words/$target
    echo "fuzzing $target for $seconds s"
    "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -max_len="$(longest "$target")" \
        $([ -f "$words" ] && echo "-dict=$words") -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$PWD/finding-$target-" "$scratch/$target" 2>"$scratch/$target.log" || { status=1; tail -n 40 "$scratch/$target.log"; }
    grep -E 'number_of_executed_units|new_units_added' "$scratch/$target.log" || true
done
exit $status
