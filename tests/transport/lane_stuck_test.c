/* SPDX-License-Identifier: Apache-2.0 */
/* lane_stuck_test.c - calls that are stuck for good, at either end: tensors that nobody allows, tensors that nobody wants, memory that
 * never finishes opening. Other calls of the lane go on, at full speed, in both directions. */
#include "tests/support/lanes.h"
#include "tests/support/memory_fake.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum {
    STUCK = 200,
    OTHERS = 1000,
    CHUNK = 16384,
    EAGER = 40000,
    LARGE = 64 * CHUNK, /* larger than the bulk ring */
    TURNS_EACH = 12     /* at most, for one call and its answer: a ring of eight slots is small */
};

static struct lanes lanes;

static void open_lanes(bool fake, struct sl_memory *(*memory)(void))
{
    lanes_init(&lanes, fake);
    lanes.memory = memory;
    for (int i = 0; i < 2; i++) {
        lanes.options[i].message_slot_bytes = 1024;
        lanes.options[i].message_slots = 8;
        lanes.options[i].bulk_chunk_bytes = CHUNK;
        lanes.options[i].bulk_slots = 8;
        lanes.options[i].eager_bytes = EAGER;
        lanes.options[i].epoch_shift = 3;
    }
    lanes_listen(&lanes);
    lanes_connect(&lanes);
}

/* Calls that get nowhere: each has a tensor that the other end is never going to allow. */
static void get_stuck(struct sl_send *sends, const struct sl_part *part)
{
    static const uint8_t byte = 1;

    for (int end = 0; end < 2; end++) {
        lanes.end[end].keep_quiet = true;
        for (int i = 0; i < STUCK; i++) {
            struct sl_send *send = &sends[end * STUCK + i];

            *send = (struct sl_send){.call = (uint64_t)i + 1,
                                     .bytes = &byte,
                                     .count = 1,
                                     .parts = part,
                                     .part_count = 1};
            cr_assert_eq(sl_lane_send(lanes.end[end].lane, send), SEALANE_OK);
        }
    }
    for (int i = 0; i < 1000 && lanes.end[0].messages + lanes.end[1].messages < 2 * STUCK; i++)
        lanes_turn(&lanes, 1);
    cr_assert_eq(lanes.end[0].messages, STUCK);
    cr_assert_eq(lanes.end[1].messages, STUCK);
    cr_assert_eq(lanes.end[0].sent + lanes.end[1].sent, 0);
}

/* Messages back and forth, each with an eager tensor unless part is NULL; each pair within TURNS_EACH turns. */
static void others_go_on(const struct sl_part *part)
{
    uint8_t message[100] = {7};

    for (int end = 0; end < 2; end++)
        lanes.end[end].messages = lanes.end[end].sent = (int)(lanes.end[end].filled = 0);
    for (int i = 1; i <= OTHERS; i++) {
        struct sl_send sends[2];
        int turns = 0;

        for (int end = 0; end < 2; end++) {
            sends[end] = (struct sl_send){.call = STUCK + (uint64_t)i,
                                          .bytes = message,
                                          .count = sizeof(message),
                                          .parts = part,
                                          .part_count = part != NULL};
            cr_assert_eq(sl_lane_send(lanes.end[end].lane, &sends[end]), SEALANE_OK);
        }
        for (uint64_t filled = part ? (uint64_t)i * part->bytes : 0;
             lanes.end[0].messages < i || lanes.end[1].messages < i || lanes.end[0].sent < i ||
             lanes.end[1].sent < i || lanes.end[0].filled < filled || lanes.end[1].filled < filled;
             turns++) {
            lanes_turn(&lanes, 1);
            cr_assert_lt(turns, TURNS_EACH, "call %d is held up by calls that are stuck", i);
        }
    }
}

