#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds preset bench and measures: bench/unary (latency and rate of small calls) and bench/tensor (throughput of tensors), over link
# local and tcp, sealed and unsealed, with gRPC C++ over mutual TLS and raw sockets in turn beside them. About five minutes.
#
#   tools/bench.sh [unary|tensor] [--link local|tcp] [--regime free|pin|poll] [--alone] [--bytes N] [--outstanding N]
#                  [--seconds S] [--rounds N]
#
# Without --link both, without --regime all three, without --bytes the points that docs/MEASURING.md names; --alone leaves out
# gRPC and raw sockets. gRPC stands beside them only where its packages are; SEALANE_NO_INSTALL=1 keeps apt-get from being asked.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
-h | --help)
    sed -n '3,11p' "$0" | sed 's/^# \{0,1\}//'
    exit 0
    ;;
unary | tensor) programs=("$1"); shift ;;
*) programs=(unary tensor) ;;
esac
[ -n "${SEALANE_NO_INSTALL:-}" ] || tools/packages.sh bench

log=$(mktemp)
trap 'rm -f "$log"' EXIT
targets=(unary unary-unsealed tensor tensor-unsealed raw-peer)
build() { cmake --preset bench && cmake --build --preset bench --target "$@"; }
if ! build "${targets[@]}" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    exit 1
fi
if grep -q 'without gRPC' "$log"; then
    echo "# without gRPC C++: its packages are not all here"
elif ! build grpc-peer >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    exit 1
fi
tools/make-certs.sh build/bench/certs >/dev/null

version() { # package, as dpkg knows it
    dpkg-query -W -f "$1 \${Version}" "$1" 2>/dev/null || echo "$1 unknown"
}
echo "# sealane $(git describe --always --dirty 2>/dev/null || echo unknown), $(gcc --version | head -n 1)"
echo "# $(version libgrpc++-dev), $(version libssl3), $(version libipsec-mb-dev), $(version libwolfssl-dev)"
echo "# tcp congestion control of this host: $(cat /proc/sys/net/ipv4/tcp_congestion_control 2>/dev/null || echo unknown)"
for program in "${programs[@]}"; do
    build/bench/bin/"$program" --certs build/bench/certs "$@"
done
