#!/bin/sh
# Make a minimal root of a Debian release, unless the cache has it, and print its path.
# usage: tools/distros/root.sh SUITE (bookworm, trixie, forky). FRESH=1 makes it again.
# The cache is $SANDBOX_TEST_CACHE, else the XDG cache. Packages come from the mirror that this machine uses itself.
set -eu

suite=${1:?"usage: root.sh SUITE"}
cache=${SANDBOX_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sandbox-test}
root=$cache/$suite

mirror() {
    apt-get indextargets --format '$(SITE)' "Created-By: Packages" | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }'
}

# debootstrap has no script of its own for a release that is newer than itself.
script() {
    if [ -e "/usr/share/debootstrap/scripts/$suite" ]; then echo "$suite"; else echo sid; fi
}

# A partial root never has the final name, so an interrupted run is started anew.
make_root() {
    command -v debootstrap >/dev/null || apt-get install -y --no-install-recommends debootstrap >/dev/null
    rm -rf "$root" "$root.partial"
    mkdir -p "$cache"
    # make is what a user needs before the project's own bootstrap runs.
    debootstrap --variant=minbase --include=make "$suite" "$root.partial" "$(mirror)" "/usr/share/debootstrap/scripts/$(script)" >"$cache/$suite.log" ||
        { tail -n 20 "$cache/$suite.log" && exit 1; }
    # The release file of a moving release may be older than its validity.
    echo 'Acquire::Check-Valid-Until "false";' >"$root.partial/etc/apt/apt.conf.d/90sandbox-test"
    cp /etc/resolv.conf "$root.partial/etc/resolv.conf"
    mv "$root.partial" "$root"
}

[ -d "$root" ] && [ -z "${FRESH:-}" ] || make_root >&2
echo "$root"
