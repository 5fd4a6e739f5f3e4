#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writes golden/*.sealane.[ch] anew. Look at the difference before it is committed: it is what users will see.
# Usage: refresh_golden.sh PLUGIN (build/dev/bin/protoc-gen-sealane)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for proto in "$here"/golden/*.proto; do
    protoc --plugin=protoc-gen-sealane="$1" -I"$here/golden" -I"$here/../../idl" --sealane_out="$out" "$(basename "$proto")"
done
cp "$out"/*.sealane.[ch] "$here/golden/"
