#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what the tests need, builds, and runs them. Ends with "N passed, N failed", and ", N skipped" when some were; fails when one
# failed or none ran.
#
#   tools/test.sh               everything, under ASan + UBSan, ThreadSanitizer (tests/race) and a short fuzz
#   tools/test.sh FILTER        the tests whose names match FILTER, a regular expression ("transport", "e2e.refusals")
#   tools/test.sh long MINUTES  everything, 2,000 hostile relays, then MINUTES (30) of fuzzing for each target and of soaking
#
# RDMA is tested in guests with soft devices (tests/rig), whose kernel is built once, and on a real device where there is one.
# SEALANE_NO_INSTALL=1 leaves packages alone.
set -euo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0 skipped=0

if [ -z "${SEALANE_NO_INSTALL:-}" ]; then
    tools/packages.sh test
    tools/packages.sh rig || echo "== the packages of the rig are missing"
fi

# build <preset>: Ninja and ccache where they are; a folder that exists keeps the generator it was made with.
build() {
    local options=()
    if [ ! -f "build/$1/CMakeCache.txt" ]; then
        [ -z "$(command -v ninja)" ] || options+=(-G Ninja)
        [ -z "$(command -v ccache)" ] || options+=(-DCMAKE_C_COMPILER_LAUNCHER=ccache)
    fi
    echo "== $1: build"
    cmake --preset "$1" "${options[@]}" >/dev/null
    cmake --build --preset "$1" -- --quiet
}

# check <preset> [ctest option …]: runs its tests and adds up what ctest counted.
check() {
    local preset=$1 status=0 bad=0 all=0 left=0 log
    shift
    log=build/$preset/test.log
    echo "== $preset: test"
    ctest --preset "$preset" -j 2 "$@" 2>&1 | tee "$log" || status=$?
    # "98% tests passed, 1 tests failed out of 50"; absent when ctest found no test or broke.
    read -r bad all < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$log") || true
    # Those count as passed there, and are listed: "          3 - rig.self (Skipped)".
    left=$(grep -cE '^[[:space:]]+[0-9]+ - .* \(Skipped\)$' "$log") || true
    if [ "$status" -ne 0 ] && [ "${bad:-0}" -eq 0 ]; then
        echo "$preset: no test ran, or ctest itself failed (status $status)"
        bad=1 all=$((${all:-0} + 1))
    fi
    passed=$((passed + all - bad - left))
    failed=$((failed + bad))
    skipped=$((skipped + left))
}

everything() {
    # The kernel of the guests in which RDMA is tested is built beside the rest, once; without it those tests are skipped.
    mkdir -p build
    nice tests/rig/kernel.sh >/dev/null 2>build/rig.log &
    local rig=$!
    build dev
    wait "$rig" || echo "== $(tail -n 1 build/rig.log)"
    check dev -LE soak
    build race
    check race -LE soak
    if [ -n "$(command -v clang-14)" ]; then
        build fuzz
        check fuzz
    else
        echo "== fuzz: no clang-14, only the corpora were replayed"
    fi
}

case "${1:-}" in
'') everything ;;
long)
    minutes=${2:-30}
    everything
    export SEALANE_FUZZ_SECONDS=$((minutes * 60)) SEALANE_SOAK_SECONDS=$((minutes * 60)) SEALANE_RELAY_ROUNDS=1000
    check dev -R e2e.relay
    check fuzz
    check dev -L soak
    check race -L soak
    ;;
*)
    build dev
    check dev -R "$1"
    ;;
esac

if [ "$skipped" -gt 0 ] && ! tests/rig/kernel.sh --find >/dev/null 2>&1; then
    echo "== RDMA was not tested in guests, as there is no kernel for them. On x86_64: tools/packages.sh rig, then tests/rig/kernel.sh (some minutes, once)"
fi
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
