#!/bin/sh
# Make a root of Debian 13 with its own kernel and everything that the project needs, unless the cache has it, and
# print its path.
# usage: tools/vm/root.sh. FRESH=1 makes it again.
set -eu

distros=$(cd "$(dirname "$0")/../distros" && pwd)
bootstrap=$distros/../bootstrap.sh
base=$("$distros/root.sh" trixie)
root=$base-vm

# shellcheck disable=SC2016
install='
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    apt-get install -y --no-install-recommends initramfs-tools
    # What finds the root file system, no more: unpacking every driver takes an emulated processor a minute.
    sed -i "s/^MODULES=.*/MODULES=list/" /etc/initramfs-tools/initramfs.conf
    printf "%s\n" virtio_pci virtio_blk ext4 >>/etc/initramfs-tools/modules
    apt-get install -y --no-install-recommends linux-image-amd64 kmod
    apt-get clean
    sh /bootstrap.sh
    apt-get clean'

# A partial root never has the final name, so an interrupted run is started anew.
make_root() {
    rm -rf "$root" "$root.partial"
    cp -a "$base" "$root.partial"
    cp "$bootstrap" "$root.partial/bootstrap.sh"
    "$distros/inside.sh" "$root.partial" sh -euc "$install" >"$root.log" 2>&1 || { tail -n 20 "$root.log" && exit 1; }
    rm "$root.partial/bootstrap.sh" "$root.log"
    mv "$root.partial" "$root"
}

if [ ! -d "$root" ] || [ -n "${FRESH:-}" ]; then make_root >&2; fi
echo "$root"
