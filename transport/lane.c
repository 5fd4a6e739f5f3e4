/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c - a lane's life: made, asked by rpc, turned by the node, ended. Frames out are in lane_out.c, frames in in lane_in.c. */
#include "transport/lane_inside.h"

#include "transport/log.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CONTROL_BYTES_MAX =
        8 * 1024 * 1024,  /* answers that wait for a peer which does not drain its ring */
    STAGING_FRAMES = 128, /* borrowed at a time */
    STAGING_CHUNKS = 64,
    EPOCH_BYTES_LOG2 = 34 /* 16 GiB per key: notes in docs/PROTOCOL.md */
};

/* ---- lists and queues ---- */

void sl_sends_push(struct sl_sends *sends, struct sl_send *send)
{
    send->prev = sends->last;
    send->next = NULL;
    if (sends->last)
        sends->last->next = send;
    else
        sends->first = send;
    sends->last = send;
}

void sl_sends_remove(struct sl_sends *sends, struct sl_send *send)
{
    if (send->prev)
        send->prev->next = send->next;
    else
        sends->first = send->next;
    if (send->next)
        send->next->prev = send->prev;
    else
        sends->last = send->prev;
    send->prev = send->next = NULL;
}

/* Room at the end: what was taken from the front is reclaimed before more memory is asked for, so that a queue which is never quite
 * empty does not grow for ever. */
static SEALANE_RESULT queue_room(struct sl_queue *queue, size_t count)
{
    size_t used = queue->end - queue->begin, size = (used + count) * 2;
    uint8_t *at;

    if (queue->end + count <= queue->size)
        return SEALANE_OK;
    if (used > 0)
        memmove(queue->at, queue->at + queue->begin, used);
    queue->begin = 0;
    queue->end = used;
    if (size <= queue->size)
        return SEALANE_OK;
    at = realloc(queue->at, size);
    if (!at)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a queue of %zu bytes", size);
    queue->at = at;
    queue->size = size;
    return SEALANE_OK;
}

SEALANE_RESULT sl_queue_push(struct sl_queue *queue, const void *bytes, size_t count)
{
    SL_TRY(queue_room(queue, count));
    memcpy(queue->at + queue->end, bytes, count);
    queue->end += count;
    return SEALANE_OK;
}

void sl_queue_clear(struct sl_queue *queue)
{
    free(queue->at);
    *queue = (struct sl_queue){.at = NULL};
}

/* ---- life ---- */

static uint32_t or_default(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static uint8_t shift_for(uint32_t option, uint32_t record_bytes)
{
    uint8_t log2 = 0;

    if (option)
        return (uint8_t)(option < 40 ? option : 40);
    while (((uint64_t)1 << log2) < record_bytes)
        log2++;
    return (uint8_t)(EPOCH_BYTES_LOG2 - log2);
}

struct sl_hello_geometry sl_lane_geometry(const struct sl_lane_options *options)
{
    return (struct sl_hello_geometry){
        .message_slot_bytes = or_default(options->message_slot_bytes, 8192),
        .message_slots = or_default(options->message_slots, 128),
        .bulk_chunk_bytes = or_default(options->bulk_chunk_bytes, 65536),
        .bulk_slots = or_default(options->bulk_slots, 64),
    };
}

static void options_resolve(struct sl_lane *lane)
{
    struct sl_lane_options *options = &lane->options;
    struct sl_hello *mine = &lane->mine;

    mine->geometry = sl_lane_geometry(options);
    mine->max_calls = or_default(options->max_calls, 4096);
    mine->eager_bytes = or_default(options->eager_bytes, 262144);
    mine->shift[SL_RING_MESSAGE] =
        shift_for(options->epoch_shift, mine->geometry.message_slot_bytes);
    mine->shift[SL_RING_BULK] = shift_for(options->epoch_shift, mine->geometry.bulk_chunk_bytes);
    options->handshake_timeout_ms = or_default(options->handshake_timeout_ms, 5000);
    options->dead_after_ms = or_default(options->dead_after_ms, 20000);
}

struct sl_lane *sl_lane_new(struct sealane_node *node, const struct sl_lane_options *options,
                            struct sl_link *link)
{
    struct sl_lane *lane = calloc(1, sizeof(*lane));

    if (!lane)
        return NULL;
    lane->node = node;
    lane->options = *options;
    lane->server = options->server_name == NULL;
    lane->server_name = options->server_name ? strdup(options->server_name) : NULL;
    if (options->server_name && !lane->server_name) {
        free(lane);
        return NULL;
    }
    options_resolve(lane);
    if (sl_random(&lane->spread, sizeof(lane->spread)) != SEALANE_OK) {
        free(lane->server_name);
        free(lane);
        return NULL;
    }
    lane->options.server_name = lane->server_name;
    lane->options.link = NULL; /* the asker's, and used up */
    lane->link = link;
    link->owner = lane;
    lane->heard_ns = sl_node_now(node);
    return lane;
}

void sl_lane_free(struct sl_lane *lane)
{
    struct sl_memory *memory = sl_node_memory(lane->node);

    sl_timer_stop(lane->node, &lane->timer);
    sl_staging_leave(&lane->staging);
    if (lane->link)
        lane->link->ops->drop(lane->link);
    sl_staging_clear(&lane->staging);
    sl_handshake_free(lane->handshake);
    sl_bulk_clear(lane);
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        sl_keys_clear(&lane->tx[ring].keys);
        sl_keys_clear(&lane->rx[ring].keys);
        if (lane->rx[ring].memory.base)
            sl_memory_ops(memory)->ring_free(memory, &lane->rx[ring].memory);
    }
    sl_queue_clear(&lane->control);
    sl_queue_clear(&lane->early);
    free(lane->server_name);
    free(lane);
}

