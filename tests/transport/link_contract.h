/* SPDX-License-Identifier: Apache-2.0 */
/* link_contract.h - what link.h means, as tests of any provider. A provider names its world and instantiates all of them with
 * one line: LINK_CONTRACT(link_local, &local_world). Everything is checked through struct sl_link_ops only. */
#ifndef LINK_CONTRACT_H
#define LINK_CONTRACT_H

#include "tests/transport/link_pair.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- addresses and connecting ---- */

static inline void leaves_addresses_of_others_alone(const struct link_world *world)
{
    char address[128];

    if (world->begin)
        world->begin();
    world->address(address, sizeof(address), "x");
    cr_assert(world->ops->handles(address));
    cr_assert_not(world->ops->handles(""));
    cr_assert_not(world->ops->handles("dns:example.org:443"));
    cr_assert_not(world->ops->handles("example.org:443"));
    cr_assert_not(world->ops->handles(world->foreign));
    if (world->end)
        world->end();
}

static inline void refuses_malformed_addresses(const struct link_world *world)
{
    struct link_pair pair;
    struct sl_link *link = NULL;

    ports_open(&pair, world);
    for (size_t i = 0; world->malformed[i]; i++) {
        struct sl_port *port = pair.sides[CONNECTING].port;

        cr_assert_eq(world->ops->listen(port, world->malformed[i], NULL), SEALANE_INVALID_ARGUMENT);
        cr_assert_eq(world->ops->connect(port, world->malformed[i], &link),
                     SEALANE_INVALID_ARGUMENT);
        cr_assert_eq(link, NULL, "an output was set by a call that failed");
    }
    pair_down(&pair);
}

static inline void lets_one_listen_at_an_address(const struct link_world *world)
{
    struct link_pair pair;

    ports_open(&pair, world);
    for (int side = 0; side < 2; side++)
        cr_assert_eq(world->ops->listen(pair.sides[side].port, pair.address, NULL),
                     SEALANE_ALREADY_EXISTS);
    side_close(&pair, ACCEPTING);
    cr_assert_eq(world->ops->listen(pair.sides[CONNECTING].port, pair.address, NULL), SEALANE_OK,
                 "the address is not free again: %s", sealane_last_error()->message);
    pair_down(&pair);
}

static inline void tells_gone_when_nobody_listens(const struct link_world *world)
{
    struct link_pair pair;
    struct sl_link_event event;
    char address[128];

    ports_open(&pair, world);
    world->address(address, sizeof(address), "nobody");
    cr_assert_eq(world->ops->connect(pair.sides[CONNECTING].port, address,
                                     &pair.sides[CONNECTING].link),
                 SEALANE_OK);
    event = event_expect(&pair, CONNECTING, SL_LINK_GONE);
    cr_assert_eq(event.link, pair.sides[CONNECTING].link);
    cr_assert_neq(event.why[0], '\0');
    event_expect_none(&pair, CONNECTING);
    side_drop(&pair, CONNECTING);
    pair_down(&pair);
}

