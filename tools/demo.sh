#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demo: builds Sealane, makes certificates, and trains a classifier of real images (Fashion-MNIST) over encrypted lanes.
#
# usage: tools/demo.sh [--shards N] [--workers N] [--model mlp|softmax] [--hidden N] [--mode MODE] [--link LINK] [option …]
#   --shards N       server processes, each with its part of the weights (2)
#   --workers N      worker processes, each with its part of every batch (4)
#   --model M        mlp, or softmax for softmax regression (mlp)
#   --hidden N       width of the mlp's hidden layer (128)
#   --mode MODE      sync: steps of all workers together; async: of each when it likes (sync)
#   --shape SHAPE    accuracy, or throughput for few steps with tensors of 64 MiB (accuracy)
#   --link LINK      what must carry the lanes: local, verbs or tcp (local); verbs: with --address HOST:PORT, HOST an RDMA device's
#   --synthetic      train on a small built-in set, without data files
#   other options    go to parameter-train as they are: --epochs N (8), --steps N, --batch N, --csv FILE, …;
#                    build/release/bin/parameter-train --help lists them
#
# Needs Debian 12, and root or sudo when a package is missing (tools/packages.sh). Leaves build/release and build/demo.csv, the learning
# curve. The last line says what came out; the exit status is 0 only if all went well and the test accuracy is at least
# 0.86 (0.83 for softmax or async; any for a run bounded by --steps, --epochs below 8, --synthetic or --shape throughput): 2 for a wrong command line, 130 or
# 143 after SIGINT or SIGTERM, which stop everything, 1 for all else. SEALANE_NO_INSTALL=1 leaves packages alone.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() { sed -n '5,21s/^# \{0,1\}//p' "$0"; }
fail() {
    echo "demo: $*" >&2
    exit 1
}
misuse() {
    echo "demo: $* (tools/demo.sh --help lists the options)" >&2
    exit 2
}
number() { # option, value, least, most
    [[ $2 =~ ^(0|[1-9][0-9]{0,14})$ ]] && [ "$2" -ge "$3" ] && [ "$2" -le "$4" ] || misuse "$1 $2: expected a whole number from $3 to $4"
}

batch=128 epochs=8 synthetic="" files=""
shards=2 workers=4 model=mlp mode=sync shape=accuracy link=local bounded="" options=(--csv build/demo.csv)
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --*=*)
        set -- "${1%%=*}" "${1#*=}" "${@:2}"
        continue
        ;;
    esac
    [[ $1 == --* ]] || misuse "\"$1\" is no option"
    case $1 in
    --synthetic)
        bounded=yes synthetic=yes options+=("$1")
        shift
        continue
        ;;
    --certs | --alone | --server-name | --allow) misuse "$1 is the demo's own to choose" ;;
    --shards | --workers | --model | --mode | --shape | --max-staleness | --restart | --link | --hidden | --epochs | --steps | --batch | --lr | --momentum | --seed | --test) ;;
    --address | --rdma-device | --csv | --weights | --timeout-s | --data | --train-images | --train-labels | --test-images | --test-labels) ;;
    *) misuse "there is no option $1" ;;
    esac
    [ $# -ge 2 ] || misuse "$1 needs a value"
    case $1 in
    --shards) number "$1" "$2" 1 64 ;;
    --workers) number "$1" "$2" 1 1024 ;;
    --hidden) number "$1" "$2" 1 4194304 ;;
    --epochs) number "$1" "$2" 1 1000000 ;;
    --batch) number "$1" "$2" 1 1048576 ;;
    --timeout-s) number "$1" "$2" 1 86400 ;;
    --steps | --test) number "$1" "$2" 1 999999999 ;;
    --seed) number "$1" "$2" 0 999999999999999 ;;
    --max-staleness | --restart) number "$1" "$2" 0 999999999 ;;
    --model) [[ $2 == mlp || $2 == softmax ]] || misuse "--model $2: expected mlp or softmax" ;;
    --mode) [[ $2 == sync || $2 == async ]] || misuse "--mode $2: expected sync or async" ;;
    --shape) [[ $2 == accuracy || $2 == throughput ]] || misuse "--shape $2: expected accuracy or throughput" ;;
    --link) [[ $2 == local || $2 == verbs || $2 == tcp ]] || misuse "--link $2: expected local, verbs or tcp" ;;
    esac
    case $1 in
    --shards) shards=$2 ;;
    --workers) workers=$2 ;;
    --link) link=$2 ;;
    --mode) mode=$2 options+=("$1" "$2") ;;
    --shape) shape=$2 options+=("$1" "$2") ;;
    --model) model=$2 options+=("$1" "$2") ;;
    --batch) batch=$2 options+=("$1" "$2") ;;
    --epochs) epochs=$2 options+=("$1" "$2") ;;
    --steps) bounded=yes options+=("$1" "$2") ;;
    --data | --*-images | --*-labels) files=yes options+=("$1" "$2") ;;
    *) options+=("$1" "$2") ;;
    esac
    shift 2
