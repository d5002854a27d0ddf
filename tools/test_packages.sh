#!/bin/sh
# Compile projects by other authors: Erlang and Elixir sources of the distribution, fetched with apt into a folder of
# ours; nothing is installed and the system's package lists stay as they are.
# usage: tools/test_packages.sh [BUILD_DIR]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
sandbox=$build/bin/sandbox

# Source packages, and where in them the projects are.
packages="erlang-getopt:. erlang-bbmustache:. erlang-mimerl:. erlang-goldrush:. erlang-meck:. erlang-cowlib:. erlang-jose:.
elixir-lang:lib/eex elixir-lang:lib/logger elixir-lang:lib/ex_unit elixir-lang:lib/mix"
# Of OTP, what is whole in the package erlang-src: headers that others may include are in another one.
otp_applications="mnesia ssh"

work=$(mktemp -d)
chmod 755 "$work"
export SANDBOX_HOME="$work/home"
# shellcheck disable=SC2317
clean_up() {
    [ ! -d "$SANDBOX_HOME" ] || "$sandbox" shutdown --no-autostart >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# apt, with the system's own places to fetch from, but for sources, and with lists of its own.
prepare_apt() {
    mkdir -p "$work/apt/parts" "$work/apt/lists/partial" "$work/apt/archives/partial"
    for file in /etc/apt/sources.list.d/debian*.sources; do
        [ ! -f "$file" ] || sed 's/^Types:.*/Types: deb deb-src/' "$file" >"$work/apt/parts/${file##*/}"
    done
    [ ! -f /etc/apt/sources.list ] ||
        sed -n 's/^deb \(.*\)/deb \1\ndeb-src \1/p' /etc/apt/sources.list >"$work/apt/sources.list"
    our_apt update
}

our_apt() {
    apt-get -q -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts="$work/apt/parts" \
        -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt" -o APT::Sandbox::User=root "$@" \
        >>"$work/apt.log" 2>&1
}

# The upstream sources, without what Debian changes. Not every mirror has the sources of all packages.
fetch_source() {
    [ ! -d "$work/$1" ] || return 0
    mkdir -p "$work/fetched/$1"
    (cd "$work/fetched/$1" && our_apt source --download-only --tar-only "$1") || return 1
    mkdir "$work/$1"
    for archive in "$work/fetched/$1"/*.orig.tar.?z*; do
        case $archive in *.asc) ;; *) tar -xf "$archive" -C "$work/$1" --strip-components 1 ;; esac
    done
}

fetch_otp() {
    mkdir -p "$work/fetched/otp" "$work/otp"
    (cd "$work/fetched/otp" && our_apt download erlang-src)
    dpkg-deb -x "$work/fetched/otp"/*.deb "$work/otp"
}

failed=0
compiled=0
compile() {
    if ! "$sandbox" compile "$2" --json >"$work/report.json" 2>"$work/errors.txt"; then
        printf '%-28s failed\n' "$1"
        jq -r '(.result.errors // .errors // [])[:3][] | "    \(.file // "")\(if .line then ":\(.line)" else "" end): \(.message)"' \
            "$work/report.json" "$work/errors.txt" 2>/dev/null || head -n 3 "$work/errors.txt"
        failed=$((failed + 1))
        return 0
    fi
    compiled=$((compiled + 1))
    jq -r --arg name "$1" '"\($name)\t\(.beam_files | length) modules\t\(.compilation_time_ms) ms\t\(.warnings | length) warnings"' \
        "$work/report.json" | awk -F'\t' '{ printf "%-28s %12s %10s %14s\n", $1, $2, $3, $4 }'
}

prepare_apt
for package in $packages; do
    if fetch_source "${package%%:*}"; then
        compile "$package" "$work/${package%%:*}/${package#*:}"
    else
        printf '%-28s can not be fetched\n' "$package"
    fi
done
fetch_otp
for application in $otp_applications; do
    for folder in "$work"/otp/usr/lib/erlang/lib/"$application"-*; do
        # Applications of OTP are found by their names, without versions.
        mv "$folder" "$work/otp/$application"
        compile "otp $application" "$work/otp/$application"
    done
done
if [ "$failed" != 0 ] || [ "$compiled" = 0 ]; then
    echo "$compiled compiled, $failed did not" >&2
    exit 1
fi
