#!/bin/sh
# Includes point towards base: a module may include those before it in the list, and itself. Clients know base, the operation table and
# how a call travels, which know nothing of the engine.
cd "$(dirname "$0")/../src" || exit 1
grep -H '^#include "' -r -- */ | awk -F'[:"]' '
BEGIN {
    count = split("base loop term beam jail launcher link confine node store watch meter quota guard webhook compile code core ops api", order, " ")
    for (i = 1; i <= count; i++) place[order[i]] = i
}
{
    file = $1; included = $3
    module = substr(file, 1, index(file, "/") - 1)
    other = substr(included, 1, index(included, "/") - 1)
    if (other == "" || other == module) next
    if (module == "client" || module == "cli") {
        wrong = !(other == "base" || other == "client" || included ~ /^ops\/(table|direct)\.h$/ || (module == "client" && other == "sandbox"))
    } else if (module == "daemon") {
        wrong = 0
    } else if (module == "ops" && file !~ /ops\/run\./) {
        wrong = other != "base"
    } else {
        wrong = !(other in place) || place[other] > place[module]
    }
    if (wrong) { print "src/" file " includes " included ", which it must not know"; bad = 1 }
}
END { exit bad }'
