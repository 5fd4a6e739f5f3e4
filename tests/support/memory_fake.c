/* SPDX-License-Identifier: Apache-2.0 */
/* memory_fake.c - each address that is given out has its bytes elsewhere, in the shadow, which only this file knows. */
#include "tests/support/memory_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    RINGS_MAX = 8,
    FILL = 0xEE /* fresh memory holds something that nobody may rely on */
};

struct pending {
    struct sl_job *job;
    bool seal;
};

/* A ring in this kind's memory. */
struct ring {
    uint8_t *address, *shadow; /* shadow: of the whole file; address NULL: free */
    size_t bytes, offset;
    int fd;
};

struct sl_memory {
    struct sl_memory_head head;
    struct sl_memory *host; /* for rings */
    struct ring rings[RINGS_MAX];
    bool device_rings;
    size_t ring_offset;
    uint8_t *address; /* pages that nobody may touch */
    uint8_t *shadow;  /* their bytes */
    size_t *blocks;   /* of each page: pages from here to the end of its allocation; 0: free */
    size_t pages;
    struct pending *pending; /* in the order of submission */
    size_t count, capacity;
    size_t pace;
    enum memory_fake_order order;
    uint64_t shuffle;
};

static _Noreturn void misuse(const char *what)
{
    (void)fprintf(stderr, "memory_fake: %s\n", what);
    abort();
}

/* ---- addresses ---- */

static bool inside(const struct sl_memory *memory, const void *at)
{
    uintptr_t offset = (uintptr_t)at - (uintptr_t)memory->address;

    return offset < memory->pages * PAGE;
}

static bool fake_owns(struct sl_memory *memory, const void *at, size_t bytes)
{
    size_t offset = (uintptr_t)at - (uintptr_t)memory->address;

    return inside(memory, at) && bytes <= memory->blocks[offset / PAGE] * PAGE - offset % PAGE;
}

/* Where the bytes are. Empty operands may be anywhere. */
static uint8_t *shadow_of(struct sl_memory *memory, const void *at, size_t bytes)
{
    if (bytes > 0 && !fake_owns(memory, at, bytes))
        misuse("memory that is not whole inside one of this kind's allocations");
    return bytes > 0 ? memory->shadow + ((uintptr_t)at - (uintptr_t)memory->address)
                     : memory->shadow;
}

static uint8_t *shadow_of_ring(const struct sl_memory *memory, const void *at, size_t bytes)
{
    for (size_t i = 0; i < RINGS_MAX; i++) {
        const struct ring *ring = &memory->rings[i];
        size_t offset = (uintptr_t)at - (uintptr_t)ring->address;

        if (ring->address && offset < ring->bytes && bytes <= ring->bytes - offset)
            return ring->shadow + ring->offset + offset;
    }
    return NULL;
}

/* Staging and rings may be the host's as well. */
static uint8_t *shadow_or_host(struct sl_memory *memory, const void *at, size_t bytes)
{
    uint8_t *ring = shadow_of_ring(memory, at, bytes);

    if (ring)
        return ring;
    return inside(memory, at) ? shadow_of(memory, at, bytes) : (uint8_t *)(uintptr_t)at;
}

/* The first run of `wanted` free pages; memory->pages when there is none. */
static size_t free_run(const struct sl_memory *memory, size_t wanted)
{
    size_t run = 0;

    for (size_t page = 0; page < memory->pages; page++) {
        run = memory->blocks[page] == 0 ? run + 1 : 0;
        if (run == wanted)
            return page + 1 - wanted;
    }
    return memory->pages;
}

static SEALANE_RESULT fake_alloc(struct sl_memory *memory, size_t bytes, void **at_p)
{
    size_t wanted = bytes / PAGE + 1; /* one more byte than asked for: an allocation has an end */
    size_t first = free_run(memory, wanted);

    if (first == memory->pages)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no fake memory for %zu bytes", bytes);
    for (size_t i = 0; i < wanted; i++)
        memory->blocks[first + i] = wanted - i;
    memset(memory->shadow + first * PAGE, FILL, wanted * PAGE);
    *at_p = memory->address + first * PAGE;
    return SEALANE_OK;
}

static bool touches(const uint8_t *block, size_t block_bytes, const uint8_t *at, size_t bytes)
{
    return bytes > 0 && (uintptr_t)at < (uintptr_t)block + block_bytes &&
           (uintptr_t)block < (uintptr_t)at + bytes;
}

