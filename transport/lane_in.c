/* SPDX-License-Identifier: Apache-2.0 */
/* lane_in.c - frames in: copied out of our message ring once, opened in private memory, and taken apart. Whatever a peer can do
 * wrong here ends the lane, and only the lane. */
#include "transport/lane_inside.h"

#include "transport/log.h"

enum {
    FRAMES_PER_TURN = 32 /* then other lanes have theirs, whatever these frames make us do */
};

static void found_allow(struct sl_lane *lane, uint64_t call)
{
    struct sl_sends *waiting = sl_lane_waiting(lane, call);

    for (struct sl_send *send = waiting->first; send; send = send->next) {
        if (send->call != call)
            continue;
        send->allowed = true;
        sl_sends_remove(waiting, send);
        send->state = SL_SEND_BULK;
        sl_sends_push(&lane->bulk, send);
        return;
    }
    /* Ended meanwhile: nothing to allow any more. */
}

static SEALANE_RESULT tell_status(struct sl_lane *lane, const struct sl_record *record)
{
    struct sl_cursor cursor = {.at = record->body, .left = record->bytes};
    uint32_t status = sl_cursor_u32(&cursor);
    bool is_cancel = record->type == SL_RECORD_CANCEL;
    struct sl_lane_event event = {.kind = is_cancel ? SL_LANE_CANCEL : SL_LANE_STATUS,
                                  .call = record->call,
                                  .status = (enum sealane_status)status,
                                  .bytes = cursor.at,
                                  .count = cursor.left};

    if (cursor.bad || status > SEALANE_UNAUTHENTICATED || cursor.left > SL_STATUS_TEXT_MAX ||
        (is_cancel && cursor.left > 0))
        return SL_FAIL(SEALANE_DATA_LOSS, "a %s record has %zu bytes and status %u",
                       is_cancel ? "CANCEL" : "STATUS", record->bytes, status);
    sl_lane_tell(lane, &event);
    return SEALANE_OK;
}

static SEALANE_RESULT tell_message(struct sl_lane *lane, const struct sl_record *record)
{
    struct sl_lane_event event = {.kind = SL_LANE_MESSAGE,
                                  .call = record->call,
                                  .flags = record->flags,
                                  .bytes = record->body,
                                  .count = record->bytes};
    bool ends_early = (record->flags & SL_MESSAGE_END) && !(record->flags & SL_MESSAGE_LAST);

    if (record->call == 0 || record->bytes == 0 || ends_early ||
        (record->flags & ~(SL_MESSAGE_FIRST | SL_MESSAGE_LAST | SL_MESSAGE_END)) != 0)
        return SL_FAIL(SEALANE_DATA_LOSS, "a MESSAGE record has call %llu, flags 0x%02x, %zu bytes",
                       (unsigned long long)record->call, record->flags, record->bytes);
    sl_lane_tell(lane, &event);
    return SEALANE_OK;
}

static SEALANE_RESULT take_ping(struct sl_lane *lane, const struct sl_record *record)
{
    if (record->bytes != sizeof(lane->pong))
        return SL_FAIL(SEALANE_DATA_LOSS, "a PING record has %zu bytes, expected %zu",
                       record->bytes, sizeof(lane->pong));
    memcpy(lane->pong, record->body,
           sizeof(lane->pong)); /* one PONG at a time: the last PING counts */
    lane->pong_due = true;
    return SEALANE_OK;
}

/* The peer proves that it has the keys of this very handshake; only then anything else is judged. */
static SEALANE_RESULT take_confirm(struct sl_lane *lane, const struct sl_record *record)
{
    struct sl_lane_event ready = {.kind = SL_LANE_READY};

    if (record->type != SL_RECORD_CONFIRM || record->bytes != SL_HASH_BYTES ||
        memcmp(record->body, lane->transcript, SL_HASH_BYTES) !=
            0) /* the transcript is no secret */
        return SL_FAIL(
            SEALANE_DATA_LOSS,
            "the peer's first record has type %u, expected CONFIRM of the same transcript",
            record->type);
    lane->state = SL_LANE_UP;
    lane->was_up = true;
    sl_establish_watch(lane);
    SL_LOG(SL_LOG_INFO, "lane with %s is up: %s, %s, link %s", lane->security.peer,
           lane->security.tls_suite, lane->security.message_aead, lane->security.link);
    sl_lane_tell(lane, &ready);
    return SEALANE_OK;
}

