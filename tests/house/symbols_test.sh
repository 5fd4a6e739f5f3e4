#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.symbols: what the library shows the world, and what it must not hold.
# Usage: symbols_test.sh <shared library> <static library> <object of seal_plain.c>
set -euo pipefail
shared=$1 static=$2 plain=$3
. "$(dirname "$0")/verdict.sh"

# The text lists offenders: empty is good.
expect_none() { # <what> <text>
    [ -z "$2" ] && status=0 || status=1
    verdict "no $1" "$status" "$2"
}

expect_some() { # <what> <text>
    [ -n "$2" ] && status=0 || status=1
    verdict "$1" "$status"
}

# Well-known types (google__protobuf__) are the library's too: what is generated for users links with them.
# __odr_asan.… is AddressSanitizer's own.
public='^(sealane_|google__protobuf__)'
exported=$(nm -D --defined-only "$shared" | awk '$3 !~ /^__odr_asan/ {print $3}')
expect_some "the shared library exports sealane_channel_new" "$(grep -x sealane_channel_new <<<"$exported")"
expect_some "the shared library exports what reads a sealane.Tensor" "$(grep -x sealane__tensor__descriptor <<<"$exported")"
expect_none "exported name that is not public" "$(grep -vE "$public" <<<"$exported")"

global=$(nm --defined-only "$static" 2>/dev/null | awk 'NF == 3 && $2 ~ /[A-TV-Z]/ && $3 !~ /^__odr_asan/ {print $3}')
expect_some "the static library has what rooms share" "$(grep -m 1 '^sl_' <<<"$global")"
expect_none "global name that is neither sealane_ nor sl_" "$(grep -vE "$public|^sl_" <<<"$global")"

# Unsealed running exists in the bench library alone: neither its name nor its marker is in the product.
marker='PLAIN (unsealed)'
expect_some "the marker of unsealed running is in seal_plain.c's object" "$(strings -a "$plain" | grep -F "$marker")"
for product in "$shared" "$static"; do
    expect_none "marker of unsealed running in $product" "$(strings -a "$product" | grep -F "$marker")"
    expect_none "seal_plain.c in $product" "$(nm -A "$product" 2>/dev/null | grep seal_plain)"
done

closing
