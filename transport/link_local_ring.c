/* SPDX-License-Identifier: Apache-2.0 */
/* link_local_ring.c - what two processes share: rings, which the receiver owns and the writer maps, and the arrival pages.
 *
 * Memory that the peer passed could be taken away under a mapping, which would kill this process; so only memfds are mapped
 * that can never shrink, and rings are granted only when they are such. A peer that lies in a page harms its own link.
 */
#include "transport/link_local_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
    PER_TURN = 64, /* arrivals taken from one link before the next one's turn */
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL
};

/* A memfd of at least `bytes` that can be written and will never be smaller; `status` says whose fault it is when not. */
static SEALANE_RESULT memfd_check(int fd, size_t bytes, enum sealane_status status,
                                  const char *whose)
{
    int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : -1;
    struct stat info;
    struct statfs system;

    if (fd < 0)
        return SL_FAIL(status, "%s memory came without a descriptor", whose);
    if (seals < 0)
        return SL_FAIL_CAUSE(status, errno, "%s memory is no memfd with seals", whose);
    if ((seals & SEALS) != SEALS || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
        return SL_FAIL(status, "%s memory has seals 0x%x, expected 0x%x", whose, (unsigned)seals,
                       (unsigned)SEALS);
    if (fstat(fd, &info) != 0 || fstatfs(fd, &system) != 0)
        return SL_FAIL_CAUSE(status, errno, "%s memory cannot be looked at", whose);
    /* A hole punched into huge pages may find none to fill it again: SIGBUS, whatever the seals. */
    if (system.f_type == HUGETLBFS_MAGIC)
        return SL_FAIL(status, "%s memory is of huge pages, expected plain ones", whose);
    if (info.st_size < 0 || (size_t)info.st_size < bytes ||
        info.st_size % sysconf(_SC_PAGESIZE) != 0)
        return SL_FAIL(status, "%s memory has %lld bytes, expected whole pages of %zu", whose,
                       (long long)info.st_size, bytes);
    return SEALANE_OK;
}

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

static void *map(int fd, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return at == MAP_FAILED ? NULL : at;
}

void sl_local_unmap(struct sl_local *local)
{
    if (local->page_fd >= 0)
        (void)close(local->page_fd);
    if (local->mine)
        (void)munmap(local->mine, sizeof(*local->mine));
    if (local->theirs)
        (void)munmap(local->theirs, sizeof(*local->theirs));
    for (int i = 0; i < SL_RING_COUNT; i++) {
        if (local->rings[i].fd >= 0)
            (void)close(local->rings[i].fd);
        if (local->rings[i].base)
            (void)munmap(local->rings[i].base, local->rings[i].bytes);
    }
}

/* ---- granting ---- */

static SEALANE_RESULT page_make(int *fd_p)
{
    int fd = memfd_create("sealane-arrivals", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return sl_system_failed("no arrival page for", "link_local");
    if (ftruncate(fd, (off_t)whole_pages(sizeof(struct sl_local_page))) != 0 ||
        fcntl(fd, F_ADD_SEALS, SEALS) != 0) {
        enum sealane_status status = sl_system_failed("no arrival page for", "link_local");

        (void)close(fd);
        return status;
    }
    *fd_p = fd;
    return SEALANE_OK;
}

static SEALANE_RESULT page_grant(struct sl_local *local)
{
    struct sl_local_page *page;
    enum sealane_status status;
    int fd = -1;

    if (local->mine)
        return SEALANE_OK;
    SL_TRY(page_make(&fd));
    page = map(fd, sizeof(*page));
    if (!page)
        status = sl_system_failed("cannot map an arrival page for", "link_local");
    else
        status = sl_local_pass(local, 'P', 0, fd);
    (void)close(fd);
    if (status == SEALANE_OK)
        local->mine = page;
    else if (page)
        (void)munmap(page, sizeof(*page));
    return status;
}

SEALANE_RESULT sl_local_grant(struct sl_link *link, enum sl_ring_id ring,
                              const struct sl_ring_memory *memory, size_t stride,
                              uint8_t descriptor[SL_GRANT_BYTES])
{
    struct sl_local *local = sl_local_of(link);

    if (stride == 0 || stride > memory->bytes)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a stride of %zu in a ring of %zu bytes", stride,
                       memory->bytes);
    if (local->granted & (1u << ring))
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "ring %d is granted already", (int)ring);
    SL_TRY(sl_ring_is_hosts(memory, "local"));
    SL_TRY(memfd_check(memory->fd, memory->bytes, SEALANE_INVALID_ARGUMENT, "this side's"));
    SL_TRY(page_grant(local));
    SL_TRY(sl_local_pass(local, 'R', (uint8_t)ring, memory->fd));
    local->granted |= 1u << ring;
    local->takes_fds = true;
    memset(descriptor, 0, SL_GRANT_BYTES); /* the descriptor that was passed is the capability */
    descriptor[0] = (uint8_t)(ring + 1);
    return SEALANE_OK;
}

/* ---- attaching ---- */

static SEALANE_RESULT page_attach(struct sl_local *local)
{
    if (local->theirs)
        return SEALANE_OK;
    SL_TRY(memfd_check(local->page_fd, sizeof(*local->theirs), SEALANE_DATA_LOSS,
                       "the peer's page's"));
    local->theirs = map(local->page_fd, sizeof(*local->theirs));
    if (!local->theirs)
        return sl_system_failed("cannot map the peer's arrival page over", "link_local");
    (void)close(local->page_fd);
    local->page_fd = -1;
    local->room_until = SL_LOCAL_ENTRIES;
    sl_local_shaken(local);
    return SEALANE_OK;
}