/* Whoever hears ACCEPTED may drop the link before it looks at the rest of what the poll brought. */
static inline void tells_accepted_alone(const struct link_world *world)
{
    struct sl_link_event events[8];
    struct link_pair pair;
    struct sl_link *link;
    int count = 0;

    ports_open(&pair, world);
    cr_assert_eq(world->ops->connect(pair.sides[CONNECTING].port, pair.address, &link), SEALANE_OK);
    (void)event_expect(&pair, CONNECTING, SL_LINK_CONNECTED);
    cr_assert_eq(world->ops->send(link, (const uint8_t *)"early", 5), SEALANE_OK);
    world->ops->drop(link);
    for (int64_t until = contract_now_ms() + EVENT_LIMIT_MS; count == 0;) {
        cr_assert(contract_now_ms() < until, "nobody was accepted");
        count = world->ops->poll(pair.sides[ACCEPTING].port, events, 8);
    }
    cr_assert_eq(count, 1);
    cr_assert_eq(events[0].kind, SL_LINK_ACCEPTED);
    world->ops->drop(events[0].link);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

/* Takes n times `kind` and n times bytes, one event a poll; no bytes come before their link was told of. */
static inline void firsts_expect(struct link_pair *pair, int side, enum sl_link_event_kind kind,
                                 int n)
{
    struct sl_link_event event;

    for (int told = 0, bytes = 0; told + bytes < 2 * n;) {
        cr_assert(side_event_next(pair, side, &event));
        if (event.kind == kind) {
            event.link->owner = pair;
            told++;
            if (side == ACCEPTING)
                cr_assert_eq(pair->world->ops->send(event.link, (const uint8_t *)"e", 1),
                             SEALANE_OK);
        } else {
            cr_assert_eq(event.kind, SL_LINK_BYTES);
            cr_assert_eq(event.link->owner, pair, "bytes came before their link");
            bytes++;
        }
    }
}

static inline void tells_of_a_link_before_what_came_through_it(const struct link_world *world)
{
    enum {
        LINKS = 12
    };
    struct link_pair pair;

    ports_open(&pair, world);
    for (int i = 0; i < LINKS; i++) {
        struct sl_link *link;

        cr_assert_eq(world->ops->connect(pair.sides[CONNECTING].port, pair.address, &link),
                     SEALANE_OK);
        cr_assert_eq(world->ops->send(link, (const uint8_t *)"early", 5), SEALANE_OK);
    }
    firsts_expect(&pair, ACCEPTING, SL_LINK_ACCEPTED, LINKS);
    firsts_expect(&pair, CONNECTING, SL_LINK_CONNECTED, LINKS);
    pair_down(&pair);
}

/* ---- small sends ---- */

static inline void carries_bytes_in_order_both_ways(const struct link_world *world)
{
    static const size_t sizes[] = {1, SL_LINK_SEND_BYTES, 2, 17, SL_LINK_SEND_BYTES - 1, 100, 3000};
    static uint8_t bytes[5 * SL_LINK_SEND_BYTES];
    struct link_pair pair;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 31 + i / 251);
    pair_connect(&pair, world);
    for (int side = 0; side < 2; side++) {
        size_t sent = 0;

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); sent += sizes[i++])
            cr_assert_eq(world->ops->send(pair.sides[side].link, bytes + sent, sizes[i]),
                         SEALANE_OK);
        bytes_expect(&pair, !side, bytes, sent);
    }
    event_expect_none(&pair, CONNECTING);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

static inline void refuses_sends_of_no_or_too_many_bytes(const struct link_world *world)
{
    static const uint8_t bytes[SL_LINK_SEND_BYTES + 1];
    struct link_pair pair;

    pair_connect(&pair, world);
    cr_assert_eq(world->ops->send(pair.sides[0].link, bytes, 0), SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(world->ops->send(pair.sides[0].link, bytes, sizeof(bytes)),
                 SEALANE_INVALID_ARGUMENT);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

static inline void says_again_when_full_and_writable_when_not(const struct link_world *world)
{
    static uint8_t bytes[SL_LINK_SEND_BYTES];
    enum sealane_status status = SEALANE_OK;
    struct link_pair pair;
    uint8_t sent = 0;

    if (!world->fills_up)
        return;
    pair_connect(&pair, world);
    while (status == SEALANE_OK && sent < 255) {
        memset(bytes, sent, sizeof(bytes));
        status = world->ops->send(pair.sides[CONNECTING].link, bytes, sizeof(bytes));
        sent = (uint8_t)(sent + (status == SEALANE_OK));
    }
    cr_assert_eq(status, SL_AGAIN, "255 sends to a peer that does not read were accepted");
    event_expect_none(&pair, CONNECTING);
    for (uint8_t i = 0; i < sent; i++) {
        memset(bytes, i, sizeof(bytes));
        side_let_go(&pair, CONNECTING);
        bytes_expect(&pair, ACCEPTING, bytes, sizeof(bytes));
    }
    (void)event_expect(&pair, CONNECTING, SL_LINK_WRITABLE);
    event_expect_none(&pair, CONNECTING);
    cr_assert_eq(world->ops->send(pair.sides[CONNECTING].link, bytes, 9), SEALANE_OK);
    bytes_expect(&pair, ACCEPTING, bytes, 9);
    pair_down(&pair);
}

/* ---- rings ---- */

static inline void delivers_immediates_verbatim_after_their_bytes(const struct link_world *world)
{
    static const uint32_t immediates[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x01020304};
    struct link_pair pair;

    pair_up(&pair, world);
    for (uint32_t i = 0; i < sizeof(immediates) / sizeof(immediates[0]); i++) {
        const uint8_t *slot = pair.sides[ACCEPTING].rings[SL_RING_BULK].base + i * STRIDE;
        struct sl_link_event event;

        cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, i, immediates[i]), SEALANE_OK);
        event = event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
        cr_assert_eq(event.link, pair.sides[ACCEPTING].link);
        cr_assert_eq(event.immediate, immediates[i]);
        cr_assert(is_filled(slot, STRIDE, (int)(immediates[i] & 0xff)));
    }
    pair_down(&pair);
}

