/* SPDX-License-Identifier: Apache-2.0 */
/* keys.cu - a key's way from the host to the table: a copy that leaves nothing behind. */
#include "gpu/aead_launch.h"

enum {
    THREADS = 64 /* SL_GPU_HEAD_MAX in words of 16 bytes */
};

static __global__ void take(uint4 *slot, volatile uint4 *staging, volatile uint32_t *busy,
                            uint32_t words)
{
    uint32_t i = threadIdx.x;

    if (i < words) {
        slot[i] = make_uint4(staging[i].x, staging[i].y, staging[i].z, staging[i].w);
        staging[i].x = staging[i].y = staging[i].z = staging[i].w = 0;
    }
    __threadfence_system();
    __syncthreads();
    if (i == 0)
        *busy = 0;
}

cudaError_t sl_gpu_keys_take(uint8_t *slot, uint8_t *staging, uint32_t *busy, size_t bytes,
                             cudaStream_t stream)
{
    take<<<1, THREADS, 0, stream>>>((uint4 *)slot, (uint4 *)staging, busy,
                                    (uint32_t)(bytes / sizeof(uint4)));
    return cudaGetLastError();
}
