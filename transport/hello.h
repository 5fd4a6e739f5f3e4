/* SPDX-License-Identifier: Apache-2.0 */
/* hello.h - the three messages inside TLS that agree on a lane, and the hash that binds its keys to them.
 *
 *   client HELLO  0 u16 version 1    2 u8 AEADs n <= 8   3 u8 zero   4 u8[8] AEADs, best first, zero-filled
 *                12 u8[32] random   44 geometry         60 u32 max_calls   64 u32 eager_bytes
 *                68 u8 message epoch shift   69 u8 bulk epoch shift   70 u16 zero                            (72 bytes)
 *   server HELLO  0 u16 version 1    2 u8 message AEAD   3 u8 bulk AEAD    4 u32 status: 0 accepted, else why not
 *                 8 u8[32] random   40 geometry         56 u32 max_calls   60 u32 eager_bytes
 *                64 u8 message epoch shift   65 u8 bulk epoch shift   66 u16 text bytes (at most 512)
 *                68 u8[32] grant of the message ring   100 u8[32] grant of the bulk ring   132 text   (132 + text bytes)
 *   client RINGS  0 u8[32] grant of the message ring    32 u8[32] grant of the bulk ring                      (64 bytes)
 *   geometry      0 u32 message slot bytes   4 u32 message slots   8 u32 bulk chunk bytes   12 u32 bulk slots
 *
 * Each side's geometry is that of its own rings. The server's epoch shifts count: the smaller of both wishes.
 * Transcript hash: SHA-384("sealane lane v1" || client HELLO || server HELLO || client RINGS || SHA-256 of the client's leaf
 * certificate || of the server's || "sealane/1").
 */
#ifndef SL_HELLO_H
#define SL_HELLO_H

#include "transport/handshake.h"
#include "transport/link.h"

enum {
    SL_HELLO_VERSION = 1,
    SL_HELLO_AEADS_MAX = 8,
    SL_HELLO_RANDOM_BYTES = 32,
    SL_HELLO_CLIENT_BYTES = 72,
    SL_HELLO_SERVER_BYTES = 132, /* without text */
    SL_HELLO_TEXT_MAX = 512,
    SL_RINGS_BYTES = 64,
    SL_BULK_HEAD_BYTES = 128 /* of a bulk slot: tag and zeros, so that ciphertext is aligned */
};

struct sl_hello_geometry {
    uint32_t message_slot_bytes;
    uint32_t message_slots;
    uint32_t bulk_chunk_bytes;
    uint32_t bulk_slots;
};

struct sl_hello {
    struct sl_hello_geometry geometry;
    uint32_t max_calls;
    uint32_t eager_bytes;
    uint8_t shift[SL_RING_COUNT];
    uint8_t random[SL_HELLO_RANDOM_BYTES];
    /* client's */
    uint8_t aeads[SL_HELLO_AEADS_MAX];
    uint8_t aead_count;
    /* server's */
    uint8_t aead[SL_RING_COUNT];
    uint32_t refusal; /* an enum sealane_status */
    char text[SL_HELLO_TEXT_MAX + 1];
    uint8_t grant[SL_RING_COUNT][SL_GRANT_BYTES];
};

/* Bytes kept for the transcript. */
struct sl_hello_bytes {
    uint8_t at[SL_HELLO_SERVER_BYTES + SL_HELLO_TEXT_MAX];
    size_t count;
};

void sl_hello_write_client(const struct sl_hello *hello, struct sl_hello_bytes *out);
void sl_hello_write_server(const struct sl_hello *hello, struct sl_hello_bytes *out);
void sl_rings_write(const struct sl_hello *hello, struct sl_hello_bytes *out);

/* DATA_LOSS for wrong lengths and bits that must be zero, OUT_OF_RANGE for a geometry or number outside what sealane
 * allows, UNIMPLEMENTED for another version. */
SEALANE_RESULT sl_hello_parse_client(const uint8_t *bytes, size_t count, struct sl_hello *hello);
SEALANE_RESULT sl_hello_parse_server(const uint8_t *bytes, size_t count, struct sl_hello *hello);
SEALANE_RESULT sl_rings_parse(const uint8_t *bytes, size_t count, struct sl_hello *hello);

/* INVALID_ARGUMENT naming the option when a geometry of ours is outside what sealane allows. */
SEALANE_RESULT sl_geometry_check(const struct sl_hello_geometry *geometry);

SEALANE_RESULT sl_hello_transcript(const struct sl_hello_bytes messages[3],
                                   const uint8_t *client_leaf, const uint8_t *server_leaf,
                                   uint8_t hash[SL_HASH_BYTES]);

#endif
