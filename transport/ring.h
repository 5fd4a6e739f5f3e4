/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - the counters of a ring's two ends, and the staging memory that sealed bytes leave from.
 *
 *            acked <= next <= seq <= acked + slots                      (invariant 5)
 *
 *   sender    seq: next record to seal      acked: what the peer told us it is done with
 *   receiver  next: next record to accept   counted: how many the link's hints say have been written
 *
 * A seq never travels. slot = seq % slots, nonce = iv XOR seq, epoch = seq >> shift.
 */
#ifndef SL_RING_H
#define SL_RING_H

#include "transport/keys.h"
#include "transport/memory.h"

struct sl_geometry {
    uint32_t slots;
    uint32_t stride;  /* distance of slots in bytes */
    uint32_t payload; /* most plaintext bytes of one record */
};

/* Source memory of writes, used front to back and reset when nothing of it is on its way, so that a carrier which copies at
 * once keeps hitting the same few cache lines. */
struct sl_staging {
    uint8_t *base;
    size_t stride;
    uint32_t count;
    uint64_t taken;  /* pieces handed out */
    uint64_t freed;  /* pieces whose write was released */
    uint64_t *write; /* [count]: the link's number of the write that each piece left with */
};

struct sl_sender {
    struct sl_geometry geometry; /* the peer's ring */
    uint64_t seq;
    uint64_t acked;
    struct sl_keys keys;
    struct sl_staging staging;
};

struct sl_receiver {
    struct sl_geometry geometry; /* our ring */
    uint64_t next;
    uint64_t counted;
    uint64_t told; /* the value of `next` that the peer was last told */
    struct sl_keys keys;
    struct sl_ring_memory memory;
};

/* Free slots of the peer's ring. */
uint32_t sl_sender_room(const struct sl_sender *sender);

/* Takes the peer's word that all below `acked` is done with: DATA_LOSS when it goes back or past what was sent. */
SEALANE_RESULT sl_sender_ack(struct sl_sender *sender, uint64_t acked);

/* True when the next seq's epoch has its key in the table already (asynchronous jobs of old epochs may hold it back). */
bool sl_sender_has_key(const struct sl_sender *sender);

/* The link says `slots` more were written: DATA_LOSS when that cannot be. */
SEALANE_RESULT sl_receiver_count(struct sl_receiver *receiver, uint32_t slots);

/* True when something was announced that was not accepted yet. */
bool sl_receiver_has_more(const struct sl_receiver *receiver);

/* Slots that the peer does not know yet to be free again. */
uint32_t sl_receiver_untold(const struct sl_receiver *receiver);

SEALANE_RESULT sl_staging_init(struct sl_staging *staging, size_t stride, uint32_t count);
void sl_staging_clear(struct sl_staging *staging);

/* How many adjoining pieces can be taken now; `at_p` is where they begin. `released` is the link's counter. */
uint32_t sl_staging_room(struct sl_staging *staging, uint64_t released, uint8_t **at_p);

/* Takes `pieces` of those, which leave with the link's write number `write` (1 is the first). */
void sl_staging_take(struct sl_staging *staging, uint32_t pieces, uint64_t write);

#endif
