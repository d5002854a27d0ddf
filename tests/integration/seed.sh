#!/bin/sh
# What a service finds out of the toolchain and compiles of the examples and the attacks' project, made once per build, spares each
# test's a second of CPU.
#   seed.sh make SEED BUILD   before the first tests of a build, and when it was built anew
#   seed.sh give SEED HOME    before the service of a new home starts
# A home is taken over by its launcher when it belongs to a slot's uid; what is stale is never asked for, since all names are digests.
set -eu
seed=$2
any_slot_uid=1000000000
examples_folder=$(cd "$(dirname "$0")/../../examples" && pwd) # as the tests name it: a build is its folder's

give() {
    home=$1
    [ -d "$seed" ] || exit 0
    mkdir -p "$home"
    cp -a "$seed/." "$home/"
}

is_fresh() {
    [ -d "$seed" ] && [ -z "$(find "$build/bin" "$build/lib" "$build/tests/integration/victim_project" -newer "$seed" -print -quit)" ]
}

compile() {
    words=$("$build/bin/sandbox" --home "$home" compile "$1" 2>&1) && return
    printf '%s: %s\n' "$1" "$words" >&2
    return 1
}

make() {
    build=$1
    is_fresh || [ "$(id -u)" != 0 ] && exit 0
    rm -rf "$seed"
    scratch=$(mktemp -d)
    chmod 711 "$scratch"
    home=$scratch/home
    "$build/bin/sandbox" --home "$home" list >/dev/null # the service is there before several would start it
    children=
    for project in "$examples_folder"/* "$build"/tests/integration/victim_project "$build"/tests/integration/compiled; do
        compile "$project" &
        children="$children $!"
    done
    is_whole=yes
    for child in $children; do wait "$child" || is_whole=no; done
    "$build/bin/sandbox" --home "$home" shutdown
    if [ $is_whole = no ]; then
        rm -rf "$scratch"
        echo "$0: the tests compile each example anew" >&2
        exit 1
    fi
    mkdir -m 700 "$seed" "$seed/store"
    cp -a "$home/toolchain" "$seed/"
    cp -a "$home/store/builds" "$home/store/cache" "$home/store/boot_id" "$seed/store/"
    chown -R "$any_slot_uid:$any_slot_uid" "$seed"
    rm -rf "$scratch"
}

"$1" "$3"
