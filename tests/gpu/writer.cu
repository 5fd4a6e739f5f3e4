/* SPDX-License-Identifier: Apache-2.0 */
/* writer.cu - the peer that writes into a ring while it is opened: flips a bit somewhere in each chunk, waits a little, and flips it
 * back, again and again, until it is told to stop. */
#include "tests/gpu/writer.h"

static __global__ void writer(uint32_t *ring, uint32_t chunks, uint32_t words,
                              const volatile uint32_t *stop)
{
    uint32_t chunk = blockIdx.x * blockDim.x + threadIdx.x, seed = chunk * 2654435761u + 1;

    while (!*stop) {
        for (uint32_t at = chunk; at < chunks; at += gridDim.x * blockDim.x) {
            seed = seed * 1664525u + 1013904223u;
            uint32_t *word = ring + (size_t)at * words + (seed >> 8) % words;

            atomicXor(word, 1u << (seed >> 3 & 31));
            __nanosleep(seed >> 20 & 1023);
            atomicXor(word, 1u << (seed >> 3 & 31));
            __nanosleep(seed >> 18 & 2047);
        }
    }
}

cudaError_t writer_start(uint8_t *ring, uint32_t chunks, uint32_t chunk_bytes, const uint32_t *stop,
                         cudaStream_t stream)
{
    writer<<<4, 64, 0, stream>>>((uint32_t *)ring, chunks, chunk_bytes / 4, stop);
    return cudaGetLastError();
}
