/* SPDX-License-Identifier: Apache-2.0 */
/* chacha_plan.h - how jobs of ChaCha20-Poly1305 are cut into work items, each of which one warp does: whole batches of 2 KiB, a
 * power of two of them in each item of a job but the first, which has fewer where they do not come out even. What is left over, less
 * than a batch, belongs to the last item. */
#ifndef SL_GPU_CHACHA_PLAN_H
#define SL_GPU_CHACHA_PLAN_H

#include "gpu/aead.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_CHACHA_BATCH_BYTES = 2048,
    SL_GPU_CHACHA_WARPS = 20 /* at work on one multiprocessor */
};

/* Fills first_item and span_shift. Returns the items of all jobs. `width`: how many items the device does at a time. */
uint64_t sl_gpu_chacha_plan(struct sl_gpu_job *jobs, size_t count, uint64_t width);

#ifdef __cplusplus
}
#endif
#endif