static SEALANE_RESULT take_record(struct sl_lane *lane, const struct sl_record *record)
{
    if (lane->state == SL_LANE_CONFIRM)
        return take_confirm(lane, record);
    switch (record->type) {
    case SL_RECORD_MESSAGE:
        return tell_message(lane, record);
    case SL_RECORD_BULK:
        return sl_bulk_announced(lane, record);
    case SL_RECORD_ALLOW:
        found_allow(lane, record->call);
        return SEALANE_OK;
    case SL_RECORD_STATUS:
    case SL_RECORD_CANCEL:
        return tell_status(lane, record);
    case SL_RECORD_PING:
        return take_ping(lane, record);
    case SL_RECORD_PONG:
        return SEALANE_OK;
    default:
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "the peer sent a record of type %u, which does not belong here",
                       record->type);
    }
}

static SEALANE_RESULT take_records(struct sl_lane *lane, const uint8_t *text, size_t bytes)
{
    struct sl_cursor cursor = {.at = text, .left = bytes};
    uint64_t acked_message = sl_cursor_u64(&cursor);
    uint64_t acked_bulk = sl_cursor_u64(&cursor);
    struct sl_record record;

    SL_TRY(sl_sender_ack(&lane->tx[SL_RING_MESSAGE], acked_message));
    SL_TRY(sl_sender_ack(&lane->tx[SL_RING_BULK], acked_bulk));
    if (cursor.left > 0)
        lane->rx_untold_data++;
    while (lane->state != SL_LANE_CLOSING && sl_record_next(&cursor, &record))
        SL_TRY(take_record(lane, &record));
    if (cursor.bad)
        return SL_FAIL(SEALANE_DATA_LOSS, "a frame's records do not fill its %zu bytes exactly",
                       bytes);
    return SEALANE_OK;
}

/* One frame: each byte of the ring is read once, to private memory, and judged there. */
static SEALANE_RESULT frame_take(struct sl_lane *lane)
{
    struct sl_receiver *rx = &lane->rx[SL_RING_MESSAGE];
    const uint8_t *slot =
        rx->memory.base + (size_t)(rx->next % rx->geometry.slots) * rx->geometry.stride;
    uint8_t *text = sl_node_scratch(lane->node);
    uint8_t prefix[SL_PREFIX_BYTES], nonce[SL_NONCE_BYTES];
    struct sl_aead_key *key = sl_keys_at(&rx->keys, rx->next, nonce);
    struct sl_aead_io io = {
        .nonce = nonce, .aad = prefix, .aad_bytes = sizeof(prefix), .in = text, .out = text};

    memcpy(prefix, slot, sizeof(prefix));
    SL_TRY(sl_prefix_parse(prefix, rx->geometry.stride, &io.bytes));
    memcpy(text, slot + SL_PREFIX_BYTES, io.bytes + SL_TAG_BYTES);
    if (!sl_aead_open(key, &io, text + io.bytes))
        return SL_FAIL(SEALANE_DATA_LOSS, "frame %llu failed authentication",
                       (unsigned long long)rx->next);
    rx->next++;
    lane->heard_ns = sl_node_now(lane->node);
    lane->security.opened_bytes += io.bytes;
    SL_TRY(sl_keys_done_below(&rx->keys, rx->next));
    return take_records(lane, text, io.bytes);
}

void sl_lane_frames_in(struct sl_lane *lane)
{
    struct sl_receiver *rx = &lane->rx[SL_RING_MESSAGE];
    uint32_t frames = 0;

    while (lane->state != SL_LANE_CLOSING && sl_receiver_has_more(rx) &&
           frames++ < FRAMES_PER_TURN) {
        enum sealane_status status = frame_take(lane);

        if (status != SEALANE_OK)
            sl_lane_break(lane, status);
    }
}

/* The immediate: ring in bit 0, slots above. A hint that is bounded, not believed. */
void sl_lane_arrived(struct sl_lane *lane, uint32_t immediate)
{
    struct sl_receiver *rx = &lane->rx[immediate & 1];
    enum sealane_status status;

    if (rx->memory.base == NULL)
        status = SL_FAIL(SEALANE_DATA_LOSS, "the peer wrote before it was granted a ring");
    else
        status = sl_receiver_count(rx, immediate >> 1);
    if (status != SEALANE_OK)
        sl_lane_break(lane, status);
}
