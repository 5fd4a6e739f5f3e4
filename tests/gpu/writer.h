/* SPDX-License-Identifier: Apache-2.0 */
/* writer.h - a peer that writes into a ring while it is opened. */
#ifndef TESTS_GPU_WRITER_H
#define TESTS_GPU_WRITER_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes on its stream until *stop, mapped host memory, is not 0. Afterwards the ring is as it was. */
cudaError_t writer_start(uint8_t *ring, uint32_t chunks, uint32_t chunk_bytes, const uint32_t *stop,
                         cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
