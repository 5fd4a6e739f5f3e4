/* SPDX-License-Identifier: Apache-2.0 */
/* staging.h - memory that sealed bytes leave from: slabs of a node, of which its lanes borrow blocks.
 *
 * A lane borrows a block for what it is about to seal and names the write that the block leaves with; the block comes back when
 * the link has released that write. So a lane that sends nothing holds nothing, and one whose link is stuck holds no more than
 * its pieces: others get further slabs. The lowest free block is taken first, which keeps a carrier that copies at once on the
 * same few cache lines.
 *
 * Blocks are other lanes' next, so only ciphertext is ever left in one: a frame's plaintext is there between two lines of
 * lane_out.c and nowhere else. What is in a block before it is written is unspecified, and another lane's ciphertext.
 *
 * A link is told of a slab (`sources`) before its first write from it; a lane takes blocks of slabs that its link knows first.
 * Slabs that are not needed any more are forgotten by all links and given back to the system.
 */
#ifndef SL_STAGING_H
#define SL_STAGING_H

#include "transport/link.h"
#include "transport/timer.h"

enum {
    SL_SLAB_BYTES = 2 << 20, /* one large page */
    SL_BLOCK_UNIT = 4096,    /* blocks are whole units */
    SL_SLAB_UNITS = SL_SLAB_BYTES / SL_BLOCK_UNIT,
    SL_STAGING_LOOK_MS = 5000 /* between looks whether there are more slabs than needed */
};

struct sl_slab {
    struct sl_slab *next;
    uint8_t *base;
    uint32_t taken;               /* units */
    bool retired;                 /* no new blocks; unmapped when the last one is back */
    uint8_t units[SL_SLAB_UNITS]; /* 1: taken */
};

struct sl_staging;

/* A node's. */
struct sl_staging_pool {
    struct sl_slab *slabs; /* oldest first */
    uint32_t count;        /* those not retired */
    uint32_t taken, peak;  /* units: now, and the most since the last look */
    struct sl_staging *lanes;
    struct sl_timers *timers;
    struct sl_timer timer; /* runs while there may be slabs to give back */
};

/* A block on its way. */
struct sl_loan {
    struct sl_slab *slab;
    uint32_t unit, units;
    uint32_t pieces;
    uint64_t write; /* the link's number of its write; UINT64_MAX: not written yet */
};

/* Those of one ring, which are written and come back in the order in which they were taken. */
struct sl_loans {
    struct sl_loan *at; /* [limit] ring */
    uint32_t limit;     /* pieces on loan at most */
    uint32_t pieces;
    uint64_t taken, written, freed;
};

/* A lane's part of it. Zero it before its init. */
struct sl_staging {
    struct sl_staging *prev, *next;
    struct sl_staging_pool *pool; /* NULL before init */
    struct sl_link *link;
    struct sl_slab *known[SL_LINK_SOURCES]; /* the link was told of them; front filled first */
    struct sl_loans loans[SL_RING_COUNT];
    bool waits; /* no block was to be had before one of its own is back */
};

/* The timers are the node's; both outlive the pool. */
void sl_staging_pool_init(struct sl_staging_pool *pool, struct sl_timers *timers);

/* All lanes ended before, and all links. */
void sl_staging_pool_clear(struct sl_staging_pool *pool);

/* Gives a lane its part: at most `pieces[ring]` pieces on loan at a time. RESOURCE_EXHAUSTED without memory. */
SEALANE_RESULT sl_staging_init(struct sl_staging *staging, struct sl_staging_pool *pool,
                               struct sl_link *link, const uint32_t pieces[SL_RING_COUNT]);

/* The link is to be dropped. A carrier may read on what it was given for a moment after that, so slabs from which this could be take
 * no new blocks and are unmapped rather than used again. */
void sl_staging_leave(struct sl_staging *staging);

/* After the link was dropped: everything comes back. Fine before init. */
void sl_staging_clear(struct sl_staging *staging);

/* How many pieces may be taken now; blocks that came back are counted. */
uint32_t sl_staging_room(struct sl_staging *staging, enum sl_ring_id ring);

/* Borrows one block of `bytes`, at most SL_SLAB_BYTES, for `pieces`, at most sl_staging_room. `*at_p` is NULL when there is none before
 * others of this lane are back. RESOURCE_EXHAUSTED when there is no memory, or the link can take no more of it, and nothing of this
 * lane's is on its way that could come back. */
SEALANE_RESULT sl_staging_take(struct sl_staging *staging, enum sl_ring_id ring, uint32_t pieces,
                               size_t bytes, uint8_t **at_p);

/* Gives the block that was taken last back at once: nothing was written from it. */
void sl_staging_untake(struct sl_staging *staging, enum sl_ring_id ring);

/* The oldest block of the ring that has no write yet leaves with the link's write number `write` (1 is the first). */
void sl_staging_name(struct sl_staging *staging, enum sl_ring_id ring, uint64_t write);

#endif
