/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - counters and staging of rings. */
#include "transport/ring.h"

#include <stdlib.h>
#include <sys/mman.h>

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

SEALANE_RESULT sl_staging_init(struct sl_staging *staging, size_t stride, uint32_t count)
{
    uint64_t *write = calloc(count, sizeof(*write));
    /* Pages that are never reached cost nothing; zeroed pages make the gaps between records zero. */
    void *base =
        mmap(NULL, stride * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (!write || base == MAP_FAILED) {
        free(write);
        if (base != MAP_FAILED)
            (void)munmap(base, stride * count);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %zu bytes of staging",
                       stride * count);
    }
    *staging = (struct sl_staging){.base = base, .stride = stride, .count = count, .write = write};
    return SEALANE_OK;
}

void sl_staging_clear(struct sl_staging *staging)
{
    if (staging->base)
        (void)munmap(staging->base, staging->stride * staging->count);
    free(staging->write);
    *staging = (struct sl_staging){.base = NULL};
}

uint32_t sl_staging_room(struct sl_staging *staging, uint64_t released, uint8_t **at_p)
{
    uint32_t at, until_end, unused;

    while (staging->freed < staging->taken &&
           staging->write[staging->freed % staging->count] <= released)
        staging->freed++;
    if (staging->freed == staging->taken)
        staging->freed = staging->taken = 0;
    at = (uint32_t)(staging->taken % staging->count);
    until_end = staging->count - at;
    unused = staging->count - (uint32_t)(staging->taken - staging->freed);
    *at_p = staging->base + (size_t)at * staging->stride;
    return unused < until_end ? unused : until_end;
}

void sl_staging_take(struct sl_staging *staging, uint32_t pieces, uint64_t write)
{
    for (uint32_t i = 0; i < pieces; i++)
        staging->write[staging->taken++ % staging->count] = write;
}
