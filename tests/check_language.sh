#!/bin/sh
# check_language.sh [FILE…]: documents are in plain English, as CONTRIBUTING.md asks. It prints file:line for each of
# these and exits 1: the words whoever, nobody, somebody, anybody, everybody, he, his and him; sentences of more than 35 words; lines of more than 120
# characters. Code, headings and what benchmarks write between their marks don't count; tables may have long lines and
# long sentences. Without arguments it reads all documents but those that are made from tables (make docs).
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- *.md agent/README.md $(git ls-files 'docs/*.md' | grep -v -e docs/reference.md -e docs/attacks.md)

LC_ALL=C awk '
function complain(line, text) {
    printf "%s:%d: %s\n", file, line, text
    status = 1
}

# Of a character of several bytes, only the first counts.
function width(text) {
    gsub(/[\200-\277]/, "", text)
    return length(text)
}

# A code span is one word, wherever its lines break.
function without_code(text,    result, i, c, inside) {
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "`") {
            inside = !inside
            if (inside) result = result "C"
        } else if (!inside || c == "\n") {
            result = result c
        }
    }
    return result
}

function check_words(text, first,    lines, count, i, found) {
    count = split(text, lines, "\n")
    for (i = 1; i <= count; i++) {
        found = " " tolower(lines[i]) " "
        gsub(/[^a-z]/, " ", found)
        if (match(found, / (whoever|nobody|somebody|anybody|everybody|he|his|him) /))
            complain(first + i - 1, "name the actor instead of \"" substr(found, RSTART + 1, RLENGTH - 2) "\"")
    }
}

function check_sentences(text, first,    lines, words, count, i, n, k, begun, length_of) {
    count = split(text, lines, "\n")
    begun = first
    for (i = 1; i <= count; i++) {
        n = split(lines[i], words, /[ \t]+/)
        for (k = 1; k <= n; k++) {
            if (words[k] !~ /[A-Za-z0-9]/) continue
            if (!length_of++) begun = first + i - 1
            if (words[k] !~ /[.!?][)"*_]*$/ && !(i == count && k == n)) continue
            if (length_of > 35) complain(begun, "a sentence of " length_of " words")
            length_of = 0
        }
    }
    if (length_of > 35) complain(begun, "a sentence of " length_of " words")
}

function end_paragraph() {
    if (paragraph == "") return
    paragraph = without_code(paragraph)
    check_words(paragraph, paragraph_line)
    if (!is_table) check_sentences(paragraph, paragraph_line)
    paragraph = ""
}

FNR == 1 { end_paragraph(); file = FILENAME; in_code = is_measured = 0 }
/^ *```/ { end_paragraph(); in_code = !in_code; next }
in_code { next }
/^<!-- end of / { is_measured = 0; next }
/^<!-- / { end_paragraph(); is_measured = 1; next }
is_measured { next }
{
    starts_table = /^ *\|/
    if (!starts_table && width($0) > 120) complain(FNR, "a line of " width($0) " characters")
}
/^ *$/ || /^#/ { end_paragraph(); next }
/^ *([-*]|[0-9]+\.) / || starts_table != is_table { end_paragraph() }
{
    if (paragraph == "") { paragraph_line = FNR; is_table = starts_table }
    paragraph = paragraph (paragraph_line == FNR ? "" : "\n") $0
}
END { end_paragraph(); exit status }
' "$@"