static void fake_free(struct sl_memory *memory, void *at, size_t bytes)
{
    size_t wanted = bytes / PAGE + 1, offset = (uintptr_t)at - (uintptr_t)memory->address;

    if (!inside(memory, at) || offset % PAGE != 0 || memory->blocks[offset / PAGE] != wanted ||
        (offset > 0 && memory->blocks[offset / PAGE - 1] == wanted + 1))
        misuse("free of what alloc did not give, or with another length");
    for (size_t i = 0; i < memory->count; i++) {
        const struct sl_job *job = memory->pending[i].job;

        if (touches(at, bytes, job->in, job->bytes) || touches(at, bytes, job->out, job->bytes) ||
            touches(at, bytes, job->tag, SL_TAG_BYTES))
            misuse("free of memory that a pending job needs");
    }
    memset(&memory->blocks[offset / PAGE], 0, wanted * sizeof(memory->blocks[0]));
}

static SEALANE_RESULT device_ring(struct sl_memory *memory, size_t bytes,
                                  struct sl_ring_memory *ring_p)
{
    size_t offset = memory->ring_offset == SIZE_MAX ? 0 : memory->ring_offset;
    struct ring *ring = memory->rings;

    while (ring < memory->rings + RINGS_MAX && ring->address)
        ring++;
    if (ring == memory->rings + RINGS_MAX)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no place for more fake rings");
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    ring->fd = memfd_create("fake-dma-buf", MFD_CLOEXEC);
    if (ring->fd < 0 || ftruncate(ring->fd, (off_t)(offset + bytes)) != 0)
        misuse("no file for a ring");
    ring->shadow = mmap(NULL, offset + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
    ring->address = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring->shadow == MAP_FAILED || ring->address == MAP_FAILED)
        misuse("no pages for a ring");
    ring->bytes = bytes;
    ring->offset = offset;
    *ring_p = (struct sl_ring_memory){.base = ring->address,
                                      .bytes = bytes,
                                      .fd = -1,
                                      .place = SL_PLACE_DEVICE,
                                      .dmabuf = memory->ring_offset == SIZE_MAX ? -1 : ring->fd,
                                      .dmabuf_offset = offset};
    return SEALANE_OK;
}

static SEALANE_RESULT fake_ring_alloc(struct sl_memory *memory, enum sl_place place, size_t bytes,
                                      struct sl_ring_memory *ring_p)
{
    if (place == SL_PLACE_DEVICE && memory->device_rings && bytes > 0 && bytes < PTRDIFF_MAX / 2)
        return device_ring(memory, bytes, ring_p);
    return sl_memory_ops(memory->host)->ring_alloc(memory->host, place, bytes, ring_p);
}

static void fake_ring_free(struct sl_memory *memory, struct sl_ring_memory *given)
{
    for (struct ring *ring = memory->rings; ring < memory->rings + RINGS_MAX; ring++) {
        if (!ring->address || ring->address != given->base)
            continue;
        (void)munmap(ring->address, ring->bytes);
        (void)munmap(ring->shadow, ring->offset + ring->bytes);
        (void)close(ring->fd);
        *ring = (struct ring){.fd = -1};
        *given = (struct sl_ring_memory){.fd = -1, .dmabuf = -1};
        return;
    }
    sl_memory_ops(memory->host)->ring_free(memory->host, given);
}

/* ---- jobs ---- */

static void submit(struct sl_memory *memory, struct sl_job *jobs, size_t n, bool seal)
{
    if (memory->count + n > memory->capacity) {
        memory->capacity = 2 * (memory->count + n);
        memory->pending = realloc(memory->pending, memory->capacity * sizeof(memory->pending[0]));
        if (!memory->pending)
            misuse("no host memory for the list of jobs");
    }
    for (size_t i = 0; i < n; i++) {
        jobs[i].state = SL_JOB_PENDING;
        memory->pending[memory->count++] = (struct pending){&jobs[i], seal};
    }
}

static void fake_seal(struct sl_memory *memory, struct sl_job *jobs, size_t n)
{
    submit(memory, jobs, n, true);
}

static void fake_open(struct sl_memory *memory, struct sl_job *jobs, size_t n)
{
    submit(memory, jobs, n, false);
}

static void finish_seal(struct sl_memory *memory, struct sl_job *job)
{
    struct sl_aead_io io = {.nonce = job->nonce,
                            .aad = job->aad,
                            .aad_bytes = job->aad_bytes,
                            .in = shadow_of(memory, job->in, job->bytes),
                            .out = shadow_or_host(memory, job->out, job->bytes),
                            .bytes = job->bytes};

    sl_aead_seal(job->key, &io, shadow_or_host(memory, job->tag, SL_TAG_BYTES));
    job->state = SL_JOB_DONE;
}

