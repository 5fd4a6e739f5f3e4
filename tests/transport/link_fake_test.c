/* SPDX-License-Identifier: Apache-2.0 */
/* link_fake_test.c - the fake is a carrier as good as any until it is told otherwise, and then does just what it is told. */
#include "tests/support/link_fake.h"
#include "tests/transport/link_contract.h"

static struct link_fake_world *fake_world;

static void world_begin(void)
{
    fake_world = link_fake_world_new();
}

static void world_end(void)
{
    link_fake_world_free(fake_world);
}

static void fake_address(char *to, size_t bytes, const char *name)
{
    (void)snprintf(to, bytes, "fake:%s", name);
}

static const char *const malformed[] = {
    "fake:", "fake:0123456789012345678901234567890123456789012345678901234567890", NULL};

static const struct link_world world = {.ops = &link_fake,
                                        .begin = world_begin,
                                        .end = world_end,
                                        .address = fake_address,
                                        .malformed = malformed,
                                        .foreign = "10.0.0.1:7000"};

LINK_CONTRACT(link_fake, &world)

/* ---- what it is told ---- */

static void rule(enum link_fake_what what, uint64_t nth)
{
    link_fake_rule(fake_world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                        .from = LINK_FAKE_CLIENT,
                                                        .any_ring = true,
                                                        .nth = nth,
                                                        .what = what,
                                                        .bit = 9});
}

/* The client writes 1, 2, ... n into slots 1, 2, ... n. */
static void write_many(struct link_pair *pair, uint32_t n)
{
    for (uint32_t i = 1; i <= n; i++)
        cr_assert_eq(write_to(pair, CONNECTING, SL_RING_MESSAGE, i, i), SEALANE_OK);
}

/* These immediates arrive at the server, 0 ends the list, and nothing else does. */
static void arrivals_expect(struct link_pair *pair, const uint32_t *immediates)
{
    for (; *immediates; immediates++)
        cr_assert_eq(event_expect(pair, ACCEPTING, SL_LINK_ARRIVED).immediate, *immediates);
    event_expect_none(pair, ACCEPTING);
}

static bool slot_holds(const struct link_pair *pair, uint32_t slot, int byte)
{
    return is_filled(pair->sides[ACCEPTING].rings[SL_RING_MESSAGE].base + slot * STRIDE, STRIDE,
                     byte);
}

static void counters_expect(const struct link_pair *pair, uint64_t posted, uint64_t placed,
                            uint64_t released)
{
    const struct sl_link *link = pair->sides[CONNECTING].link;

    cr_assert_eq(link->posted, posted);
    cr_assert_eq(link->placed, placed);
    cr_assert_eq(link->released, released);
}

Test(link_fake, holds_one_write_until_released_while_others_overtake_it)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    rule(LINK_FAKE_HOLD, 1);
    write_many(&pair, 3);
    arrivals_expect(&pair, (const uint32_t[]){1, 3, 0});
    cr_assert(slot_holds(&pair, 2, 0));
    counters_expect(&pair, 3, 1, 1); /* in posting order: the third waits for the second */
    cr_assert_eq(link_fake_held(fake_world), 1);
    cr_assert_eq(link_fake_release(fake_world, 5), 1);
    arrivals_expect(&pair, (const uint32_t[]){2, 0});
    cr_assert(slot_holds(&pair, 2, 2));
    counters_expect(&pair, 3, 3, 3);
    pair_down(&pair);
}

/* A sender that changes its source before `released` counts it is found out. */
Test(link_fake, reads_the_source_of_a_held_write_when_it_is_released)
{
    uint8_t bytes[STRIDE];
    struct sl_link_write write = {
        .ring = SL_RING_MESSAGE, .slot = 1, .from = bytes, .bytes = STRIDE, .immediate = 1};
    struct link_pair pair;

    pair_up(&pair, &world);
    rule(LINK_FAKE_HOLD, 0);
    memset(bytes, 1, sizeof(bytes));
    cr_assert_eq(link_fake.write_imm(pair.sides[CONNECTING].link, &write), SEALANE_OK);
    memset(bytes, 2, sizeof(bytes));
    cr_assert_eq(link_fake_release(fake_world, 1), 1);
    cr_assert(slot_holds(&pair, 1, 2));
    pair_down(&pair);
}

Test(link_fake, holds_everything_in_order_until_told_otherwise)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    link_fake_hold_all(fake_world, true);
    write_many(&pair, 3);
    cr_assert_eq(link_fake.send(pair.sides[CONNECTING].link, (const uint8_t *)"x", 1), SEALANE_OK);
    event_expect_none(&pair, ACCEPTING);
    counters_expect(&pair, 3, 0, 0);
    cr_assert_eq(link_fake_release(fake_world, 1), 1);
    arrivals_expect(&pair, (const uint32_t[]){1, 0});
    counters_expect(&pair, 3, 1, 1);
    link_fake_hold_all(fake_world, false);
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, 2);
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, 3);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_BYTES);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

