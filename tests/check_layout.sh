#!/bin/sh
# The tree can be read by looking: a folder holds at most 25 source files; more want rooms (see docs/architecture.md).
# Data sets, which are read one file at a time, may be larger. Files open with their subject; comments name the actor.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
status=0

# Programs that scans and fuzzers are tried on are data.
sources() {
    git ls-files "$@" | grep -v -e '^tests/unit/guard/labelled/' -e '^tests/fuzz/corpus/' -e '^tests/check_'
}

large=$(sources '*.c' '*.h' '*.erl' '*.hrl' | sed 's|/[^/]*$||' | sort | uniq -c |
    awk '$1 > 25 { print $2 " has " $1 " source files: give it rooms" }')
[ -z "$large" ] || { echo "$large"; status=1; }

# A script opens with the line for its interpreter.
mute=$(sources '*.c' '*.erl' '*.sh' | xargs awk '
FNR == 1 { at = $0 ~ /^#!/ ? 2 : 1 }
FNR == at && $0 !~ (FILENAME ~ /\.c$/ ? "^/\\*" : FILENAME ~ /\.erl$/ ? "^%%" : "^# ") {
    print FILENAME ": begin with a comment on the file'\''s subject"
}')
[ -z "$mute" ] || { echo "$mute"; status=1; }

# Quoted text is not a comment; the user `nobody` is written in quotes or in code.
vague=$(sources '*.[ch]' '*.[eh]rl' '*.sh' | xargs awk '
FNR == 1 { inside = 0; kind = FILENAME ~ /rl$/ ? "%" : FILENAME ~ /\.sh$/ ? "#" : "" }
{
    line = $0
    gsub(/"([^"\\]|\\.)*"|`[^`]*`/, "", line)
    text = ""
    if (kind != "") {
        if (match(line, kind)) text = substr(line, RSTART)
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
    is_subject = text ~ /(^ *(\*|%+|#+)? *|[.:] )(Who|Whose|Whom) /
    text = " " tolower(text) " "
    gsub(/[^a-z]/, " ", text)
    if (match(text, / (whoever|nobody|somebody|anybody|everybody|he|his|him) /))
        printf "%s:%d: name the actor instead of \"%s\"\n", FILENAME, FNR, substr(text, RSTART + 1, RLENGTH - 2)
    else if (is_subject)
        printf "%s:%d: name the actor instead of \"who\"\n", FILENAME, FNR
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
