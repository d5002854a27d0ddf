#!/bin/sh
# Sandboxes of one project on the system's toolchain and on those of other roots, in one service: each answers with its own
# OTP, is reloaded under load with its state kept, and is created warm.
# usage: tools/toolchains/several.sh BUILD_DIR ROOT…
set -eu

build=$(cd "${1:?"usage: several.sh BUILD_DIR ROOT…"}" && pwd)
shift
project=$(cd "$(dirname "$0")/../.." && pwd)/examples/counter
sandbox=$build/bin/sandbox
work=$(mktemp -d)
chmod 755 "$work"
export SANDBOX_HOME="$work/home"
rounds=${ROUNDS:-9}

# shellcheck disable=SC2317
clean_up() {
    [ ! -d "$SANDBOX_HOME" ] || "$sandbox" shutdown --no-autostart >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

names=system
mkdir "$SANDBOX_HOME"
for root; do
    name=$(basename "${root%/lib/erlang:*}")
    names="$names $name"
    case $root in
    *:*) printf '[toolchain %s]\notp = %s\nelixir = %s\n' "$name" "${root%:*}" "${root#*:}" ;;
    *) printf '[toolchain %s]\nroot = %s\n' "$name" "$root" ;;
    esac >>"$SANDBOX_HOME/sandbox.conf"
done
"$sandbox" toolchains >&2

for name in $names; do
    cp -r "$project" "$work/$name"
    "$sandbox" create "on-$name" "$work/$name" --toolchain "$name" --app counter >/dev/null 2>&1 ||
        fail "create on $name: $("$sandbox" create "on-$name" "$work/$name" --toolchain "$name" --app counter 2>&1)"
done
releases=$(for name in $names; do "$sandbox" eval "on-$name" 'System.otp_release()'; done | sort -u | wc -l)
[ "$releases" = "$(echo "$names" | wc -w)" ] || fail "they do not answer with releases of their own"

# A process of the sandbox counts all the while; the reload's new code adds a function and a field of nothing else.
load='Process.register(spawn(fn -> Stream.repeatedly(fn -> Counter.increment() end) |> Stream.run() end), :load); :ok'
for name in $names; do "$sandbox" eval "on-$name" "$load" >/dev/null; done
for name in $names; do
    before=$("$sandbox" eval "on-$name" 'Counter.value()')
    [ "$before" -gt 0 ] || fail "nothing counts on $name"
    sed -i 's/  def init(initial), do: {:ok, initial}/&\n\n  def added, do: :added/' "$work/$name/lib/counter/server.ex"
    "$sandbox" reload "on-$name" --json >"$work/$name.reload" || fail "reload on $name: $(cat "$work/$name.reload")"
    after=$("$sandbox" eval "on-$name" '{Counter.Server.added(), Process.whereis(:load) != nil, Counter.value()}')
    case $after in
    *":added, true, "*) ;;
    *) fail "after the reload on $name: $after" ;;
    esac
    value=$(echo "$after" | sed 's/.*, \([0-9]*\)}.*/\1/')
    [ "$value" -gt "$before" ] || fail "the state was not kept on $name: $before, then $value"
    echo "$name: OTP $("$sandbox" eval "on-$name" 'System.otp_release()'), reloaded under load, $before then $value counted"
    "$sandbox" eval "on-$name" 'Process.exit(Process.whereis(:load), :kill)' >/dev/null
done

# Warm creates: what was compiled before, on nodes that have booted. Rounds alternate, so that all see the same machine.
count=$(echo "$names" | wc -w)
await_nodes() {
    for _ in $(seq 200); do
        ready=$("$sandbox" health --json | sed 's/.*"warm_nodes":\([0-9]*\).*/\1/')
        [ "$ready" -lt "$count" ] || return 0
        sleep 0.1
    done
}
for name in $names; do
    "$sandbox" create "spare-$name" "$work/$name" --toolchain "$name" --app counter >/dev/null 2>&1
    "$sandbox" destroy "spare-$name" >/dev/null 2>&1
    : >"$work/$name.times"
done
for _ in $(seq "$rounds"); do
    for name in $names; do
        await_nodes
        "$sandbox" create "warm-$name" "$work/$name" --toolchain "$name" --app counter --timing --json >"$work/answer" 2>&1
        "$sandbox" destroy "warm-$name" >/dev/null 2>&1
        ! grep -q '"node":"warm"' "$work/answer" || sed 's/.*"total_us":\([0-9]*\).*/\1/' "$work/answer" >>"$work/$name.times"
    done
done
for name in $names; do
    taken=$(wc -l <"$work/$name.times")
    [ "$taken" -gt 0 ] || fail "no create on $name was warm"
    least=$(sort -n "$work/$name.times" | sed -n 1p)
    median=$(sort -n "$work/$name.times" | sed -n "$((taken / 2 + 1))p")
    echo "$name: $taken warm creates, least $least us, median $median us"
done
