/* SPDX-License-Identifier: Apache-2.0 */
/* aead.c - the host's side of the GPU's AEAD: the key table, keys on their way to it, and what a launch needs. */
#include "gpu/aead_inside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum sealane_status cuda_fail(cudaError_t error, const char *what)
{
    enum sealane_status status =
        error == cudaErrorMemoryAllocation ? SEALANE_RESOURCE_EXHAUSTED : SEALANE_INTERNAL;

    (void)cudaGetLastError(); /* said once */
    return SL_FAIL_CAUSE(status, (int)error, "CUDA could not %s: %s", what,
                         cudaGetErrorString(error));
}

#define TRY_CUDA(call, what)                \
    do {                                    \
        cudaError_t error_ = (call);        \
        if (error_ != cudaSuccess)          \
            return cuda_fail(error_, what); \
    } while (0)

/* ---- making and freeing ---- */

static enum sealane_status device_find(struct sl_gpu_aead *gpu, uint32_t sms)
{
    int device, all;

    if (!sl_gpu_kind_shape(gpu->aead, &gpu->shape)) {
        (void)cudaGetLastError();
        return SL_FAIL(SEALANE_UNIMPLEMENTED,
                       "%s (AEAD %d) has no kernels here, or none for this device",
                       sl_aead_name(gpu->aead), (int)gpu->aead);
    }
    TRY_CUDA(cudaGetDevice(&device), "tell the current device");
    TRY_CUDA(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, device),
             "count the multiprocessors");
    gpu->limited = sms > 0 && sms < (uint32_t)all;
    gpu->sms = gpu->limited ? sms : (uint32_t)all;
    return SEALANE_OK;
}

static enum sealane_status memory_take(struct sl_gpu_aead *gpu)
{
    size_t table = gpu->slots * gpu->shape.slot_bytes;
    size_t staged = SL_GPU_STAGED * sizeof(*gpu->staged);

    TRY_CUDA(cudaMalloc((void **)&gpu->keys, table), "allocate the key table");
    TRY_CUDA(cudaMemset(gpu->keys, 0, table), "clear the key table");
    TRY_CUDA(cudaHostAlloc((void **)&gpu->staged, staged, cudaHostAllocMapped),
             "allocate mapped memory for keys");
    memset(gpu->staged, 0, staged);
    TRY_CUDA(cudaHostGetDevicePointer((void **)&gpu->staged_on_device, gpu->staged, 0),
             "map memory for keys");
    TRY_CUDA(cudaStreamCreateWithFlags(&gpu->copies, cudaStreamNonBlocking), "make a stream");
    for (size_t i = 0; i < 2; i++) {
        TRY_CUDA(cudaEventCreateWithFlags(&gpu->places[i].copied, cudaEventDisableTiming),
                 "make an event");
        TRY_CUDA(cudaEventCreateWithFlags(&gpu->places[i].used, cudaEventDisableTiming),
                 "make an event");
    }
    TRY_CUDA(cudaDeviceSynchronize(), "clear the key table");
    return SEALANE_OK;
}

enum sealane_status sl_gpu_aead_new(enum sl_aead aead, uint32_t slots, uint32_t sms,
                                    struct sl_gpu_aead **gpu_p)
{
    struct sl_gpu_aead *gpu;
    enum sealane_status status;

    if (slots == 0)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "0 key slots were asked for, at least 1 is needed");
    gpu = calloc(1, sizeof(*gpu));
    if (!gpu)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a GPU's AEAD");
    gpu->aead = aead;
    gpu->slots = slots;
    status = device_find(gpu, sms);
    if (status == SEALANE_OK)
        status = memory_take(gpu);
    if (status != SEALANE_OK) {
        sl_gpu_aead_free(gpu);
        return status;
    }
    *gpu_p = gpu;
    return SEALANE_OK;
}

/* Errors are of no use here: what a broken device holds is out of reach. */
static void room_wipe(const struct sl_gpu_room *room)
{
    if (room->at)
        (void)cudaMemset(room->at, 0, room->bytes);
}

