#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.symbols: what the library shows the world, and what it must not hold.
# Usage: symbols_test.sh <shared library> <static library> <object of seal_plain.c>
set -euo pipefail
shared=$1 static=$2 plain=$3
passed=0 failed=0

# expect_none <what> <text>: the text lists offenders; empty is good.
expect_none() {
    if [ -z "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s:\n%s\n' "$1" "$2"
    fi
}

expect_some() {
    if [ -n "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n' "$1"
    fi
}

# Well-known types (google__protobuf__) are the library's too: what is generated for users links with them.
# __odr_asan.… is AddressSanitizer's own.
public='^(sealane_|google__protobuf__)'
exported=$(nm -D --defined-only "$shared" | awk '$3 !~ /^__odr_asan/ {print $3}')
expect_some "the shared library exports sealane_channel_new" "$(grep -x sealane_channel_new <<<"$exported")"
expect_some "the shared library exports what reads a sealane.Tensor" "$(grep -x sealane__tensor__descriptor <<<"$exported")"
expect_none "exported, but not public by its name" "$(grep -vE "$public" <<<"$exported")"

global=$(nm --defined-only "$static" 2>/dev/null | awk 'NF == 3 && $2 ~ /[A-TV-Z]/ && $3 !~ /^__odr_asan/ {print $3}')
expect_some "the static library has what rooms share" "$(grep -m 1 '^sl_' <<<"$global")"
expect_none "global names that are neither sealane_ nor sl_" "$(grep -vE "$public|^sl_" <<<"$global")"

# Unsealed running exists in the bench library alone: neither its name nor its marker is in the product.
marker='PLAIN (unsealed)'
expect_some "the marker of unsealed running is in seal_plain.c's object" "$(strings -a "$plain" | grep -F "$marker")"
for product in "$shared" "$static"; do
    expect_none "$product knows unsealed running" "$(strings -a "$product" | grep -F "$marker")"
    expect_none "$product was made from seal_plain.c" "$(nm -A "$product" 2>/dev/null | grep seal_plain)"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
