#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that no file includes what its room may not (docs/ARCHITECTURE.md, "Rooms and arrows").
# Usage: tools/check_arrows.sh [tree]; prints one line per offence and a closing line, fails when there is an offence.
set -euo pipefail
export LC_ALL=C # character classes in patterns mean ASCII
tree=${1:-$(dirname "$0")/..}
cd "$tree"

# What the C library, the kernel and the compiler bring; any room.
libc=' arpa/inet.h assert.h ctype.h dirent.h dlfcn.h endian.h errno.h fcntl.h fenv.h float.h getopt.h inttypes.h
 limits.h math.h net/if.h netdb.h netinet/in.h netinet/tcp.h poll.h pthread.h sched.h semaphore.h signal.h spawn.h stdalign.h
 stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h stdnoreturn.h string.h strings.h threads.h time.h
 unistd.h wchar.h immintrin.h cpuid.h ifaddrs.h net/if_arp.h linux/capability.h linux/dma-buf.h linux/futex.h linux/magic.h linux/memfd.h linux/mman.h linux/udmabuf.h sanitizer/asan_interface.h '

# libc_has <header>
libc_has() {
    [[ $1 == sys/*.h || ${libc//$'\n'/ } == *" $1 "* ]]
}

# room_may <room> <file name> <include as written, quotes or angles included>: the table. Later rooms never reach into earlier
# ones; each outside package is known to the files named here and to no other.
room_may() {
    local door='<sealane.h>|<sealane_transport.h>|<sealane_status.h>|<sealane_gpu.h>|<sealane/tensor.pb-c.h>'
    case "$1:$2:$3" in
    codegen:*:\"codegen/*\") ;;
    codegen:*:'<protobuf-c/'*'>' | codegen:*:'<google/protobuf/'*'.pb-c.h>') ;;

    rpc:*:\"rpc/*\") ;;
    rpc:*:\"transport/bytes.h\" | rpc:*:\"transport/lane.h\" | rpc:*:\"transport/log.h\") ;;
    rpc:*:\"transport/node.h\" | rpc:*:\"transport/route.h\" | rpc:*:\"transport/status.h\") ;;
    rpc:*:'<sealane.h>' | rpc:*:'<sealane_transport.h>' | rpc:*:'<sealane_status.h>') ;;
    rpc:*:'<sealane/tensor.pb-c.h>' | rpc:*:'<protobuf-c/'*'>') ;;

    transport:*:\"transport/*\") ;;
    transport:*:'<sealane_transport.h>' | transport:*:'<sealane_status.h>') ;;
    transport:credentials.c:'<wolfssl/'* | transport:handshake.c:'<wolfssl/'* | transport:keys.c:'<wolfssl/'*) ;;
    transport:seal_ipsecmb.c:'<intel-ipsec-mb.h>' | transport:seal_openssl.c:'<openssl/'*) ;;
    transport:link_verbs*:'<infiniband/'* | transport:link_verbs*:'<rdma/'*) ;;

    gpu:*:\"gpu/*\") ;;
    gpu:*:\"transport/memory.h\" | gpu:*:\"transport/seal.h\" | gpu:*:\"transport/status.h\") ;;
    gpu:*:'<cuda'*) ;;

    examples:*:\"*/*\") return 1 ;; # a path into a room
    examples:*:\"*.h\") ;;          # the example's own and what is generated
    examples:*:'<zlib.h>' | examples:*:'<cuda'*) ;;
    gpu:* | examples:*) [[ "|$door|" == *"|$3|"* ]] ;;
    *) return 1 ;;
    esac
}

# door_may <include>: public headers are read by programs that have nothing but what is installed.
door_may() {
    [[ $1 =~ ^\<(sealane(_[a-z]+)?\.h|sealane/tensor\.pb-c\.h|protobuf-c/protobuf-c\.h|std(bool|def|int)\.h)\>$ ]]
}

offences=0 files=0
offence() {
    echo "$1"
    offences=$((offences + 1))
}

while IFS= read -r path; do
    room=${path%%/*} name=${path##*/}
    files=$((files + 1))
    if [[ $name == sealane*.h && $room =~ ^(codegen|examples)$ ]]; then
        offence "$path:1: sealane*.h names a public header; $room/ has none"
    fi
    while IFS=: read -r line text; do
        [[ $text =~ ^[[:space:]]*\#[[:space:]]*include[[:space:]]*(\"[^\"]+\"|\<[^\>]+\>) ]] || {
            offence "$path:$line: an #include that is neither \"file\" nor <file>"
            continue
        }
        what=${BASH_REMATCH[1]}
        if [[ $what == *..* ]]; then
            offence "$path:$line: $what climbs out of its folder"
        elif [[ $name == sealane*.h ]]; then
            door_may "$what" || offence "$path:$line: a public header may not include $what"
        elif ! { [[ $what == \<* ]] && libc_has "${what:1:-1}"; } && ! room_may "$room" "$name" "$what"; then
            offence "$path:$line: $room/ may not include $what"
        fi
    done < <(grep -nE '^[[:space:]]*(#|%:)[[:space:]]*(include|import)' "$path" || true)
done < <(find codegen rpc transport gpu examples -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | sort)

# An empty tree would pass every check above.
[ "$files" -gt 0 ] || offence "$tree: no source file found"
echo "arrows: $files files, $offences offences"
[ "$offences" -eq 0 ]
