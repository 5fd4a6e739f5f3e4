/* SPDX-License-Identifier: Apache-2.0 */
/* ring_test.c - counters and staging of rings. */
#include "transport/ring.h"

#include <criterion/criterion.h>

static struct sl_sender sender_of(uint32_t slots)
{
    return (struct sl_sender){.geometry = {.slots = slots, .stride = 64, .payload = 32}};
}

Test(ring, has_room_for_all_slots_at_first)
{
    struct sl_sender sender = sender_of(8);
    cr_assert_eq(sl_sender_room(&sender), 8);
}

Test(ring, invariant_5_refuses_an_ack_of_what_was_not_sent)
{
    struct sl_sender sender = sender_of(8);
    sender.seq = 5;
    cr_assert_eq(sl_sender_ack(&sender, 6), SEALANE_DATA_LOSS);
    cr_assert_str_eq(sealane_last_error()->message, "peer acknowledged record 6 of a ring, expected 0 to 5");
    cr_assert_eq(sender.acked, 0);
    cr_assert_eq(sl_sender_ack(&sender, 5), SEALANE_OK);
    cr_assert_eq(sl_sender_room(&sender), 8);
}

Test(ring, invariant_5_refuses_an_ack_that_goes_back)
{
    struct sl_sender sender = sender_of(8);
    sender.seq = 5;
    cr_assert_eq(sl_sender_ack(&sender, 4), SEALANE_OK);
    cr_assert_eq(sl_sender_ack(&sender, 3), SEALANE_DATA_LOSS);
    cr_assert_eq(sender.acked, 4);
}

Test(ring, invariant_5_bounds_what_the_link_says_was_written)
{
    struct sl_receiver receiver = {.geometry = {.slots = 8}};

    cr_assert_eq(sl_receiver_count(&receiver, 0), SEALANE_DATA_LOSS);
    cr_assert_eq(sl_receiver_count(&receiver, 9), SEALANE_DATA_LOSS);
    cr_assert_eq(sl_receiver_count(&receiver, 8), SEALANE_OK);
    cr_assert_eq(sl_receiver_count(&receiver, 1), SEALANE_DATA_LOSS);
    receiver.next = 3;
    cr_assert_eq(sl_receiver_count(&receiver, 3), SEALANE_OK);
    cr_assert_eq(sl_receiver_count(&receiver, 1), SEALANE_DATA_LOSS);
    cr_assert_eq(receiver.counted, 11);
}

Test(ring, counts_to_the_far_end_of_64_bits_without_wrapping_checks)
{
    struct sl_receiver receiver = {.geometry = {.slots = 8}, .next = UINT64_MAX - 20, .counted = UINT64_MAX - 20};
    struct sl_sender sender = sender_of(8);

    cr_assert_eq(sl_receiver_count(&receiver, 8), SEALANE_OK);
    sender.seq = UINT64_MAX - 1;
    sender.acked = UINT64_MAX - 9;
    cr_assert_eq(sl_sender_room(&sender), 0);
    cr_assert_eq(sl_sender_ack(&sender, UINT64_MAX), SEALANE_DATA_LOSS);
}

Test(ring, staging_starts_over_when_everything_left)
{
    struct sl_staging staging;
    uint8_t *at, *first;

    cr_assert_eq(sl_staging_init(&staging, 128, 4), SEALANE_OK);
    cr_assert_eq(sl_staging_room(&staging, 0, &first), 4);
    for (uint64_t write = 1; write <= 10; write++) {
        cr_assert_eq(sl_staging_room(&staging, write - 1, &at), 4);
        cr_assert_eq(at, first, "the same cache lines are used again");
        sl_staging_take(&staging, 1, write);
    }
    sl_staging_clear(&staging);
}

Test(ring, staging_is_not_reused_before_its_write_is_released)
{
    struct sl_staging staging;
    uint8_t *at, *first;

    cr_assert_eq(sl_staging_init(&staging, 128, 4), SEALANE_OK);
    cr_assert_eq(sl_staging_room(&staging, 0, &first), 4);
    sl_staging_take(&staging, 2, 1);
    sl_staging_take(&staging, 1, 2);
    cr_assert_eq(sl_staging_room(&staging, 0, &at), 1);
    cr_assert_eq(at, first + 3 * 128);
    sl_staging_take(&staging, 1, 3);
    cr_assert_eq(sl_staging_room(&staging, 0, &at), 0);
    cr_assert_eq(sl_staging_room(&staging, 1, &at), 2, "the first two pieces came back");
    cr_assert_eq(at, first);
    cr_assert_eq(sl_staging_room(&staging, 3, &at), 4);
    sl_staging_clear(&staging);
}

Test(ring, staging_of_an_unwritten_piece_is_never_free)
{
    struct sl_staging staging;
    uint8_t *at;

    cr_assert_eq(sl_staging_init(&staging, 128, 2), SEALANE_OK);
    cr_assert_eq(sl_staging_room(&staging, 0, &at), 2);
    sl_staging_take(&staging, 2, UINT64_MAX);
    cr_assert_eq(sl_staging_room(&staging, 1000, &at), 0);
    sl_staging_clear(&staging);
}