void sl_lane_wake(struct sl_lane *lane)
{
    lane->idles = false;
    sl_node_ready(lane->node, lane);
}

void sl_lane_close(struct sl_lane *lane, enum sealane_status status, const char *why)
{
    if (lane->state == SL_LANE_CLOSING)
        return;
    lane->state = SL_LANE_CLOSING;
    lane->close_status = status;
    (void)snprintf(lane->close_why, sizeof(lane->close_why), "%s", why);
    if (lane->server && !lane->was_up)
        SL_LOG(SL_LOG_WARN, "a peer's lane did not come up: %s: %s", sealane_status_name(status),
               lane->close_why);
    else
        SL_LOG(SL_LOG_INFO, "lane with %s ends: %s: %s",
               lane->was_up ? lane->security.peer : lane->server_name, sealane_status_name(status),
               lane->close_why);
    sl_lane_wake(lane);
}

void sl_lane_break(struct sl_lane *lane, enum sealane_status status)
{
    sl_lane_close(lane, status, sealane_last_error()->message);
}

void sl_lane_tell(struct sl_lane *lane, struct sl_lane_event *event)
{
    enum sealane_status status = lane->options.on_event(lane->options.owner, lane, event);

    if (status != SEALANE_OK && event->kind != SL_LANE_CLOSED)
        sl_lane_break(lane, status);
}

/* ---- what rpc asks ---- */

void sl_lane_set_user(struct sl_lane *lane, void *user)
{
    lane->user = user;
}

void *sl_lane_user(const struct sl_lane *lane)
{
    return lane->user;
}

struct sealane_node *sl_lane_node(const struct sl_lane *lane)
{
    return lane->node;
}

uint32_t sl_lane_peer_max_calls(const struct sl_lane *lane)
{
    return lane->peers.max_calls;
}

uint32_t sl_lane_eager_bytes(const struct sl_lane *lane)
{
    return lane->mine.eager_bytes;
}

void sl_lane_security(const struct sl_lane *lane, struct sealane_security *security_p)
{
    *security_p = lane->security;
}

static SEALANE_RESULT check_up(const struct sl_lane *lane)
{
    if (lane->state != SL_LANE_UP)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the lane is not up: %s",
                       lane->state == SL_LANE_CLOSING ? lane->close_why
                                                      : "still being established");
    return SEALANE_OK;
}

SEALANE_RESULT sl_lane_send(struct sl_lane *lane, struct sl_send *send)
{
    uint64_t total = 0;

    SL_TRY(check_up(lane));
    for (size_t i = 0; i < send->part_count; i++)
        total += send->parts[i].bytes;
    send->sent = 0;
    send->part = 0;
    send->part_offset = 0;
    send->jobs = 0;
    send->allowed = total <= lane->peers.eager_bytes;
    send->state = SL_SEND_MESSAGE;
    sl_sends_push(&lane->messages_out, send);
    sl_lane_wake(lane);
    return SEALANE_OK;
}

