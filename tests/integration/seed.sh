#!/bin/sh
# What earlier worlds of this build found out of the toolchain and compiled of the examples spares a new one a second of CPU.
#   seed.sh give SEED HOME    before the service of a new home starts
#   seed.sh keep SEED HOME    after it has ended
# A home is taken over by its launcher when it belongs to a slot's uid; what is stale is never asked for, since all names are digests.
set -eu
seed=$2
home=$3
kinds="toolchain store/builds store/cache"
any_slot_uid=1000000000
entries_max=16 # of each kind: projects that tests write themselves are not worth keeping

give() {
    [ -d "$seed" ] || exit 0
    mkdir -p "$home"
    cp -a "$seed/." "$home/"
    chown -R "$any_slot_uid:$any_slot_uid" "$home"
}

keep() {
    mkdir -p "$seed/toolchain" "$seed/store/builds" "$seed/store/cache"
    chmod 700 "$seed/toolchain" "$seed/store" "$seed/store/builds" "$seed/store/cache"
    for kind in $kinds; do
        [ -d "$home/$kind" ] || continue
        for entry in "$home/$kind"/*; do
            name=${entry##*/}
            [ -e "$entry" ] && [ ! -e "$seed/$kind/$name" ] || continue
            [ "$(ls "$seed/$kind" | wc -l)" -lt $entries_max ] || break
            # Whole or absent, however many do this at once.
            cp -a "$entry" "$seed.$$" && mv -nT "$seed.$$" "$seed/$kind/$name"
            rm -rf "$seed.$$"
        done
    done
    [ -e "$seed/store/boot_id" ] || cp -a "$home/store/boot_id" "$seed/store/boot_id" 2>/dev/null || true
}

"$1"
