#!/bin/sh
# What earlier worlds of this build found out of the toolchain and compiled of the examples spares a new one a second of CPU.
#   seed.sh give SEED HOME    before the service of a new home starts
#   seed.sh keep SEED HOME    after it has ended
#   seed.sh make SEED BUILD   from nothing, before the first tests of a build, and when it was built anew
# A home is taken over by its launcher when it belongs to a slot's uid; what is stale is never asked for, since all names are digests.
set -eu
seed=$2
home=$3
any_slot_uid=1000000000
entries_max=64 # of each kind
examples_folder=$(cd "$(dirname "$0")/../../examples" && pwd) # as the tests name it: a build is its folder's
examples=$(cd "$examples_folder" && echo *)

give() {
    [ -d "$seed" ] || exit 0
    mkdir -p "$home"
    cp -a "$seed/." "$home/"
    chown -R "$any_slot_uid:$any_slot_uid" "$home"
}

# Whole or absent, however many do this at once.
keep_entry() {
    [ -e "$home/$1" ] && [ ! -e "$seed/$1" ] || return 0
    [ "$(ls "$seed/${1%/*}" | wc -l)" -lt $entries_max ] || return 0
    cp -a "$home/$1" "$seed.$$" && mv -nT "$seed.$$" "$seed/$1"
    rm -rf "$seed.$$"
}

# Projects that tests write themselves are not worth keeping.
is_example() {
    for name in $examples; do
        [ -d "$home/store/builds/$1/$name" ] && return 0
    done
    return 1
}

keep() {
    mkdir -p "$seed/toolchain" "$seed/store/builds" "$seed/store/cache"
    chmod 700 "$seed/toolchain" "$seed/store" "$seed/store/builds" "$seed/store/cache"
    for entry in "$home/toolchain"/*; do keep_entry "toolchain/${entry##*/}"; done
    for key in "$home/store/cache"/*; do
        [ -e "$key" ] && digest=$(cat "$key") && is_example "$digest" || continue
        keep_entry "store/builds/$digest"
        keep_entry "store/cache/${key##*/}"
    done
    [ -e "$seed/store/boot_id" ] || cp -a "$home/store/boot_id" "$seed/store/boot_id" 2>/dev/null || true
}

is_fresh() {
    [ -d "$seed" ] && [ -z "$(find "$build/bin" "$build/lib" -newer "$seed" -print -quit)" ]
}

make() {
    build=$home
    is_fresh || [ "$(id -u)" != 0 ] && exit 0
    rm -rf "$seed"
    scratch=$(mktemp -d)
    chmod 711 "$scratch"
    home=$scratch/home
    for name in $examples; do
        "$build/bin/sandbox" --home "$home" create "$name" "$examples_folder/$name" >/dev/null 2>&1 &
    done
    wait
    "$build/bin/sandbox" --home "$home" shutdown
    keep
    rm -rf "$scratch"
}

"$1"
