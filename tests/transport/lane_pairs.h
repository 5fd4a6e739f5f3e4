/* SPDX-License-Identifier: Apache-2.0 */
/* lane_pairs.h - two lanes between the same two nodes, over any carrier: a victim, whose records are remembered as they stood in the
 * ring, and one that must go on. For lane_splice_test.c and
 * lane_liar_test.c. */
#ifndef LANE_PAIRS_H
#define LANE_PAIRS_H

#include "tests/support/lanes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SLOTS = 8,
    SHIFT =
        3, /* an epoch is once around the ring: an older record of the same slot is of another epoch */
    CHUNK = 16384,
    MESSAGE = 100,
    HISTORY = 64, /* records of a connection that are remembered */
    WARM = 18     /* at least: two epochs are over */
};

/* A lane and what its ends were told. */
struct pair {
    bool lies; /* its client says what it likes: nothing that comes is expected */
    struct sl_lane *lane[2];
    int closed[2];
    enum sealane_status close_status[2];
    char close_text[2][LANES_TEXT];
    size_t bytes[2];
    uint64_t filled[2];
    uint8_t *place[2];
};

static struct lanes lanes;
static struct pair pairs[2]; /* the victim and one that must go on */
static struct pair *connecting;
static uint8_t tensor[4 * CHUNK], message[MESSAGE];

/* ---- harm ---- */

enum carrier {
    FAKE,
    LOCAL,
    TCP,
    VERBS
};

/* What is to be done to a record once it and the next have arrived, before the reader is told. */
struct attack {
    void (*run)(const struct attack *attack);
    enum sl_ring_id ring;
    uint64_t seq;
    uint8_t *slot, *next; /* of seq and of seq + 1 */
    size_t stride;
};

static const struct attack *
    pending; /* over tcp and verbs, where bytes reach the ring in the reader's poll, or whenever they like */
static const struct sl_link_ops *whole; /* link_tcp's or link_verbs' */
static struct sl_link_ops harmed;       /* the same, but for poll */

static int harmed_poll(struct sl_port *port, struct sl_link_event *events, int max)
{
    int count = whole->poll(port, events, max), seen = 0;
    uint32_t slots = 0;

    while (pending && slots < 2) {
        for (; seen < count; seen++) {
            if (events[seen].kind == SL_LINK_ARRIVED &&
                (events[seen].immediate & 1) == pending->ring)
                slots += events[seen].immediate >> 1;
        }
        if (slots < 2)
            count += whole->poll(port, events + count, max - count);
    }
    if (pending)
        pending->run(pending);
    pending = NULL;
    return count;
}

/* ---- lanes ---- */

static enum sealane_status on_event(void *owner, struct sl_lane *lane, struct sl_lane_event *event)
{
    int end = owner == NULL ? 0 : 1;
    struct pair *pair = end ? owner : sl_lane_user(lane);

    switch (event->kind) {
    case SL_LANE_READY:
        pair = end ? pair : connecting;
        sl_lane_set_user(lane, pair);
        pair->lane[end] = lane;
        break;
    case SL_LANE_MESSAGE:
        pair->bytes[end] += event->count;
        for (size_t i = 0; i < event->count && !pair->lies; i++)
            cr_assert_eq(event->bytes[i], message[0]);
        break;
    case SL_LANE_PLACE:
        if (event->count <= sizeof(tensor) && event->offset <= sizeof(tensor) - event->count)
            event->place = pair->place[end] + event->offset;
        break;
    case SL_LANE_FILLED:
        pair->filled[end] += event->count;
        cr_assert(pair->lies || memcmp(pair->place[end] + event->offset, tensor + event->offset,
                                       event->count) == 0);
        break;
    case SL_LANE_CLOSED:
        pair->lane[end] = NULL;
        pair->closed[end]++;
        pair->close_status[end] = event->status;
        (void)snprintf(pair->close_text[end], LANES_TEXT, "%.*s", (int)event->count,
                       (const char *)event->bytes);
        break;
    default:
        break;
    }
    return SEALANE_OK;
}

/* Has attacks come between a carrier and its reader. */
static void harm(enum carrier carrier)
{
    static const struct sl_link_ops *const links[] = {&harmed, NULL};

    whole = carrier == TCP ? &sl_link_tcp : NULL;
#ifdef SEALANE_VERBS
    if (carrier == VERBS)
        whole = &sl_link_verbs;
#endif
    if (!whole)
        return;
    harmed = *whole;
    harmed.poll = harmed_poll;
    lanes.links = links;
}

