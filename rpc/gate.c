/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - the way to a node, and the tensor memory of a channel or server. */
#include "rpc/gate.h"

#include "transport/log.h"

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#define STALL_NS ((uint64_t)5000000000) /* without a byte, while others wait for memory */
#define SPARE_NS \
    ((uint64_t)8000000000) /* without use: then a spare block goes back to the system */
#define TICK_NS (SPARE_NS / 8)

enum {
#if defined(__SANITIZE_ADDRESS__)
    KEEP_SPARES = 0 /* a use after free shows */
#else
    KEEP_SPARES = 1
#endif
};

static void grant_all(struct sl_post *post);
static void age_begin(struct sl_post *post);

static void limits_resolve(const struct sl_limits *from, struct sl_limits *to)
{
    to->max_message_bytes = from->max_message_bytes ? from->max_message_bytes : 4 << 20;
    to->max_tensor_bytes = from->max_tensor_bytes ? from->max_tensor_bytes : (uint64_t)16 << 30;
    to->tensor_memory_bytes =
        from->tensor_memory_bytes ? from->tensor_memory_bytes : (uint64_t)64 << 30;
    to->max_calls = from->max_calls ? from->max_calls : 4096;
}

SEALANE_RESULT sl_gate_new(struct sealane_node *node, const struct sl_limits *limits,
                           struct sl_gate **gate_p)
{
    struct sl_gate *gate = calloc(1, sizeof(*gate));

    if (!gate)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a channel or server");
    (void)pthread_mutex_init(&gate->lock, NULL);
    atomic_init(&gate->holders, 1);
    gate->node = node;
    limits_resolve(limits, &gate->limits);
    gate->grant.run = grant_all;
    gate->age.run = age_begin;
    *gate_p = gate;
    return SEALANE_OK;
}

void sl_gate_hold(struct sl_gate *gate)
{
    atomic_fetch_add_explicit(&gate->holders, 1, memory_order_relaxed);
}

void sl_gate_leave(struct sl_gate *gate)
{
    if (atomic_fetch_sub_explicit(&gate->holders, 1, memory_order_acq_rel) != 1)
        return;
    for (unsigned i = 0; i < gate->spare_count; i++)
        sl_call_dispose(gate->spares[i]);
    (void)pthread_mutex_destroy(&gate->lock);
    free(gate);
}

void sl_gate_close(struct sl_gate *gate)
{
    struct sl_spare *chain;

    if (gate->node) {
        sl_timer_stop(gate->node, &gate->stall);
        sl_timer_stop(gate->node, &gate->aging);
    }
    (void)pthread_mutex_lock(&gate->lock);
    gate->node = NULL;
    chain = sl_pool_trim(&gate->pool, 0, 0);
    (void)pthread_mutex_unlock(&gate->lock);
    sl_pool_unmap(chain);
}

bool sl_gate_post(struct sl_gate *gate, struct sl_post *post)
{
    bool open;

    (void)pthread_mutex_lock(&gate->lock);
    open = gate->node != NULL;
    if (open)
        sl_node_post(gate->node, post);
    (void)pthread_mutex_unlock(&gate->lock);
    return open;
}

bool sl_gate_post_or_run(struct sl_gate *gate, struct sl_post *post)
{
    bool open, here;

    (void)pthread_mutex_lock(&gate->lock);
    open = gate->node != NULL;
    here = open && sl_node_is_here(gate->node);
    if (open && !here)
        sl_node_post(gate->node, post);
    (void)pthread_mutex_unlock(&gate->lock);
    if (here)
        post->run(post); /* not under the lock: it may end up here again */
    return open;
}

/* ---- reservations ---- */

static bool fits(const struct sl_gate *gate, uint64_t bytes)
{
    return bytes <= gate->limits.tensor_memory_bytes - gate->used;
}

/* ---- progress of those who hold memory; all on the node's thread ---- */

static void filling_begin(struct sl_gate *gate, struct sl_waiter *waiter)
{
    waiter->filling = true;
    waiter->moved_ns = sl_node_now(gate->node);
    waiter->prev = NULL;
    waiter->next = gate->filling;
    if (gate->filling)
        gate->filling->prev = waiter;
    gate->filling = waiter;
}

