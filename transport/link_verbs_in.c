/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_in.c - what comes: receives are posted, taken by pieces and writes, told, and posted again. */
#include "transport/bytes.h"
#include "transport/link_verbs_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    COUNT_MASK = 0xffffff,
    BATCH = 16 /* receives posted together */
};

/* ---- queues of receives ---- */

static void queue_put(struct sl_verbs *verbs, struct sl_verbs_queue *queue, uint16_t number)
{
    verbs->receives[number].next = SL_VERBS_NO_RECEIVE;
    if (queue->first == SL_VERBS_NO_RECEIVE)
        queue->first = number;
    else
        verbs->receives[queue->last].next = number;
    queue->last = number;
}

/* There is one. */
static uint16_t queue_take(struct sl_verbs *verbs, struct sl_verbs_queue *queue)
{
    uint16_t number = queue->first;

    queue->first = verbs->receives[number].next;
    return number;
}

/* ---- posting ---- */

static const struct sl_verbs_block *block_of(const struct sl_verbs *verbs, uint16_t number)
{
    const struct sl_verbs_block *block = verbs->blocks;

    while (number - block->first >= block->count)
        block++;
    return block;
}

static uint8_t *receive_memory(const struct sl_verbs *verbs, uint16_t number)
{
    const struct sl_verbs_block *block = block_of(verbs, number);

    return block->base + (number - block->first) * SL_VERBS_PIECE_BYTES;
}

struct batch {
    struct ibv_recv_wr work[BATCH];
    struct ibv_sge places[BATCH];
    int count;
};

static void batch_post(struct sl_verbs *verbs, struct batch *batch)
{
    struct ibv_recv_wr *bad;
    int error, count = batch->count;

    batch->count = 0;
    if (count == 0 || verbs->mute)
        return;
    batch->work[count - 1].next = NULL;
    error = ibv_post_recv(verbs->qp, batch->work, &bad);
    if (error != 0)
        sl_verbs_over(verbs, "the queue pair takes no receives: %s", strerror(error));
}

static void batch_put(struct sl_verbs *verbs, struct batch *batch, uint16_t number)
{
    struct ibv_sge *place = &batch->places[batch->count];
    struct ibv_recv_wr *work = &batch->work[batch->count];

    *place = (struct ibv_sge){.addr = (uintptr_t)receive_memory(verbs, number),
                              .length = SL_VERBS_PIECE_BYTES,
                              .lkey = block_of(verbs, number)->mr->lkey};
    *work = (struct ibv_recv_wr){.wr_id = sl_verbs_work_id(verbs, SL_VERBS_WORK_RECEIVE, number),
                                 .next = work + 1,
                                 .sg_list = place,
                                 .num_sge = 1};
    if (++batch->count == BATCH)
        batch_post(verbs, batch);
}

/* Memory for `count` more receives and `extra` pieces behind them; registered and posted by block_open. */
static SEALANE_RESULT block_make(struct sl_verbs *verbs, struct sl_verbs_block *block,
                                 uint32_t count, uint32_t extra)
{
    uint32_t all = verbs->receive_count + count;
    size_t bytes = (size_t)(count + extra) * SL_VERBS_PIECE_BYTES;
    struct sl_verbs_receive *receives = realloc(verbs->receives, all * sizeof(*receives));
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (receives)
        verbs->receives = receives;
    if (!receives || base == MAP_FAILED) {
        if (base != MAP_FAILED)
            (void)munmap(base, bytes);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %u receives", count);
    }
    *block = (struct sl_verbs_block){
        .base = base, .bytes = bytes, .first = verbs->receive_count, .count = count};
    verbs->receive_count = all;
    return SEALANE_OK;
}

