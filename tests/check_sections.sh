#!/bin/sh
# Signposts are true. Where a header says `---- x.c ----` or, behind a declaration, `/* x.c */`, its module has a file
# x.c, and x.c defines the functions that are declared there. Files that comments and documents name are there.
set -u
cd "${1:-$(dirname "$0")/..}" || exit 1
status=0

# In documents: `room/x.c`, `x_y.erl`. A name without a folder may be anywhere.
missing=$(git ls-files '*.md' | grep -v -e '^CHANGELOG' -e '^docs/benchmarks' | xargs awk '
BEGIN { while (("git ls-files" | getline file) > 0) { all = all "/" file "\n" } }
{
    line = $0
    while (match(line, /`[A-Za-z_0-9\/]+\.(c|h|erl|sh|md)`/)) {
        name = substr(line, RSTART + 1, RLENGTH - 2)
        line = substr(line, RSTART + RLENGTH)
        if (!index(all, "/" name "\n")) printf "%s:%d: there is no %s\n", FILENAME, FNR, name
    }
}')
[ -z "$missing" ] || { echo "$missing"; status=1; }

git ls-files 'src/*.c' 'src/*.h' | sort | xargs awk '
function module_of(path,    parts) {
    split(path, parts, "/")
    return parts[2]
}

function base_of(path) {
    sub(/.*\//, "", path)
    return path
}

# The function that a line at the margin declares or begins to define; "" for none.
function function_of(line,    name) {
    if (line !~ /^[A-Za-z]/ || line ~ /^(typedef|static inline|return|struct [a-z_0-9]+ \{|enum|union)/) return ""
    if (!match(line, /[A-Za-z_0-9]+\(/)) return ""
    name = substr(line, RSTART, RLENGTH - 1)
    return name ~ /^S?TAILQ_/ ? "" : name
}

function complain(text) {
    printf "%s:%d: %s\n", FILENAME, FNR, text
    status = 1
}

# The files that a comment names, as "x.c y.c".
function files_in(text,    found) {
    found = ""
    while (match(text, /[a-z_0-9]+\.c/)) {
        found = found " " substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
    }
    return found
}

# Checked when every definition is known.
function expect(name, files) {
    count++
    wanted_name[count] = name
    wanted_files[count] = files
    wanted_module[count] = module_of(FILENAME)
    wanted_at[count] = FILENAME ":" FNR
}

FNR == 1 { section = ""; in_heading = 0 }

FILENAME ~ /\.c$/ {
    if (FNR == 1) exists[module_of(FILENAME), base_of(FILENAME)] = 1
    name = $0 ~ /;[ \t]*$/ ? "" : function_of($0)
    if (name != "" && $0 !~ /^static /) defined[module_of(FILENAME), base_of(FILENAME), name] = 1
    next
}

/^\/\* ----/ { section = ""; in_heading = 1 }
in_heading {
    section = section files_in($0)
    if ($0 ~ /\*\//) {
        in_heading = 0
        if (section != "") expect("", section)
    }
    next
}

/; +\/\* [a-z_0-9]+\.c \*\/$/ {
    files = files_in(substr($0, index($0, "/*")))
    names = substr($0, 1, index($0, ";") - 1)
    sub(/^[a-z_]+ /, "", names)
    expect("", files)
    total = split(names, each, /, */)
    for (i = 1; i <= total; i++) {
        sub(/\(.*/, "", each[i])
        expect(each[i], files)
    }
    next
}

section != "" {
    name = function_of($0)
    if (name != "") expect(name, section)
}

END {
    for (i = 1; i <= count; i++) {
        total = split(wanted_files[i], file, " ")
        is_there = 0
        for (k = 1; k <= total; k++) {
            if (wanted_name[i] == "" && !((wanted_module[i], file[k]) in exists)) {
                printf "%s: the module has no %s\n", wanted_at[i], file[k]
                status = 1
            }
            if ((wanted_module[i], file[k], wanted_name[i]) in defined) is_there = 1
        }
        if (wanted_name[i] != "" && !is_there) {
            printf "%s: %s is not defined in%s\n", wanted_at[i], wanted_name[i], wanted_files[i]
            status = 1
        }
    }
    exit status
}' || status=1
exit $status
