#!/bin/sh
# Have callgrind count the instructions of the paths in cost.c and compare them with tests/cost/bounds, which holds what
# each took when it was last looked at. A tenth more fails. usage: check.sh PROGRAM CORPUS_FOLDER [--update]
set -eu

program=$1
corpus=$2
bounds=$(dirname "$0")/bounds
more_percent=10

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Filling memory with a pattern, as meson wants it, would be counted too, and so would what this machine sets for OpenSSL.
MALLOC_PERTURB_=0 OPENSSL_CONF=/dev/null valgrind -q --tool=callgrind --collect-atstart=no --callgrind-out-file="$work/counts" "$program" "$corpus" \
    >"$work/output" 2>&1 || { cat "$work/output" >&2; exit 1; }

# One file per path: "desc: Trigger: Client Request: NAME" and "totals: COUNT".
awk '/^desc: Trigger: Client Request: / { name = $NF } /^(totals|summary): / { if (name) count[name] = $2 }
    END { for (name in count) print name, count[name] }' "$work"/counts.* | sort >"$work/measured"
[ -s "$work/measured" ] || { echo "callgrind counted nothing" >&2; exit 1; }
if [ "${3:-}" = --update ]; then
    cp "$work/measured" "$bounds"
    exit 0
fi

awk -v more="$more_percent" '
    NR == FNR { bound[$1] = $2; next }
    { seen[$1] = 1; change = bound[$1] ? ($2 - bound[$1]) * 100 / bound[$1] : 1000 }
    { printf "%-14s %9d instructions, %+.1f %%\n", $1, $2, change }
    change > more { failed = 1; print $1 " takes more than tests/cost/bounds allows: make it cheaper, or run `make cost` and say why" }
    END { for (name in bound) if (!seen[name]) { failed = 1; print name " was not measured" }; exit failed }
' "$bounds" "$work/measured"