/* Both sides write through both rings many times over, a window of slots ahead; nothing is lost, swapped or misplaced. */
static inline void keeps_the_order_of_each_ring(const struct link_world *world)
{
    enum {
        ROUNDS = 3000
    };
    struct link_pair pair;

    pair_up(&pair, world);
    for (int side = 0; side < 2; side++) {
        uint32_t sent = 0, got = 0;

        while (got < ROUNDS) {
            struct sl_link_event event;

            for (; sent < ROUNDS && sent - got < SLOTS; sent++)
                cr_assert_eq(write_to(&pair, side, (enum sl_ring_id)(sent & 1), sent % SLOTS, sent),
                             SEALANE_OK);
            event = event_expect(&pair, !side, SL_LINK_ARRIVED);
            cr_assert_eq(event.immediate, got);
            cr_assert(is_filled(pair.sides[!side].rings[got & 1].base + got % SLOTS * STRIDE,
                                STRIDE, (int)(got & 0xff)));
            got++;
        }
    }
    pair_down(&pair);
}

static inline void keeps_rings_apart(const struct link_world *world)
{
    struct link_pair pair;
    struct sl_ring_memory *rings;

    pair_up(&pair, world);
    rings = pair.sides[ACCEPTING].rings;
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, SLOTS - 1, 0x11), SEALANE_OK);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
    cr_assert(is_filled(rings[SL_RING_BULK].base, SLOTS * STRIDE, 0));
    cr_assert(is_filled(rings[SL_RING_MESSAGE].base, (SLOTS - 1) * STRIDE, 0));
    cr_assert(is_filled(rings[SL_RING_MESSAGE].base + (SLOTS - 1) * STRIDE, STRIDE, 0x11));
    for (int ring = 0; ring < SL_RING_COUNT; ring++)
        cr_assert(is_filled(pair.sides[CONNECTING].rings[ring].base, SLOTS * STRIDE, 0));
    pair_down(&pair);
}

static inline void writes_as_many_bytes_as_were_said(const struct link_world *world)
{
    static const size_t sizes[] = {0, 1, 63, STRIDE, STRIDE + 1, 3 * STRIDE + 7};
    static uint8_t bytes[SLOTS * STRIDE];
    struct link_pair pair;
    const uint8_t *ring;

    pair_up(&pair, world);
    ring = pair.sides[ACCEPTING].rings[SL_RING_BULK].base;
    side_sources(&pair, CONNECTING, bytes, sizeof(bytes));
    memset(bytes, 0xee, sizeof(bytes));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct sl_link_write write = {
            .ring = SL_RING_BULK, .slot = 2, .from = bytes, .bytes = sizes[i], .immediate = 5};

        cr_assert_eq(world->ops->write_imm(pair.sides[CONNECTING].link, &write), SEALANE_OK);
        side_let_go(&pair, CONNECTING);
        (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
        cr_assert(is_filled(ring, 2 * STRIDE, 0));
        cr_assert(is_filled(ring + 2 * STRIDE, sizes[i], 0xee));
        cr_assert(is_filled(ring + 2 * STRIDE + sizes[i], (SLOTS - 2) * STRIDE - sizes[i], 0));
    }
    pair_down(&pair);
}

/* Memory that writes were made from may be another's afterwards; its place is free. */
static inline void forgets_where_writes_came_from(const struct link_world *world)
{
    enum {
        PLACES = 2 * SL_LINK_SOURCES
    };
    static uint8_t bytes[PLACES][STRIDE];
    struct link_pair pair;
    struct sl_link *link;

    pair_up(&pair, world);
    link = pair.sides[CONNECTING].link;
    for (int i = 0; i < PLACES; i++) {
        struct sl_link_write write = {.ring = SL_RING_BULK, .from = bytes[i], .bytes = STRIDE};

        memset(bytes[i], i + 1, STRIDE);
        side_sources(&pair, CONNECTING, bytes[i], STRIDE);
        cr_assert_eq(world->ops->write_imm(link, &write), SEALANE_OK, "%s",
                     sealane_last_error()->message);
        side_let_go(&pair, CONNECTING);
        (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
        cr_assert(is_filled(pair.sides[ACCEPTING].rings[SL_RING_BULK].base, STRIDE, i + 1));
        for (int polls = 0; polls < 100000 && link->released < link->posted; polls++)
            event_expect_none(&pair, CONNECTING);
        cr_assert_eq(link->released, link->posted);
        world->ops->forget(link, bytes[i]);
    }
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, 0, 7), SEALANE_OK, "others stay");
    pair_down(&pair);
}