void sl_gate_moved(struct sl_gate *gate, struct sl_waiter *waiter)
{
    if (waiter->filling)
        waiter->moved_ns = sl_node_now(gate->node);
}

void sl_gate_filled(struct sl_gate *gate, struct sl_waiter *waiter)
{
    if (!waiter->filling)
        return;
    waiter->filling = false;
    if (waiter->prev)
        waiter->prev->next = waiter->next;
    else
        gate->filling = waiter->next;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
}

static void stall_look(struct sl_timer *timer);

static void stall_watch(struct sl_gate *gate)
{
    if (gate->stall.place != 0)
        return;
    gate->stall.fire = stall_look;
    if (sl_timer_start(gate->node, &gate->stall, sl_node_now(gate->node) + STALL_NS / 4) !=
        SEALANE_OK)
        SL_LOG(SL_LOG_WARN, "no memory for a timer: who holds tensor memory is not watched");
}

static void stall_look(struct sl_timer *timer)
{
    struct sl_gate *gate =
        (struct sl_gate *)(void *)((char *)timer - offsetof(struct sl_gate, stall));
    uint64_t now = sl_node_now(gate->node);
    struct sl_waiter *waiter = gate->filling, *next;

    if (!gate->first)
        return; /* nobody waits: whoever holds memory may take their time */
    for (; waiter; waiter = next) {
        next = waiter->next;
        if (now - waiter->moved_ns >= STALL_NS)
            waiter->stalled(waiter);
    }
    if (gate->node)
        stall_watch(gate);
}

bool sl_gate_reserve(struct sl_gate *gate, struct sl_waiter *waiter)
{
    bool now;

    (void)pthread_mutex_lock(&gate->lock);
    now = !gate->first && fits(gate, waiter->bytes);
    if (now) {
        gate->used += waiter->bytes;
    } else {
        waiter->waiting = true;
        waiter->next = NULL;
        waiter->prev = gate->last;
        if (gate->last)
            gate->last->next = waiter;
        else
            gate->first = waiter;
        gate->last = waiter;
    }
    (void)pthread_mutex_unlock(&gate->lock);
    if (now)
        filling_begin(gate, waiter);
    else
        stall_watch(gate);
    return now;
}

static void unlink_waiter(struct sl_gate *gate, struct sl_waiter *waiter)
{
    if (waiter->prev)
        waiter->prev->next = waiter->next;
    else
        gate->first = waiter->next;
    if (waiter->next)
        waiter->next->prev = waiter->prev;
    else
        gate->last = waiter->prev;
    waiter->waiting = false;
}

/* Under the lock: has the node look at the line. */
static void wake_line(struct sl_gate *gate)
{
    if (!gate->node || gate->grant_posted || !gate->first || !fits(gate, gate->first->bytes))
        return;
    gate->grant_posted = true;
    atomic_fetch_add_explicit(&gate->holders, 1, memory_order_relaxed); /* the post's */
    sl_node_post(gate->node, &gate->grant);
}

void sl_gate_unwait(struct sl_gate *gate, struct sl_waiter *waiter)
{
    (void)pthread_mutex_lock(&gate->lock);
    if (waiter->waiting) {
        unlink_waiter(gate, waiter);
        wake_line(gate);
    }
    (void)pthread_mutex_unlock(&gate->lock);
}

void sl_gate_return(struct sl_gate *gate, uint64_t bytes)
{
    if (bytes == 0)
        return;
    (void)pthread_mutex_lock(&gate->lock);
    gate->used -= bytes;
    wake_line(gate);
    (void)pthread_mutex_unlock(&gate->lock);
}

static struct sl_waiter *next_granted(struct sl_gate *gate)
{
    struct sl_waiter *waiter;

    (void)pthread_mutex_lock(&gate->lock);
    waiter = gate->first && fits(gate, gate->first->bytes) ? gate->first : NULL;
    if (waiter) {
        unlink_waiter(gate, waiter);
        gate->used += waiter->bytes;
    } else {
        gate->grant_posted = false;
    }
    (void)pthread_mutex_unlock(&gate->lock);
    return waiter;
}

