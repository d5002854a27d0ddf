#!/bin/sh
# Validating every BEAM file of OTP and Elixir, beside reading the same chunks and the md5 with beam_lib.
# tools/bench_beam.sh BUILD [PASSES]; both run in turns, so that a busy machine is busy for both.
set -eu
build=${1:?"usage: tools/bench_beam.sh BUILD [PASSES]"}
passes=${2:-5}
here=$(cd "$(dirname "$0")" && pwd)
otp=$(erl -noshell -eval 'io:put_chars(code:root_dir()), halt().')/lib
elixir=$(elixir -e 'IO.write(Path.dirname(:code.lib_dir(:elixir)))' 2>/dev/null || true)

theirs=$("$here/bench_beam.escript" "$passes" "$otp" ${elixir:+"$elixir"})
ours=$("$build/tools/bench_beam" "$passes" "$otp" ${elixir:+"$elixir"})
printf '%s\n' "$theirs" "$ours" | awk '
/^files/ { files = $2 }
/^total/ { median[++n] = $2; low[n] = $3; high[n] = $4 }
/^stage/ { time = $2; sub(/^stage [^ ]* /, ""); stages = stages sprintf("  %8.1f µs  %s\n", time, $0) }
END {
    printf "%d files, microseconds for each: median of the passes, lowest and highest\n", files
    printf "  %8.1f  %8.1f  %8.1f  beam_lib: the same chunks, and md5\n", median[1], low[1], high[1]
    printf "  %8.1f  %8.1f  %8.1f  sandbox: all validated, and SHA-256\n", median[2], low[2], high[2]
    printf "  %8.1f times faster\n\nwhere the time goes:\n%s", median[1] / median[2], stages
}'
