/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - heads and protobuf-c. */
#include "rpc/codec.h"

#include "transport/bytes.h"

/* ---- reading ---- */

SEALANE_RESULT sl_head_sizes(const uint8_t *bytes, size_t count, uint32_t *head_bytes_p,
                             uint32_t *message_bytes_p)
{
    struct sl_cursor cursor = {.at = bytes, .left = count};
    uint32_t head_bytes = sl_cursor_u32(&cursor);
    uint32_t message_bytes = sl_cursor_u32(&cursor);

    if (cursor.bad || head_bytes < SL_HEAD_FIXED || head_bytes > SL_HEAD_MAX)
        return SL_FAIL(
            SEALANE_DATA_LOSS,
            "a message begins with %zu bytes and a head of %u, expected a head of %d to %d", count,
            head_bytes, SL_HEAD_FIXED, SL_HEAD_MAX);
    *head_bytes_p = head_bytes;
    *message_bytes_p = message_bytes;
    return SEALANE_OK;
}

/* Walks the table of parts once. */
static bool parts_are_good(struct sl_cursor cursor, unsigned parts)
{
    for (unsigned p = 0; p < parts; p++) {
        uint64_t bytes = sl_cursor_u64(&cursor);
        uint8_t steps = sl_cursor_u8(&cursor);

        if (bytes == 0 || steps > SL_PATH_STEPS || !sl_cursor_take(&cursor, (size_t)steps * 8))
            return false;
    }
    return !cursor.bad && cursor.left == 0;
}

SEALANE_RESULT sl_head_parse(const uint8_t *bytes, size_t count, struct sl_head *head_p)
{
    struct sl_head head = {.path = NULL};
    struct sl_cursor cursor;

    SL_TRY(sl_head_sizes(bytes, count, &head.head_bytes, &head.message_bytes));
    if (count != (size_t)head.head_bytes + head.message_bytes)
        return SL_FAIL(SEALANE_DATA_LOSS, "a message has %zu bytes, its head says %u and %u", count,
                       head.head_bytes, head.message_bytes);
    cursor = (struct sl_cursor){.at = bytes + 8, .left = head.head_bytes - 8};
    head.timeout_ns = sl_cursor_u64(&cursor);
    head.path_bytes = sl_cursor_u16(&cursor);
    head.part_count = sl_cursor_u16(&cursor);
    head.path = (const char *)sl_cursor_take(&cursor, head.path_bytes);
    head.parts = cursor.at;
    if (cursor.bad || head.path_bytes > SL_METHOD_PATH_MAX || head.part_count > SL_PARTS_MAX ||
        !parts_are_good(cursor, head.part_count))
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a head of %u bytes does not hold a path of %u bytes and %u parts exactly",
                       head.head_bytes, head.path_bytes, head.part_count);
    *head_p = head;
    return SEALANE_OK;
}

uint64_t sl_head_next_part(struct sl_head *head, struct sl_path *path)
{
    uint64_t bytes = sl_get64(head->parts);

    path->count = head->parts[8];
    head->parts += 9;
    for (unsigned s = 0; s < path->count; s++, head->parts += 8)
        path->steps[s] = (struct sl_step){sl_get32(head->parts), sl_get32(head->parts + 4)};
    return bytes;
}

/* ---- wire bytes ----
 *
 * protobuf-c's unpacker recurses without a limit, about 0.9 KB of stack per level: nesting is bounded before it runs. */

static uint64_t read_varint(struct sl_cursor *cursor)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        uint8_t byte = sl_cursor_u8(cursor);

        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    cursor->bad = true;
    return 0;
}

static SEALANE_RESULT wire_check(const ProtobufCMessageDescriptor *type, struct sl_cursor *cursor,
                                 unsigned depth);

static SEALANE_RESULT wire_field(const ProtobufCMessageDescriptor *type, struct sl_cursor *cursor,
                                 unsigned depth)
{
    uint64_t key = read_varint(cursor);
    const ProtobufCFieldDescriptor *field;
    struct sl_cursor inner;

    switch (key & 7) {
    case 0:
        (void)read_varint(cursor);
        return SEALANE_OK;
    case 1:
        (void)sl_cursor_take(cursor, 8);
        return SEALANE_OK;
    case 5:
        (void)sl_cursor_take(cursor, 4);
        return SEALANE_OK;
    case 2:
        inner = (struct sl_cursor){.left = (size_t)read_varint(cursor)};
        inner.at = sl_cursor_take(cursor, inner.left);
        field = cursor->bad || key >> 3 > INT32_MAX
                    ? NULL
                    : protobuf_c_message_descriptor_get_field(type, (unsigned)(key >> 3));
        if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
            return wire_check(field->descriptor, &inner, depth + 1);
        return SEALANE_OK;
    default:
        cursor->bad = true;
        return SEALANE_OK;
    }
}

