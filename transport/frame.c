/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c - writing and reading frames and records, always in private memory. */
#include "transport/frame.h"

void sl_frame_begin(struct sl_frame *frame, uint8_t *slot, size_t slot_bytes)
{
    frame->slot = slot;
    frame->used = SL_FRAME_HEAD_BYTES;
    frame->limit = slot_bytes - SL_PREFIX_BYTES - SL_TAG_BYTES;
}

size_t sl_frame_room(const struct sl_frame *frame)
{
    size_t left = frame->limit - frame->used;
    return left > SL_RECORD_HEAD_BYTES ? left - SL_RECORD_HEAD_BYTES : 0;
}

void sl_frame_add(struct sl_frame *frame, const struct sl_record *record)
{
    uint8_t *at = frame->slot + SL_PREFIX_BYTES + frame->used;

    at[0] = record->type;
    at[1] = record->flags;
    sl_put16(at + 2, 0);
    sl_put32(at + 4, (uint32_t)record->bytes);
    sl_put64(at + 8, record->call);
    if (record->bytes > 0)
        memcpy(at + SL_RECORD_HEAD_BYTES, record->body, record->bytes);
    frame->used += SL_RECORD_HEAD_BYTES + record->bytes;
}

size_t sl_frame_finish(struct sl_frame *frame, uint64_t acked_message, uint64_t acked_bulk)
{
    memset(frame->slot, 0, SL_PREFIX_BYTES);
    sl_put32(frame->slot, (uint32_t)frame->used);
    sl_put64(frame->slot + SL_PREFIX_BYTES, acked_message);
    sl_put64(frame->slot + SL_PREFIX_BYTES + 8, acked_bulk);
    return frame->used;
}

SEALANE_RESULT sl_prefix_parse(const uint8_t prefix[SL_PREFIX_BYTES], size_t slot_bytes,
                               size_t *sealed_p)
{
    size_t sealed = sl_get32(prefix);
    size_t most = slot_bytes - SL_PREFIX_BYTES - SL_TAG_BYTES;
    uint8_t rest = 0;

    if (sealed < SL_FRAME_HEAD_BYTES || sealed > most)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "a frame says it holds %zu sealed bytes, expected %d to %zu", sealed,
                       SL_FRAME_HEAD_BYTES, most);
    for (int i = 4; i < SL_PREFIX_BYTES; i++)
        rest |= prefix[i];
    if (rest != 0)
        return SL_FAIL(SEALANE_DATA_LOSS, "a frame's prefix has bits set that must be zero");
    *sealed_p = sealed;
    return SEALANE_OK;
}

bool sl_record_next(struct sl_cursor *cursor, struct sl_record *record)
{
    uint16_t zero;

    if (cursor->left == 0 || cursor->bad)
        return false;
    record->type = sl_cursor_u8(cursor);
    record->flags = sl_cursor_u8(cursor);
    zero = sl_cursor_u16(cursor);
    record->bytes = sl_cursor_u32(cursor);
    record->call = sl_cursor_u64(cursor);
    record->body = sl_cursor_take(cursor, record->bytes);
    if (zero != 0)
        cursor->bad = true;
    return !cursor->bad;
}

void sl_run_write(const struct sl_run *run, uint8_t body[SL_BULK_BODY_BYTES])
{
    sl_put32(body, run->part);
    sl_put32(body + 4, run->count);
    sl_put64(body + 8, run->offset);
    sl_put64(body + 16, run->bytes);
    sl_put64(body + 24, run->seq);
}

SEALANE_RESULT sl_run_parse(const struct sl_record *record, uint32_t chunk_bytes,
                            struct sl_run *run)
{
    struct sl_cursor cursor = {.at = record->body, .left = record->bytes};
    uint64_t most;

    run->call = record->call;
    run->part = sl_cursor_u32(&cursor);
    run->count = sl_cursor_u32(&cursor);
    run->offset = sl_cursor_u64(&cursor);
    run->bytes = sl_cursor_u64(&cursor);
    run->seq = sl_cursor_u64(&cursor);
    if (cursor.bad || cursor.left != 0)
        return SL_FAIL(SEALANE_DATA_LOSS, "a BULK record has %zu bytes, expected %d", record->bytes,
                       SL_BULK_BODY_BYTES);
    most = (uint64_t)run->count * chunk_bytes;
    if (run->count == 0 || run->bytes > most || run->bytes <= most - chunk_bytes)
        return SL_FAIL(SEALANE_DATA_LOSS, "a BULK record has %llu bytes in %u chunks of at most %u",
                       (unsigned long long)run->bytes, run->count, chunk_bytes);
    if (run->offset + run->bytes < run->offset)
        return SL_FAIL(SEALANE_DATA_LOSS, "a BULK record ends past the last 64-bit offset");
    return SEALANE_OK;
}
