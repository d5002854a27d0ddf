#!/bin/sh
# Includes point towards base: a module may include those before it in the list, and itself. Some may include less:
# `only` names what. Clients know base, the operation table and how a call travels, which know nothing of the engine.
# The operation table knows the table of limits besides, which is a header of values.
# No module includes the launcher: all that runs as root is src/launcher, and what that may include.
cd "${1:-$(dirname "$0")/..}/src" || exit 1
grep -r -H '^#include ["<]' --include='*.[ch]' -- */ | awk -F'[:"<>]' '
BEGIN {
    count = split("base loop term beam jail link confine node store watch meter quota audit guard webhook compile code core ops api", order, " ")
    for (i = 1; i <= count; i++) place[order[i]] = i
    only["jail"] = " base "
    only["launcher"] = " base jail "
    only["link"] = " base loop jail "
    only["confine"] = " base jail "
    without_uv["jail"] = without_uv["launcher"] = without_uv["confine"] = 1
}
{
    file = $1; included = $3
    module = substr(file, 1, index(file, "/") - 1)
    if (included == "uv.h" && $0 ~ /</) {
        if (module in without_uv) { print "src/" file " includes <uv.h>, which it must not know"; bad = 1 }
        next
    }
    if ($0 ~ /#include </) next
    other = substr(included, 1, index(included, "/") - 1)
    if (other == "" || other == module) next
    if (other == "launcher") {
        wrong = 1
    } else if (module in only) {
        wrong = index(only[module], " " other " ") == 0
    } else if (module == "client" || module == "cli") {
        wrong = !(other == "base" || other == "client" || included ~ /^ops\/(table|direct)\.h$/ || (module == "client" && other == "sandbox"))
    } else if (module == "daemon") {
        wrong = 0
    } else if (module == "ops" && file !~ /ops\/run\./) {
        wrong = other != "base" && included != "jail/limits.h"
    } else {
        wrong = !(other in place) || place[other] > place[module]
    }
    if (wrong) { print "src/" file " includes " included ", which it must not know"; bad = 1 }
}
END { exit bad }'