static void listen_small(enum carrier carrier)
{
    memset(message, 'm', sizeof(message));
    for (size_t i = 0; i < sizeof(tensor); i++)
        tensor[i] = (uint8_t)(i % CHUNK * 7 + 1); /* every chunk is the same */
    if (carrier == VERBS)
        lanes_over_verbs(&lanes);
    else
        lanes_init(&lanes, carrier == FAKE);
    if (carrier == TCP)
        (void)snprintf(lanes.address, sizeof(lanes.address), "127.0.0.1:0");
    harm(carrier);
    for (int i = 0; i < 2; i++) {
        lanes.options[i].on_event = on_event;
        lanes.options[i].owner = NULL;
        lanes.options[i].message_slot_bytes = 1024;
        lanes.options[i].message_slots = SLOTS;
        lanes.options[i].bulk_chunk_bytes = CHUNK;
        lanes.options[i].bulk_slots = SLOTS;
        lanes.options[i].epoch_shift = SHIFT;
        for (int end = 0; end < 2; end++)
            pairs[i].place[end] = malloc(sizeof(tensor));
    }
    lanes_listen(&lanes);
}

static bool both_up(struct lanes *all)
{
    (void)all;
    return connecting->lane[0] && connecting->lane[1];
}

static bool both_down(struct lanes *all)
{
    (void)all;
    return !connecting->lane[0] && !connecting->lane[1];
}

static void connect_pair(struct pair *pair)
{
    uint8_t *const places[2] = {pair->place[0], pair->place[1]};

    *pair = (struct pair){.place = {places[0], places[1]}};
    connecting = pair;
    lanes.options[1].owner = pair;
    cr_assert_eq(sl_node_connect(lanes.nodes[1], lanes.address, &lanes.options[1],
                                 &lanes.connecting),
                 SEALANE_OK);
    cr_assert(lanes_until(&lanes, both_up));
}

static void close_pair(struct pair *pair)
{
    if (pair->lane[1])
        sl_lane_close(pair->lane[1], SEALANE_CANCELLED, "the test is over");
    connecting = pair;
    cr_assert(lanes_until(&lanes, both_down));
}

static void close_all(void)
{
    for (int i = 0; i < 2; i++)
        close_pair(&pairs[i]);
    lanes_free(&lanes);
    for (int i = 0; i < 4; i++)
        free(pairs[i / 2].place[i % 2]);
}

/* ---- records ---- */

/* The records of one ring and direction of a connection, by seq, as they stood in the ring. */
struct history {
    uint64_t count;
    uint8_t *images; /* [HISTORY] of a stride each */
};

/* What is attacked: `to` reads what is written into `ring`. */
static struct victim {
    enum sl_ring_id ring;
    int to;
    struct history now, before; /* of this connection and of an earlier one */
} victim;

static struct sl_receiver *reader(const struct pair *pair, int to, enum sl_ring_id ring)
{
    return &pair->lane[to]->rx[ring];
}

static struct sl_sender *writer(const struct pair *pair, int to, enum sl_ring_id ring)
{
    return &pair->lane[1 - to]->tx[ring];
}

static uint8_t *slot_of(const struct sl_receiver *rx, uint64_t seq)
{
    return rx->memory.base + seq % SLOTS * rx->geometry.stride;
}

/* What has arrived and is still in the ring. */
static void remember(void)
{
    const struct sl_receiver *rx = reader(&pairs[0], victim.to, victim.ring);

    for (; victim.now.count < rx->counted && victim.now.count < HISTORY; victim.now.count++) {
        cr_assert_leq(rx->counted - victim.now.count, SLOTS);
        memcpy(victim.now.images + victim.now.count * rx->geometry.stride,
               slot_of(rx, victim.now.count), rx->geometry.stride);
    }
}

/* One message from `from`, with a tensor of so many chunks; only the writer's node turns. */
static void write_records(struct pair *pair, int from, size_t chunks)
{
    static uint64_t call;
    struct sl_part parts[] = {{tensor, chunks * CHUNK}};
    struct sl_send send = {.call = ++call,
                           .bytes = message,
                           .count = MESSAGE,
                           .parts = parts,
                           .part_count = chunks > 0};

    cr_assert_eq(sl_lane_send(pair->lane[from], &send), SEALANE_OK);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(sealane_node_poll(lanes.nodes[from], 0), SEALANE_OK);
    cr_assert_eq(send.state, SL_SEND_DONE);
}

static const struct pair *waiting;

static bool all_read(struct lanes *all)
{
    bool same = true;

    (void)all;
    for (int i = 0; i < 2 * SL_RING_COUNT; i++)
        same &= writer(waiting, i / 2, (enum sl_ring_id)(i % 2))->seq ==
                reader(waiting, i / 2, (enum sl_ring_id)(i % 2))->next;
    return same;
}

static void pass_records(struct pair *pair, int from, size_t chunks)
{
    write_records(pair, from, chunks);
    waiting = pair;
    cr_assert(lanes_until(&lanes, all_read));
    if (pair == &pairs[0])
        remember();
}

#endif
