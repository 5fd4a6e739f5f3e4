/* SPDX-License-Identifier: Apache-2.0 */
/* link_pair.h - two ports of any provider with a link between them, for tests: brought up step by step, written to, waited on and
 * taken down. What does not come in time fails the test. */
#ifndef LINK_PAIR_H
#define LINK_PAIR_H

#include "transport/link.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct link_world {
    const struct sl_link_ops *ops;
    void (*begin)(void); /* before the first port; may be NULL */
    void (*end)(void);   /* after the last port; may be NULL */
    /* Writes an address that no other process or test uses. */
    void (*address)(char *to, size_t bytes, const char *name);
    const char *const *malformed; /* addresses of its forms that are wrong; ends with NULL */
    const char *foreign;          /* a good address of another carrier */
    bool fills_up;                /* a peer that does not read makes send say SL_AGAIN */
    bool
        both_work; /* both ports take part in connecting, and neither it nor an end is known at once */
};

enum {
    SLOTS = 16,
    STRIDE = 512,
    EVENT_LIMIT_MS = 10000, /* an event that was owed and did not come: a failure */
    CONNECTING = 0,         /* sides of a pair */
    ACCEPTING = 1
};

struct link_side {
    struct sl_port *port;
    struct sl_link *link;
    struct sl_ring_memory rings[SL_RING_COUNT];
    uint8_t grants[SL_RING_COUNT][SL_GRANT_BYTES];
};

struct link_pair {
    const struct link_world *world;
    struct sl_memory *memory;
    char address[128];
    struct link_side sides[2];
};

/* ---- doing ---- */

static inline int64_t contract_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The port's next event; sleeps in between as a node does. False: none came in time. */
static inline bool event_next(const struct sl_link_ops *ops, struct sl_port *port,
                              struct sl_link_event *event, int limit_ms)
{
    int64_t until = contract_now_ms() + limit_ms;

    while (ops->poll(port, event, 1) == 0) {
        struct pollfd sleep = {.fd = ops->arm(port), .events = POLLIN};
        int64_t left = until - contract_now_ms();

        if (left <= 0)
            return false;
        if (sleep.fd >= 0)
            (void)poll(&sleep, 1, (int)left);
    }
    return true;
}

/* The same while the other side sleeps as a node does, which moves its connections on; its events stay where they are. */
static inline bool side_event_next(struct link_pair *pair, int side, struct sl_link_event *event)
{
    const struct sl_link_ops *ops = pair->world->ops;
    struct sl_port *other = pair->sides[!side].port;
    int64_t until = contract_now_ms() + EVENT_LIMIT_MS;

    if (!pair->world->both_work || !other)
        return event_next(ops, pair->sides[side].port, event, EVENT_LIMIT_MS);
    while (!event_next(ops, pair->sides[side].port, event, 2)) {
        (void)ops->arm(other);
        if (contract_now_ms() >= until)
            return false;
    }
    return true;
}

static inline struct sl_link_event event_expect(struct link_pair *pair, int side,
                                                enum sl_link_event_kind kind)
{
    struct sl_link_event event = {0};

    cr_assert(side_event_next(pair, side, &event), "no event of kind %d came", (int)kind);
    cr_assert_eq(event.kind, kind, "an event of kind %d came, expected %d: %s", (int)event.kind,
                 (int)kind, event.kind == SL_LINK_GONE ? event.why : "");
    return event;
}

/* Nothing comes any more: many polls, a sleep and many polls. */
static inline void event_expect_none(struct link_pair *pair, int side)
{
    struct sl_link_event event = {0};
    bool came = false;

    for (int i = 0; i < 200 && !came; i++)
        came = pair->world->ops->poll(pair->sides[side].port, &event, 1) != 0;
    came = came || event_next(pair->world->ops, pair->sides[side].port, &event, 20);
    cr_assert_not(came, "an event of kind %d came, expected none", (int)event.kind);
}

/* One slot full of each byte. A source is borrowed until the link releases it, so it outlives every call. */
static uint8_t contract_sources[256][STRIDE];

static inline void sources_fill(void)
{
    for (int byte = 0; byte < 256; byte++)
        memset(contract_sources[byte], byte, STRIDE);
}

static inline void ports_open(struct link_pair *pair, const struct link_world *world)
{
    memset(pair, 0, sizeof(*pair));
    sources_fill();
    pair->world = world;
    if (world->begin)
        world->begin();
    world->address(pair->address, sizeof(pair->address), "contract");
    cr_assert_eq(sl_memory_host_new(&pair->memory), SEALANE_OK);
    for (int side = 0; side < 2; side++)
        cr_assert_eq(world->ops->open(NULL, &pair->sides[side].port), SEALANE_OK);
    cr_assert_eq(world->ops->listen(pair->sides[ACCEPTING].port, pair->address, NULL), SEALANE_OK,
                 "%s", sealane_last_error()->message);
}

/* One more link between the two ports; the pair's own links stay as they are. */
static inline void connect_more(struct link_pair *pair, struct sl_link *links[2])
{
    struct sl_link_event event;

    cr_assert_eq(pair->world->ops->connect(pair->sides[CONNECTING].port, pair->address,
                                           &links[CONNECTING]),
                 SEALANE_OK);
    event = event_expect(pair, CONNECTING, SL_LINK_CONNECTED);
    cr_assert_eq(event.link, links[CONNECTING]);
    event = event_expect(pair, ACCEPTING, SL_LINK_ACCEPTED);
    cr_assert_neq(event.link, NULL);
    cr_assert_eq(event.link->ops, pair->world->ops);
    cr_assert_eq(event.link->owner, NULL);
    links[ACCEPTING] = event.link;
}

