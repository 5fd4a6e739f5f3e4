/* SPDX-License-Identifier: Apache-2.0 */
/* lane_staging_test.c - what whole lanes do with their nodes' staging: they give it back, leave nothing readable in it, write nothing of
 * others from it, and end with a reason when there is none. */
#include "tests/support/lanes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    CHUNK = 16384,
    PART = 20 * CHUNK + 77,
    TIMES = 30
};

static const char marker[] = "what nobody but the two ends may read";
static struct lanes lanes;
static uint8_t *part, *place;

static void open_lanes(const char *carrier)
{
    lanes_init(&lanes, strcmp(carrier, "fake") == 0);
    if (strcmp(carrier, "tcp") == 0)
        (void)snprintf(lanes.address, sizeof(lanes.address), "127.0.0.1:0");
    for (int i = 0; i < 2; i++)
        lanes.options[i].bulk_chunk_bytes = CHUNK;
    lanes_listen(&lanes);
    lanes_connect(&lanes);
    part = malloc(PART);
    place = malloc(PART);
    for (size_t i = 0; i + sizeof(marker) < PART; i += sizeof(marker))
        memcpy(part + i, marker, sizeof(marker));
}

static void close_lanes(void)
{
    lanes_free(&lanes);
    free(part);
    free(place);
}

static struct sl_staging_pool *pool_of(int end)
{
    return sl_node_staging(lanes.nodes[end]);
}

static bool both_sent(struct lanes *all)
{
    return all->end[0].sent > 0 && all->end[1].sent > 0;
}

/* A message and a tensor each way. */
static void traffic(void)
{
    static uint64_t call;
    struct sl_part parts[] = {{part, PART}};
    struct sl_send sends[2];

    call++;
    for (int end = 0; end < 2; end++) {
        lanes.end[end].sent = 0;
        lanes.end[end].place = place;
        sends[end] = (struct sl_send){.call = call,
                                      .bytes = (const uint8_t *)marker,
                                      .count = sizeof(marker),
                                      .parts = parts,
                                      .part_count = 1};
        cr_assert_eq(sl_lane_send(lanes.end[end].lane, &sends[end]), SEALANE_OK);
    }
    cr_assert(lanes_until(&lanes, both_sent));
}

static void expect_unreadable(const char *when)
{
    for (int end = 0; end < 2; end++) {
        for (const struct sl_slab *slab = pool_of(end)->slabs; slab; slab = slab->next)
            cr_assert_null(memmem(slab->base, SL_SLAB_BYTES, marker, sizeof(marker) - 1), "%s",
                           when);
    }
}

static void expect_given_back(const char *carrier)
{
    open_lanes(carrier);
    for (int i = 0; i < TIMES; i++)
        traffic();
    lanes_turn(&lanes, 20);
    for (int end = 0; end < 2; end++) {
        struct sl_staging *staging = &lanes.end[end].lane->staging;

        cr_assert_eq(sl_staging_room(staging, SL_RING_MESSAGE), 128);
        cr_assert_eq(sl_staging_room(staging, SL_RING_BULK), 64);
        cr_assert_eq(pool_of(end)->taken, 0);
        cr_assert_eq(pool_of(end)->count, 1);
    }
    expect_unreadable("idle");
    lanes_disconnect(&lanes);
    expect_unreadable("after the lane's end");
    close_lanes();
}

Test(lane_staging, an_idle_lane_over_the_fake_holds_none_and_left_nothing_readable)
{
    expect_given_back("fake");
}
Test(lane_staging, an_idle_lane_over_link_local_holds_none_and_left_nothing_readable)
{
    expect_given_back("local");
}
Test(lane_staging, an_idle_lane_over_tcp_holds_none_and_left_nothing_readable)
{
    expect_given_back("tcp");
}

/* ---- between two records ---- */

static uint64_t chunks_seen, dirty;

