#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rig.self: the rig runs what it is told in guests with soft RDMA devices, and ends in time. Skipped (77) without a guest kernel.
# Usage: self_test.sh <a test program built with AddressSanitizer>
set -euo pipefail
rig=$(cd "$(dirname "$0")" && pwd)
program=$1
# shellcheck source=tests/house/verdict.sh
. "$rig/../house/verdict.sh"
"$rig/kernel.sh" --find >/dev/null # 77, and why, ends this here
for tool in ip rdma ibv_devinfo ibv_rc_pingpong rping; do
    command -v "$tool" >/dev/null || {
        echo "rig: $tool is missing (tools/packages.sh rig installs it)"
        exit 77
    }
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work # where the rig keeps what it must not leave behind

# Runs the rig; $status and the files out and err say what came of it.
guest() { # run's arguments
    status=0
    "$rig/run" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
}
expect() { # what holds, the status expected, a pattern that a line of the output has to match as a whole
    local good=0
    [ "$status" -eq "$2" ] && grep -qxE "$3" "$work/out" || good=1
    verdict "$1" "$good" "status $status, output: $(tail -n 5 "$work/out" "$work/err")"
}
count() { find "$work" -mindepth 1 -maxdepth 1 -name 'rig.*' | wc -l; }

# shellcheck disable=SC2016 # the guest expands it
SEALANE_SAID="two  words" guest --timeout 30 --write "$work" -- \
    bash -c 'echo "$SEALANE_RIG $SEALANE_SAID $(id -u) $PWD"; echo aside >&2; touch "$1/mark" /tmp/x && ! touch /etc/x; exit 7' bash "$work"
expect "status, output, environment and folder of a command come through" 7 "1 two  words 0 $PWD"
verdict "stderr comes out apart" "$([ "$(grep -c '^aside$' "$work/err")" = 1 ]; echo $?)" "$(cat "$work/err")"
verdict "a folder to write is written, the rest is not" "$([ -e "$work/mark" ] && [ ! -e /etc/x ]; echo $?)"

guest --timeout 30 -- sh -c 'head -c 3000000 /dev/zero | tr "\0" x; echo; sleep 99 & exit 0'
expect "3 MB arrive whole, and what a command leaves behind ends" 0 'x{3}.*'
verdict "not a byte more or less" "$([ "$(wc -c <"$work/out")" -eq 3000001 ]; echo $?)" "$(wc -c <"$work/out")"

began=$SECONDS
guest --timeout 4 -- bash -c 'trap "" TERM INT HUP; echo hangs; while :; do sleep 9; done'
expect "a command that hangs is ended" 124 hangs
verdict "in time" "$([ $((SECONDS - began)) -le 8 ]; echo $?)" "after $((SECONDS - began)) s"

"$rig/run" --timeout 60 -- sh -c 'echo runs; sleep 55' >"$work/out" 2>&1 </dev/null &
runner=$!
for _ in $(seq 200); do
    ! grep -q runs "$work/out" || break
    sleep 0.1
done
kill "$runner" || true
status=0
wait "$runner" || status=$?
expect "a rig that is told to end ends its guest" 143 runs

# shellcheck disable=SC2016
guest --timeout 30 -- perl -e 'print "off\n"; $| = 1; syscall(169, 0xfee1dead, 672274793, 0x4321fedc)'
expect "a guest that goes down under its command is no success" 125 '.*'

# Its memory is at fixed addresses, up to 16 TB; Criterion forks and shares memory.
guest --timeout 60 -- "$program" --jobs 1
verdict "a test program with AddressSanitizer runs" "$status" "$(tail -n 5 "$work/out" "$work/err")"

SEALANE_RIG_CACHE=$work/none guest -- true
verdict "without a kernel a test is skipped and says how to get one" \
    "$([ "$status" -eq 77 ] && grep -q 'tests/rig/kernel.sh builds it' "$work/err"; echo $?)" "status $status: $(cat "$work/err")"