void sl_gpu_aead_free(struct sl_gpu_aead *gpu)
{
    if (!gpu)
        return;
    if (gpu->keys)
        (void)cudaMemset(gpu->keys, 0, gpu->slots * gpu->shape.slot_bytes);
    room_wipe(&gpu->item_scratch);
    room_wipe(&gpu->job_scratch);
    (void)cudaDeviceSynchronize();
    if (gpu->staged)
        sl_wipe(gpu->staged, SL_GPU_STAGED * sizeof(*gpu->staged));
    (void)cudaFree(gpu->keys);
    for (size_t i = 0; i < 2; i++) {
        (void)cudaFree(gpu->places[i].jobs.at);
        if (gpu->places[i].copied)
            (void)cudaEventDestroy(gpu->places[i].copied);
        if (gpu->places[i].used)
            (void)cudaEventDestroy(gpu->places[i].used);
    }
    if (gpu->copies)
        (void)cudaStreamDestroy(gpu->copies);
    (void)cudaFree(gpu->job_scratch.at);
    (void)cudaFree(gpu->item_scratch.at);
    (void)cudaFreeHost(gpu->staged);
    free(gpu);
}

/* ---- keys ---- */

static uint8_t *slot_at(const struct sl_gpu_aead *gpu, uint32_t slot)
{
    return gpu->keys + slot * gpu->shape.slot_bytes;
}

static enum sealane_status slot_check(const struct sl_gpu_aead *gpu, uint32_t slot)
{
    if (slot >= gpu->slots)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "key slot %" PRIu32 " of %" PRIu32, slot,
                       gpu->slots);
    return SEALANE_OK;
}

/* A place for a key on its way. All are taken: the stream, which every use is on, must pass first. */
static enum sealane_status staged_next(struct sl_gpu_aead *gpu, cudaStream_t stream, size_t *at_p)
{
    size_t at = gpu->next_staged;

    if (__atomic_load_n(&gpu->staged[at].busy, __ATOMIC_ACQUIRE))
        TRY_CUDA(cudaStreamSynchronize(stream), "wait for keys on their way");
    gpu->next_staged = (at + 1) % SL_GPU_STAGED;
    *at_p = at;
    return SEALANE_OK;
}

enum sealane_status sl_gpu_aead_key_set(struct sl_gpu_aead *gpu, uint32_t slot, const uint8_t *key,
                                        void *stream)
{
    struct sl_gpu_staged *staged;
    cudaError_t error;
    size_t at;

    SL_TRY(slot_check(gpu, slot));
    SL_TRY(staged_next(gpu, stream, &at));
    staged = &gpu->staged[at];
    sl_gpu_kind_prepare(gpu->aead, key, staged->head);
    __atomic_store_n(&staged->busy, 1, __ATOMIC_RELEASE);
    error = sl_gpu_keys_take(slot_at(gpu, slot), gpu->staged_on_device[at].head,
                             &gpu->staged_on_device[at].busy, gpu->shape.head_bytes, stream);
    if (error != cudaSuccess) {
        sl_wipe(staged, sizeof(*staged));
        return cuda_fail(error, "send a key to the device");
    }
    TRY_CUDA(sl_gpu_kind_expand(gpu->aead, slot_at(gpu, slot), stream), "expand a key");
    return SEALANE_OK;
}

enum sealane_status sl_gpu_aead_key_wipe(struct sl_gpu_aead *gpu, uint32_t slot, void *stream)
{
    SL_TRY(slot_check(gpu, slot));
    TRY_CUDA(cudaMemsetAsync(slot_at(gpu, slot), 0, gpu->shape.slot_bytes, stream), "wipe a key");
    return SEALANE_OK;
}

/* ---- launches ---- */

/* Zeroed when it is new. cudaFree waits for what uses the old memory. */
static enum sealane_status room_grow(struct sl_gpu_room *room, size_t bytes, cudaStream_t stream)
{
    size_t wanted = bytes > 2 * room->bytes ? bytes : 2 * room->bytes;

    if (bytes <= room->bytes)
        return SEALANE_OK;
    room_wipe(room);
    TRY_CUDA(cudaFree(room->at), "free scratch");
    *room = (struct sl_gpu_room){NULL, 0};
    TRY_CUDA(cudaMalloc((void **)&room->at, wanted), "allocate scratch");
    room->bytes = wanted;
    TRY_CUDA(cudaMemsetAsync(room->at, 0, wanted, stream), "clear scratch");
    return SEALANE_OK;
}

