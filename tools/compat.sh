#!/bin/sh
# Compile and start the projects that the tester has, each a folder of DIR, and print the table of
# docs/compatibility.md. usage: tools/compat.sh SANDBOX DIR [TOOLCHAIN…]
# Nothing is fetched: dependencies lie in each project, as `mix deps.get` or `rebar3 get-deps` left them. What a project
# needs besides, such as `--mix-env prod` or `--with ../core`, is in a file `compat.flags` beside its folder's files.
set -eu

sandbox=$1 dir=$2
shift 2
[ $# -gt 0 ] || set -- system

version_of() {
    sed -nE 's/^ *@?version:? "([^"]+)".*/\1/p; s/.*[[ ]version: "([^"]+)".*/\1/p; s/.*\{vsn, *"([^"]+)".*/\1/p' \
        "$1"/mix.exs "$1"/src/*.app.src 2>/dev/null | head -n 1
}

# The last line of a command's output, or what it failed with, as one cell.
cell() {
    if said=$("$@" 2>&1); then
        printf '%s' "$said" | grep -E 'compiled|nothing|running' | tail -n 1
    else
        printf 'failed: %s' "$(printf '%s' "$said" | grep -m 1 -E '^error|^sandbox:' || printf '%s' "$said" | tail -n 1)"
    fi | cut -c1-160 | tr '|' '/'
}

echo "| project | version | toolchain | compile | create |"
echo "|---|---|---|---|---|"
for project in "$dir"/*/; do
    project=${project%/}
    flags=$(cat "$project/compat.flags" 2>/dev/null || true)
    for toolchain; do
        # shellcheck disable=SC2086 # several words
        compiled=$(cell "$sandbox" compile "$project" --toolchain "$toolchain" $flags)
        created=-
        case $compiled in
        failed*) ;;
        *)
            # shellcheck disable=SC2086
            created=$(cell "$sandbox" create compat-run "$project" --toolchain "$toolchain" --processes 2000 $flags)
            "$sandbox" destroy compat-run >/dev/null 2>&1 || true
            ;;
        esac
        echo "| $(basename "$project") | $(version_of "$project") | $toolchain | $compiled | $created |"
    done
done
