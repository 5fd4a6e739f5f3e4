#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# house.arrows: the tree keeps its arrows, and a copy with one bad line in it does not pass.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")/../.." && pwd)
check=$source_dir/tools/check_arrows.sh
. "$(dirname "$0")/verdict.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$check" "$source_dir" && status=0 || status=$?
verdict "the tree keeps its arrows" "$status"

# A small tree of its own: what is refused here must not depend on what the real one holds today.
clean_tree() {
    rm -rf "$work/tree"
    mkdir -p "$work"/tree/{codegen,rpc,transport,gpu,examples/echo}
    echo '#include "transport/log.h"' >"$work/tree/transport/ring.c"
}

# bad <file> <line>: the line makes the check fail and the report names the file.
bad() {
    clean_tree
    printf '%s\n' '#include <stddef.h>' "$2" >"$work/tree/$1"
    report=$("$check" "$work/tree") && status=1 || status=0
    grep -q "^$1:[12]: " <<<"$report" || status=1
    verdict "refused: $1: $2" "$status"
}

good() {
    clean_tree
    printf '%s\n' '#include <stddef.h>' "$2" >"$work/tree/$1"
    "$check" "$work/tree" >"$work/report" && status=0 || status=1
    [ "$status" -eq 0 ] || cat "$work/report"
    verdict "allowed: $1: $2" "$status"
}

good rpc/call.c '#include "transport/lane.h"'
good rpc/call.c '#include <protobuf-c/protobuf-c.h>'
good transport/keys.c '#include <wolfssl/wolfcrypt/hmac.h>'
good transport/seal_openssl.c '#include <openssl/evp.h>'
good transport/link_verbs.c '#include <rdma/rdma_cma.h>'
good gpu/memory_cuda.c '#include <cuda.h>'
good gpu/memory_cuda.c '#include "transport/memory.h"'
good gpu/memory_cuda.c '#include <sealane_gpu.h>'
good examples/echo/server.c '#include "echo.sealane.h"'
good examples/echo/server.c '#include <sealane.h>'
good rpc/sealane.h '#include <sealane_transport.h>'
good codegen/model.c '#include <google/protobuf/compiler/plugin.pb-c.h>'

for header in link memory seal ring handshake keys frame lane_inside; do
    bad rpc/call.c "#include \"transport/$header.h\""
done
bad rpc/call.c '  #  include	"transport/link.h"'
bad rpc/call.c '#include "rpc/../transport/link.h"'
bad rpc/call.c '#include SOME_MACRO'
bad rpc/call.c '#include <wolfssl/ssl.h>'
bad rpc/call.c '#include <jansson.h>'
bad rpc/call.c '#include "codegen/names.h"'
bad transport/lane.c '#include "rpc/call.h"'
bad transport/lane.c '#include "gpu/memory_cuda.h"'
bad transport/lane.c '#include <sealane.h>'
bad transport/lane.c '#include <sealane_gpu.h>'
bad transport/lane.c '#include <protobuf-c/protobuf-c.h>'
bad transport/lane.c '#include <wolfssl/ssl.h>'
bad transport/lane.c '#include <intel-ipsec-mb.h>'
bad transport/seal_openssl.c '#include <wolfssl/ssl.h>'
bad transport/handshake.c '#include <openssl/ssl.h>'
bad transport/link_local.c '#include <infiniband/verbs.h>'
bad transport/memory_host.c '#include <cuda.h>'
bad gpu/memory_cuda.c '#include "transport/lane.h"'
bad codegen/main.c '#include "rpc/call.h"'
bad examples/echo/server.c '#include "transport/lane.h"'
bad examples/echo/server.c '#include <wolfssl/ssl.h>'
bad rpc/sealane.h '#include "transport/lane.h"'
bad rpc/sealane.h '#include <pthread.h>'
bad codegen/sealane_names.h '#include <stddef.h>'

# Nothing to look at is no proof.
rm -rf "$work/tree" && mkdir "$work/tree"
"$check" "$work/tree" >"$work/report" && status=1 || status=0
verdict "refused: an empty tree" "$status"

closing
