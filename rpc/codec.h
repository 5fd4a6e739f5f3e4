/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - a call's message on a lane: a head, then protobuf bytes, in one piece; tensors beside it as parts.
 *
 *    0  u32  head bytes, this word included
 *    4  u32  message bytes (protobuf, after the head)
 *    8  u64  time left until the deadline in ns; 0: no deadline (always 0 in replies)
 *   16  u16  path bytes (0 in replies)
 *   18  u16  parts, at most 4096
 *   20       path: "/package.Service/Method"
 *            per part: u64 bytes (not 0), u8 steps (at most 32), per step u32 field number, u32 index
 *
 * Everything little-endian. A head that does not fill its bytes exactly ends the lane: only a broken peer writes one.
 */
#ifndef SL_CODEC_H
#define SL_CODEC_H

#include "rpc/tensor.h"

enum {
    SL_HEAD_FIXED = 20,
    SL_METHOD_PATH_MAX = 1024,
    SL_HEAD_MAX = SL_HEAD_FIXED + SL_METHOD_PATH_MAX + SL_PARTS_MAX * (9 + SL_PATH_STEPS * 8),
    /* What an unpacked message may take, in units of max_message_bytes (and 1 MiB): protobuf-c makes 40 times its size of a
     * message that is nothing but empty messages, two to four times of an ordinary one. */
    SL_UNPACK_FACTOR = 32
};

struct sl_head {
    uint32_t head_bytes;
    uint32_t message_bytes;
    uint64_t timeout_ns;
    const char *path; /* not NUL-terminated, borrowed from the bytes */
    uint16_t path_bytes;
    uint16_t part_count;
    const uint8_t *parts; /* their table */
};

struct sl_packed {
    uint8_t *bytes;
    size_t count;
    const struct sl_part *parts;
    size_t part_count;
};

/* The two sums at the front: how much will come. DATA_LOSS when they cannot be. */
SEALANE_RESULT sl_head_sizes(const uint8_t *bytes, size_t count, uint32_t *head_bytes_p,
                             uint32_t *message_bytes_p);

/* A whole message's head. DATA_LOSS when it lies. */
SEALANE_RESULT sl_head_parse(const uint8_t *bytes, size_t count, struct sl_head *head_p);

/* The next part of the table; the table was checked by sl_head_parse. */
uint64_t sl_head_next_part(struct sl_head *head, struct sl_path *path);

/* In packed bytes that have not left yet. */
void sl_head_set_timeout(uint8_t *bytes, uint64_t timeout_ns);

/* Packs head and message into the arena. `method` is NULL for replies. INVALID_ARGUMENT for tensors, RESOURCE_EXHAUSTED naming
 * max_message_bytes. */
struct sl_pack_options {
    const char *method;
    uint64_t timeout_ns;
    uint32_t max_message_bytes;
};
SEALANE_RESULT sl_codec_pack(struct sl_call_arena *arena, const ProtobufCMessage *message,
                             const struct sl_pack_options *options, struct sl_packed *packed_p);

/* Unpacks into the arena after checking nesting. INVALID_ARGUMENT; RESOURCE_EXHAUSTED when it needs more than the arena gives. */
SEALANE_RESULT sl_codec_unpack(struct sl_call_arena *arena, const ProtobufCMessageDescriptor *type,
                               const uint8_t *bytes, size_t count, ProtobufCMessage **message_p);

#endif
