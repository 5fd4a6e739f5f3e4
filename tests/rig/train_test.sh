#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rig.train: the parameter server between two guests over RDMA, the shards in one, the workers in the other: it learns as the same training
# in one process does, and RDMA carried it. Skipped (77) without a guest kernel.
# Usage: train_test.sh <folder of the parameter server's programs> [option of the training …] (without: few steps with a small set)
set -euo pipefail
rig=$(cd "$(dirname "$0")" && pwd)
bin=$1
shift
[ $# -gt 0 ] || set -- --synthetic --hidden 24 --epochs 2 --batch 50 --seed 7
shards=2 workers=2

# ---- in a guest: guest <certificates> [option …] ----

serve() { # certificates
    for ((shard = 0; shard < shards; shard++)); do
        "$bin/parameter-server" --certs "$1" --allow uri:spiffe://sealane.test/worker --link verbs --workers $workers --shard $shard \
            --of-shards $shards --listen "$SEALANE_RIG_SELF:0" --address-file "$SEALANE_RIG_SHARED/shard-$shard" --verbose &
        running+=($!)
    done
}
work() { # certificates, options
    local servers=()
    for ((shard = 0; shard < shards; shard++)); do
        until [ -e "$SEALANE_RIG_SHARED/shard-$shard" ]; do sleep 0.05; done
        servers+=(--server "@$SEALANE_RIG_SHARED/shard-$shard")
    done
    for ((rank = 0; rank < workers; rank++)); do
        "$bin/parameter-worker" --certs "$1" --server-name uri:spiffe://sealane.test/server --link verbs --workers $workers --rank $rank \
            "${servers[@]}" "${@:2}" &
        running+=($!)
    done
}
guest() {
    local status=0 running=()
    if [ "$SEALANE_RIG_GUEST" -eq 0 ]; then serve "$1"; else work "$@"; fi
    for one in "${running[@]}"; do wait "$one" || status=$?; done
    echo "RDMA packets sent: $(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)"
    exit $status
}
[ -z "${train_in_guest:-}" ] || guest "$train_in_guest" "$@"

# ---- outside ----

# shellcheck source=tests/house/verdict.sh
. "$rig/../house/verdict.sh"
"$rig/kernel.sh" --find >/dev/null # 77, and why, ends this here
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$rig/../../tools/make-certs.sh" "$work" >/dev/null
for ((rank = 0; rank < workers; rank++)); do
    "$rig/../../tools/make-certs.sh" "$work" --add "worker-$rank" client "uri:spiffe://sealane.test/worker/$rank" >/dev/null
done
"$bin/parameter-train" --alone --shards $shards --workers $workers "$@" >"$work/alone"
status=0
"$rig/run" --guests 2 --timeout "${SEALANE_RIG_SECONDS:-90}" --read "$work" -- \
    env train_in_guest="$work" bash "$rig/train_test.sh" "$bin" "$@" >"$work/out" 2>&1 </dev/null || status=$?
grep -E 'accuracy|RDMA|result' "$work/out" || true
verdict "all processes end well" "$status" "status $status: $(tail -n 20 "$work/out")"

result='test accuracy ([0-9.]+), .*'
accuracy=$(sed -nE "s/^1: result: $result over verbs\$/\1/p" "$work/out")
verdict "the workers say that RDMA carried it" "$([ -n "$accuracy" ]; echo $?)" "$(grep result "$work/out")"
alone=$(sed -nE "s/^result: $result\$/\1/p" "$work/alone")
awk -v a="${accuracy:-0}" -v b="$alone" 'BEGIN { exit !(a >= b - 0.01 && a <= b + 0.01) }' && good=0 || good=1
verdict "it learns what it learns in one process" "$good" "$accuracy, alone $alone"
lanes=$(grep -c '^0: .*, link verbs$' "$work/out" || true)
verdict "each server says so of each worker's lane" "$([ "$lanes" -eq $((shards * workers)) ]; echo $?)" "$lanes lanes"
for guest in 0 1; do
    packets=$(sed -nE "s/^$guest: RDMA packets sent: ([0-9]+)$/\1/p" "$work/out")
    verdict "RDMA packets left guest $guest" "$([ "${packets:-0}" -gt 1000 ]; echo $?)" "$packets"
done
closing
