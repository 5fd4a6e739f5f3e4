#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the request parser and model of protoc-gen-sealane with libFuzzer, from the committed corpus.
# Usage: run_codegen_fuzz.sh BUILD_DIR [seconds]; BUILD_DIR holds a configured and built tree (for the generated descriptors).
# What it finds is left in BUILD_DIR/fuzz; a reproducer belongs into tests/fuzz/codegen_corpus once the bug is fixed.
set -eu
build=$(cd "$1" && pwd) seconds=${2:-60}
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
work=$build/fuzz/codegen
mkdir -p "$work/new"
cd "$work"
protos=$build/codegen/protos
rooms=$(ls "$source_dir"/codegen/*.c | grep -vE '/(main|messages|child)\.c$')
"${CLANG:-clang-14}" -g -O1 -std=c11 -D_GNU_SOURCE -w -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    -I"$source_dir" -I"$protos" "$source_dir/tests/fuzz/codegen_fuzz.c" $rooms \
    "$protos/google/protobuf/descriptor.pb-c.c" "$protos/google/protobuf/compiler/plugin.pb-c.c" -lprotobuf-c -o codegen_fuzz
./codegen_fuzz -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 new "$source_dir/tests/fuzz/codegen_corpus"
