#!/bin/sh
# Build a Debian package: tools/deb.sh OUTPUT-FOLDER
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
output=$(mkdir -p "$1" && cd "$1" && pwd)
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$root/meson.build")
architecture=$(dpkg --print-architecture)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

meson setup "$scratch/build" "$root" --prefix=/usr --buildtype=debugoptimized >/dev/null
ninja -C "$scratch/build" --quiet
DESTDIR="$scratch/package" meson install -C "$scratch/build" --no-rebuild --strip >/dev/null

# What the programs are linked against, as packages.
mkdir -p "$scratch/debian" "$scratch/package/DEBIAN"
printf 'Source: sandbox\n' >"$scratch/debian/control"
depends=$(cd "$scratch" && dpkg-shlibdeps -O package/usr/bin/sandbox package/usr/bin/sandboxd package/usr/bin/sandbox-launcher 2>/dev/null |
    sed 's/^shlibs:Depends=//')
cat >"$scratch/package/DEBIAN/control" <<CONTROL
Package: sandbox-otp
Version: $version
Architecture: $architecture
Maintainer: the Sandbox maintainers <maintainers@sandbox.invalid>
Depends: $depends, erlang-base
Recommends: elixir, libcurl4, slirp4netns, e2fsprogs
Section: devel
Priority: optional
Description: Erlang/OTP applications in jails that the kernel enforces
 A daemon, a command line and a C library that run Erlang and Elixir projects,
 each in a virtual machine and a jail of its own.
CONTROL
dpkg-deb --root-owner-group --build "$scratch/package" "$output/sandbox-otp_${version}_$architecture.deb"
