/* SPDX-License-Identifier: Apache-2.0 */
/* aead_launch.h - between the host's logic (aead.c) and the kernels: what a launch is told, and what each AEAD's kernels say of
 * themselves. Kernels are for one AEAD each; aead_kinds.c is the one place that knows which there are. */
#ifndef SL_GPU_AEAD_LAUNCH_H
#define SL_GPU_AEAD_LAUNCH_H

#include "gpu/aead.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SL_GPU_FEW_JOBS =
        32, /* batches of at most so many travel as a kernel parameter, without a copy in front of the launch */
    SL_GPU_HEAD_MAX = 1024
};

/* What an AEAD's kernels need. */
struct sl_gpu_shape {
    uint64_t bytes_max; /* of a chunk, by the AEAD's counter */
    size_t slot_bytes;  /* of a key in the table, a multiple of 16 */
    size_t
        head_bytes; /* what the CPU prepares of it: the slot's first bytes, a multiple of 16, at most SL_GPU_HEAD_MAX */
    size_t
        job_scratch_bytes; /* of device memory for each job of a launch: zero before it, zero again after it */
    size_t item_scratch_bytes; /* for each work item: unspecified content before it */
};

/* One launch. Pointers are the device's, but for `few`. */
struct sl_gpu_launch {
    const struct sl_gpu_job *jobs; /* NULL: they are in few */
    const struct sl_gpu_job *few;  /* the host's: at most SL_GPU_FEW_JOBS, to be passed by value */
    uint32_t *verdicts;
    const uint8_t *keys; /* the table: slot_bytes a slot */
    uint8_t *job_scratch;
    uint8_t *item_scratch;
    uint32_t count; /* jobs, never 0 */
    uint32_t items; /* work items of all jobs */
    uint32_t sms;   /* how many multiprocessors may be taken, never 0 */
    bool limited;   /* the device has more than sms */
    bool opens;
    uint64_t *
        cycles; /* NULL, or where the first block says how many cycles of its multiprocessor it took: the proof of constant time */
    cudaStream_t stream;
};

/* By AEAD. shape: false when this build or the current device has no kernels for it. */
SEALANE_MUST_USE bool sl_gpu_kind_shape(enum sl_aead aead, struct sl_gpu_shape *shape);

/* Fills the head of a slot from a key, in constant time. */
void sl_gpu_kind_prepare(enum sl_aead aead, const uint8_t *key, uint8_t *head);

/* Derives the rest of a slot from its head, on the device. */
cudaError_t sl_gpu_kind_expand(enum sl_aead aead, uint8_t *slot, cudaStream_t stream);

/* Cuts jobs into work items: fills first_item and span_shift of each; returns how many items there are. */
uint64_t sl_gpu_kind_plan(enum sl_aead aead, struct sl_gpu_job *jobs, size_t count, uint32_t sms);

cudaError_t sl_gpu_kind_launch(enum sl_aead aead, const struct sl_gpu_launch *launch);

/* ChaCha20-Poly1305 (chacha.cu, and chacha_plan.h). Its slot is its key. */
SEALANE_MUST_USE bool sl_gpu_chacha_shape(struct sl_gpu_shape *shape);
cudaError_t sl_gpu_chacha_launch(const struct sl_gpu_launch *launch);

/* keys.cu: moves bytes (a multiple of 16) from staging to a slot in the order of the stream, overwrites the staging with zeros and
 * then clears *busy. staging and busy are mapped host memory, by their device addresses. */
cudaError_t sl_gpu_keys_take(uint8_t *slot, uint8_t *staging, uint32_t *busy, size_t bytes,
                             cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
