/* SPDX-License-Identifier: Apache-2.0 */
/* memory_host.c - the host's memory, sealed and opened by the CPU of the node's thread. */
#include "transport/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64,      /* a cache line: what memory.h promises */
    HUGE_FROM = 4 << 20, /* from here on large pages are worth asking for */
    HUGE_BYTES = 2 << 20
};

struct sl_memory {
    struct sl_memory_head head;
};

static bool host_owns(struct sl_memory *memory, const void *at, size_t bytes)
{
    (void)memory;
    (void)at;
    (void)bytes;
    return true;
}

static SEALANE_RESULT host_alloc(struct sl_memory *memory, size_t bytes, void **at_p)
{
    void *at;

    (void)memory;
    if (bytes >= HUGE_FROM) {
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            at = NULL;
        else
            (void)madvise(at, bytes, MADV_HUGEPAGE); /* a wish */
    } else {
        at = aligned_alloc(ALIGNMENT, bytes / ALIGNMENT * ALIGNMENT + ALIGNMENT);
    }
    if (!at)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %zu bytes", bytes);
    *at_p = at;
    return SEALANE_OK;
}

static void host_free(struct sl_memory *memory, void *at, size_t bytes)
{
    (void)memory;
    if (bytes >= HUGE_FROM)
        (void)munmap(at, bytes);
    else
        free(at);
}

/* A new memfd of whole pages, sealed so that neither side can take pages away from under the other. */
static int ring_file(size_t bytes)
{
    int fd = memfd_create("sealane-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    if (fd >= 0) {
        int error = errno;

        (void)close(fd);
        errno = error;
    }
    return -1;
}

/* Where large pages can lie, with the wish for them as far as whole ones reach: systems grant it to shared memory by
 * /sys/kernel/mm/transparent_hugepage/shmem_enabled. Never pages of hugetlbfs: who has the descriptor may punch holes into those that
 * kill whoever touches them. */
static void *ring_map(int fd, size_t bytes)
{
    uint8_t *room = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    size_t before;
    void *at;

    if (room == MAP_FAILED)
        return MAP_FAILED;
    before = (HUGE_BYTES - (uintptr_t)room % HUGE_BYTES) % HUGE_BYTES;
    at = mmap(room + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (at == MAP_FAILED) {
        int error = errno;

        (void)munmap(room, bytes + HUGE_BYTES);
        errno = error;
        return MAP_FAILED;
    }
    if (before > 0)
        (void)munmap(room, before);
    (void)munmap(room + before + bytes, HUGE_BYTES - before);
    if (bytes >= HUGE_BYTES)
        (void)madvise(at, bytes / HUGE_BYTES * HUGE_BYTES, MADV_HUGEPAGE);
    return at;
}

static SEALANE_RESULT host_ring_alloc(struct sl_memory *memory, enum sl_place place, size_t bytes,
                                      struct sl_ring_memory *ring_p)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t whole;
    void *base;
    int fd;

    (void)memory, (void)place;
    if (bytes == 0 || bytes > PTRDIFF_MAX - page)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a ring of %zu bytes was asked for", bytes);
    whole = (bytes + page - 1) / page * page;
    fd = ring_file(whole);
    base = fd < 0 ? MAP_FAILED : ring_map(fd, whole);
    if (base == MAP_FAILED) {
        int error = errno;

        if (fd >= 0)
            (void)close(fd);
        return SL_FAIL_CAUSE(SEALANE_RESOURCE_EXHAUSTED, error, "no ring memory of %zu bytes: %s",
                             whole, strerror(error));
    }
    *ring_p = (struct sl_ring_memory){.base = base, .bytes = whole, .fd = fd, .dmabuf = -1};
    return SEALANE_OK;
}

static void host_ring_free(struct sl_memory *memory, struct sl_ring_memory *ring)
{
    (void)memory;
    (void)munmap(ring->base, ring->bytes);
    (void)close(ring->fd);
    *ring = (struct sl_ring_memory){.fd = -1, .dmabuf = -1};
}

static struct sl_aead_io io_of(const struct sl_job *job)
{
    return (struct sl_aead_io){.nonce = job->nonce,
                               .aad = job->aad,
                               .aad_bytes = job->aad_bytes,
                               .in = job->in,
                               .out = job->out,
                               .bytes = job->bytes};
}

static void host_seal(struct sl_memory *memory, struct sl_job *jobs, size_t n)
{
    (void)memory;
    for (size_t i = 0; i < n; i++) {
        struct sl_aead_io io = io_of(&jobs[i]);

        sl_aead_seal(jobs[i].key, &io, jobs[i].tag);
        jobs[i].state = SL_JOB_DONE;
    }
}

/* The ring is read once, into the private final place; the AEAD then never looks at memory that a peer can write. */
static void host_open(struct sl_memory *memory, struct sl_job *jobs, size_t n)
{
    (void)memory;
    for (size_t i = 0; i < n; i++) {
        struct sl_aead_io io = io_of(&jobs[i]);
        uint8_t tag[SL_TAG_BYTES];

        memcpy(tag, jobs[i].tag, sizeof(tag));
        if (jobs[i].bytes > 0)
            memcpy(jobs[i].out, jobs[i].in, jobs[i].bytes);
        io.in = io.out;
        jobs[i].state = sl_aead_open(jobs[i].key, &io, tag) ? SL_JOB_DONE : SL_JOB_BAD_TAG;
    }
}

static size_t host_poll(struct sl_memory *memory)
{
    (void)memory;
    return 0; /* everything was finished when seal or open returned */
}

static void host_wipe(struct sl_memory *memory, void *at, size_t bytes)
{
    (void)memory;
    sl_wipe(at, bytes);
}

static void host_close(struct sl_memory *memory)
{
    free(memory);
}

static const struct sl_memory_ops host_ops = {
    .name = "host",
    .owns = host_owns,
    .alloc = host_alloc,
    .free = host_free,
    .ring_alloc = host_ring_alloc,
    .ring_free = host_ring_free,
    .seal = host_seal,
    .open = host_open,
    .poll = host_poll,
    .wipe = host_wipe,
    .close = host_close,
};

SEALANE_RESULT sl_memory_host_new(struct sl_memory **memory_p)
{
    struct sl_memory *memory = calloc(1, sizeof(*memory));

    if (!memory)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a memory kind");
    memory->head.ops = &host_ops;
    *memory_p = memory;
    return SEALANE_OK;
}