static inline void refuses_writes_past_the_end_of_a_ring(const struct link_world *world)
{
    static const struct {
        uint32_t slot;
        size_t bytes;
    } wrong[] = {
        {SLOTS, 1},      {SLOTS, 0},           {SLOTS - 1, STRIDE + 1}, {0, SLOTS * STRIDE + 1},
        {0xffffffff, 1}, {0x00800000, STRIDE}, {1, SIZE_MAX},           {1, SIZE_MAX - STRIDE + 1}};
    static uint8_t bytes[SLOTS * STRIDE];
    struct link_pair pair;

    pair_up(&pair, world);
    side_sources(&pair, CONNECTING, bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sl_link_write write = {
            .ring = SL_RING_MESSAGE, .slot = wrong[i].slot, .from = bytes, .bytes = wrong[i].bytes};

        cr_assert_eq(world->ops->write_imm(pair.sides[CONNECTING].link, &write),
                     SEALANE_INVALID_ARGUMENT, "case %zu was not refused", i);
    }
    cr_assert_eq(pair.sides[CONNECTING].link->posted, 0);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

static inline void refuses_writes_before_attach(const struct link_world *world)
{
    struct link_pair pair;

    pair_connect(&pair, world);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 0, 0), SEALANE_INVALID_ARGUMENT);
    side_grant(&pair, ACCEPTING);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 0, 0), SEALANE_INVALID_ARGUMENT);
    pair_down(&pair);
}

static inline void refuses_to_attach_what_was_not_granted(const struct link_world *world)
{
    struct link_pair pair;
    struct sl_link *link;
    uint8_t none[SL_GRANT_BYTES] = {0};
    const uint8_t(*grants)[SL_GRANT_BYTES];
    size_t bytes = SLOTS * STRIDE;

    pair_connect(&pair, world);
    link = pair.sides[CONNECTING].link;
    grants = (const uint8_t(*)[SL_GRANT_BYTES])pair.sides[ACCEPTING].grants;
    cr_assert_eq(world->ops->attach(link, SL_RING_MESSAGE, none, bytes, STRIDE), SEALANE_DATA_LOSS);
    side_grant(&pair, ACCEPTING);
    cr_assert_eq(world->ops->attach(link, SL_RING_MESSAGE, none, bytes, STRIDE), SEALANE_DATA_LOSS);
    cr_assert_eq(world->ops->attach(link, SL_RING_MESSAGE, grants[SL_RING_BULK], bytes, STRIDE),
                 SEALANE_DATA_LOSS, "a grant of another ring was taken");
    cr_assert_eq(world->ops->attach(link, SL_RING_MESSAGE, grants[0], bytes + 1, STRIDE),
                 SEALANE_DATA_LOSS, "a ring larger than its memory was taken");
    cr_assert_eq(world->ops->attach(link, SL_RING_MESSAGE, grants[0], SIZE_MAX, STRIDE),
                 SEALANE_DATA_LOSS);
    cr_assert_eq(world->ops->attach(link, SL_RING_MESSAGE, grants[0], bytes, 0), SEALANE_DATA_LOSS);
    cr_assert_eq(world->ops->attach(link, SL_RING_MESSAGE, grants[0], bytes, bytes + 1),
                 SEALANE_DATA_LOSS);
    /* What was refused harms nothing: the true grant is still there. */
    side_attach(&pair, CONNECTING);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 0, 3), SEALANE_OK);
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, 3);
    pair_down(&pair);
}

