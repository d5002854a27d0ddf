#!/bin/sh
# The tree can be read by looking: a folder holds at most 25 source files; more want rooms (see docs/architecture.md).
# Data sets, which are read one file at a time, may be larger. Files open with their subject; comments name the actor.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
status=0

large=$(git ls-files '*.c' '*.h' '*.erl' '*.hrl' | grep -v -e '^tests/unit/guard/labelled/' -e '^tests/fuzz/corpus/' |
    sed 's|/[^/]*$||' | sort | uniq -c | awk '$1 > 25 { print $2 " has " $1 " source files: give it rooms" }')
[ -z "$large" ] || { echo "$large"; status=1; }

# Each file opens with its subject.
for file in $(git ls-files 'src/*.c' 'agent/src/*.erl'); do
    case $(head -c 2 "$file") in
    '/*' | '%%') ;;
    *) echo "$file: begin with a comment on the file's subject"; status=1 ;;
    esac
done

# Comments name the actor. Quoted text is not a comment; the user `nobody` is written in quotes or in code.
vague=$(git ls-files 'src/*.[ch]' 'agent/src/*.[eh]rl' | xargs awk '
FNR == 1 { inside = 0 }
{
    line = $0
    gsub(/"([^"\\]|\\.)*"|`[^`]*`/, "", line)
    is_erlang = FILENAME ~ /rl$/
    text = ""
    if (is_erlang) {
        if (match(line, /%/)) text = substr(line, RSTART)
    } else {
        while (line != "") {
            if (!inside) {
                at = index(line, "/*")
                if (!at) break
                line = substr(line, at + 2)
                inside = 1
            }
            at = index(line, "*/")
            text = text " " (at ? substr(line, 1, at - 1) : line)
            if (!at) break
            line = substr(line, at + 2)
            inside = 0
        }
    }
    text = " " tolower(text) " "
    gsub(/[^a-z]/, " ", text)
    if (match(text, / (whoever|nobody|somebody) /))
        printf "%s:%d: name the actor instead of \"%s\"\n", FILENAME, FNR, substr(text, RSTART + 1, RLENGTH - 2)
}')
[ -z "$vague" ] || { echo "$vague"; status=1; }

# The build lists the agent's modules. A node does not boot without one of them.
for file in agent/src/*/*.erl; do
    module=$(basename "$file" .erl)
    grep -q "'${module#sbx_}'" lib/sandbox/ebin/meson.build && continue
    echo "$file: name it in lib/sandbox/ebin/meson.build"
    status=1
done
exit $status
