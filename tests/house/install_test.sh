#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.install: what is installed is enough for a project of somebody else. Installs into a scratch folder, builds README's tour
# from there with find_package and with pkg-config, and runs it.
# Usage: install_test.sh <build folder> <C compiler> <C flags>
set -euo pipefail
build=$1 cc=$2 flags=$3
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
tour=$source_dir/tests/house/tour
passed=0

step() { # <what> <command…>
    local what=$1
    shift
    "$@" >"$work/log" 2>&1 || {
        cat "$work/log"
        echo "FAILED: $what"
        exit 1
    }
    passed=$((passed + 1))
}

work=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
step "install" cmake --install "$build" --prefix "$work/prefix"
step "configure with find_package" cmake -S "$tour" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$flags"
step "sealane-info" "$work/prefix/bin/sealane-info"
step "build" cmake --build "$work/build" -j 2

# The same by hand, as somebody without CMake does it.
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name sealane.pc)")
mkdir "$work/hand"
step "protoc" protoc --plugin="$(pkg-config --variable=plugin sealane)" -I"$tour" \
    -I"$(pkg-config --variable=idldir sealane)" --sealane_out="$work/hand" scale.proto
# shellcheck disable=SC2046,SC2086
step "pkg-config build" "$cc" $flags -I"$work/hand" -o "$work/hand/client" "$tour/client.c" "$work"/hand/*.c \
    $(pkg-config --cflags --libs sealane)

cd "$work/build"
step "certificates" "$source_dir/tools/make-certs.sh" certs
./server &
server=$!
for _ in $(seq 200); do
    [ ! -S tour.sock ] || break
    kill -0 "$server" || exit 1
    sleep 0.05
done
for client in "$work/build/client" "$work/hand/client"; do
    said=$("$client") || exit 1
    [ "$said" = "1.5 3 4.5 came back sealed" ] || {
        echo "FAILED: $client said: $said"
        exit 1
    }
    passed=$((passed + 1))
done
echo "$passed passed, 0 failed"