struct sl_sends *sl_lane_waiting(struct sl_lane *lane, uint64_t call)
{
    return &lane->waiting[sl_spread(call, lane->spread, SL_WAITING_LOG2)];
}

void sl_lane_sent(struct sl_lane *lane, struct sl_send *send)
{
    struct sl_lane_event event = {.kind = SL_LANE_SENT, .call = send->call, .send = send};

    send->state = SL_SEND_DONE;
    sl_lane_tell(lane, &event);
}

bool sl_lane_abandon(struct sl_lane *lane, struct sl_send *send)
{
    struct sl_sends *const lists[] = {[SL_SEND_MESSAGE] = &lane->messages_out,
                                      [SL_SEND_WAITING] = sl_lane_waiting(lane, send->call),
                                      [SL_SEND_BULK] = &lane->bulk,
                                      [SL_SEND_SEALING] = &lane->sealing};

    if (send->state == SL_SEND_NONE || send->state == SL_SEND_DONE)
        return true;
    if (send->state != SL_SEND_SEALING) {
        sl_sends_remove(lists[send->state], send);
        send->state = SL_SEND_SEALING;
        sl_sends_push(&lane->sealing, send);
    }
    if (send->jobs > 0)
        return false; /* chunks of it are being sealed */
    sl_sends_remove(&lane->sealing, send);
    send->state = SL_SEND_DONE;
    return true;
}

SEALANE_RESULT sl_lane_control(struct sl_lane *lane, const struct sl_record *record)
{
    uint8_t head[SL_RECORD_HEAD_BYTES] = {record->type, record->flags};

    if (lane->control.end - lane->control.begin > CONTROL_BYTES_MAX)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "the peer leaves more than %d bytes of answers undrained",
                       CONTROL_BYTES_MAX);
    sl_put32(head + 4, (uint32_t)record->bytes);
    sl_put64(head + 8, record->call);
    SL_TRY(sl_queue_push(&lane->control, head, sizeof(head)));
    if (record->bytes > 0)
        SL_TRY(sl_queue_push(&lane->control, record->body, record->bytes));
    sl_lane_wake(lane);
    return SEALANE_OK;
}

/* A control record that cannot be queued would leave the peer waiting for ever: the lane ends instead. */
static SEALANE_RESULT control_or_break(struct sl_lane *lane, const struct sl_record *record)
{
    enum sealane_status status;

    SL_TRY(check_up(lane));
    status = sl_lane_control(lane, record);
    if (status != SEALANE_OK)
        sl_lane_break(lane, status);
    return status;
}

SEALANE_RESULT sl_lane_allow(struct sl_lane *lane, uint64_t call)
{
    return control_or_break(lane, &(struct sl_record){.type = SL_RECORD_ALLOW, .call = call});
}

SEALANE_RESULT sl_lane_status(struct sl_lane *lane, uint64_t call, enum sealane_status status,
                              const char *text)
{
    uint8_t body[4 + SL_STATUS_TEXT_MAX];
    size_t bytes = strlen(text);

    if (bytes > SL_STATUS_TEXT_MAX) {
        bytes = SL_STATUS_TEXT_MAX;
        while (bytes > 0 &&
               ((uint8_t)text[bytes] & 0xc0) == 0x80) /* not inside a UTF-8 character */
            bytes--;
    }
    sl_put32(body, (uint32_t)status);
    memcpy(body + 4, text, bytes);
    return control_or_break(lane, &(struct sl_record){.type = SL_RECORD_STATUS,
                                                      .call = call,
                                                      .body = body,
                                                      .bytes = 4 + bytes});
}

SEALANE_RESULT sl_lane_cancel(struct sl_lane *lane, uint64_t call, enum sealane_status why)
{
    uint8_t body[4];

    if (call > lane->last_begun)
        return SEALANE_OK; /* the peer never heard of it */
    sl_put32(body, (uint32_t)why);
    return control_or_break(
        lane,
        &(struct sl_record){.type = SL_RECORD_CANCEL, .call = call, .body = body, .bytes = 4});
}

