#!/bin/sh
# Validating every BEAM file of OTP and Elixir, beside reading the same chunks and the md5 with beam_lib.
# tools/bench/beam/bench_beam.sh BUILD [ROUNDS]; both run in turns, so that a busy machine is busy for both.
set -eu
build=${1:?"usage: tools/bench/beam/bench_beam.sh BUILD [ROUNDS]"}
rounds=${2:-5}
here=$(cd "$(dirname "$0")" && pwd)
otp=$(erl -noshell -eval 'io:put_chars(code:root_dir()), halt().')/lib
elixir=$(elixir -e 'IO.write(Path.dirname(:code.lib_dir(:elixir)))' 2>/dev/null || true)

for round in $(seq "$rounds"); do
    "$here/bench_beam.escript" 1 "$otp" ${elixir:+"$elixir"} | sed 's/^total/theirs/; s/^cpu/theircpu/'
    "$build/tools/bench_beam" 3 "$otp" ${elixir:+"$elixir"} | sed 's/^total/ours/; s/^all/together/; s/^cpu/ourcpu/'
done | awk '
function median(values, count,   i, j, value) {
    for (i = 2; i <= count; i++) {
        value = values[i]
        for (j = i - 1; j > 0 && values[j] > value; j--) values[j + 1] = values[j]
        values[j + 1] = value
    }
    return values[int((count + 1) / 2)]
}
function row(values, count, name,   middle) {
    middle = median(values, count)
    printf "  %8.1f  %8.1f  %8.1f  %s\n", middle, values[1], values[count], name
    return middle
}
function speed(name, time, bytes) {
    printf "  %8.1f  %6.0f MB/s  %s\n", time, bytes / time, name
}
/^files/ { files = $2 }
/^bytes/ { bytes = $2 }
/^filebytes/ { file_bytes = $2 }
/^theirs/ { theirs[++their_count] = $2 }
/^theircpu/ { their_cpu[++their_cpu_count] = $2 }
/^ours/ { ours[++our_count] = $2 }
/^together/ { together[++together_count] = $2 }
/^ourcpu/ { our_cpu[++our_cpu_count] = $2 }
/^stage/ {
    time = $2
    sub(/^stage [^ ]* /, "")
    if (!($0 in stages)) names[++name_count] = $0
    if (!($0 in stages) || time < stages[$0]) stages[$0] = time
}
END {
    printf "%d files, microseconds for each: median of the rounds, lowest and highest\n", files
    slow = row(theirs, their_count, "beam_lib: the same chunks, and md5")
    fast = row(ours, our_count, "sandbox: all validated, and SHA-256")
    printf "  %8.1f times faster\n", slow / fast
    fast = row(together, together_count, "sandbox, on all processors, as `sandbox validate` does")
    printf "  %8.1f times faster\n", slow / fast
    slow = row(their_cpu, their_cpu_count, "beam_lib, processor time")
    fast = row(our_cpu, our_cpu_count, "sandbox, processor time")
    printf "  %8.1f times less\n\nwhere the time goes, each stage at its best:\n", slow / fast
    for (i = 1; i <= name_count; i++) {
        printf "  %8.1f  %s\n", stages[names[i]], names[i]
        if (names[i] !~ /^\(/ && names[i] != "reading the file" && names[i] != "checksum") rest += stages[names[i]]
    }
    rest -= stages["(inflating, of literals)"]
    printf "\nwithout reading, checksum and inflating, over the %d bytes that are looked at:\n", bytes
    speed("validating", rest, bytes)
    speed("a loop over each byte", stages["(a loop over each byte of it)"], bytes)
    speed("memcpy", stages["(copying what was looked at)"], bytes)
    printf "\nby the size of the files, %d bytes:\n", file_bytes
    speed("validating", rest, file_bytes)
    speed("a loop over each byte", stages["(a loop over each byte of the file)"], file_bytes)
}'
