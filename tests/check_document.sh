#!/bin/sh
# check_document.sh FILE PROGRAM…: the file says what the program prints now.
file=$1
shift
"$@" | diff -u "$file" - && exit 0
echo "$file is out of date: run make docs" >&2
exit 1
