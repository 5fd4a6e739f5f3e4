/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - the counters of rings. */
#include "transport/ring.h"

uint32_t sl_sender_room(const struct sl_sender *sender)
{
    return sender->geometry.slots - (uint32_t)(sender->seq - sender->acked);
}

SEALANE_RESULT sl_sender_ack(struct sl_sender *sender, uint64_t acked)
{
    if (acked < sender->acked || acked > sender->seq)
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "peer acknowledged record %llu of a ring, expected %llu to %llu",
                       (unsigned long long)acked, (unsigned long long)sender->acked,
                       (unsigned long long)sender->seq);
    sender->acked = acked;
    return SEALANE_OK;
}

bool sl_sender_has_key(const struct sl_sender *sender)
{
    return (sender->seq >> sender->keys.shift) <= sender->keys.epoch + 1;
}

SEALANE_RESULT sl_receiver_count(struct sl_receiver *receiver, uint32_t slots)
{
    uint64_t room = receiver->geometry.slots - (receiver->counted - receiver->next);

    if (slots == 0 || slots > room)
        return SL_FAIL(SEALANE_DATA_LOSS, "peer announced %u written slots, expected 1 to %llu",
                       slots, (unsigned long long)room);
    receiver->counted += slots;
    return SEALANE_OK;
}

bool sl_receiver_has_more(const struct sl_receiver *receiver)
{
    return receiver->next < receiver->counted;
}

uint32_t sl_receiver_untold(const struct sl_receiver *receiver)
{
    return (uint32_t)(receiver->next - receiver->told);
}
