#!/bin/sh
# Run a command with a folder as the root of a mount namespace of its own: user namespaces can't be made in a chroot.
# usage: tools/distros/inside.sh ROOT COMMAND…
# `/run` and `/tmp` are empty and go with the namespace; `/proc`, `/sys` and `/dev` are the machine's.
set -eu

# shellcheck disable=SC2016
exec unshare --mount --propagation private sh -eu -c '
    root=$1
    shift
    mount --rbind "$root" "$root"
    for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
    mount -t tmpfs -o mode=755 sandbox-run "$root/run"
    mount -t tmpfs -o mode=1777 sandbox-tmp "$root/tmp"
    cd "$root"
    mkdir -p .old
    pivot_root . .old
    umount -l /.old
    cd /
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"' sh "$@"