/* ---- rings ---- */

static void geometry_fill(const struct sl_hello_geometry *from,
                          struct sl_geometry to[SL_RING_COUNT])
{
    to[SL_RING_MESSAGE] = (struct sl_geometry){
        .slots = from->message_slots,
        .stride = from->message_slot_bytes,
        .payload = from->message_slot_bytes - SL_PREFIX_BYTES - SL_TAG_BYTES,
    };
    to[SL_RING_BULK] = (struct sl_geometry){
        .slots = from->bulk_slots,
        .stride = from->bulk_chunk_bytes + SL_BULK_HEAD_BYTES,
        .payload = from->bulk_chunk_bytes,
    };
}

static SEALANE_RESULT ring_make(struct sl_lane *lane, enum sl_ring_id ring, enum sl_place place)
{
    struct sl_memory *memory = sl_node_memory(lane->node);
    struct sl_receiver *rx = &lane->rx[ring];

    SL_TRY(sl_memory_ops(memory)->ring_alloc(
        memory, place, (size_t)rx->geometry.slots * rx->geometry.stride, &rx->memory));
    return lane->link->ops->grant(lane->link, ring, &rx->memory, rx->geometry.stride,
                                  lane->mine.grant[ring]);
}

/* Tensors come straight to the device where the carrier can write there, else by way of the host. */
static SEALANE_RESULT bulk_ring_make(struct sl_lane *lane)
{
    struct sl_memory *memory = sl_node_memory(lane->node);
    struct sl_ring_memory *ring = &lane->rx[SL_RING_BULK].memory;
    enum sealane_status status = ring_make(lane, SL_RING_BULK, SL_PLACE_DEVICE);

    if (status != SEALANE_UNIMPLEMENTED || ring->place != SL_PLACE_DEVICE)
        return status;
    SL_LOG(SL_LOG_WARN, "tensors come to the device by way of the host: %s",
           sealane_last_error()->message);
    sl_memory_ops(memory)->ring_free(memory, ring);
    return ring_make(lane, SL_RING_BULK, SL_PLACE_HOST);
}

SEALANE_RESULT sl_lane_rings_make(struct sl_lane *lane)
{
    struct sl_geometry geometry[SL_RING_COUNT];

    geometry_fill(&lane->mine.geometry, geometry);
    for (int ring = 0; ring < SL_RING_COUNT; ring++)
        lane->rx[ring].geometry = geometry[ring];
    SL_TRY(ring_make(lane, SL_RING_MESSAGE, SL_PLACE_HOST));
    return bulk_ring_make(lane);
}

SEALANE_RESULT sl_lane_rings_attach(struct sl_lane *lane)
{
    static const uint32_t staging_max[SL_RING_COUNT] = {STAGING_FRAMES, STAGING_CHUNKS};
    struct sl_geometry geometry[SL_RING_COUNT];
    uint32_t pieces[SL_RING_COUNT];

    geometry_fill(&lane->peers.geometry, geometry);
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        struct sl_sender *tx = &lane->tx[ring];

        tx->geometry = geometry[ring];
        pieces[ring] =
            tx->geometry.slots < staging_max[ring] ? tx->geometry.slots : staging_max[ring];
        SL_TRY(lane->link->ops->attach(lane->link, (enum sl_ring_id)ring, lane->peers.grant[ring],
                                       (size_t)tx->geometry.slots * tx->geometry.stride,
                                       tx->geometry.stride));
    }
    SL_TRY(sl_staging_init(&lane->staging, sl_node_staging(lane->node), lane->link, pieces));
    return sl_bulk_init(lane, pieces[SL_RING_BULK]);
}

SEALANE_RESULT sl_lane_keys_make(struct sl_lane *lane, const uint8_t secret[SL_SECRET_BYTES])
{
    const struct sl_hello *chosen = lane->server ? &lane->mine : &lane->peers;
    enum sl_direction out = lane->server ? SL_SERVER_TO_CLIENT : SL_CLIENT_TO_SERVER;
    enum sl_direction in = lane->server ? SL_CLIENT_TO_SERVER : SL_SERVER_TO_CLIENT;

    for (unsigned ring = 0; ring < SL_RING_COUNT; ring++) {
        enum sl_aead aead = (enum sl_aead)chosen->aead[ring];

        SL_TRY(sl_keys_init(&lane->tx[ring].keys, secret, out, ring, aead, chosen->shift[ring]));
        SL_TRY(sl_keys_init(&lane->rx[ring].keys, secret, in, ring, aead, chosen->shift[ring]));
    }
    return SEALANE_OK;
}