static SEALANE_RESULT block_open(struct sl_verbs *verbs, struct sl_verbs_block *block)
{
    struct batch batch = {.count = 0};

    SL_TRY(sl_verbs_register(verbs, block->base, block->bytes, &block->mr));
    for (uint32_t i = 0; i < block->count; i++)
        batch_put(verbs, &batch, (uint16_t)(block->first + i));
    batch_post(verbs, &batch);
    if (verbs->mute)
        return SL_FAIL(SEALANE_UNAVAILABLE, "%s", verbs->why);
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_memory_make(struct sl_verbs *verbs)
{
    return block_make(verbs, &verbs->blocks[0], SL_VERBS_RECEIVES, SL_VERBS_PIECES);
}

SEALANE_RESULT sl_verbs_receives_post(struct sl_verbs *verbs)
{
    return block_open(verbs, &verbs->blocks[0]);
}

/* ---- granting ---- */

static void descriptor_write(const struct sl_verbs *verbs, enum sl_ring_id id, size_t stride,
                             uint8_t descriptor[SL_GRANT_BYTES])
{
    const struct ibv_mr *mr = verbs->mine[id].mr;

    memset(descriptor, 0, SL_GRANT_BYTES);
    descriptor[0] = SL_VERBS_MAGIC;
    descriptor[1] = SL_VERBS_VERSION;
    descriptor[2] = (uint8_t)id;
    sl_put32(descriptor + 4, mr->rkey);
    sl_put64(descriptor + 8, 0);
    sl_put64(descriptor + 16, mr->length);
    sl_put32(descriptor + 24, (uint32_t)stride);
}

static SEALANE_RESULT grant_check(const struct sl_verbs *verbs, enum sl_ring_id id,
                                  const struct sl_ring_memory *memory, size_t stride)
{
    size_t page = 4096;

    if (stride == 0 || stride > memory->bytes || stride > UINT32_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a stride of %zu in a ring of %zu bytes", stride,
                       memory->bytes);
    if ((uintptr_t)memory->base % page != 0 || memory->bytes % page != 0)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a ring of %zu bytes that is not whole pages, which are all that is opened",
                       memory->bytes);
    if (verbs->mine[id].mr)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "ring %d is granted already", (int)id);
    if (memory->bytes / stride > verbs->receive_max - verbs->receive_count)
        return SL_FAIL(
            SEALANE_RESOURCE_EXHAUSTED,
            "a ring of %zu slots on %s, which leaves receives for %u: ask for fewer slots",
            memory->bytes / stride, sl_verbs_device_name(verbs->device),
            verbs->receive_max - verbs->receive_count);
    if (!verbs->up || verbs->mute)
        return SL_FAIL(SEALANE_UNAVAILABLE, "%s",
                       verbs->over ? verbs->why : "the link is not connected");
    return SEALANE_OK;
}

/* A receive for each slot is there before anybody is told of the ring; but first of all it is tried whether it can be one. */
SEALANE_RESULT sl_verbs_grant(struct sl_link *link, enum sl_ring_id id,
                              const struct sl_ring_memory *memory, size_t stride,
                              uint8_t descriptor[SL_GRANT_BYTES])
{
    struct sl_verbs *verbs = sl_verbs_of(link);
    struct sl_verbs_block *block = &verbs->blocks[1 + (verbs->blocks[1].base != NULL)];
    uint32_t slots;

    SL_TRY(grant_check(verbs, id, memory, stride));
    slots = (uint32_t)(memory->bytes / stride);
    SL_TRY(sl_verbs_register_ring(verbs, memory, &verbs->mine[id].mr));
    SL_TRY(sl_verbs_reserve(verbs, slots));
    SL_TRY(block_make(verbs, block, slots, 0));
    SL_TRY(block_open(verbs, block));
    descriptor_write(verbs, id, stride, descriptor);
    return SEALANE_OK;
}

/* ---- arriving ---- */

static void again_post(struct sl_verbs *verbs, uint16_t number)
{
    struct batch batch = {.count = 0};

    batch_put(verbs, &batch, number);
    batch_post(verbs, &batch);
}

