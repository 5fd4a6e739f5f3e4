/* SPDX-License-Identifier: Apache-2.0 */
/* lane_out.c - frames out: what is queued becomes records, records share a frame, the frame is sealed in staging and written
 * into the peer's message ring. Control records go ahead of data; messages of different calls take turns. */
#include "transport/lane_inside.h"

enum {
    FRAGMENT_MIN = 64 /* a shorter rest of a frame is left empty */
};

void sl_lane_post(struct sl_lane *lane, const struct sl_link_write *write)
{
    enum sealane_status status = lane->link->ops->write_imm(lane->link, write);

    if (status == SL_AGAIN)
        lane->stuck = *write; /* its seq is taken: it goes out next, or the lane ends */
    else if (status != SEALANE_OK)
        sl_lane_break(lane, status);
    else
        lane->stuck.bytes = 0;
}

static bool credit_is_due(const struct sl_lane *lane)
{
    return lane->rx_untold_data >= lane->rx[SL_RING_MESSAGE].geometry.slots / 4 ||
           sl_receiver_untold(&lane->rx[SL_RING_BULK]) >= lane->rx[SL_RING_BULK].geometry.slots / 4;
}

static void add_controls(struct sl_lane *lane, struct sl_frame *frame)
{
    struct sl_queue *queue = &lane->control;

    while (queue->begin < queue->end) {
        const uint8_t *at = queue->at + queue->begin;
        struct sl_record record = {.type = at[0],
                                   .flags = at[1],
                                   .call = sl_get64(at + 8),
                                   .body = at + SL_RECORD_HEAD_BYTES,
                                   .bytes = sl_get32(at + 4)};

        if (sl_frame_room(frame) < record.bytes || sl_frame_room(frame) == 0)
            return;
        sl_frame_add(frame, &record);
        queue->begin += SL_RECORD_HEAD_BYTES + record.bytes;
    }
}

static void add_pong(struct sl_lane *lane, struct sl_frame *frame)
{
    struct sl_record record = {.type = SL_RECORD_PONG,
                               .body = lane->pong,
                               .bytes = sizeof(lane->pong)};

    if (!lane->pong_due || sl_frame_room(frame) < record.bytes)
        return;
    lane->pong_due = false;
    sl_frame_add(frame, &record);
}

static void add_runs(struct sl_lane *lane, struct sl_frame *frame)
{
    uint8_t body[SL_BULK_BODY_BYTES];
    struct sl_record record;

    while (sl_frame_room(frame) >= sizeof(body) && sl_bulk_next_record(lane, &record, body))
        sl_frame_add(frame, &record);
}

/* A message that is wholly in frames goes on to its parts, or is done. */
static void message_taken(struct sl_lane *lane, struct sl_send *send)
{
    while (send->part < send->part_count && send->parts[send->part].bytes == 0)
        send->part++;
    if (send->part == send->part_count) {
        send->state = SL_SEND_SEALING;
        sl_sends_push(&lane->sealing, send); /* told SENT after the frame is sealed */
        return;
    }
    send->state = send->allowed ? SL_SEND_BULK : SL_SEND_WAITING;
    sl_sends_push(send->allowed ? &lane->bulk : sl_lane_waiting(lane, send->call), send);
}

/* Fragments of messages, one of each call in turn. */
static void add_messages(struct sl_lane *lane, struct sl_frame *frame)
{
    struct sl_send *send;

    while ((send = lane->messages_out.first) != NULL) {
        size_t left = send->count - send->sent;
        size_t room = sl_frame_room(frame);
        size_t bytes = left < room ? left : room;
        struct sl_record record = {.type = SL_RECORD_MESSAGE,
                                   .call = send->call,
                                   .body = send->bytes + send->sent,
                                   .bytes = bytes};

        if (room == 0 || (bytes < left && room < FRAGMENT_MIN))
            return;
        if (send->sent == 0)
            record.flags |= SL_MESSAGE_FIRST;
        if (bytes == left)
            record.flags |= (uint8_t)(SL_MESSAGE_LAST | (send->flags & SL_MESSAGE_END));
        if (send->sent == 0 && send->call > lane->last_begun)
            lane->last_begun = send->call;
        sl_frame_add(frame, &record);
        send->sent += bytes;
        sl_sends_remove(&lane->messages_out, send);
        if (bytes == left)
            message_taken(lane, send);
        else
            sl_sends_push(&lane->messages_out, send);
    }
}

