#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that Sealane needs, by apt-get, where one is missing (as root, else by sudo).
#
#   tools/packages.sh run    to build the library and the examples, and to run the demo
#   tools/packages.sh test   that, and what the tests need
#   tools/packages.sh bench  the first, and what tools/bench.sh measures beside Sealane: gRPC C++
#   tools/packages.sh rig    what tests/rig needs: a kernel's source (140 MB), what builds it, RDMA programs and libraries
set -euo pipefail

case "${1:-}" in
run | test | bench | rig) ;;
-h | --help)
    sed -n '3,8s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
*)
    sed -n '3,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac

packages=(gcc libc6-dev make cmake pkg-config openssl protobuf-compiler protobuf-c-compiler libprotobuf-c-dev
    libprotobuf-dev libprotoc-dev libwolfssl-dev libibverbs-dev librdmacm-dev zlib1g-dev dataset-fashion-mnist)
if [ "$(uname -m)" = x86_64 ]; then
    packages+=(libipsec-mb-dev) # the CPU AEAD; elsewhere libcrypto
else
    packages+=(libssl-dev)
fi
if [ "$1" = test ]; then
    packages+=(g++ libcriterion-dev libjansson-dev libssl-dev ninja-build clang-14 libclang-rt-14-dev clang-format-14)
fi
if [ "$1" = bench ]; then
    packages+=(g++ libgrpc++-dev protobuf-compiler-grpc)
fi
if [ "$1" = rig ]; then
    packages=(linux-source-6.1 gcc libc6-dev make flex bison bc patch xz-utils iproute2 rdma-core ibverbs-providers ibverbs-utils
        rdmacm-utils perftest libibverbs-dev librdmacm-dev)
fi

missing() { # prints those that are not installed
    local package
    for package in "${packages[@]}"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || echo "$package"
    done
}

if ! command -v dpkg-query >/dev/null; then
    echo "packages: this is no Debian; install what these Debian packages hold: ${packages[*]}" >&2
    exit 1
fi
mapfile -t wanted < <(missing)
[ "${#wanted[@]}" -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "packages: neither root nor sudo; have root run: apt-get install ${wanted[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${wanted[@]}"; }

echo "packages: installing ${wanted[*]}"
# The lists may be old or absent: only then is the network asked for them.
if ! install >"$log" 2>&1 && ! { "${as_root[@]}" apt-get update >"$log" 2>&1 && install >>"$log" 2>&1; }; then
    tail -n 15 "$log" >&2
    echo "packages: apt-get could not install them (is there a network, and \"main\" in /etc/apt/sources.list?): ${wanted[*]}" >&2
    exit 1
fi
mapfile -t wanted < <(missing)
[ "${#wanted[@]}" -eq 0 ] || { echo "packages: apt-get succeeded, yet these are missing: ${wanted[*]}" >&2; exit 1; }
