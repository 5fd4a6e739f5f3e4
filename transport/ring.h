/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - the counters of a ring's two ends.
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

struct sl_sender {
    struct sl_geometry geometry; /* the peer's ring */
    uint64_t seq;
    uint64_t acked;
    struct sl_keys keys;
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

#endif
