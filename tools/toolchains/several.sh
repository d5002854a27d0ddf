#!/bin/sh
# Sandboxes of one project on the system's toolchain and on others, in one service: each answers with its own OTP and
# Elixir, is reloaded under load with its state kept, restarted with its state, and created warm.
# usage: tools/toolchains/several.sh BUILD_DIR ROOT… (or OTP:ELIXIR, two installations on this machine). ROUNDS=9 is how
# often each is created.
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
    case $root in
    *:*) name=$(basename "${root%/lib/erlang:*}")-$(basename "${root#*:}") ;;
    *) name=$(basename "$root") ;;
    esac
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

# What is listed is what answers.
for name in $names; do
    listed=$("$sandbox" toolchains --json | jq -r --arg name "$name" '.[] | select(.name == $name) | "\(.otp | split(".")[0]) \(.elixir)"')
    answer=$("$sandbox" eval "on-$name" 'IO.iodata_to_binary([System.otp_release(), " ", System.version()])' | tr -d '"')
    [ "$listed" = "$answer" ] || fail "$name is listed as $listed and answers $answer"
done

# A process of the sandbox counts all the while; the reload's new code adds a function and a field of nothing else.
load='Counter.increment(); Process.register(spawn(fn -> Stream.repeatedly(fn -> Counter.increment() end) |> Stream.run() end), :load); :ok'
no_load='load = Process.monitor(:load); Process.exit(Process.whereis(:load), :kill); receive do {:DOWN, ^load, _, _, _} -> :ok end'
for name in $names; do
    "$sandbox" eval "on-$name" "$load" >/dev/null
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
    "$sandbox" eval "on-$name" "$no_load" >/dev/null
    value=$("$sandbox" eval "on-$name" 'Counter.value()')
    "$sandbox" restart "on-$name" >/dev/null 2>&1 || fail "restart on $name"
    after=$("$sandbox" eval "on-$name" 'Counter.value()')
    [ "$value" = "$after" ] || fail "the restart on $name lost the state: $value, then $after"
    echo "$name: OTP and Elixir $("$sandbox" eval "on-$name" '{System.otp_release(), System.version()}'), reloaded under load: $before then $value counted; restarted with that"
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