SEALANE_RESULT sl_local_attach(struct sl_link *link, enum sl_ring_id id,
                               const uint8_t descriptor[SL_GRANT_BYTES], size_t bytes,
                               size_t stride)
{
    struct sl_local *local = sl_local_of(link);
    struct sl_local_ring *ring = &local->rings[id];
    uint8_t *base;

    if (descriptor[0] != id + 1)
        return SL_FAIL(SEALANE_DATA_LOSS, "a grant that begins with %u, expected %d for this ring",
                       descriptor[0], (int)id + 1);
    if (stride == 0 || stride > bytes)
        return SL_FAIL(SEALANE_DATA_LOSS, "a stride of %zu in a ring of %zu bytes", stride, bytes);
    if (ring->base)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "ring %d is attached already", (int)id);
    SL_TRY(memfd_check(ring->fd, bytes, SEALANE_DATA_LOSS, "the peer's ring's"));
    SL_TRY(page_attach(local));
    base = map(ring->fd, bytes);
    if (!base)
        return sl_system_failed("cannot map the peer's ring over", "link_local");
    (void)close(ring->fd);
    *ring = (struct sl_local_ring){
        .fd = -1, .base = base, .bytes = bytes, .stride = stride, .slots = bytes / stride};
    return SEALANE_OK;
}

/* ---- writing ---- */

/* The head is looked at only when what was seen of it is used up: one line less to share with the reader. */
static bool page_has_room(struct sl_local *local)
{
    uint32_t head;

    if (local->written != local->room_until)
        return true;
    head = atomic_load_explicit(&local->theirs->head, memory_order_acquire);
    if (local->written - head > SL_LOCAL_ENTRIES)
        return false; /* more taken than was published: a lie, and only its teller waits */
    local->room_until = head + SL_LOCAL_ENTRIES;
    return local->written != local->room_until;
}

/* A write is a copy. */
SEALANE_RESULT sl_local_sources(struct sl_link *link, const void *base, size_t bytes)
{
    (void)link;
    (void)base;
    (void)bytes;
    return SEALANE_OK;
}

void sl_local_forget(struct sl_link *link, const void *base)
{
    (void)link;
    (void)base;
}

SEALANE_RESULT sl_local_write_imm(struct sl_link *link, const struct sl_link_write *write)
{
    struct sl_local *local = sl_local_of(link);
    const struct sl_local_ring *ring = &local->rings[write->ring];
    struct sl_local_page *page = local->theirs;
    size_t at = write->slot * ring->stride;

    if (write->slot >= ring->slots || write->bytes > ring->bytes - at)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a write of %zu bytes at slot %u of a ring of %zu slots, %zu bytes in all",
                       write->bytes, write->slot, ring->slots, ring->bytes);
    if (!page_has_room(local))
        return SL_AGAIN;
    if (write->bytes > 0)
        memcpy(ring->base + at, write->from, write->bytes);
    atomic_store_explicit(&page->entry[local->written % SL_LOCAL_ENTRIES], write->immediate,
                          memory_order_relaxed);
    atomic_store_explicit(&page->tail, ++local->written, memory_order_release);
    link->posted++;
    link->placed++;
    link->released++;
    /* Pairs with the fence in arm: either the reader sees the entry, or this sees the sleeper. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&page->sleeping, memory_order_relaxed) != 0 &&
        atomic_exchange_explicit(&page->sleeping, 0, memory_order_relaxed) != 0)
        sl_local_wake(local);
    return SEALANE_OK;
}

/* ---- arrivals ---- */

uint32_t sl_local_page_end(const struct sl_local *local)
{
    uint32_t tail;

    if (!local->mine)
        return local->read;
    tail = atomic_load_explicit(&local->mine->tail, memory_order_acquire);
    return tail - local->read <= SL_LOCAL_ENTRIES ? tail : local->read;
}

bool sl_local_has_arrivals(const struct sl_local *local)
{
    if (local->over)
        return !local->ended && local->read != local->last;
    return local->mine &&
           atomic_load_explicit(&local->mine->tail, memory_order_relaxed) != local->read;
}

int sl_local_arrivals(struct sl_local *local, struct sl_link_event *events, int max)
{
    uint32_t tail;
    int count = 0;

    if (!sl_local_has_arrivals(local))
        return 0;
    tail =
        local->over ? local->last : atomic_load_explicit(&local->mine->tail, memory_order_acquire);
    if (tail - local->read > SL_LOCAL_ENTRIES) {
        sl_local_over(local, "the peer's arrivals count more than their page can hold");
        return 0;
    }
    if (max > PER_TURN)
        max = PER_TURN;
    while (local->read != tail && count < max) {
        const _Atomic uint32_t *entry = &local->mine->entry[local->read++ % SL_LOCAL_ENTRIES];
        struct sl_link_event *event = &events[count++];

        event->kind = SL_LINK_ARRIVED;
        event->link = &local->link;
        event->immediate = atomic_load_explicit(entry, memory_order_relaxed);
    }
    atomic_store_explicit(&local->mine->head, local->read, memory_order_release);
    return count;
}