static void finish_open(struct sl_memory *memory, struct sl_job *job)
{
    struct sl_aead_io io = {.nonce = job->nonce,
                            .aad = job->aad,
                            .aad_bytes = job->aad_bytes,
                            .out = shadow_of(memory, job->out, job->bytes),
                            .bytes = job->bytes};
    uint8_t tag[SL_TAG_BYTES];

    memcpy(tag, shadow_or_host(memory, job->tag, SL_TAG_BYTES), sizeof(tag));
    if (job->bytes > 0) /* read once, before the AEAD looks at it */
        memcpy(io.out, shadow_or_host(memory, job->in, job->bytes), job->bytes);
    io.in = io.out;
    job->state = sl_aead_open(job->key, &io, tag) ? SL_JOB_DONE : SL_JOB_BAD_TAG;
}

static size_t choose(struct sl_memory *memory)
{
    if (memory->order == MEMORY_FAKE_FIRST_FIRST)
        return 0;
    if (memory->order == MEMORY_FAKE_LAST_FIRST)
        return memory->count - 1;
    memory->shuffle = memory->shuffle * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(memory->shuffle >> 33) % memory->count;
}

static size_t fake_poll(struct sl_memory *memory)
{
    size_t finished = 0;

    while (memory->count > 0 && finished < memory->pace) {
        size_t chosen = choose(memory);
        struct pending taken = memory->pending[chosen];

        memmove(&memory->pending[chosen], &memory->pending[chosen + 1],
                (memory->count - chosen - 1) * sizeof(memory->pending[0]));
        memory->count--;
        finished++;
        if (taken.seal)
            finish_seal(memory, taken.job);
        else
            finish_open(memory, taken.job);
    }
    return finished;
}

static void fake_wipe(struct sl_memory *memory, void *at, size_t bytes)
{
    sl_wipe(shadow_of(memory, at, bytes), bytes);
}

/* ---- the kind ---- */

static void fake_close(struct sl_memory *memory)
{
    if (memory->count > 0)
        misuse("closed while jobs are pending");
    if (memory->host)
        sl_memory_ops(memory->host)->close(memory->host);
    if (memory->address != MAP_FAILED)
        (void)munmap(memory->address, memory->pages * PAGE);
    if (memory->shadow != MAP_FAILED)
        (void)munmap(memory->shadow, memory->pages * PAGE);
    free(memory->blocks);
    free(memory->pending);
    free(memory);
}

static const struct sl_memory_ops fake_ops = {
    .name = "fake",
    .owns = fake_owns,
    .alloc = fake_alloc,
    .free = fake_free,
    .ring_alloc = fake_ring_alloc,
    .ring_free = fake_ring_free,
    .seal = fake_seal,
    .open = fake_open,
    .poll = fake_poll,
    .wipe = fake_wipe,
    .close = fake_close,
};

static uint8_t *pages_map(size_t pages, int protection)
{
    return mmap(NULL, pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

SEALANE_RESULT memory_fake_new(size_t bytes, struct sl_memory **memory_p)
{
    struct sl_memory *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a memory kind");
    *memory =
        (struct sl_memory){.head.ops = &fake_ops, .pages = bytes / PAGE + 1, .pace = SIZE_MAX};
    memory->address = pages_map(memory->pages, PROT_NONE);
    memory->shadow = pages_map(memory->pages, PROT_READ | PROT_WRITE);
    memory->blocks = calloc(memory->pages, sizeof(memory->blocks[0]));
    if (memory->address == MAP_FAILED || memory->shadow == MAP_FAILED || !memory->blocks ||
        sl_memory_host_new(&memory->host) != SEALANE_OK) {
        fake_close(memory);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no room for %zu bytes of fake memory", bytes);
    }
    *memory_p = memory;
    return SEALANE_OK;
}

/* ---- for tests ---- */

void memory_fake_pace(struct sl_memory *memory, size_t jobs_per_poll)
{
    memory->pace = jobs_per_poll;
}

void memory_fake_order(struct sl_memory *memory, enum memory_fake_order order)
{
    memory->order = order;
}

void memory_fake_device_rings(struct sl_memory *memory, size_t offset)
{
    memory->device_rings = true;
    memory->ring_offset = offset;
}

void *memory_fake_ring_bytes(const struct sl_memory *memory, const void *base)
{
    return shadow_of_ring(memory, base, 1);
}

size_t memory_fake_pending(const struct sl_memory *memory)
{
    return memory->count;
}

size_t memory_fake_used(const struct sl_memory *memory)
{
    size_t used = 0;

    for (size_t page = 0; page < memory->pages; page++)
        used += memory->blocks[page] > 0;
    return used * PAGE;
}

void memory_fake_put(struct sl_memory *memory, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(shadow_or_host(memory, to, bytes), from, bytes);
}

void memory_fake_get(struct sl_memory *memory, void *to, const void *from, size_t bytes)
{
    if (bytes > 0)
        memcpy(to, shadow_or_host(memory, from, bytes), bytes);
}
