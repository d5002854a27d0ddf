#!/bin/sh
# Run the demo and every test on fresh roots of Debian releases, and print one table.
# usage: tools/distros/test.sh [SUITE…] (all that are supported). FRESH=1 makes the roots again. LOGS=DIR keeps what was said.
# Each run has a copy of the minimal root, so that the project's bootstrap installs everything. The cache keeps the
# packages that were downloaded.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
suites=${*:-"bookworm trixie forky"}
scratch=$(mktemp -d)
logs=${LOGS:-$scratch}
root=""
trap 'rm -rf "$scratch" "$root"' EXIT
trap 'exit 130' INT TERM

# Prints the path of a copy that has nothing of earlier runs but their packages.
fresh_root() {
    minimal=$("$here/root.sh" "$1")
    rm -rf "$minimal.run"
    cp -a "$minimal" "$minimal.run"
    mkdir -p "$minimal.packages"
    find "$minimal.packages" -name '*.deb' -exec ln -f -t "$minimal.run/var/cache/apt/archives" {} +
    echo "$minimal.run"
}

keep_packages() {
    find "$1/var/cache/apt/archives" -maxdepth 1 -name '*.deb' -exec ln -f -t "${1%.run}.packages" {} +
}

# The state of a release that moves is the date of its package lists.
# shellcheck disable=SC2016
facts='state=$(cat /etc/debian_version)
    case $state in */*) state=$(sed -n "s/^Date: //p" /var/lib/apt/lists/*InRelease | head -1 | date -u -f - +%F) ;; esac
    echo "$state $(erl -noshell -eval "io:put_chars(erlang:system_info(otp_release)), halt().")" \
        "$(elixir --short-version 2>/dev/null) $(gcc -dumpfullversion) $(pkg-config --modversion libmicrohttpd)"'

last_words() {
    sed -n "s/^$2/\1/p" "$1" | tail -1
}

run_suite() {
    suite=$1
    log=$logs/$suite
    root=$(fresh_root "$suite")
    "$here/copy.sh" "$root"
    demo=passed
    status=0
    "$here/inside.sh" "$root" make -C /project demo >"$log.demo" 2>&1 || demo=FAILED
    "$here/inside.sh" "$root" make -C /project test >"$log.test" 2>&1 || status=1
    [ "$demo" = passed ] || { status=1; tail -n 20 "$log.demo" >&2; }
    [ "$status" = 0 ] || grep -E '^FAILED|FAIL  |TIMEOUT|error:' "$log.test" >&2 || tail -n 20 "$log.test" >&2
    # shellcheck disable=SC2046,SC2183
    printf '| %-8s | %-10s | %-3s | %-7s | %-7s | %-13s | %-6s | %-22s | %4s s |\n' "$suite" \
        $("$here/inside.sh" "$root" sh -c "$facts") "$demo" \
        "$(last_words "$log.test" '\([0-9]* passed, [0-9]* failed\)')" \
        "$(last_words "$log.test" 'tests took \([0-9]*\) s')" >>"$scratch/table"
    keep_packages "$root"
    rm -rf "$root"
    return $status
}

failed=0
for suite in $suites; do
    echo "$suite" >&2
    run_suite "$suite" || failed=1
done
printf '| %-8s | %-10s | OTP | %-7s | %-7s | %-13s | %-6s | %-22s | %-6s |\n|---|---|---|---|---|---|---|---|---|\n' \
    suite state Elixir gcc libmicrohttpd demo tests time
cat "$scratch/table"
exit $failed