Test(link_fake, delivers_what_is_held_although_its_sender_dropped_the_link_and_gone_after_it)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    link_fake_hold_all(fake_world, true);
    write_many(&pair, 2);
    side_drop(&pair, CONNECTING);
    event_expect_none(&pair, ACCEPTING);
    link_fake_hold_all(fake_world, false);
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, 1);
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, 2);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_GONE);
    event_expect_none(&pair, ACCEPTING);
    cr_assert(slot_holds(&pair, 2, 2));
    pair_down(&pair);
}

Test(link_fake, forgets_what_is_held_for_a_link_that_was_dropped)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    link_fake_hold_all(fake_world, true);
    write_many(&pair, 2);
    side_drop(&pair, ACCEPTING);
    link_fake_hold_all(fake_world, false);
    cr_assert(slot_holds(&pair, 1, 0));
    counters_expect(&pair, 2, 2, 2);
    (void)event_expect(&pair, CONNECTING, SL_LINK_GONE);
    pair_down(&pair);
}

Test(link_fake, loses_a_write_or_its_bytes_or_its_immediate)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    rule(LINK_FAKE_LOSE, 0);
    rule(LINK_FAKE_LOSE_BYTES, 1);
    rule(LINK_FAKE_LOSE_IMMEDIATE, 2);
    write_many(&pair, 4);
    arrivals_expect(&pair, (const uint32_t[]){2, 4, 0});
    cr_assert(slot_holds(&pair, 1, 0) && slot_holds(&pair, 2, 0));
    cr_assert(slot_holds(&pair, 3, 3) && slot_holds(&pair, 4, 4));
    counters_expect(&pair, 4, 4, 4);
    pair_down(&pair);
}

static void change_all(void *context, uint8_t *bytes, size_t count)
{
    memset(bytes, *(const int *)context, count);
}

Test(link_fake, flips_one_bit_and_changes_bytes_but_not_the_senders)
{
    static const uint8_t source[STRIDE] = {0};
    struct sl_link_write write = {
        .ring = SL_RING_MESSAGE, .slot = 5, .from = source, .bytes = STRIDE, .immediate = 1};
    struct link_pair pair;
    const uint8_t *slot;
    int with = 0x5a;

    pair_up(&pair, &world);
    slot = pair.sides[ACCEPTING].rings[SL_RING_MESSAGE].base + 5 * STRIDE;
    rule(LINK_FAKE_FLIP, 0); /* bit 9 */
    cr_assert_eq(link_fake.write_imm(pair.sides[CONNECTING].link, &write), SEALANE_OK);
    cr_assert_eq(slot[1], 2);
    cr_assert(slot[0] == 0 && is_filled(slot + 2, STRIDE - 2, 0));
    link_fake_rule(fake_world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                        .any_ring = true,
                                                        .what = LINK_FAKE_CHANGE,
                                                        .change = change_all,
                                                        .context = &with});
    cr_assert_eq(link_fake.write_imm(pair.sides[CONNECTING].link, &write), SEALANE_OK);
    cr_assert(slot_holds(&pair, 5, 0x5a));
    cr_assert(is_filled(source, STRIDE, 0));
    pair_down(&pair);
}

Test(link_fake, flips_and_loses_handshake_bytes_too)
{
    struct sl_link_event event;
    struct link_pair pair;

    pair_connect(&pair, &world);
    link_fake_rule(fake_world, &(struct link_fake_rule){
                                   .kind = LINK_FAKE_SEND, .what = LINK_FAKE_FLIP, .bit = 8});
    link_fake_rule(fake_world, &(struct link_fake_rule){
                                   .kind = LINK_FAKE_SEND, .nth = 1, .what = LINK_FAKE_LOSE});
    for (int i = 0; i < 3; i++)
        cr_assert_eq(link_fake.send(pair.sides[0].link, (const uint8_t *)"abc", 3), SEALANE_OK);
    event = event_expect(&pair, ACCEPTING, SL_LINK_BYTES);
    cr_assert_eq(memcmp(event.bytes, "acc", 3), 0);
    event = event_expect(&pair, ACCEPTING, SL_LINK_BYTES);
    cr_assert_eq(memcmp(event.bytes, "abc", 3), 0);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

Test(link_fake, swaps_two_and_repeats_one)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    rule(LINK_FAKE_SWAP, 0);
    rule(LINK_FAKE_TWICE, 3);
    write_many(&pair, 4);
    arrivals_expect(&pair, (const uint32_t[]){2, 1, 3, 4, 4, 0});
    cr_assert_eq(link_fake_held(fake_world), 0);
    counters_expect(&pair, 4, 4, 4);
    pair_down(&pair);
}

Test(link_fake, cuts_at_a_write_and_tells_both)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    rule(LINK_FAKE_CUT, 1);
    write_many(&pair, 3);
    cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, 1);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_GONE);
    (void)event_expect(&pair, CONNECTING, SL_LINK_GONE);
    event_expect_none(&pair, ACCEPTING);
    event_expect_none(&pair, CONNECTING);
    cr_assert(slot_holds(&pair, 2, 0));
    counters_expect(&pair, 3, 3, 3);
    pair_down(&pair);
}

