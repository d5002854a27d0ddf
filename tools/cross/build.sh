#!/bin/sh
# Compile and link everything for arm64, in a root of Debian 13 of its own, and run the unit tests that an emulator of
# one process can run.
# usage: tools/cross/build.sh. FRESH=1 makes the root again.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
distros=$here/../distros
base=$("$distros/root.sh" trixie)
root=$base-arm64

# Libraries are arm64's; programs that build are this machine's, and so are the headers of valgrind.
# shellcheck disable=SC2016
install='
    export DEBIAN_FRONTEND=noninteractive
    packages="crossbuild-essential-arm64 file qemu-user"
    for package in $(sed -n "/^packages=/,/\"$/p" /bootstrap.sh | sed "s/^packages=//" | tr -d "\""); do
        case $package in
        lib*-dev | zlib1g-dev) packages="$packages $package:arm64" ;;
        *) packages="$packages $package" ;;
        esac
    done
    dpkg --add-architecture arm64
    apt-get update
    apt-get install -y --no-install-recommends $packages
    apt-get clean'

# A partial root never has the final name, so an interrupted run is started anew.
make_root() {
    rm -rf "$root" "$root.partial"
    cp -a "$base" "$root.partial"
    cp "$project/tools/bootstrap.sh" "$root.partial/bootstrap.sh"
    "$distros/inside.sh" "$root.partial" sh -euc "$install" >"$root.log" 2>&1 || { tail -n 20 "$root.log" && exit 1; }
    rm "$root.partial/bootstrap.sh" "$root.log"
    mv "$root.partial" "$root"
}

if [ ! -d "$root" ] || [ -n "${FRESH:-}" ]; then make_root >&2; fi
"$distros/copy.sh" "$root"
exec "$distros/inside.sh" "$root" sh -euc '
    cd /project
    [ -f build/build.ninja ] || meson setup build --cross-file tools/cross/arm64.ini >/dev/null
    ninja -C build --quiet
    file -b build/bin/sandbox build/bin/sandboxd build/bin/sandbox-launcher
    # What computes values: the emulator has no filters of system calls, and the files of the installed OTP are many.
    programs=$(find build/tests/unit/term build/tests/unit/beam build/tests/unit/jail -maxdepth 1 -type f -name "test_*" \
        ! -name test_seccomp ! -name test_beam_installed | sort)
    MESON_EXE_WRAPPER=qemu-aarch64 tests/each.sh $programs >build/unit.log || { cat build/unit.log && exit 1; }
    grep "^ok " build/unit.log'