done
[ "$batch" -ge "$workers" ] || misuse "--batch $batch leaves some of $workers workers without an example"
[ -z "$synthetic" ] || [ -z "$files" ] || misuse "--synthetic and data files exclude each other"
[ "$epochs" -ge 8 ] || bounded=yes
[ "$shape" = accuracy ] || bounded=yes
least=0.86
[ "$model" != softmax ] || least=0.83
[ "$mode" = sync ] || least=0.83
[ -z "$bounded" ] || least=0

[ -n "${SEALANE_NO_INSTALL:-}" ] || tools/packages.sh run

# Certificates are made for this run and removed after it.
certs=$(mktemp -d)
out=$certs/out
child=""
trap 'rm -rf "$certs"' EXIT
interrupted() { # exit status
    trap - INT TERM HUP
    [ -z "$child" ] || kill -TERM -- "$child" 2>/dev/null || true
    wait
    echo "demo: interrupted" >&2
    exit "$1"
}
trap 'interrupted 130' INT
trap 'interrupted 143' TERM
trap 'interrupted 129' HUP

mkdir -p build
log=build/demo.log
echo "demo: building (log: $log)"
# In the background and in a group of its own: a signal is heard at once, and ends the compilers as well.
set -m
{ cmake --preset release && cmake --build --preset release; } >"$log" 2>&1 </dev/null &
child=-$!
set +m
wait "${child#-}" || {
    child=""
    tail -n 30 "$log" >&2
    fail "the build failed; all of it is in $log"
}
child=""

# A CA and an identity for every process.
{
    tools/make-certs.sh "$certs"
    for ((rank = 0; rank < workers; rank++)); do
        tools/make-certs.sh "$certs" --add "worker-$rank" client "uri:spiffe://sealane.test/worker/$rank"
    done
} >>"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    fail "no certificates"
}
echo "demo: certificates made: a CA, a server, $workers workers"

# In the background, so that a signal to this script alone is heard at once and stops everything.
status=0
mkfifo "$certs/lines"
tee "$out" <"$certs/lines" &
build/release/bin/parameter-train --certs "$certs" --shards "$shards" --workers "$workers" --link "$link" \
    --server-name uri:spiffe://sealane.test/server --allow uri:spiffe://sealane.test/worker "${options[@]}" >"$certs/lines" &
child=$!
wait "$child" || status=$?
child=""
wait
case $status in 129 | 130 | 143) interrupted "$status" ;; esac
[ "$status" -eq 0 ] || fail "the training failed (exit status $status)"

# "result: test accuracy 0.8799, 2 shards, 4 workers, sealed with AES-256-GCM over local"
result=$(sed -nE 's/^result: test accuracy ([0-9.]+), ([0-9]+) shards?, ([0-9]+) workers?, sealed with ([A-Za-z0-9-]+) over ([a-z]+)$/\1 \2 \3 \4 \5/p' "$out")
read -r accuracy shards workers suite carrier <<<"$result"
[ -n "${carrier:-}" ] || fail "the training told no result"
[ "$carrier" = "$link" ] || fail "the lanes ran over $carrier, not over $link"
awk -v a="$accuracy" -v l="$least" 'BEGIN { exit !(a >= l) }' || status=1
[ "$status" -eq 0 ] || echo "demo: test accuracy $accuracy is below $least" >&2
LC_ALL=C printf 'demo: test accuracy %.3f, %d shards, %d workers, sealed with %s over %s\n' "$accuracy" "$shards" "$workers" "$suite" "$carrier"
exit "$status"
