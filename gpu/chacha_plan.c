/* SPDX-License-Identifier: Apache-2.0 */
/* chacha_plan.c - many items keep a device busy to the end, few have less to join: items are large first and smaller towards the
 * end of a launch, so that the last ones end together. */
#include "gpu/chacha_plan.h"

enum {
    SHIFT_MOST = 5,  /* 64 KiB: joining 32 lanes once costs half a batch */
    SHIFT_LEAST = 2, /* where there is more than enough to do */
    ROUNDS = 2       /* of items that are to be left when their size is chosen */
};

/* The largest power of two that goes `parts` times into `whole`, as a shift. */
static uint32_t shift_of(uint64_t whole, uint64_t parts, uint32_t most)
{
    uint32_t shift = 0;

    while (shift < most && whole >> (shift + 1) >= parts)
        shift++;
    return shift;
}

static uint64_t items_of(uint64_t batches, uint32_t shift)
{
    return batches == 0 ? 1 : (batches + ((uint64_t)1 << shift) - 1) >> shift;
}

uint64_t sl_gpu_chacha_plan(struct sl_gpu_job *jobs, size_t count, uint64_t width)
{
    uint64_t left = 0, items = 0;
    uint32_t least;

    for (size_t i = 0; i < count; i++)
        left += jobs[i].bytes / SL_CHACHA_BATCH_BYTES;
    least = shift_of(left, 4 * width, SHIFT_LEAST);
    for (size_t i = 0; i < count; i++) {
        uint64_t batches = jobs[i].bytes / SL_CHACHA_BATCH_BYTES;
        uint32_t shift = shift_of(left, ROUNDS * width, SHIFT_MOST);

        jobs[i].first_item = (uint32_t)items;
        jobs[i].span_shift = shift > least ? shift : least;
        items += items_of(batches, jobs[i].span_shift);
        left -= batches;
    }
    return items;
}