/* ---- events and turns ---- */

void sl_lane_link_event(struct sl_lane *lane, const struct sl_link_event *event)
{
    char why[160];

    sl_lane_wake(lane);
    if (event->kind == SL_LINK_ARRIVED && lane->state != SL_LANE_CLOSING) {
        sl_lane_arrived(lane, event->immediate);
        return;
    }
    if (lane->state < SL_LANE_UP) {
        sl_establish_event(lane, event);
        return;
    }
    if (event->kind == SL_LINK_GONE) {
        while (lane->state == SL_LANE_UP && sl_receiver_has_more(&lane->rx[SL_RING_MESSAGE]))
            sl_lane_frames_in(lane); /* what arrived before the end still counts */
        (void)snprintf(why, sizeof(why), "the peer is gone: %s", event->why);
        lane->gone = true;
        sl_lane_close(lane, SEALANE_UNAVAILABLE, why);
    } else if (event->kind == SL_LINK_BYTES && lane->state == SL_LANE_UP) {
        sl_lane_close(lane, SEALANE_DATA_LOSS,
                      "the peer sent handshake bytes on a lane that is up");
    }
}

static uint64_t link_moves(const struct sl_lane *lane)
{
    return lane->link->placed + lane->link->released;
}

static bool waits_for_link(const struct sl_lane *lane)
{
    bool queued = lane->bulk.first || lane->messages_out.first ||
                  lane->control.begin < lane->control.end || lane->staging.waits;

    return lane->out.announced < lane->out.written ||
           (queued && lane->link->released < lane->link->posted);
}

bool sl_lane_idles(const struct sl_lane *lane)
{
    return lane->idles && link_moves(lane) == lane->link_seen;
}

bool sl_lanes_idle(const struct sl_lane *first)
{
    while (first && sl_lane_idles(first))
        first = first->ready_next;
    return first == NULL;
}

bool sl_lane_turn(struct sl_lane *lane, size_t *budget)
{
    bool more;

    if (lane->state != SL_LANE_CONFIRM && lane->state != SL_LANE_UP)
        return false;
    sl_lane_frames_in(lane);
    lane->out_first = !lane->out_first; /* neither direction starves the other of the budget */
    if (lane->out_first && lane->state == SL_LANE_UP)
        sl_bulk_turn_out(lane, budget);
    if (lane->state == SL_LANE_UP)
        sl_bulk_turn_in(lane, budget);
    if (!lane->out_first && lane->state == SL_LANE_UP)
        sl_bulk_turn_out(lane, budget);
    if (lane->state != SL_LANE_CLOSING)
        sl_lane_frames_out(lane);
    if (lane->state != SL_LANE_UP)
        return false;
    more = sl_receiver_has_more(&lane->rx[SL_RING_MESSAGE]) || sl_bulk_has_work(lane) ||
           sl_bulk_is_busy(lane) || lane->stuck.bytes > 0;
    lane->idles = !more && waits_for_link(lane);
    lane->link_seen = link_moves(lane);
    return more || lane->idles;
}

bool sl_lane_finish(struct sl_lane *lane)
{
    struct sl_lane_event event = {.kind = SL_LANE_CLOSED,
                                  .status = lane->close_status,
                                  .bytes = (const uint8_t *)lane->close_why,
                                  .count = strlen(lane->close_why)};

    if (lane->handshake_busy || !sl_bulk_drain(lane))
        return false;
    if (lane->handshake)
        sl_establish_flush(lane); /* the alert */
    if (lane->was_up && !lane->gone && lane->close_status != SEALANE_DATA_LOSS && lane->link)
        sl_lane_frames_out(lane); /* answers that were given before the end */
    if (lane->was_up || !lane->server)
        sl_lane_tell(lane, &event);
    return true;
}