/* A bulk slot is tag, zeros, ciphertext. */
static void gaps_look(void *context, const struct link_fake_crossing *crossing)
{
    static const uint8_t zeros[SL_BULK_HEAD_BYTES];

    (void)context;
    if (crossing->kind != LINK_FAKE_WRITE || crossing->ring != SL_RING_BULK)
        return;
    for (size_t at = 0; at < crossing->count; at += CHUNK + SL_BULK_HEAD_BYTES) {
        chunks_seen++;
        if (memcmp(crossing->bytes + at + SL_TAG_BYTES, zeros, SL_BULK_HEAD_BYTES - SL_TAG_BYTES) !=
            0)
            dirty++;
    }
}

Test(lane_staging, what_was_there_before_a_chunk_does_not_travel_with_it)
{
    open_lanes("fake");
    for (int end = 0; end < 2; end++)
        memset(pool_of(end)->slabs->base, 0x77, SL_SLAB_BYTES);
    link_fake_tap(lanes.world, gaps_look, NULL);
    traffic();
    link_fake_tap(lanes.world, NULL, NULL);
    cr_assert_eq(chunks_seen, 2 * 21);
    cr_assert_eq(dirty, 0);
    close_lanes();
}

/* ---- none to be had ---- */

static struct sl_link_ops harmed; /* link_fake's, but for sources */

static SEALANE_RESULT refuse(struct sl_link *link, const void *base, size_t bytes)
{
    (void)link;
    (void)base;
    return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "%zu bytes are more than may be locked", bytes);
}

static bool client_closed(struct lanes *all)
{
    return all->end[1].closed > 0;
}

Test(lane_staging, a_lane_whose_link_takes_no_more_memory_ends_with_the_reason)
{
    static const uint8_t byte = 1;
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1};
    struct sl_slab *slab;

    open_lanes("fake");
    lanes_turn(&lanes, 5);
    harmed = link_fake;
    harmed.sources = refuse;
    lanes.end[1].lane->link->ops = &harmed;
    slab = pool_of(1)->slabs;
    memset(slab->units, 1, SL_SLAB_UNITS); /* somebody else's */
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    cr_assert(lanes_until(&lanes, client_closed));
    cr_assert_eq(lanes.end[1].close_status, SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(lanes.end[1].close_text, "more than may be locked"), "%s",
                       lanes.end[1].close_text);
    close_lanes();
}

/* ---- stuck ---- */

static bool stuck(struct lanes *all)
{
    return pool_of(1)->taken > 0 && all->end[1].lane->staging.loans[SL_RING_BULK].pieces > 0;
}

Test(lane_staging, invariant_14_what_a_stuck_lane_holds_is_bounded_and_back_when_it_goes_on)
{
    struct sl_part parts[] = {{part, PART}};
    struct sl_send send = {.call = 1000, .bytes = (const uint8_t *)marker, .count = sizeof(marker)};
    struct sl_loans *loans;

    open_lanes("fake");
    parts[0].data = part;
    send.parts = parts;
    send.part_count = 1;
    lanes.end[0].place = place;
    lanes_turn(&lanes, 5);
    loans = lanes.end[1].lane->staging.loans;
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    for (int i = 0; i < 100 && lanes.end[0].allowed == 0; i++)
        lanes_turn(&lanes, 1);
    link_fake_hold_all(lanes.world, true);
    cr_assert(lanes_until(&lanes, stuck));
    lanes_turn(&lanes, 200);
    cr_assert_leq(loans[SL_RING_BULK].pieces, 64);
    cr_assert_leq(loans[SL_RING_MESSAGE].pieces, 128);
    link_fake_hold_all(lanes.world, false);
    while (lanes.end[0].filled < PART)
        lanes_turn(&lanes, 1);
    lanes_turn(&lanes, 20);
    cr_assert_eq(sl_staging_room(&lanes.end[1].lane->staging, SL_RING_BULK), 64);
    cr_assert_eq(pool_of(1)->taken, 0);
    cr_assert_arr_eq(place, part, PART - 100);
    close_lanes();
}
