/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - what a message slot holds. All little-endian.
 *
 *   slot      0  u32  sealed bytes: length of the ciphertext, without the tag     } clear, 16 bytes,
 *             4  12   zero                                                        } the AEAD's associated data
 *            16  n    ciphertext
 *          16+n  16   tag
 *
 *   plaintext 0  u64  acked: records of the other direction's message ring that were accepted
 *             8  u64  acked: records of the other direction's bulk ring that were opened or skipped
 *            16       records, one after the other; none at all: a credit-only frame
 *
 *   record    0  u8   type        2  u16 zero
 *             1  u8   flags       4  u32 body bytes
 *             8  u64  call id (0 where the record is of no call)
 *            16       body
 *
 *   CONFIRM   body: 48 bytes, the transcript's hash; the first record of each direction, and only that
 *   MESSAGE   flags FIRST 1, LAST 2, END 4; body: the next bytes of the call's message (rpc's head first)
 *   BULK      body: u32 part, u32 count, u64 offset, u64 bytes, u64 first bulk seq
 *   ALLOW     no body: parts of the call's message may come
 *   STATUS    body: u32 status, then its text
 *   CANCEL    body: u32 status, CANCELLED or DEADLINE_EXCEEDED
 *   PING      body: 8 bytes;   PONG  body: the same 8 bytes
 */
#ifndef SL_FRAME_H
#define SL_FRAME_H

#include "transport/bytes.h"
#include "transport/seal.h"

enum {
    SL_PREFIX_BYTES = 16,
    SL_FRAME_HEAD_BYTES = 16,
    SL_RECORD_HEAD_BYTES = 16,
    SL_FRAME_OVERHEAD = SL_PREFIX_BYTES + SL_FRAME_HEAD_BYTES + SL_TAG_BYTES,
    SL_BULK_BODY_BYTES = 32
};

enum sl_record_type {
    SL_RECORD_CONFIRM = 1,
    SL_RECORD_MESSAGE = 2,
    SL_RECORD_BULK = 3,
    SL_RECORD_ALLOW = 4,
    SL_RECORD_STATUS = 5,
    SL_RECORD_CANCEL = 6,
    SL_RECORD_PING = 7,
    SL_RECORD_PONG = 8
};

struct sl_record {
    uint8_t type;
    uint8_t flags;
    uint64_t call;
    const uint8_t *body;
    size_t bytes;
};

/* What a BULK record says of a run of chunks. */
struct sl_run {
    uint64_t call;
    uint32_t part;
    uint32_t count; /* chunks: all full but the last */
    uint64_t offset;
    uint64_t bytes;
    uint64_t seq; /* bulk seq of the first */
};

/* A frame under construction, in place in staging. */
struct sl_frame {
    uint8_t *slot;
    size_t used;  /* plaintext bytes so far, the head included */
    size_t limit; /* most plaintext bytes */
};

void sl_frame_begin(struct sl_frame *frame, uint8_t *slot, size_t slot_bytes);

/* Room for the body of one more record; 0 when not even its head fits. */
size_t sl_frame_room(const struct sl_frame *frame);

/* Appends; the caller looked at sl_frame_room. */
void sl_frame_add(struct sl_frame *frame, const struct sl_record *record);

/* Writes head and prefix; the plaintext is then ready to be sealed in place. Returns its length. */
size_t sl_frame_finish(struct sl_frame *frame, uint64_t acked_message, uint64_t acked_bulk);

static inline bool sl_frame_is_empty(const struct sl_frame *frame)
{
    return frame->used == SL_FRAME_HEAD_BYTES;
}

/* Checks a private copy of a prefix: length of the ciphertext, DATA_LOSS when it is short, does not fit a slot, or when what
 * must be zero is not. */
SEALANE_RESULT sl_prefix_parse(const uint8_t prefix[SL_PREFIX_BYTES], size_t slot_bytes,
                               size_t *sealed_p);

/* The next record of a private, verified plaintext. False at its end. DATA_LOSS is told by cursor->bad. */
bool sl_record_next(struct sl_cursor *cursor, struct sl_record *record);

/* BULK bodies. Parsing checks the arithmetic against the chunk size, not who it is for. */
void sl_run_write(const struct sl_run *run, uint8_t body[SL_BULK_BODY_BYTES]);
SEALANE_RESULT sl_run_parse(const struct sl_record *record, uint32_t chunk_bytes,
                            struct sl_run *run);

#endif