static inline void refuses_to_grant_twice_or_strides_that_do_not_fit(const struct link_world *world)
{
    struct link_pair pair;
    struct link_side *side = &pair.sides[ACCEPTING];
    uint8_t grant[SL_GRANT_BYTES];
    struct sl_ring_memory ring;

    pair_connect(&pair, world);
    cr_assert_eq(
        sl_memory_ops(pair.memory)->ring_alloc(pair.memory, SL_PLACE_HOST, SLOTS * STRIDE, &ring),
        SEALANE_OK);
    cr_assert_eq(world->ops->grant(side->link, SL_RING_BULK, &ring, 0, grant),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(world->ops->grant(side->link, SL_RING_BULK, &ring, ring.bytes + 1, grant),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(world->ops->grant(side->link, SL_RING_BULK, &ring, STRIDE, grant), SEALANE_OK);
    cr_assert_eq(world->ops->grant(side->link, SL_RING_BULK, &ring, STRIDE, grant),
                 SEALANE_FAILED_PRECONDITION);
    side_drop(&pair, ACCEPTING);
    sl_memory_ops(pair.memory)->ring_free(pair.memory, &ring);
    pair_down(&pair);
}

static inline void counts_posted_placed_and_released(const struct link_world *world)
{
    struct link_pair pair;
    struct sl_link *link;
    uint64_t placed = 0, released = 0;

    pair_up(&pair, world);
    link = pair.sides[CONNECTING].link;
    for (uint32_t i = 0; i < SLOTS; i++) {
        cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, i, i), SEALANE_OK);
        cr_assert_eq(link->posted, i + 1);
        cr_assert(link->placed <= link->posted && link->released <= link->posted);
        cr_assert(link->placed >= placed && link->released >= released);
        placed = link->placed;
        released = link->released;
        (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
    }
    event_expect_none(&pair, CONNECTING);
    cr_assert_eq(link->placed, SLOTS);
    cr_assert_eq(link->released, SLOTS);
    pair_down(&pair);
}

/* ---- ends ---- */

static inline void delivers_what_was_sent_before_the_end_then_gone_once(
    const struct link_world *world)
{
    struct link_pair pair;
    struct sl_link_event event;
    uint32_t arrived = 0;
    size_t bytes = 0;

    pair_up(&pair, world);
    for (uint32_t i = 0; i < SLOTS; i++)
        cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, i, i + 1), SEALANE_OK);
    for (int i = 0; i < 5; i++)
        cr_assert_eq(world->ops->send(pair.sides[CONNECTING].link, (const uint8_t *)"end", 3),
                     SEALANE_OK);
    side_drop(&pair, CONNECTING);
    do {
        cr_assert(event_next(world->ops, pair.sides[ACCEPTING].port, &event, EVENT_LIMIT_MS));
        cr_assert_eq(event.link, pair.sides[ACCEPTING].link);
        if (event.kind == SL_LINK_ARRIVED)
            cr_assert_eq(event.immediate, ++arrived);
        else if (event.kind == SL_LINK_BYTES)
            bytes += event.count;
    } while (event.kind == SL_LINK_ARRIVED || event.kind == SL_LINK_BYTES);
    cr_assert_eq(event.kind, SL_LINK_GONE);
    cr_assert_neq(event.why[0], '\0');
    cr_assert_eq(arrived, SLOTS);
    cr_assert_eq(bytes, 15);
    cr_assert(is_filled(pair.sides[ACCEPTING].rings[0].base + (SLOTS - 1) * STRIDE, STRIDE, SLOTS));
    event_expect_none(&pair, ACCEPTING);
    side_drop(&pair, ACCEPTING);
    pair_down(&pair);
}

/* The peer never read what was sent to it: on some carriers that makes its end an error, which must not eat its last words. */
static inline void hears_the_last_words_of_a_peer_that_did_not_listen(
    const struct link_world *world)
{
    struct link_pair pair;

    pair_connect(&pair, world);
    cr_assert_eq(world->ops->send(pair.sides[ACCEPTING].link, (const uint8_t *)"unread", 6),
                 SEALANE_OK);
    cr_assert_eq(world->ops->send(pair.sides[CONNECTING].link, (const uint8_t *)"last", 4),
                 SEALANE_OK);
    side_drop(&pair, CONNECTING);
    bytes_expect(&pair, ACCEPTING, (const uint8_t *)"last", 4);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_GONE);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

