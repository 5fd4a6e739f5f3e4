/* SPDX-License-Identifier: Apache-2.0 */
/* timer.c - a binary heap of timers, earliest first; each timer knows its place, so that stopping one is as cheap. */
#include "transport/timer.h"

#include <stdlib.h>

static void heap_put(struct sl_timers *timers, size_t place, struct sl_timer *timer)
{
    timers->heap[place] = timer;
    timer->place = place;
}

static void heap_up(struct sl_timers *timers, size_t place)
{
    struct sl_timer *timer = timers->heap[place];

    while (place > 1 && timers->heap[place / 2]->at_ns > timer->at_ns) {
        heap_put(timers, place, timers->heap[place / 2]);
        place /= 2;
    }
    heap_put(timers, place, timer);
}

static void heap_down(struct sl_timers *timers, size_t place)
{
    struct sl_timer *timer = timers->heap[place];

    while (place * 2 <= timers->count) {
        size_t child = place * 2;

        if (child < timers->count && timers->heap[child + 1]->at_ns < timers->heap[child]->at_ns)
            child++;
        if (timers->heap[child]->at_ns >= timer->at_ns)
            break;
        heap_put(timers, place, timers->heap[child]);
        place = child;
    }
    heap_put(timers, place, timer);
}

SEALANE_RESULT sl_timers_start(struct sl_timers *timers, struct sl_timer *timer, uint64_t at_ns)
{
    sl_timers_stop(timers, timer);
    if (timers->count + 1 >= timers->size) {
        size_t size = timers->size ? timers->size * 2 : 64;
        struct sl_timer **heap = realloc(timers->heap, size * sizeof(struct sl_timer *));

        if (!heap)
            return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %zu timers", size);
        timers->heap = heap;
        timers->size = size;
    }
    timer->at_ns = at_ns;
    heap_put(timers, ++timers->count, timer);
    heap_up(timers, timer->place);
    return SEALANE_OK;
}

void sl_timers_stop(struct sl_timers *timers, struct sl_timer *timer)
{
    size_t place = timer->place;
    struct sl_timer *last;

    if (place == 0)
        return;
    timer->place = 0;
    last = timers->heap[timers->count--];
    if (last == timer)
        return;
    heap_put(timers, place, last);
    heap_up(timers, place);
    heap_down(timers, last->place);
}

struct sl_timer *sl_timers_due(struct sl_timers *timers, uint64_t now_ns)
{
    struct sl_timer *timer;

    if (timers->count == 0 || timers->heap[1]->at_ns > now_ns)
        return NULL;
    timer = timers->heap[1];
    sl_timers_stop(timers, timer);
    return timer;
}

uint64_t sl_timers_next(const struct sl_timers *timers)
{
    return timers->count > 0 ? timers->heap[1]->at_ns : UINT64_MAX;
}

struct timespec sl_timers_sleep(const struct sl_timers *timers, uint64_t now_ns, int timeout_ms)
{
    uint64_t most = timeout_ms < 0 ? (uint64_t)3600 * 1000000000u : (uint64_t)timeout_ms * 1000000u;
    uint64_t until = sl_timers_next(timers);
    uint64_t left = until > now_ns ? until - now_ns : 0;

    if (left < most)
        most = left;
    return (struct timespec){.tv_sec = (time_t)(most / 1000000000u),
                             .tv_nsec = (long)(most % 1000000000u)};
}

void sl_timers_clear(struct sl_timers *timers)
{
    free(timers->heap);
    *timers = (struct sl_timers){.heap = NULL};
}