static void stuck_tensors_hold_nobody_up(bool fake)
{
    struct sl_send *stuck = calloc(2 * STUCK, sizeof(*stuck));
    uint8_t *large = calloc(1, LARGE), *eager = calloc(1, EAGER);
    uint8_t *places[2] = {malloc(EAGER), malloc(EAGER)};
    const struct sl_part never = {large, LARGE}, part = {eager, EAGER};

    open_lanes(fake, NULL);
    lanes.end[0].place = places[0];
    lanes.end[1].place = places[1];
    get_stuck(stuck, &never);
    others_go_on(&part);
    cr_assert_eq(memcmp(places[0], eager, EAGER), 0);
    for (int i = 0; i < 2 * STUCK; i++) /* still there, and still given back at once */
        cr_assert(sl_lane_abandon(lanes.end[i / STUCK].lane, &stuck[i]));
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(stuck);
    free(large);
    free(eager);
    free(places[0]);
    free(places[1]);
}

Test(lane_stuck, invariant_14_tensors_that_nobody_allows_hold_nobody_up_over_the_fake)
{
    stuck_tensors_hold_nobody_up(true);
}
Test(lane_stuck, invariant_14_tensors_that_nobody_allows_hold_nobody_up_over_link_local)
{
    stuck_tensors_hold_nobody_up(false);
}

/* ---- memory that never finishes ---- */

static struct sl_memory *memories[2];
static int made;

static struct sl_memory *make_memory(void)
{
    cr_assert_eq(memory_fake_new(8 << 20, &memories[made]), SEALANE_OK);
    return memories[made++];
}

Test(lane_stuck, invariant_14_messages_go_on_while_the_memory_of_a_tensor_hangs)
{
    static const uint8_t byte = 1;
    void *from, *to;
    struct sl_part parts[1];
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    open_lanes(true, make_memory);
    cr_assert_eq(sl_memory_ops(memories[1])->alloc(memories[1], LARGE, &from), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(memories[0])->alloc(memories[0], LARGE, &to), SEALANE_OK);
    parts[0] = (struct sl_part){from, LARGE};
    lanes.end[0].place = to;
    memory_fake_pace(memories[0], 0);
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    lanes_turn(&lanes, 100);
    cr_assert_eq(memory_fake_pending(memories[0]), 8, "the whole bulk ring is stuck");
    cr_assert_eq(lanes.end[1].sent, 0);
    others_go_on(NULL);
    memory_fake_pace(memories[0], SIZE_MAX);
    lanes_turn(&lanes, 300);
    cr_assert_eq(lanes.end[0].filled, LARGE, "and the tensor comes when its memory does");
    lanes_disconnect(&lanes);
    sl_memory_ops(memories[1])->free(memories[1], from, LARGE);
    sl_memory_ops(memories[0])->free(memories[0], to, LARGE);
    lanes_free(&lanes);
}

/* ---- tensors that nobody wants ---- */

Test(lane_stuck, invariant_14_tensors_of_calls_that_ended_flow_off)
{
    struct sl_send *unwanted = calloc(STUCK, sizeof(*unwanted));
    uint8_t *large = calloc(1, LARGE), *eager = calloc(1, EAGER), *place = malloc(EAGER);
    const struct sl_part skipped = {large, LARGE}, part = {eager, EAGER};
    static const uint8_t byte = 1;

    open_lanes(true, NULL);
    for (int i = 0; i < STUCK; i++) { /* allowed, then the call ends: nobody has a place for it */
        unwanted[i] = (struct sl_send){.call = (uint64_t)i + 1,
                                       .bytes = &byte,
                                       .count = 1,
                                       .parts = &skipped,
                                       .part_count = 1};
        cr_assert_eq(sl_lane_send(lanes.end[1].lane, &unwanted[i]), SEALANE_OK);
    }
    while (lanes.end[1].sent < STUCK)
        lanes_turn(&lanes, 1);
    lanes_turn(&lanes, 50);
    cr_assert_eq(lanes.end[0].placed, (uint64_t)STUCK * LARGE);
    cr_assert_eq(lanes.end[0].filled, 0);
    lanes.end[0].place = lanes.end[1].place = place;
    others_go_on(&part);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(unwanted);
    free(large);
    free(eager);
    free(place);
}