static inline void tells_gone_when_the_peers_port_closes(const struct link_world *world)
{
    struct link_pair pair;

    pair_up(&pair, world);
    world->ops->close(pair.sides[ACCEPTING].port);
    pair.sides[ACCEPTING].port = NULL;
    (void)event_expect(&pair, CONNECTING, SL_LINK_GONE);
    event_expect_none(&pair, CONNECTING);
    pair_down(&pair);
}

static inline void survives_writes_and_sends_to_a_peer_that_is_gone(const struct link_world *world)
{
    int64_t until = contract_now_ms() + EVENT_LIMIT_MS;
    enum sealane_status sent;
    struct link_pair pair;

    pair_up(&pair, world);
    side_drop(&pair, ACCEPTING);
    for (uint32_t i = 0; i < 100; i++) {
        enum sealane_status wrote = write_to(&pair, CONNECTING, SL_RING_MESSAGE, i % SLOTS, i);

        cr_assert(wrote == SEALANE_OK || wrote == SL_AGAIN || wrote == SEALANE_UNAVAILABLE);
    }
    do { /* a carrier may hear of the end a moment later */
        sent = world->ops->send(pair.sides[CONNECTING].link, (const uint8_t *)"x", 1);
        cr_assert(world->both_work || sent == SEALANE_UNAVAILABLE);
        cr_assert(contract_now_ms() < until, "sends to nobody are accepted");
        (void)poll(NULL, 0, 1);
    } while (sent == SEALANE_OK || sent == SL_AGAIN);
    cr_assert_eq(sent, SEALANE_UNAVAILABLE);
    (void)event_expect(&pair, CONNECTING, SL_LINK_GONE);
    event_expect_none(&pair, CONNECTING);
    pair_down(&pair);
}

static inline void says_nothing_of_a_link_after_its_drop(const struct link_world *world)
{
    struct link_pair pair;
    struct sl_link *more[2];

    pair_up(&pair, world);
    connect_more(&pair, more);
    for (uint32_t i = 0; i < SLOTS; i++)
        cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, i, i), SEALANE_OK);
    cr_assert_eq(world->ops->send(pair.sides[CONNECTING].link, (const uint8_t *)"x", 1),
                 SEALANE_OK);
    side_drop(&pair, ACCEPTING); /* with all that unread */
    event_expect_none(&pair, ACCEPTING);
    /* The other link of the same ports goes on. */
    cr_assert_eq(world->ops->send(more[CONNECTING], (const uint8_t *)"y", 1), SEALANE_OK);
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_BYTES).link, more[ACCEPTING]);
    (void)event_expect(&pair, CONNECTING, SL_LINK_GONE);
    pair_down(&pair);
}

/* ---- ports ---- */

static inline void carries_many_links_on_one_port(const struct link_world *world)
{
    enum {
        LINKS = 64
    };
    struct sl_link *links[LINKS][2];
    struct link_pair pair;

    ports_open(&pair, world);
    for (uint8_t i = 0; i < LINKS; i++)
        connect_more(&pair, links[i]);
    for (uint8_t i = 0; i < LINKS; i++) {
        links[i][ACCEPTING]->owner = links[i];
        cr_assert_eq(world->ops->send(links[i][CONNECTING], &i, 1), SEALANE_OK);
    }
    for (int n = 0; n < LINKS; n++) {
        struct sl_link_event event = event_expect(&pair, ACCEPTING, SL_LINK_BYTES);

        cr_assert_eq(event.count, 1);
        cr_assert_eq(event.link->owner, links[event.bytes[0]]);
    }
    for (int n = 0; n < LINKS; n++) { /* 0, 37, 74 % 64, ...: in no order */
        struct sl_link *dropped = links[n * 37 % LINKS][CONNECTING];
        struct sl_link *left = links[n * 37 % LINKS][ACCEPTING];

        world->ops->drop(dropped);
        cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_GONE).link, left);
        world->ops->drop(left);
    }
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

static inline void collects_no_more_events_than_asked(const struct link_world *world)
{
    struct sl_link_event events[SLOTS];
    struct link_pair pair;
    uint32_t got = 0;

    pair_up(&pair, world);
    for (uint32_t i = 0; i < SLOTS; i++)
        cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, i, i), SEALANE_OK);
    cr_assert_eq(world->ops->poll(pair.sides[ACCEPTING].port, NULL, 0), 0);
    for (int i = 0; i < 1000 && got < SLOTS; i++) {
        int count = world->ops->poll(pair.sides[ACCEPTING].port, events, 3);

        cr_assert(count >= 0 && count <= 3);
        for (int n = 0; n < count; n++)
            cr_assert_eq(events[n].immediate, got++);
    }
    cr_assert_eq(got, SLOTS);
    pair_down(&pair);
}

