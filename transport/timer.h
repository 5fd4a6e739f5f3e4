/* SPDX-License-Identifier: Apache-2.0 */
/* timer.h - the timers of one node. No locks: the node's thread only. */
#ifndef SL_TIMER_H
#define SL_TIMER_H

#include "transport/status.h"

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct sl_timer {
    uint64_t at_ns;
    size_t
        place; /* in the heap, counted from 1; 0: not running. Zero a timer before its first start */
    void (*fire)(struct sl_timer *timer);
};

struct sl_timers {
    struct sl_timer **heap; /* [1 .. count] */
    size_t count, size;
};

/* Starts, or moves, a timer. RESOURCE_EXHAUSTED without memory. */
SEALANE_RESULT sl_timers_start(struct sl_timers *timers, struct sl_timer *timer, uint64_t at_ns);

/* Fine when it is not running. */
void sl_timers_stop(struct sl_timers *timers, struct sl_timer *timer);

/* The earliest timer that is due, stopped; NULL when none is. */
struct sl_timer *sl_timers_due(struct sl_timers *timers, uint64_t now_ns);

/* When the earliest timer is due; UINT64_MAX when none runs. */
uint64_t sl_timers_next(const struct sl_timers *timers);

/* How long may be slept: until the earliest timer, and at most timeout_ms (negative: an hour). */
struct timespec sl_timers_sleep(const struct sl_timers *timers, uint64_t now_ns, int timeout_ms);

void sl_timers_clear(struct sl_timers *timers);

#endif