static void write_came(struct sl_verbs *verbs, const struct ibv_wc *wc, uint16_t number)
{
    if (!verbs->mine[SL_RING_MESSAGE].mr && !verbs->mine[SL_RING_BULK].mr) {
        sl_verbs_over(verbs, "the peer wrote before it was granted anything");
        return;
    }
    verbs->receives[number].word = SL_VERBS_WRITE;
    verbs->receives[number].immediate = ntohl(wc->imm_data);
    queue_put(verbs, &verbs->came, number);
    sl_verbs_list(verbs, SL_VERBS_READY);
}

static void word_came(struct sl_verbs *verbs, const struct ibv_wc *wc, uint16_t number)
{
    uint32_t immediate = ntohl(wc->imm_data);
    uint32_t word = immediate >> 24;

    if (!(wc->wc_flags & IBV_WC_WITH_IMM) ||
        (word != SL_VERBS_BYTES && word != SL_VERBS_CREDIT && word != SL_VERBS_END) ||
        (wc->byte_len > 0) != (word == SL_VERBS_BYTES)) {
        sl_verbs_over(verbs, "the peer sent %u bytes of kind %02x: no sealane?", wc->byte_len,
                      word);
        return;
    }
    if (!sl_verbs_credited(verbs, immediate & COUNT_MASK)) {
        sl_verbs_over(verbs, "the peer took pieces that were never sent");
        return;
    }
    if (word == SL_VERBS_CREDIT) {
        again_post(verbs, number);
    } else if (word == SL_VERBS_END) {
        sl_verbs_over(verbs, "the peer %.60s closed", verbs->peer);
    } else {
        verbs->receives[number].word = SL_VERBS_BYTES;
        verbs->receives[number].bytes = (uint16_t)wc->byte_len;
        queue_put(verbs, &verbs->came, number);
        sl_verbs_list(verbs, SL_VERBS_READY);
    }
}

void sl_verbs_came(struct sl_verbs *verbs, const struct ibv_wc *wc, uint16_t number)
{
    if (verbs->mute) /* dropped, or it has heard the last word already */
        return;
    if (!verbs->up) /* the queue pair knows before the connection manager does */
        sl_verbs_established(verbs);
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
        write_came(verbs, wc, number);
    else
        word_came(verbs, wc, number);
}

/* ---- telling ---- */

static void bytes_tell(struct sl_verbs *verbs, uint16_t number, struct sl_link_event *event)
{
    event->kind = SL_LINK_BYTES;
    event->bytes = receive_memory(verbs, number);
    event->count = verbs->receives[number].bytes;
    queue_put(verbs, &verbs->lent, number);
    sl_verbs_list(verbs, SL_VERBS_LENT);
}

int sl_verbs_take(struct sl_verbs *verbs, struct sl_link_event *events, int max)
{
    struct batch batch = {.count = 0};
    int count = 0;

    while (count < max && sl_verbs_has_come(verbs)) {
        uint16_t number = queue_take(verbs, &verbs->came);
        struct sl_link_event *event = &events[count++];

        *event = (struct sl_link_event){.link = &verbs->link};
        if (verbs->receives[number].word == SL_VERBS_BYTES) {
            bytes_tell(verbs, number, event);
            continue;
        }
        event->kind = SL_LINK_ARRIVED;
        event->immediate = verbs->receives[number].immediate;
        batch_put(verbs, &batch, number);
    }
    batch_post(verbs, &batch);
    return count;
}

void sl_verbs_lent_return(struct sl_verbs *verbs)
{
    struct batch batch = {.count = 0};

    sl_verbs_unlist(verbs, SL_VERBS_LENT);
    while (verbs->lent.first != SL_VERBS_NO_RECEIVE) {
        batch_put(verbs, &batch, queue_take(verbs, &verbs->lent));
        verbs->taken++;
    }
    batch_post(verbs, &batch);
    sl_verbs_give_credit(verbs);
}