static inline void does_not_sleep_on_what_is_there(const struct link_world *world)
{
    struct link_pair pair;
    struct sl_link *link;
    struct pollfd sleep = {.events = POLLIN};

    pair_up(&pair, world);
    event_expect_none(&pair, ACCEPTING);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, 0, 1), SEALANE_OK);
    cr_assert_eq(world->ops->arm(pair.sides[ACCEPTING].port), -1);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
    cr_assert_eq(world->ops->connect(pair.sides[CONNECTING].port, pair.address, &link), SEALANE_OK);
    cr_assert(world->both_work || world->ops->arm(pair.sides[CONNECTING].port) == -1,
              "CONNECTED is still to be told");
    (void)event_expect(&pair, CONNECTING, SL_LINK_CONNECTED);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_ACCEPTED);
    event_expect_none(&pair, ACCEPTING);
    do /* an old wake-up may still be there to be drained */
        sleep.fd = world->ops->arm(pair.sides[ACCEPTING].port);
    while (sleep.fd < 0 || poll(&sleep, 1, 0) != 0);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, 1, 2), SEALANE_OK);
    cr_assert_eq(poll(&sleep, 1, EVENT_LIMIT_MS), 1, "a write woke nobody");
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, 2);
    pair_down(&pair);
}

/* An armed port sleeps: nothing in it stays ready for ever. */
static inline void does_not_burn_when_idle(const struct link_world *world)
{
    struct link_pair pair;
    struct sl_link_event event;
    int wakes = 0;

    pair_up(&pair, world);
    for (int i = 0; i < 20; i++) {
        struct pollfd sleep = {.fd = world->ops->arm(pair.sides[ACCEPTING].port), .events = POLLIN};

        wakes += sleep.fd < 0 || poll(&sleep, 1, 2) != 0;
        cr_assert_eq(world->ops->poll(pair.sides[ACCEPTING].port, &event, 1), 0);
    }
    cr_assert_leq(wakes, 3, "an idle port woke %d times of 20", wakes);
    pair_down(&pair);
}

enum {
    PING_PONGS = 10000
};

struct ping_pong {
    struct link_pair *pair;
    int side;
    uint32_t done;
};

/* Answers each arrival until all are done; every wait is a sleep. Asserts nothing: it may run beside the test's own thread. */
static void *ping_pong_run(void *context)
{
    struct ping_pong *run = context;
    const struct sl_link_ops *ops = run->pair->world->ops;
    struct sl_link_event event;

    while (run->done < PING_PONGS) {
        if (!event_next(ops, run->pair->sides[run->side].port, &event, EVENT_LIMIT_MS))
            return NULL;
        if (event.kind != SL_LINK_ARRIVED || event.immediate != run->done)
            return NULL;
        run->done++;
        if (run->side == ACCEPTING || run->done < PING_PONGS) {
            uint32_t n = run->side == ACCEPTING ? run->done - 1 : run->done;

            if (write_to(run->pair, run->side, SL_RING_MESSAGE, n % SLOTS, n) != SEALANE_OK)
                return NULL;
        }
    }
    return NULL;
}

static inline void loses_no_wake_up_between_two_sleepers(const struct link_world *world)
{
    struct link_pair pair;
    struct ping_pong near = {.pair = &pair, .side = CONNECTING};
    struct ping_pong far = {.pair = &pair, .side = ACCEPTING};
    pthread_t thread;

    pair_up(&pair, world);
    cr_assert_eq(pthread_create(&thread, NULL, ping_pong_run, &far), 0);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 0, 0), SEALANE_OK);
    (void)ping_pong_run(&near);
    (void)pthread_join(thread, NULL);
    cr_assert_eq(near.done, PING_PONGS, "stopped after %u", near.done);
    cr_assert_eq(far.done, PING_PONGS, "stopped after %u", far.done);
    pair_down(&pair);
}

