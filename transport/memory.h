/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - seam 2: where bytes live, and who seals and opens them.
 *
 * A memory kind (memory_host, the fake of the tests, later memory_cuda) is handed to a node. Its entries
 * never block, never call up and are all set. Jobs come in batches; one job's bad tag never touches another.
 * Every kind makes the same records, so kinds at the two ends need not match. tests/transport/memory_contract.h
 * is run on every kind.
 */
#ifndef SL_MEMORY_H
#define SL_MEMORY_H

#include "transport/seal.h"

struct sl_memory; /* one kind on one node; the kind defines it, with struct sl_memory_head first */

enum sl_job_state {
    SL_JOB_PENDING, /* submitted, not finished: every pointer stays borrowed */
    SL_JOB_DONE,
    SL_JOB_BAD_TAG /* open only: the destination was wiped */
};

/* One AEAD operation. The submitter fills all but state; the kind sets state last. */
struct sl_job {
    struct sl_aead_key *key;
    uint8_t nonce[SL_NONCE_BYTES];
    const uint8_t *aad; /* host memory, at most 16 bytes; NULL when aad_bytes is 0 */
    size_t aad_bytes;
    const uint8_t
        *in;      /* seal: plaintext in this kind's memory. open: a ring, which the peer can still
                           write: each byte is read once, to private memory, before any AEAD sees it */
    uint8_t *out; /* seal: staging. open: the private final place */
    size_t bytes; /* of in and of out */
    uint8_t *tag; /* seal: SL_TAG_BYTES written. open: read once, may be ring memory */
    enum sl_job_state state;
};

enum sl_place {
    SL_PLACE_HOST,
    SL_PLACE_DEVICE /* the CPU cannot touch it */
};

/* Memory of one ring: whole pages, open to a peer's writes once a link grants it. */
struct sl_ring_memory {
    uint8_t *base; /* in this kind's address space */
    size_t bytes;
    int fd; /* host: a memfd sealed with F_SEAL_SHRINK|GROW|SEAL that links may pass on; -1 when there is none */
    enum sl_place place;
    int dmabuf; /* device: a dma-buf that holds the ring, the kind's until ring_free; -1 when there is none */
    uint64_t dmabuf_offset; /* of base in it, whole pages of the host */
};

struct sl_memory_ops {
    const char *name;

    /* True when [at, at + bytes) is memory of this kind. Host says yes to what no other kind owns. */
    bool (*owns)(struct sl_memory *memory, const void *at, size_t bytes);

    /* Private memory, at least 64-byte aligned, contents unspecified. RESOURCE_EXHAUSTED when there is none. */
    SEALANE_RESULT (*alloc)(struct sl_memory *memory, size_t bytes, void **at_p);
    void (*free)(struct sl_memory *memory, void *at, size_t bytes);

    /* Ring memory of `bytes` (rounded up to whole pages), zeroed, in the place that is asked for; the host's where the kind has
     * no other. A kind opens chunks from rings of both places. */
    SEALANE_RESULT(*ring_alloc)
    (struct sl_memory *memory, enum sl_place place, size_t bytes, struct sl_ring_memory *ring_p);
    void (*ring_free)(struct sl_memory *memory, struct sl_ring_memory *ring);

    /* Submit n jobs, all seal or all open. They may be DONE on return or later, after polls. */
    void (*seal)(struct sl_memory *memory, struct sl_job *jobs, size_t n);
    void (*open)(struct sl_memory *memory, struct sl_job *jobs, size_t n);

    /* Moves asynchronous work on; returns how many jobs left SL_JOB_PENDING. */
    size_t (*poll)(struct sl_memory *memory);

    /* Zeroes bytes so that it cannot be optimised away. */
    void (*wipe)(struct sl_memory *memory, void *at, size_t bytes);

    /* Ends the kind. No job may be pending. */
    void (*close)(struct sl_memory *memory);
};

struct sl_memory_head {
    const struct sl_memory_ops *ops;
};

static inline const struct sl_memory_ops *sl_memory_ops(const struct sl_memory *memory)
{
    return ((const struct sl_memory_head *)(const void *)memory)->ops;
}

/* The host's memory, sealed by this thread's CPU; jobs are finished when seal or open return. */
SEALANE_RESULT sl_memory_host_new(struct sl_memory **memory_p);

#endif