cat >"$work/one.sh" <<'S'
set -e
ibv_devinfo -d rxe0
pair() { # what, client, server command…
    "${@:3}" >/dev/null 2>&1 &
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        sleep 0.1
        ! $2 || { wait; echo "$1 done"; return; }
    done
    return 1
}
pair pingpong "ibv_rc_pingpong -d rxe0 -g 1 -e -n 200 $SEALANE_RIG_SELF" ibv_rc_pingpong -d rxe0 -g 1 -e -n 200
pair rping "rping -c -a $SEALANE_RIG_SELF -C 3" rping -s -a "$SEALANE_RIG_SELF" -C 3
pair rping6 "rping -c -a $SEALANE_RIG_SELF6 -C 3" rping -s -a "$SEALANE_RIG_SELF6" -C 3
read -r near far <<<"$SEALANE_RIG_WIRE"
before=$(cat /sys/class/net/wire0/statistics/tx_packets)
pair wire "rping -c -I $near -a $far -C 3" rping -s -a "$far" -C 3
[ "$(cat /sys/class/net/wire0/statistics/tx_packets)" -gt $((before + 10)) ] && echo "wire carried"
S
guest --timeout 60 --read "$work" -- bash "$work/one.sh"
expect "an RDMA device is there" 0 'hca_id:[[:space:]]+rxe0'
for what in "pingpong done" "rping done" "rping6 done" "wire done" "wire carried"; do
    expect "within one guest: $what" 0 "$what"
done

cat >"$work/two.sh" <<'S'
if [ "$SEALANE_RIG_GUEST" = 0 ]; then
    ibv_rc_pingpong -d rxe0 -g 1 -e -n 200 && touch "$SEALANE_RIG_SHARED/next" && rping -s -a "$SEALANE_RIG_SELF" -C 3
    exit 3
fi
for _ in $(seq 100); do
    ! ibv_rc_pingpong -d rxe0 -g 1 -e -n 200 "$SEALANE_RIG_PEER" || break
    sleep 0.1
done
until [ -e "$SEALANE_RIG_SHARED/next" ]; do sleep 0.02; done
for _ in $(seq 100); do
    ! rping -c -a "$SEALANE_RIG_PEER" -C 3 || break
    sleep 0.1
done
echo "$SEALANE_RIG_SELF heard $SEALANE_RIG_PEER"
exit 2
S
guest --guests 2 --timeout 60 --read "$work" -- bash "$work/two.sh"
expect "two guests reach each other, and the greater status counts" 3 '1: 10.77.0.2 heard 10.77.0.1'
expect "pingpong between two guests" 3 '1: 200 iters in .* seconds = .*'

cat >"$work/dies.sh" <<'S'
if [ "$SEALANE_RIG_GUEST" = 0 ]; then
    echo dies
    case $1 in
    off) perl -e 'syscall(169, 0xfee1dead, 672274793, 0x4321fedc)' ;;
    hang) sleep 99 ;;
    esac
fi
sleep "$2"
echo lives
exit 4
S
guest --guests 2 --timeout 30 --read "$work" -- bash "$work/dies.sh" off 3
expect "a guest that goes down does not stop the other, and is no success" 125 "1: lives"
verdict "it is named" "$(grep -q 'guest 0 ended before' "$work/err" && ! grep -q 'guest 1 ended' "$work/err"; echo $?)" "$(cat "$work/err")"
began=$SECONDS
guest --guests 2 --timeout 5 --read "$work" -- bash "$work/dies.sh" off 99
expect "a guest that waits for one that went down ends when the time is up" 125 "0: dies"
verdict "and each is told apart" "$(grep -q 'guest 0 ended before' "$work/err" && grep -q 'is up' "$work/err"; echo $?)" "$(cat "$work/err")"
verdict "soon" "$([ $((SECONDS - began)) -le 10 ]; echo $?)" "after $((SECONDS - began)) s"
guest --guests 2 --timeout 5 --read "$work" -- bash "$work/dies.sh" hang 0
expect "a guest that hangs is ended, whatever became of the other" 124 "1: lives"

"$rig/run" --guests 2 --timeout 20 --read "$work" -- bash "$work/dies.sh" hang 4 >"$work/out" 2>"$work/err" </dev/null &
runner=$!
for _ in $(seq 200); do
    ! grep -q dies "$work/out" || break
    sleep 0.1
done
kill -KILL "$(pgrep -o -f "^$("$rig/kernel.sh" --find) .* rig=$work/rig\.[^ ]*/0 ")" || true
status=0
wait "$runner" || status=$?
expect "a guest whose kernel is killed does not stop the other, and is no success" 125 "1: lives"

verdict "nothing is left behind" "$([ "$(count)" -eq 0 ]; echo $?)" "$(ls "$work")"
closing
