#!/bin/sh
# Copy the project into a root: its files as they are now, without those that git ignores.
# usage: tools/distros/copy.sh ROOT
# What an earlier run built there stays: times of change are kept, and ninja compares them.
set -eu

copy=${1:?"usage: copy.sh ROOT"}/project
project=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$copy"
find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
(cd "$project" && git ls-files -z --deduplicate --cached --others --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cf - --files-from -) | tar -xf - -C "$copy"
