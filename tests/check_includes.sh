#!/bin/sh
# Includes point towards base: a module may include those before it in the list, and itself.
set -u
cd "$(dirname "$0")/../src" || exit 1
order="base term beam jail node store compile core ops api"
status=0

position() {
    at=0
    for name in $order; do
        at=$((at + 1))
        [ "$name" = "$1" ] && { echo $at; return; }
    done
    echo 0
}

for module in $order; do
    [ -d "$module" ] || continue
    own=$(position "$module")
    for file in "$module"/*.c "$module"/*.h; do
        [ -f "$file" ] || continue
        for included in $(sed -n 's/^#include "\([a-z]*\)\/.*/\1/p' "$file" | sort -u); do
            other=$(position "$included")
            if [ "$other" = 0 ] || [ "$other" -gt "$own" ]; then
                echo "src/$file includes $included, which stands below $module"
                status=1
            fi
        done
    done
done

# Clients know the operation table and nothing of the engine.
for file in client/*.[ch] cli/*.[ch]; do
    for included in $(sed -n 's/^#include "\([a-z]*\/[a-z_]*\)\..*/\1/p' "$file" | sort -u); do
        case "$included" in
        base/* | client/* | cli/* | ops/table) ;;
        *) echo "src/$file includes $included, but clients know only base and ops/table"; status=1 ;;
        esac
    done
done
# The table is data that clients use too.
if grep -l '#include "core/' ops/table.[ch] ops/check.c ops/route.c ops/openapi.c ops/describe.c 2>/dev/null; then
    echo "the operation table must not know the engine"
    status=1
fi
exit $status
