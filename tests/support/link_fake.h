/* SPDX-License-Identifier: Apache-2.0 */
/* link_fake.h - a carrier inside one process that does to bytes what a test tells it: hold, lose, alter, reorder, repeat, refuse,
 * cut, watch. Without commands it is a perfect carrier: what is posted arrives at the peer's next poll. Nothing depends on time.
 *
 *   struct link_fake_world *world = link_fake_world_new();      // before ports (or nodes with &link_fake) are made
 *   link_fake_rule(world, &(struct link_fake_rule){
 *       .kind = LINK_FAKE_WRITE, .from = LINK_FAKE_CLIENT, .ring = SL_RING_BULK, .nth = 2, .what = LINK_FAKE_FLIP, .bit = 77});
 *
 * Addresses: "fake:name". Ports of one world may belong to different threads.
 */
#ifndef LINK_FAKE_H
#define LINK_FAKE_H

#include "transport/link.h"

extern const struct sl_link_ops link_fake;

struct link_fake_world;

enum link_fake_kind {
    LINK_FAKE_SEND, /* two-sided bytes */
    LINK_FAKE_WRITE /* write_imm */
};

enum link_fake_from {
    LINK_FAKE_EITHER,
    LINK_FAKE_CLIENT, /* the side that connected */
    LINK_FAKE_SERVER
};

enum link_fake_what {
    LINK_FAKE_HOLD,           /* until link_fake_release; what is posted later overtakes it */
    LINK_FAKE_LOSE,           /* nothing arrives; the sender is told that all went well */
    LINK_FAKE_LOSE_BYTES,     /* writes: only the immediate arrives */
    LINK_FAKE_LOSE_IMMEDIATE, /* writes: only the bytes arrive */
    LINK_FAKE_FLIP,           /* bit `bit` of the bytes (modulo their number) */
    LINK_FAKE_CHANGE,         /* the bytes go through `change`, which cannot change their number */
    LINK_FAKE_SWAP,           /* arrives after the next of its kind of the same link */
    LINK_FAKE_TWICE,
    LINK_FAKE_CUT,  /* it is lost and both ends hear GONE */
    LINK_FAKE_AGAIN /* SL_AGAIN; a refused send hears WRITABLE at the next poll */
};

/* From the moment it is made a rule counts what fits kind, from and ring, and does `what` to number nth, nth + 1, ... of it,
 * `times` in all. Of several rules that would do something to one crossing the eldest does. */
struct link_fake_rule {
    enum link_fake_kind kind;
    enum link_fake_from from;
    bool any_ring; /* writes; else only those into `ring` */
    enum sl_ring_id ring;
    uint64_t nth;   /* from 0 */
    uint64_t times; /* 0 means 1; UINT64_MAX for all */
    enum link_fake_what what;
    size_t bit;
    void (*change)(void *context, uint8_t *bytes, size_t count);
    void *context;
};

/* What a tap sees, as it was posted. */
struct link_fake_crossing {
    enum link_fake_kind kind;
    enum link_fake_from from; /* never EITHER */
    const uint8_t *bytes;
    size_t count;
    enum sl_ring_id ring; /* writes: this and the next two */
    uint32_t slot;
    uint32_t immediate;
};

/* Makes a world; ports opened from now on are of it. One at a time. */
struct link_fake_world *link_fake_world_new(void);

/* All its ports must be closed. */
void link_fake_world_free(struct link_fake_world *world);

void link_fake_rule(struct link_fake_world *world, const struct link_fake_rule *rule);
void link_fake_forget_rules(struct link_fake_world *world);

/* Calls tap for all that is posted; NULL ends it. It must not call into this file. */
void link_fake_tap(struct link_fake_world *world,
                   void (*tap)(void *context, const struct link_fake_crossing *crossing),
                   void *context);

/* Everything posted from now on is held, in order. false: no longer, and all that is held arrives. */
void link_fake_hold_all(struct link_fake_world *world, bool hold);

/* The first n that are held arrive, in the order posted; returns how many did. */
size_t link_fake_release(struct link_fake_world *world, size_t n);
size_t link_fake_held(struct link_fake_world *world);

/* Writes arrive but are not reported as placed until this is taken back. */
void link_fake_hold_placed(struct link_fake_world *world, bool hold);

/* Every link hears GONE; what is held is lost. */
void link_fake_cut(struct link_fake_world *world);

#endif
