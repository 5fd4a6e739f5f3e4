/* SPDX-License-Identifier: Apache-2.0 */
/* record_filter.h - looks at TLS records before the TLS library does, and refuses what no correct TLS 1.3 peer sends.
 *
 * wolfSSL 5.5.4 reads 64 KiB past its buffer when a protected record holds nothing but a tag (the pattern of CVE-2024-0901), and
 * accepts plaintext handshake bytes behind a ServerHello in the same record (CVE-2023-6937). Whatever version is linked, such bytes do not
 * reach it. Record layer: RFC 8446 section 5.
 */
#ifndef SL_RECORD_FILTER_H
#define SL_RECORD_FILTER_H

#include "transport/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SL_RECORD_HEADER_BYTES = 5,
    SL_MESSAGE_HEAD_BYTES = 4,       /* type and length of a handshake message */
    SL_FILTER_HANDSHAKE_MAX = 65536, /* bytes of a whole handshake, one way */
    SL_FILTER_CLIENT_HELLO_MAX = 4096
};

/* Zero before the first byte, then set `server` (bytes come from a client). */
struct sl_record_filter {
    bool server;
    bool protected; /* a protected record was seen: no plaintext handshake comes any more */
    uint8_t header[SL_RECORD_HEADER_BYTES];
    size_t header_bytes;
    size_t body_left; /* of the current record */
    size_t body_at;   /* bytes of it that were seen */
    uint8_t
        message[SL_MESSAGE_HEAD_BYTES]; /* head of the handshake message in a plaintext record */
    uint32_t total;
    bool change_seen;
};

/* Looks at the next bytes, in pieces of any size. DATA_LOSS says what was seen and expected; the bytes must then go nowhere. */
SEALANE_RESULT sl_record_filter_look(struct sl_record_filter *filter, const uint8_t *bytes,
                                     size_t count);

#endif
