#!/bin/sh
# Run the README's first session, line by line, on a home of its own: every command must exit 0.
set -eu
source=$1
build=$2
home=$(mktemp -d)
chmod 711 "$home"
trap 'SANDBOX_HOME="$home/h" "$build/bin/sandbox" shutdown >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
export SANDBOX_HOME="$home/h"
cd "$source"
commands=$(sed -n '/^```console$/,/^```$/s/^\$ //p' README.md | grep -v '^export PATH')
[ "$(echo "$commands" | wc -l)" -ge 8 ] || { echo "the README has no session to run"; exit 1; }
PATH="$build/bin:$PATH"
# What a machine can enforce is told before there is a service, and starts none.
sandbox doctor --json | jq -e '(.guarantees | length) > 5 and any(.guarantees[]; .name == "seccomp" and .given)' >/dev/null ||
    { echo "doctor fails without a service"; exit 1; }
[ ! -e "$SANDBOX_HOME/api.sock" ] || { echo "doctor started a service"; exit 1; }
if [ "$(id -u)" = 0 ]; then # as every test's: what others see to needs no second look
    tests/integration/seed.sh give "$build/tests/integration/seed" "$SANDBOX_HOME"
fi
echo "$commands" | while read -r command; do
    echo "\$ $command"
    eval "$command" </dev/null || { echo "failed with $?: $command"; exit 1; }
done