Test(link_fake, cuts_every_link_and_loses_what_is_held)
{
    struct sl_link *more[2];
    struct link_pair pair;

    pair_up(&pair, &world);
    connect_more(&pair, more);
    link_fake_hold_all(fake_world, true);
    write_many(&pair, 2);
    link_fake_cut(fake_world);
    cr_assert_eq(link_fake_held(fake_world), 0);
    for (int side = 0; side < 2; side++) {
        (void)event_expect(&pair, side, SL_LINK_GONE);
        (void)event_expect(&pair, side, SL_LINK_GONE);
        event_expect_none(&pair, side);
    }
    cr_assert(slot_holds(&pair, 1, 0));
    pair_down(&pair);
}

Test(link_fake, says_again_as_often_as_told_and_then_writable)
{
    struct link_pair pair;
    struct sl_link *link;

    pair_up(&pair, &world);
    link = pair.sides[CONNECTING].link;
    link_fake_rule(fake_world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                        .any_ring = true,
                                                        .nth = 1,
                                                        .times = 2,
                                                        .what = LINK_FAKE_AGAIN});
    write_many(&pair, 1);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 2, 2), SL_AGAIN);
    counters_expect(&pair, 1, 1, 1);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_MESSAGE, 2, 2), SEALANE_OK);
    arrivals_expect(&pair, (const uint32_t[]){1, 2, 0});
    link_fake_rule(fake_world,
                   &(struct link_fake_rule){.kind = LINK_FAKE_SEND, .what = LINK_FAKE_AGAIN});
    event_expect_none(&pair, CONNECTING);
    cr_assert_eq(link_fake.send(link, (const uint8_t *)"x", 1), SL_AGAIN);
    (void)event_expect(&pair, CONNECTING, SL_LINK_WRITABLE);
    cr_assert_eq(link_fake.send(link, (const uint8_t *)"x", 1), SEALANE_OK);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_BYTES);
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

Test(link_fake, reports_writes_as_placed_when_told)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    link_fake_hold_placed(fake_world, true);
    write_many(&pair, 2);
    arrivals_expect(&pair, (const uint32_t[]){1, 2, 0});
    counters_expect(&pair, 2, 0, 2);
    link_fake_hold_placed(fake_world, false);
    counters_expect(&pair, 2, 2, 2);
    pair_down(&pair);
}

Test(link_fake, applies_rules_to_the_side_and_ring_that_they_name)
{
    struct link_pair pair;

    pair_up(&pair, &world);
    link_fake_rule(fake_world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                        .from = LINK_FAKE_SERVER,
                                                        .ring = SL_RING_BULK,
                                                        .times = UINT64_MAX,
                                                        .what = LINK_FAKE_LOSE});
    for (int side = 0; side < 2; side++) {
        cr_assert_eq(write_to(&pair, side, SL_RING_MESSAGE, 0, 1), SEALANE_OK);
        cr_assert_eq(write_to(&pair, side, SL_RING_BULK, 0, 2), SEALANE_OK);
    }
    arrivals_expect(&pair, (const uint32_t[]){1, 2, 0});
    cr_assert_eq(event_expect(&pair, CONNECTING, SL_LINK_ARRIVED).immediate, 1);
    event_expect_none(&pair, CONNECTING);
    link_fake_forget_rules(fake_world);
    cr_assert_eq(write_to(&pair, ACCEPTING, SL_RING_BULK, 0, 3), SEALANE_OK);
    cr_assert_eq(event_expect(&pair, CONNECTING, SL_LINK_ARRIVED).immediate, 3);
    pair_down(&pair);
}

struct tapped {
    int sends, writes;
    size_t bytes;
    struct link_fake_crossing last;
};

static void tap(void *context, const struct link_fake_crossing *crossing)
{
    struct tapped *tapped = context;

    tapped->sends += crossing->kind == LINK_FAKE_SEND;
    tapped->writes += crossing->kind == LINK_FAKE_WRITE;
    tapped->bytes += crossing->count;
    tapped->last = *crossing;
}

Test(link_fake, shows_a_tap_all_that_is_posted)
{
    struct tapped tapped = {0};
    struct link_pair pair;

    pair_up(&pair, &world);
    link_fake_tap(fake_world, tap, &tapped);
    rule(LINK_FAKE_LOSE, 0);
    cr_assert_eq(link_fake.send(pair.sides[0].link, (const uint8_t *)"abc", 3), SEALANE_OK);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, 3, 0x99), SEALANE_OK);
    cr_assert_eq(tapped.sends, 1);
    cr_assert_eq(tapped.writes, 1);
    cr_assert_eq(tapped.bytes, 3 + STRIDE);
    cr_assert_eq(tapped.last.from, LINK_FAKE_CLIENT);
    cr_assert_eq(tapped.last.ring, SL_RING_BULK);
    cr_assert_eq(tapped.last.slot, 3);
    cr_assert_eq(tapped.last.immediate, 0x99);
    link_fake_tap(fake_world, NULL, NULL);
    cr_assert_eq(write_to(&pair, ACCEPTING, SL_RING_BULK, 3, 1), SEALANE_OK);
    cr_assert_eq(tapped.writes, 1);
    pair_down(&pair);
}
