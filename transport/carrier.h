/* SPDX-License-Identifier: Apache-2.0 */
/* carrier.h - what all carriers do alike: lists of their links, and what the system says when it refuses. */
#ifndef SL_CARRIER_H
#define SL_CARRIER_H

#include "transport/memory.h"

#include <stdbool.h>
#include <stddef.h>

/* SL_FAIL with errno: "cannot listen at "unix:/x": Permission denied". */
SEALANE_RESULT sl_system_failed(const char *what, const char *on);

/* Out of descriptors: a peer left in the backlog would keep the port awake for nothing, so it is turned away, with the descriptor that
 * was spared for that. False: none was there. */
bool sl_peer_turn_away(int listener_fd, int *spare_fd);

/* UNIMPLEMENTED for a ring that the CPU, which carries the bytes, cannot touch. */
SEALANE_RESULT sl_ring_is_hosts(const struct sl_ring_memory *memory, const char *link);

/* A place in a list; embedded in what is listed, once for each list that it may be in. */
struct sl_knot {
    struct sl_knot *prev, *next;
    void *of; /* what it is embedded in */
    bool in;
};

struct sl_list {
    struct sl_knot *first, *last;
    size_t count;
};

/* At the end, unless it is in there; out of it, if it is. */
void sl_list_add(struct sl_list *list, struct sl_knot *knot, void *of);
void sl_list_remove(struct sl_list *list, struct sl_knot *knot);

/* What is listed first, and behind a knot that is in; NULL for nothing. */
static inline void *sl_list_first(const struct sl_list *list)
{
    return list->first ? list->first->of : NULL;
}

static inline void *sl_list_after(const struct sl_knot *knot)
{
    return knot->next ? knot->next->of : NULL;
}

#endif
