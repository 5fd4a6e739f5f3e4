/* SPDX-License-Identifier: Apache-2.0 */
/* aead_kinds.c - which AEADs have kernels. */
#include "gpu/aead_launch.h"
#include "gpu/chacha_plan.h"

#include <string.h>

bool sl_gpu_kind_shape(enum sl_aead aead, struct sl_gpu_shape *shape)
{
    switch (aead) {
    case SL_AEAD_CHACHA20_POLY1305:
        return sl_gpu_chacha_shape(shape);
    default:
        return false;
    }
}

void sl_gpu_kind_prepare(enum sl_aead aead, const uint8_t *key, uint8_t *head)
{
    switch (aead) {
    default:
        memcpy(head, key, sl_aead_key_bytes(aead));
        break;
    }
}

cudaError_t sl_gpu_kind_expand(enum sl_aead aead, uint8_t *slot, cudaStream_t stream)
{
    switch (aead) {
    default:
        (void)slot;
        (void)stream;
        return cudaSuccess;
    }
}

uint64_t sl_gpu_kind_plan(enum sl_aead aead, struct sl_gpu_job *jobs, size_t count, uint32_t sms)
{
    switch (aead) {
    default:
        return sl_gpu_chacha_plan(jobs, count, (uint64_t)sms * SL_GPU_CHACHA_WARPS);
    }
}

cudaError_t sl_gpu_kind_launch(enum sl_aead aead, const struct sl_gpu_launch *launch)
{
    switch (aead) {
    case SL_AEAD_CHACHA20_POLY1305:
        return sl_gpu_chacha_launch(launch);
    default:
        return cudaErrorNotSupported;
    }
}
