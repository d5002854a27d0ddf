# Sourced by the scripts that measure, which have taken BUILD_DIR as their first word: a folder to measure in, what this
# machine is, and where a table goes.
# shellcheck shell=sh

root=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
# Nodes that are booted ahead of time would disturb what is measured.
export SANDBOX_WARM_NODES=0 SANDBOX_SETTLE=0

# A home that lasts lies on a disk that lasts. The service runs as a user of its own and has to reach it and the projects.
work=$(mktemp -d "/var/tmp/$(basename "$0" .sh).XXXXXX")
chmod 755 "$work"
# shellcheck disable=SC2317
clean_up() {
    for home in "$work"/home*; do
        [ ! -d "$home" ] || "$build/bin/sandbox" --home "$home" shutdown --no-autostart >/dev/null 2>&1 || true
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

load_of() { cut -d ' ' -f 1 /proc/loadavg; }

load_before=$(load_of)

# measure PROGRAM WORD…: what it prints goes to $work/times.json.
measure() {
    "$@" >"$work/times.json" 2>"$work/errors" && return
    tail -n 5 "$work/errors" >&2
    exit 1
}

# After measuring, for the line above the table.
this_machine() {
    memory_gib=$(awk '/^MemTotal/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)
    otp=$(erl -noshell -eval 'io:put_chars(erlang:system_info(otp_release)), halt().')
    echo "Linux $(uname -r), $(nproc) cores, $memory_gib GiB, OTP $otp, Elixir $(elixir --short-version), load $load_before before and $(load_of) after"
}

# What every table is made with: tabulate JSON < JQ_PROGRAM. A percentile of times, and a time to three digits.
tabulate() {
    jq -r "
def at(p): sort | .[((length - 1) * p) | round];
def shown: if . < 10 then . * 100 | round / 100 elif . < 100 then . * 10 | round / 10 else round end | tostring;
def yes: if . then \"yes\" else \"no\" end;
$(cat)" "$1" >"$work/table.md"
    cat "$work/table.md"
}

# put_table DOCUMENT MARK: the table, between <!-- MARK --> and <!-- end of MARK -->.
put_table() {
    awk -v table="$work/table.md" -v begin="<!-- $2 -->" -v end="<!-- end of $2 -->" '
index($0, end) == 1 { skip = 0 }
!skip { print }
index($0, begin) == 1 { skip = 1; print ""; while ((getline line < table) > 0) print line; print "" }
' "$1" >"$work/document.md"
    cat "$work/document.md" >"$1"
}