static enum sealane_status jobs_check(const struct sl_gpu_aead *gpu, const struct sl_gpu_job *jobs,
                                      size_t count)
{
    if (count > INT32_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "%zu jobs in one launch, at most %" PRId32, count,
                       INT32_MAX);
    for (size_t i = 0; i < count; i++) {
        SL_TRY(slot_check(gpu, jobs[i].key));
        if (jobs[i].bytes > gpu->shape.bytes_max)
            return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                           "a chunk of %" PRIu64 " bytes, %s takes at most %" PRIu64, jobs[i].bytes,
                           sl_aead_name(gpu->aead), gpu->shape.bytes_max);
        if (jobs[i].aad_bytes > SL_GPU_AAD_MAX)
            return SL_FAIL(SEALANE_INVALID_ARGUMENT, "%" PRIu32 " bytes of AAD, at most %d",
                           jobs[i].aad_bytes, SL_GPU_AAD_MAX);
    }
    return SEALANE_OK;
}

/* Where the device reads the jobs: few travel with the launch, many are copied to its memory, beside the launch before this one. */
static enum sealane_status jobs_place(struct sl_gpu_aead *gpu, const struct sl_gpu_job *jobs,
                                      struct sl_gpu_launch *launch, struct sl_gpu_place **place_p)
{
    struct sl_gpu_place *place = &gpu->places[gpu->next_place];
    size_t bytes = launch->count * sizeof(*jobs);

    *place_p = NULL;
    if (launch->count <= SL_GPU_FEW_JOBS) {
        launch->few = jobs;
        return SEALANE_OK;
    }
    SL_TRY(room_grow(&place->jobs, bytes, gpu->copies));
    TRY_CUDA(cudaStreamWaitEvent(gpu->copies, place->used, 0), "wait for a launch");
    TRY_CUDA(cudaMemcpyAsync(place->jobs.at, jobs, bytes, cudaMemcpyHostToDevice, gpu->copies),
             "copy jobs to the device");
    TRY_CUDA(cudaEventRecord(place->copied, gpu->copies), "record an event");
    TRY_CUDA(cudaStreamWaitEvent(launch->stream, place->copied, 0), "wait for jobs");
    launch->jobs = (const struct sl_gpu_job *)(const void *)place->jobs.at;
    gpu->next_place = 1 - gpu->next_place;
    *place_p = place;
    return SEALANE_OK;
}

static enum sealane_status run(struct sl_gpu_aead *gpu, struct sl_gpu_job *jobs, uint32_t *verdicts,
                               size_t count, struct sl_gpu_launch *launch)
{
    struct sl_gpu_place *place;
    uint64_t items;

    if (count == 0)
        return SEALANE_OK;
    SL_TRY(jobs_check(gpu, jobs, count));
    items = sl_gpu_kind_plan(gpu->aead, jobs, count, gpu->sms);
    if (items > UINT32_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "%" PRIu64 " work items in one launch, at most %" PRIu32, items, UINT32_MAX);
    launch->count = (uint32_t)count;
    launch->items = (uint32_t)items;
    launch->keys = gpu->keys;
    launch->sms = gpu->sms;
    launch->limited = gpu->limited;
    launch->cycles = gpu->cycles;
    SL_TRY(jobs_place(gpu, jobs, launch, &place));
    SL_TRY(room_grow(&gpu->job_scratch, count * gpu->shape.job_scratch_bytes, launch->stream));
    SL_TRY(room_grow(&gpu->item_scratch, items * gpu->shape.item_scratch_bytes, launch->stream));
    launch->job_scratch = gpu->job_scratch.at;
    launch->item_scratch = gpu->item_scratch.at;
    TRY_CUDA(cudaHostGetDevicePointer((void **)&launch->verdicts, verdicts, 0),
             "find the verdicts, which must be mapped memory");
    TRY_CUDA(sl_gpu_kind_launch(gpu->aead, launch), "launch");
    if (place)
        TRY_CUDA(cudaEventRecord(place->used, launch->stream), "record an event");
    return SEALANE_OK;
}

enum sealane_status sl_gpu_seal(struct sl_gpu_aead *gpu, struct sl_gpu_job *jobs,
                                uint32_t *verdicts, size_t count, void *stream)
{
    struct sl_gpu_launch launch = {.stream = stream};

    return run(gpu, jobs, verdicts, count, &launch);
}

enum sealane_status sl_gpu_open(struct sl_gpu_aead *gpu, struct sl_gpu_job *jobs,
                                uint32_t *verdicts, size_t count, void *stream)
{
    struct sl_gpu_launch launch = {.stream = stream, .opens = true};

    return run(gpu, jobs, verdicts, count, &launch);
}