static inline void pair_connect(struct link_pair *pair, const struct link_world *world)
{
    struct sl_link *links[2];

    ports_open(pair, world);
    connect_more(pair, links);
    for (int side = 0; side < 2; side++)
        pair->sides[side].link = links[side];
}

static inline void side_grant(struct link_pair *pair, int side)
{
    struct link_side *at = &pair->sides[side];

    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        cr_assert_eq(sl_memory_ops(pair->memory)
                         ->ring_alloc(pair->memory, SL_PLACE_HOST, SLOTS * STRIDE,
                                      &at->rings[ring]),
                     SEALANE_OK);
        cr_assert_eq(pair->world->ops->grant(at->link, (enum sl_ring_id)ring, &at->rings[ring],
                                             STRIDE, at->grants[ring]),
                     SEALANE_OK, "%s", sealane_last_error()->message);
    }
    /* What follows in a handshake: the peer knows of the grants from bytes that come behind them. */
    cr_assert_eq(pair->world->ops->send(at->link, (const uint8_t *)"g", 1), SEALANE_OK);
    (void)event_expect(pair, !side, SL_LINK_BYTES);
}

static inline void side_sources(struct link_pair *pair, int side, const void *base, size_t bytes)
{
    cr_assert_eq(pair->world->ops->sources(pair->sides[side].link, base, bytes), SEALANE_OK, "%s",
                 sealane_last_error()->message);
}

static inline void side_attach(struct link_pair *pair, int side)
{
    side_sources(pair, side, contract_sources, sizeof(contract_sources));
    for (int ring = 0; ring < SL_RING_COUNT; ring++)
        cr_assert_eq(pair->world->ops->attach(pair->sides[side].link, (enum sl_ring_id)ring,
                                              pair->sides[!side].grants[ring], SLOTS * STRIDE,
                                              STRIDE),
                     SEALANE_OK, "%s", sealane_last_error()->message);
}

/* Connected, both rings granted and attached both ways. */
static inline void pair_up(struct link_pair *pair, const struct link_world *world)
{
    pair_connect(pair, world);
    side_grant(pair, ACCEPTING);
    side_grant(pair, CONNECTING);
    side_attach(pair, CONNECTING);
    side_attach(pair, ACCEPTING);
}

static inline void side_close(struct link_pair *pair, int side)
{
    if (pair->sides[side].port)
        pair->world->ops->close(pair->sides[side].port);
    pair->sides[side].port = NULL;
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        if (pair->sides[side].rings[ring].base)
            sl_memory_ops(pair->memory)->ring_free(pair->memory, &pair->sides[side].rings[ring]);
    }
}

static inline void pair_down(struct link_pair *pair)
{
    side_close(pair, CONNECTING);
    side_close(pair, ACCEPTING);
    sl_memory_ops(pair->memory)->close(pair->memory);
    if (pair->world->end)
        pair->world->end();
}

static inline void side_drop(struct link_pair *pair, int side)
{
    pair->world->ops->drop(pair->sides[side].link);
    pair->sides[side].link = NULL;
}

/* What waits in a side's port goes out; its events stay where they are. */
static inline void side_let_go(struct link_pair *pair, int side)
{
    (void)pair->world->ops->poll(pair->sides[side].port, NULL, 0);
}

/* Fills one slot with the lowest byte of the immediate, and lets it go. */
static inline enum sealane_status write_to(struct link_pair *pair, int side, enum sl_ring_id ring,
                                           uint32_t slot, uint32_t immediate)
{
    struct sl_link_write write = {.ring = ring,
                                  .slot = slot,
                                  .from = contract_sources[immediate & 0xff],
                                  .bytes = STRIDE,
                                  .immediate = immediate};
    enum sealane_status status = pair->world->ops->write_imm(pair->sides[side].link, &write);

    side_let_go(pair, side);
    return status;
}

static inline bool is_filled(const uint8_t *bytes, size_t count, int with)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != with)
            return false;
    }
    return true;
}

/* Takes bytes until `count` came. */
static inline void bytes_expect(struct link_pair *pair, int side, const uint8_t *bytes,
                                size_t count)
{
    size_t got = 0;

    while (got < count) {
        struct sl_link_event event = event_expect(pair, side, SL_LINK_BYTES);

        cr_assert_eq(event.link, pair->sides[side].link);
        cr_assert_leq(event.count, count - got);
        cr_assert_eq(memcmp(event.bytes, bytes + got, event.count), 0,
                     "wrong bytes after the first %zu", got);
        got += event.count;
    }
}

static inline int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    cr_assert_neq(dir, NULL);
    while (readdir(dir))
        count++;
    (void)closedir(dir);
    return count;
}

static inline int count_shared_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int count = 0;

    cr_assert_neq(maps, NULL);
    while (fgets(line, sizeof(line), maps)) {
        if (strstr(line, "memfd:sealane"))
            count++;
    }
    (void)fclose(maps);
    return count;
}

#endif