static SEALANE_RESULT wire_check(const ProtobufCMessageDescriptor *type, struct sl_cursor *cursor,
                                 unsigned depth)
{
    if (depth > SL_DEPTH_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a message is nested deeper than %d levels",
                       SL_DEPTH_MAX);
    while (cursor->left > 0 && !cursor->bad)
        SL_TRY(wire_field(type, cursor, depth));
    if (cursor->bad)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "the bytes of a %s are no protobuf", type->name);
    return SEALANE_OK;
}

SEALANE_RESULT sl_codec_unpack(struct sl_call_arena *arena, const ProtobufCMessageDescriptor *type,
                               const uint8_t *bytes, size_t count, ProtobufCMessage **message_p)
{
    struct sl_cursor cursor = {.at = bytes, .left = count};
    ProtobufCMessage *message;

    SL_TRY(wire_check(type, &cursor, 1));
    message = protobuf_c_message_unpack(type, &arena->allocator, count, bytes);
    if (!message && arena->peer_refused)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "a %s of %zu bytes takes more memory than %d times max_message_bytes",
                       type->name, count, SL_UNPACK_FACTOR);
    if (!message)
        return SL_FAIL(
            SEALANE_INVALID_ARGUMENT,
            "%zu bytes cannot be unpacked as %s: a wrong wire type or a missing required field",
            count, type->name);
    *message_p = message;
    return SEALANE_OK;
}

/* ---- writing ---- */

void sl_head_set_timeout(uint8_t *bytes, uint64_t timeout_ns)
{
    sl_put64(bytes + 8, timeout_ns);
}

static size_t head_bytes_of(const struct sl_leavings *leavings, size_t path_bytes)
{
    size_t bytes = SL_HEAD_FIXED + path_bytes;

    for (const struct sl_leaving *leaving = leavings->first; leaving; leaving = leaving->next)
        bytes += 9 + (size_t)leaving->path.count * 8;
    return bytes;
}

static void parts_write(const struct sl_leavings *leavings, uint8_t *at, struct sl_part *parts)
{
    for (const struct sl_leaving *leaving = leavings->first; leaving; leaving = leaving->next) {
        *parts++ = leaving->part;
        sl_put64(at, leaving->part.bytes);
        at[8] = leaving->path.count;
        at += 9;
        for (unsigned s = 0; s < leaving->path.count; s++, at += 8) {
            sl_put32(at, leaving->path.steps[s].field);
            sl_put32(at + 4, leaving->path.steps[s].index);
        }
    }
}

SEALANE_RESULT sl_codec_pack(struct sl_call_arena *arena, const ProtobufCMessage *message,
                             const struct sl_pack_options *options, struct sl_packed *packed_p)
{
    size_t path_bytes = options->method ? strlen(options->method) : 0;
    const ProtobufCMessage *stripped;
    struct sl_leavings leavings;
    struct sl_part *parts;
    size_t head_bytes, message_bytes;
    uint8_t *bytes;

    SL_TRY(sl_tensors_take_out(arena, message, &stripped, &leavings));
    message_bytes = protobuf_c_message_get_packed_size(stripped);
    head_bytes = head_bytes_of(&leavings, path_bytes);
    if (message_bytes > options->max_message_bytes)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "a %s has %zu bytes, max_message_bytes allows %u", message->descriptor->name,
                       message_bytes, options->max_message_bytes);
    if (path_bytes > SL_METHOD_PATH_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a method's path has %zu bytes, at most %d may be",
                       path_bytes, SL_METHOD_PATH_MAX);
    bytes = sl_call_arena_alloc(arena, head_bytes + message_bytes);
    parts = sl_call_arena_alloc(arena, (leavings.count + 1) * sizeof(*parts));
    if (!bytes || !parts)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory to pack %zu bytes",
                       head_bytes + message_bytes);
    sl_put32(bytes, (uint32_t)head_bytes);
    sl_put32(bytes + 4, (uint32_t)message_bytes);
    sl_head_set_timeout(bytes, options->timeout_ns);
    sl_put16(bytes + 16, (uint16_t)path_bytes);
    sl_put16(bytes + 18, (uint16_t)leavings.count);
    if (path_bytes > 0)
        memcpy(bytes + SL_HEAD_FIXED, options->method, path_bytes);
    parts_write(&leavings, bytes + SL_HEAD_FIXED + path_bytes, parts);
    (void)protobuf_c_message_pack(stripped, bytes + head_bytes);
    *packed_p = (struct sl_packed){bytes, head_bytes + message_bytes, parts, leavings.count};
    return SEALANE_OK;
}
