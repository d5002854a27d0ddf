#!/bin/sh
# Install the Debian packages that building, running and testing need, and only those that are missing.
set -eu

packages="gcc g++ make pkg-config meson ninja-build jq
libuv1-dev libmicrohttpd-dev libjansson-dev libsqlite3-dev libseccomp-dev libcap-dev libmnl-dev libnftnl-dev libssl-dev libcurl4-openssl-dev zlib1g-dev libcmocka-dev
erlang-base erlang-dev erlang-crypto erlang-parsetools erlang-syntax-tools erlang-tools erlang-eunit elixir bubblewrap util-linux e2fsprogs iproute2 slirp4netns valgrind"

missing=""
for package in $packages; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

echo "installing:$missing"
as_root=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "bootstrap: not root, and there is no sudo; install these packages by hand" >&2; exit 1; }
    as_root=sudo
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086
if ! { $as_root apt-get update && $as_root apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    echo "bootstrap: installing failed" >&2
    exit 1
fi
