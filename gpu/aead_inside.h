/* SPDX-License-Identifier: Apache-2.0 */
/* aead_inside.h - what aead.c holds, for tests: of wiped keys, of constant time. */
#ifndef SL_GPU_AEAD_INSIDE_H
#define SL_GPU_AEAD_INSIDE_H

#include "gpu/aead_launch.h"

enum {
    SL_GPU_STAGED = 16 /* keys on their way to the table at a time */
};

/* A key on its way, in mapped host memory: written by the host while not busy, wiped by the device, which then clears busy. */
struct sl_gpu_staged {
    uint8_t head[SL_GPU_HEAD_MAX];
    uint32_t busy;
    uint32_t unused[3];
};

/* Device memory that grows. */
struct sl_gpu_room {
    uint8_t *at;
    size_t bytes;
};

/* Where the jobs of a large launch are copied to: on a stream of its own, while the launch before it still runs. */
struct sl_gpu_place {
    struct sl_gpu_room jobs;
    cudaEvent_t copied, used; /* the jobs are there; the launch is done with them */
};

struct sl_gpu_aead {
    enum sl_aead aead;
    struct sl_gpu_shape shape;
    uint32_t slots;
    uint32_t sms;
    bool limited; /* the device has more multiprocessors than sms */
    uint8_t *keys;
    struct sl_gpu_staged *staged,
        *staged_on_device; /* SL_GPU_STAGED of them; the same memory by its two addresses */
    size_t next_staged;
    uint64_t *cycles; /* of sl_gpu_launch: NULL but in the test of constant time */
    cudaStream_t copies;
    struct sl_gpu_place places[2]; /* used in turn */
    size_t next_place;
    struct sl_gpu_room job_scratch, item_scratch;
};

#endif
