/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h - tensor memory that is kept for the next tensor of the same size: fresh pages cost ten times a copy.
 *
 * What is kept is bounded twice: by the caller, and by what was in use at a time lately, so that a pool never grows a process much
 * beyond what its traffic needed. What nobody takes for a while goes back to the system. Blocks are whole pages, of one mapping each.
 * No lock inside: the gate has one. Mapping and unmapping take time and happen outside of it, hence the chains.
 */
#ifndef SL_POOL_H
#define SL_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SL_POOL_BUCKETS = 64
};

/* A kept block; stands in its first bytes. */
struct sl_spare {
    struct sl_spare *newer, *older; /* of all */
    struct sl_spare *next, *prev;   /* of its bucket; next also chains what is to be unmapped */
    size_t bytes;
    uint64_t kept_ns;
};

struct sl_pool {
    struct sl_spare *newest, *oldest;
    struct sl_spare *buckets[SL_POOL_BUCKETS]; /* by size, newest first */
    uint64_t kept;                             /* bytes in the pool */
    uint64_t lent;                             /* bytes in use */
    uint64_t peak[2]; /* most of them since the last sl_pool_tick, and before it */
};

/* Rounds up to what a block of the pool has. 0 when there is no such size. */
size_t sl_pool_bytes(size_t bytes);

/* A kept block of exactly `bytes`, its contents left over; NULL: map one. Counts it as in use either way. */
void *sl_pool_take(struct sl_pool *pool, size_t bytes);

/* A block that was in use; sl_pool_trim says what has to leave for it. */
void sl_pool_keep(struct sl_pool *pool, void *at, size_t bytes, uint64_t now_ns);

/* A block that was in use and is not kept, or could not be mapped. */
void sl_pool_forget(struct sl_pool *pool, size_t bytes);

/* Takes out the oldest blocks, as long as more than `most` bytes are kept, or more than lately were in use; and 256 MiB of those that
 * were kept before `since_ns`. Answers their chain. */
struct sl_spare *sl_pool_trim(struct sl_pool *pool, uint64_t most, uint64_t since_ns);

/* Called at equal intervals: what was in use before the last one no longer counts. */
void sl_pool_tick(struct sl_pool *pool);

/* The system's part. sl_pool_map: NULL when it has none. */
void *sl_pool_map(size_t bytes);
void sl_pool_unmap(struct sl_spare *chain);

#endif
