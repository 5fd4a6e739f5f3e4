/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c - blocks by size and by age. */
#include "rpc/pool.h"

#include <sys/mman.h>

enum {
    PAGE = 4096,
    FLOOR = 256 << 20,   /* kept beyond what was in use at a time: sizes that come in turn */
    TRIM_MAX = 256 << 20 /* of age unmapped at a time: some hundred microseconds */
};

size_t sl_pool_bytes(size_t bytes)
{
    return bytes > SIZE_MAX - PAGE ? 0 : (bytes + PAGE - 1) / PAGE * PAGE;
}

static struct sl_spare **bucket_of(struct sl_pool *pool, size_t bytes)
{
    return &pool->buckets[bytes / PAGE * UINT64_C(0x9E3779B97F4A7C15) >> 58];
}

static void put_in(struct sl_pool *pool, struct sl_spare *spare)
{
    struct sl_spare **bucket = bucket_of(pool, spare->bytes);

    spare->prev = NULL;
    spare->next = *bucket;
    if (*bucket)
        (*bucket)->prev = spare;
    *bucket = spare;
    spare->newer = NULL;
    spare->older = pool->newest;
    if (pool->newest)
        pool->newest->newer = spare;
    else
        pool->oldest = spare;
    pool->newest = spare;
    pool->kept += spare->bytes;
}

static void take_out(struct sl_pool *pool, struct sl_spare *spare)
{
    if (spare->prev)
        spare->prev->next = spare->next;
    else
        *bucket_of(pool, spare->bytes) = spare->next;
    if (spare->next)
        spare->next->prev = spare->prev;
    if (spare->newer)
        spare->newer->older = spare->older;
    else
        pool->newest = spare->older;
    if (spare->older)
        spare->older->newer = spare->newer;
    else
        pool->oldest = spare->newer;
    pool->kept -= spare->bytes;
}

void *sl_pool_take(struct sl_pool *pool, size_t bytes)
{
    struct sl_spare *spare = *bucket_of(pool, bytes);

    pool->lent += bytes;
    if (pool->lent > pool->peak[0])
        pool->peak[0] = pool->lent;
    while (spare && spare->bytes != bytes)
        spare = spare->next;
    if (spare)
        take_out(pool, spare);
    return spare;
}

void sl_pool_forget(struct sl_pool *pool, size_t bytes)
{
    pool->lent -= bytes;
}

void sl_pool_keep(struct sl_pool *pool, void *at, size_t bytes, uint64_t now_ns)
{
    struct sl_spare *spare = at;

    sl_pool_forget(pool, bytes);
    *spare = (struct sl_spare){.bytes = bytes, .kept_ns = now_ns};
    put_in(pool, spare);
}

static uint64_t most_kept(const struct sl_pool *pool)
{
    uint64_t peak = pool->peak[0] > pool->peak[1] ? pool->peak[0] : pool->peak[1];

    return FLOOR + peak - pool->lent;
}

struct sl_spare *sl_pool_trim(struct sl_pool *pool, uint64_t most, uint64_t since_ns)
{
    struct sl_spare *chain = NULL, *spare;
    uint64_t taken = 0;

    if (most > most_kept(pool))
        most = most_kept(pool);
    while ((spare = pool->oldest) &&
           (pool->kept > most || (spare->kept_ns < since_ns && taken < TRIM_MAX))) {
        take_out(pool, spare);
        taken += spare->bytes;
        spare->next = chain;
        chain = spare;
    }
    return chain;
}

void sl_pool_tick(struct sl_pool *pool)
{
    pool->peak[1] = pool->peak[0];
    pool->peak[0] = pool->lent;
}

void *sl_pool_map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, bytes, MADV_HUGEPAGE); /* a wish */
    return at;
}

void sl_pool_unmap(struct sl_spare *chain)
{
    while (chain) {
        struct sl_spare *next = chain->next;

        (void)munmap(chain, chain->bytes);
        chain = next;
    }
}
