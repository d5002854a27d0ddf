#!/bin/sh
# Make a root of a Debian release with its Erlang and Elixir, unless the cache has it, and print its path.
# usage: tools/toolchains/root.sh SUITE (bookworm, trixie, forky). FRESH=1 makes it again.
# It is a copy of the minimal root: the tests of distributions start from one that has no Erlang.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
suite=${1:?"usage: root.sh SUITE"}
minimal=$("$here/../distros/root.sh" "$suite")
root=$(dirname "$minimal")/toolchains/$suite

# A partial root never has the final name, so an interrupted run is started anew.
make_root() {
    rm -rf "$root" "$root.partial"
    mkdir -p "$(dirname "$root")"
    cp -a "$minimal" "$root.partial"
    "$here/../distros/inside.sh" "$root.partial" sh -c \
        'apt-get update && apt-get install -y --no-install-recommends erlang-base erlang-dev erlang-crypto erlang-ssl erlang-tools \
            erlang-parsetools erlang-inets erlang-runtime-tools erlang-syntax-tools erlang-eunit erlang-mnesia erlang-os-mon \
            erlang-xmerl erlang-public-key erlang-asn1 elixir' >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log" && exit 1; }
    rm -rf "$root.partial"/var/cache/apt/archives/*.deb
    mv "$root.partial" "$root"
}

[ -d "$root" ] && [ -z "${FRESH:-}" ] || make_root >&2
echo "$root"
