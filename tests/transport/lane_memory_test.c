/* SPDX-License-Identifier: Apache-2.0 */
/* lane_memory_test.c - lanes over a memory kind like a GPU's: its pointers fault on the host, its jobs finish later and in any
 * order. The lane must never look through such a pointer, keep records in order, and give memory back only when no job needs it. */
#include "tests/support/lanes.h"
#include "tests/support/memory_fake.h"
#include "transport/lane_inside.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum {
    BYTES = 16384 * 40 + 77
};

static struct lanes lanes;
static struct sl_memory *memories[2];
static int made;
static bool device_rings;
static uint8_t *content, *back;
static void *from, *to;

static struct sl_memory *make_memory(void)
{
    cr_assert_eq(memory_fake_new(8 << 20, &memories[made]), SEALANE_OK);
    if (device_rings)
        memory_fake_device_rings(memories[made], 0);
    return memories[made++];
}

static void open_lanes(uint32_t epoch_shift)
{
    lanes_init(&lanes, true);
    lanes.memory = make_memory;
    for (int i = 0; i < 2; i++) {
        lanes.options[i].message_slot_bytes = 1024;
        lanes.options[i].message_slots = 8;
        lanes.options[i].bulk_chunk_bytes = 16384;
        lanes.options[i].bulk_slots = 16;
        lanes.options[i].epoch_shift = epoch_shift;
    }
    lanes_listen(&lanes);
    content = malloc(BYTES);
    back = calloc(1, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        content[i] = (uint8_t)(i * 37 + (i >> 9));
    cr_assert_eq(sl_memory_ops(memories[1])->alloc(memories[1], BYTES, &from), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(memories[0])->alloc(memories[0], BYTES, &to), SEALANE_OK);
    memory_fake_put(memories[1], from, content, BYTES);
    lanes.end[0].place = to;
    lanes_connect(&lanes);
}

static void close_lanes(void)
{
    sl_memory_ops(memories[1])->free(memories[1], from, BYTES);
    sl_memory_ops(memories[0])->free(memories[0], to, BYTES);
    lanes_free(&lanes);
    free(content);
    free(back);
}

static bool all_filled(struct lanes *all)
{
    return all->end[0].filled == BYTES && all->end[1].sent > 0;
}

static void transfer(enum memory_fake_order order, size_t pace, uint32_t epoch_shift)
{
    struct sl_part parts[1];
    uint8_t byte = 1;
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    open_lanes(epoch_shift);
    parts[0] = (struct sl_part){from, BYTES};
    for (int i = 0; i < 2; i++) {
        memory_fake_order(memories[i], order);
        memory_fake_pace(memories[i], pace);
    }
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    cr_assert(lanes_until(&lanes, all_filled), "%llu of %d bytes, server \"%s\"",
              (unsigned long long)lanes.end[0].filled, BYTES, lanes.end[0].close_text);
    memory_fake_get(memories[0], back, to, BYTES);
    cr_assert_eq(memcmp(back, content, BYTES), 0);
    lanes_disconnect(&lanes);
    close_lanes();
}

/* The fake carrier is like local and tcp: it copies by the CPU. */
Test(lane_memory, a_ring_that_the_carrier_cannot_reach_is_the_hosts_instead)
{
    struct sealane_security security;

    device_rings = true;
    open_lanes(0);
    for (int i = 0; i < 2; i++) {
        sl_lane_security(lanes.end[i].lane, &security);
        cr_assert_str_eq(security.bulk_ring, "host");
        cr_assert_eq(lanes.end[i].lane->rx[SL_RING_BULK].memory.place, SL_PLACE_HOST);
    }
    lanes_disconnect(&lanes);
    close_lanes();
    made = 0;
    transfer(MEMORY_FAKE_FIRST_FIRST, SIZE_MAX, 0);
}

Test(lane_memory, invariant_12_a_device_tensor_goes_from_device_to_device)
{
    transfer(MEMORY_FAKE_FIRST_FIRST, SIZE_MAX, 0);
}

Test(lane_memory, jobs_that_finish_one_at_a_time_are_waited_for)
{
    transfer(MEMORY_FAKE_FIRST_FIRST, 1, 0);
}

Test(lane_memory, jobs_that_finish_backwards_keep_records_in_order)
{
    transfer(MEMORY_FAKE_LAST_FIRST, 3, 0);
}

Test(lane_memory, jobs_that_finish_in_any_order_over_many_epochs)
{
    transfer(MEMORY_FAKE_SHUFFLED, 2, 3);
}

Test(lane_memory, an_abandoned_send_is_told_once_its_jobs_are_done)
{
    struct sl_part parts[1];
    uint8_t byte = 1;
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    open_lanes(0);
    parts[0] = (struct sl_part){from, BYTES};
    memory_fake_pace(memories[1], 0); /* seals hang */
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    lanes_turn(&lanes, 20);
    cr_assert_gt(memory_fake_pending(memories[1]), 0);
    cr_assert_not(sl_lane_abandon(lanes.end[1].lane, &send), "jobs still read it");
    lanes_turn(&lanes, 20);
    cr_assert_eq(lanes.end[1].sent, 0);
    memory_fake_pace(memories[1], SIZE_MAX);
    lanes_turn(&lanes, 20);
    cr_assert_eq(lanes.end[1].sent, 1);
    cr_assert_eq(lanes.end[1].closed + lanes.end[0].closed, 0, "chunks that were begun are sent");
    lanes_disconnect(&lanes);
    close_lanes();
}

Test(lane_memory, a_lane_that_ends_waits_for_its_jobs)
{
    struct sl_part parts[1];
    uint8_t byte = 1;
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    open_lanes(0);
    parts[0] = (struct sl_part){from, BYTES};
    memory_fake_pace(memories[0], 0); /* opens hang */
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    lanes_turn(&lanes, 50);
    cr_assert_gt(memory_fake_pending(memories[0]), 0);
    link_fake_cut(lanes.world);
    lanes_turn(&lanes, 50);
    cr_assert_eq(lanes.end[1].closed, 1);
    cr_assert_eq(lanes.end[0].closed, 0, "its destination is still being filled");
    memory_fake_pace(memories[0], SIZE_MAX);
    lanes_turn(&lanes, 50);
    cr_assert_eq(lanes.end[0].closed, 1);
    close_lanes();
}

Test(lane_memory, a_damaged_chunk_among_others_in_flight_ends_the_lane_after_all_jobs)
{
    struct sl_part parts[1];
    uint8_t byte = 1;
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    open_lanes(0);
    parts[0] = (struct sl_part){from, BYTES};
    memory_fake_order(memories[0], MEMORY_FAKE_LAST_FIRST);
    memory_fake_pace(memories[0], 1);
    link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                         .from = LINK_FAKE_CLIENT,
                                                         .ring = SL_RING_BULK,
                                                         .nth = 1,
                                                         .what = LINK_FAKE_FLIP,
                                                         .bit = 128 * 8 + 5});
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    cr_assert(lanes_until(&lanes, lanes_both_closed));
    cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS);
    cr_assert_eq(memory_fake_pending(memories[0]), 0);
    cr_assert_leq(lanes.end[0].filled, 256 * 1024, "what the first write carried");
    close_lanes();
}
