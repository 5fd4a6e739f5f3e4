/* SPDX-License-Identifier: Apache-2.0 */
/* ring_test.c - the counters of rings. */
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