static void grant_all(struct sl_post *post)
{
    struct sl_gate *gate =
        (struct sl_gate *)(void *)((char *)post - offsetof(struct sl_gate, grant));
    struct sl_waiter *waiter;

    while ((waiter = next_granted(gate)) != NULL) {
        filling_begin(gate, waiter);
        waiter->granted(waiter);
    }
    sl_gate_leave(gate);
}

/* ---- memory ---- */

struct sealane_call *sl_gate_spare_take(struct sl_gate *gate)
{
    struct sealane_call *call = NULL;

    (void)pthread_mutex_lock(&gate->lock);
    if (gate->spare_count > 0)
        call = gate->spares[--gate->spare_count];
    (void)pthread_mutex_unlock(&gate->lock);
    return call;
}

bool sl_gate_spare_keep(struct sl_gate *gate, struct sealane_call *call)
{
    bool keep;

    (void)pthread_mutex_lock(&gate->lock);
    keep = KEEP_SPARES && gate->node && gate->spare_count < SL_SPARE_CALLS;
    if (keep)
        gate->spares[gate->spare_count++] = call;
    (void)pthread_mutex_unlock(&gate->lock);
    return keep;
}

/* Spares and what is reserved never pass the limit together. Under the lock. */
static struct sl_spare *trim(struct sl_gate *gate, uint64_t since_ns)
{
    return sl_pool_trim(&gate->pool, gate->limits.tensor_memory_bytes - gate->used, since_ns);
}

static uint64_t clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void age_look(struct sl_timer *timer)
{
    struct sl_gate *gate =
        (struct sl_gate *)(void *)((char *)timer - offsetof(struct sl_gate, aging));
    uint64_t now = sl_node_now(gate->node);
    struct sl_spare *chain;
    bool done;

    (void)pthread_mutex_lock(&gate->lock);
    sl_pool_tick(&gate->pool);
    chain = trim(gate, now > SPARE_NS ? now - SPARE_NS : 0);
    done = gate->pool.kept == 0 ||
           sl_timer_start(gate->node, &gate->aging, now + TICK_NS) != SEALANE_OK;
    gate->ages = !done;
    (void)pthread_mutex_unlock(&gate->lock);
    sl_pool_unmap(chain);
}

/* On the node's thread, whose timers these are. */
static void age_begin(struct sl_post *post)
{
    struct sl_gate *gate = (struct sl_gate *)(void *)((char *)post - offsetof(struct sl_gate, age));

    gate->aging.fire = age_look;
    if (gate->node &&
        sl_timer_start(gate->node, &gate->aging, sl_node_now(gate->node) + TICK_NS) != SEALANE_OK)
        SL_LOG(SL_LOG_WARN, "no memory for a timer: spare tensor memory is kept");
    sl_gate_leave(gate);
}

/* Under the lock, with the gate open. */
static void age_watch(struct sl_gate *gate)
{
    if (gate->ages)
        return;
    gate->ages = true;
    sl_gate_hold(gate); /* the post's */
    sl_node_post(gate->node, &gate->age);
}

void *sl_gate_alloc(struct sl_gate *gate, size_t bytes)
{
    size_t whole = sl_pool_bytes(bytes);
    struct sl_spare *chain;
    void *at;

    if (whole == 0)
        return NULL;
    (void)pthread_mutex_lock(&gate->lock);
    at = sl_pool_take(&gate->pool, whole);
    chain = trim(gate, 0);
    (void)pthread_mutex_unlock(&gate->lock);
    sl_pool_unmap(chain);
    if (!at)
        at = sl_pool_map(whole);
    if (at)
        return at;
    (void)pthread_mutex_lock(&gate->lock);
    sl_pool_forget(&gate->pool, whole);
    (void)pthread_mutex_unlock(&gate->lock);
    return NULL;
}

void sl_gate_free(struct sl_gate *gate, void *at, size_t bytes)
{
    size_t whole = sl_pool_bytes(bytes);
    uint64_t now = clock_ns();
    struct sl_spare *chain;

    (void)pthread_mutex_lock(&gate->lock);
    sl_pool_keep(&gate->pool, at, whole, now);
    chain = gate->node ? trim(gate, 0) : sl_pool_trim(&gate->pool, 0, 0);
    if (gate->node && gate->pool.kept > 0)
        age_watch(gate);
    (void)pthread_mutex_unlock(&gate->lock);
    sl_pool_unmap(chain);
}