static inline void leaves_no_descriptor_and_no_mapping_behind(const struct link_world *world)
{
    struct link_pair pair;
    int fds = -1, mappings = -1;

    for (int round = 0; round < 6; round++) {
        pair_up(&pair, world);
        cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, 1, 2), SEALANE_OK);
        (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
        if (round % 3 > 0)
            side_drop(&pair, round % 3 - 1);
        pair_down(&pair);
        if (round == 0) { /* what libraries keep open from the first use on does not count */
            fds = count_fds();
            mappings = count_shared_mappings();
        }
    }
    cr_assert_eq(count_fds(), fds);
    cr_assert_eq(count_shared_mappings(), mappings);
    cr_assert_eq(mappings, 0);
}

/* Of carriers over sockets. A child of the test holds the socket as every fork without exec does; that must not keep a dropped link
 * alive. */
static inline void ends_a_dropped_link_although_a_child_holds_its_socket(
    const struct link_world *world)
{
    struct link_pair pair;
    pid_t child;

    pair_up(&pair, world);
    child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    side_drop(&pair, CONNECTING);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_GONE);
    event_expect_none(&pair, CONNECTING);
    cr_assert_eq(kill(child, SIGKILL), 0);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    pair_down(&pair);
}

#define LINK_CONTRACT_TEST(provider, world, name) \
    Test(provider, name)                          \
    {                                             \
        name(world);                              \
    }

#define LINK_CONTRACT(provider, world)                                                        \
    LINK_CONTRACT_TEST(provider, world, leaves_addresses_of_others_alone)                     \
    LINK_CONTRACT_TEST(provider, world, refuses_malformed_addresses)                          \
    LINK_CONTRACT_TEST(provider, world, lets_one_listen_at_an_address)                        \
    LINK_CONTRACT_TEST(provider, world, tells_gone_when_nobody_listens)                       \
    LINK_CONTRACT_TEST(provider, world, tells_accepted_alone)                                 \
    LINK_CONTRACT_TEST(provider, world, tells_of_a_link_before_what_came_through_it)          \
    LINK_CONTRACT_TEST(provider, world, carries_bytes_in_order_both_ways)                     \
    LINK_CONTRACT_TEST(provider, world, refuses_sends_of_no_or_too_many_bytes)                \
    LINK_CONTRACT_TEST(provider, world, says_again_when_full_and_writable_when_not)           \
    LINK_CONTRACT_TEST(provider, world, delivers_immediates_verbatim_after_their_bytes)       \
    LINK_CONTRACT_TEST(provider, world, keeps_the_order_of_each_ring)                         \
    LINK_CONTRACT_TEST(provider, world, keeps_rings_apart)                                    \
    LINK_CONTRACT_TEST(provider, world, writes_as_many_bytes_as_were_said)                    \
    LINK_CONTRACT_TEST(provider, world, forgets_where_writes_came_from)                       \
    LINK_CONTRACT_TEST(provider, world, refuses_writes_past_the_end_of_a_ring)                \
    LINK_CONTRACT_TEST(provider, world, refuses_writes_before_attach)                         \
    LINK_CONTRACT_TEST(provider, world, refuses_to_attach_what_was_not_granted)               \
    LINK_CONTRACT_TEST(provider, world, refuses_to_grant_twice_or_strides_that_do_not_fit)    \
    LINK_CONTRACT_TEST(provider, world, counts_posted_placed_and_released)                    \
    LINK_CONTRACT_TEST(provider, world, delivers_what_was_sent_before_the_end_then_gone_once) \
    LINK_CONTRACT_TEST(provider, world, hears_the_last_words_of_a_peer_that_did_not_listen)   \
    LINK_CONTRACT_TEST(provider, world, tells_gone_when_the_peers_port_closes)                \
    LINK_CONTRACT_TEST(provider, world, survives_writes_and_sends_to_a_peer_that_is_gone)     \
    LINK_CONTRACT_TEST(provider, world, says_nothing_of_a_link_after_its_drop)                \
    LINK_CONTRACT_TEST(provider, world, carries_many_links_on_one_port)                       \
    LINK_CONTRACT_TEST(provider, world, collects_no_more_events_than_asked)                   \
    LINK_CONTRACT_TEST(provider, world, does_not_sleep_on_what_is_there)                      \
    LINK_CONTRACT_TEST(provider, world, does_not_burn_when_idle)                              \
    LINK_CONTRACT_TEST(provider, world, loses_no_wake_up_between_two_sleepers)                \
    LINK_CONTRACT_TEST(provider, world, leaves_no_descriptor_and_no_mapping_behind)

#endif