/* Sends without parts that are in a frame need nothing any more. */
static void tell_sent(struct sl_lane *lane)
{
    struct sl_send *send = lane->sealing.first;

    while (send) {
        struct sl_send *next = send->next;

        if (send->jobs == 0) {
            sl_sends_remove(&lane->sealing, send);
            sl_lane_sent(lane, send);
        }
        send = next;
    }
}

static SEALANE_RESULT frame_seal(struct sl_lane *lane, struct sl_frame *frame)
{
    struct sl_sender *tx = &lane->tx[SL_RING_MESSAGE];
    size_t bytes =
        sl_frame_finish(frame, lane->rx[SL_RING_MESSAGE].next, lane->rx[SL_RING_BULK].next);
    uint8_t *text = frame->slot + SL_PREFIX_BYTES;
    uint8_t nonce[SL_NONCE_BYTES];
    struct sl_aead_key *key = sl_keys_at(&tx->keys, tx->seq, nonce);
    struct sl_aead_io io = {.nonce = nonce,
                            .aad = frame->slot,
                            .aad_bytes = SL_PREFIX_BYTES,
                            .in = text,
                            .out = text,
                            .bytes = bytes};
    struct sl_link_write write = {.ring = SL_RING_MESSAGE,
                                  .slot = (uint32_t)(tx->seq % tx->geometry.slots),
                                  .from = frame->slot,
                                  .bytes = SL_PREFIX_BYTES + bytes + SL_TAG_BYTES,
                                  .immediate = 1u << 1 | SL_RING_MESSAGE};

    sl_aead_seal(key, &io, text + bytes);
    tx->seq++;
    lane->security.sealed_bytes += bytes;
    lane->rx[SL_RING_MESSAGE].told = lane->rx[SL_RING_MESSAGE].next;
    lane->rx[SL_RING_BULK].told = lane->rx[SL_RING_BULK].next;
    lane->rx_untold_data = 0;
    sl_staging_name(&lane->staging, SL_RING_MESSAGE, lane->link->posted + 1);
    sl_lane_post(lane, &write);
    return sl_keys_done_below(&tx->keys, tx->seq);
}

/* A block of staging for a frame; false: none now, or the lane is over. */
static bool block_take(struct sl_lane *lane, uint8_t **slot_p)
{
    enum sealane_status status;

    if (sl_staging_room(&lane->staging, SL_RING_MESSAGE) == 0)
        return false;
    status = sl_staging_take(&lane->staging, SL_RING_MESSAGE, 1,
                             lane->tx[SL_RING_MESSAGE].geometry.stride, slot_p);
    if (status != SEALANE_OK)
        sl_lane_break(lane, status);
    return status == SEALANE_OK && *slot_p;
}

/* Builds and sends one frame when there is something to say and a slot for it. */
static bool frame_send(struct sl_lane *lane)
{
    struct sl_sender *tx = &lane->tx[SL_RING_MESSAGE];
    uint32_t room = sl_sender_room(tx);
    struct sl_frame frame;
    uint8_t *slot;
    enum sealane_status status;

    if (lane->stuck.bytes > 0 || room == 0 || !block_take(lane, &slot))
        return false;
    sl_frame_begin(&frame, slot, tx->geometry.stride);
    if (room > 1) { /* the last slot is the credit frame's */
        add_pong(lane, &frame);
        add_controls(lane, &frame);
        add_runs(lane, &frame);
        add_messages(lane, &frame);
    }
    if (sl_frame_is_empty(&frame) && !credit_is_due(lane)) {
        sl_staging_untake(&lane->staging, SL_RING_MESSAGE);
        return false;
    }
    status = frame_seal(lane, &frame);
    if (status != SEALANE_OK)
        sl_lane_break(lane, status);
    if (lane->sealing.first)
        tell_sent(lane);
    return lane->state != SL_LANE_CLOSING;
}

void sl_lane_frames_out(struct sl_lane *lane)
{
    if (lane->stuck.bytes > 0)
        sl_lane_post(lane, &lane->stuck);
    while (frame_send(lane)) {
    }
}
