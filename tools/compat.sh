#!/bin/sh
# Compile and start the projects that the tester has, each a folder of DIR, and print rows for the table of
# docs/compatibility.md. usage: tools/compat.sh SANDBOX DIR [TOOLCHAIN…]
# Nothing is fetched: dependencies lie in each project, as `mix deps.get` or `rebar3 get-deps` left them.
# Beside a folder NAME may lie:
#   NAME.flags    what the project needs besides, such as `--mix-env prod` or `--with ../core`
#   NAME.modules  what the project's own tool compiles it to, a line `APPLICATION/MODULE` for each
#   NAME.eval     an expression that uses what runs
set -eu

sandbox=$1 dir=$2
shift 2
[ $# -gt 0 ] || set -- system

answer=$(mktemp)
trap 'rm -f "$answer" "$answer.modules"' EXIT

version_of() {
    sed -nE 's/^ *@?version:? "([^"]+)".*/\1/p; s/.*[[ ]version: "([^"]+)".*/\1/p; s/.*\{vsn, *"([^"]+)".*/\1/p' \
        "$1"/mix.exs "$1"/src/*.app.src "$1"/ebin/*.app 2>/dev/null | head -n 1
}

# What a command failed with, as one cell.
failure() {
    printf 'failed: %s' "$(grep -m 1 -E '^error|^sandbox:' "$answer" || tail -n 1 "$answer")" | cut -c1-160 | tr '|' '/'
}

# Modules that were compiled, beside those of the reference: "73 = 73", or what is missing or too much.
modules() {
    grep -oE '"[^"]+/ebin/[^"]+\.beam"' "$answer" | sed -E 's/"(.*)\/ebin\/(.*)\.beam"/\1\/\2/' | LC_ALL=C sort -u >"$answer.modules"
    ours=$(wc -l <"$answer.modules")
    [ -f "$1" ] || { echo "$ours"; return; }
    missing=$(LC_ALL=C sort -u "$1" | LC_ALL=C comm -13 "$answer.modules" - | tr '\n' ' ')
    more=$(LC_ALL=C sort -u "$1" | LC_ALL=C comm -23 "$answer.modules" - | tr '\n' ' ')
    if [ -z "$missing$more" ]; then
        echo "$ours = $ours"
    else
        echo "$ours ≠ $(sort -u "$1" | wc -l); missing: ${missing:-none}; more: ${more:-none}" | cut -c1-300
    fi
}

# Started, still there once it has had time to fail, and at work.
started() {
    # shellcheck disable=SC2086 # several words
    "$sandbox" create compat-run "$project" --toolchain "$toolchain" $flags >"$answer" 2>&1 || { failure; return; }
    sleep 2
    "$sandbox" list | grep -q '^compat-run .*running' || { echo "ended"; return; }
    [ -f "$project.eval" ] || { echo "running"; return; }
    "$sandbox" eval compat-run "$(cat "$project.eval")" >"$answer" 2>&1 || { failure; return; }
    echo "running; \`$(head -n 1 "$answer" | cut -c1-60 | tr '|' '/')\`"
}

echo "| project | version | toolchain | modules, ours and reference | started |"
echo "|---|---|---|---|---|"
for project in "$dir"/*/; do
    project=${project%/}
    flags=$(cat "$project.flags" 2>/dev/null || true)
    for toolchain; do
        start=-
        # shellcheck disable=SC2086
        if "$sandbox" compile "$project" --toolchain "$toolchain" $flags --json >"$answer" 2>&1; then
            compiled=$(modules "$project.modules")
            start=$(started)
            "$sandbox" destroy compat-run >/dev/null 2>&1 || true
        else
            # shellcheck disable=SC2086
            "$sandbox" compile "$project" --toolchain "$toolchain" $flags >"$answer" 2>&1 || true
            compiled=$(failure)
        fi
        echo "| $(basename "$project") | $(version_of "$project") | $toolchain | $compiled | $start |"
    done
done
