/* SPDX-License-Identifier: Apache-2.0 */
/* gate.c - the way to a node, and the tensor memory of a channel or server. */
#include "rpc/gate.h"

#include "transport/log.h"

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#define STALL_NS ((uint64_t)5000000000) /* without a byte, while others wait for memory */

enum {
    PAGE = 4096,
    POOL_BLOCK_MAX =
        64 << 20, /* larger blocks go back to the system: their pages cost less than keeping them */
#if defined(__SANITIZE_ADDRESS__)
    KEEP_SPARES = 0 /* a use after free shows */
#else
    KEEP_SPARES = 1
#endif
};

static void grant_all(struct sl_post *post);

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
    for (int i = 0; i < SL_POOL_BLOCKS; i++) {
        if (gate->pool[i].at)
            (void)munmap(gate->pool[i].at, gate->pool[i].bytes);
    }
    for (unsigned i = 0; i < gate->spare_count; i++)
        sl_call_dispose(gate->spares[i]);
    (void)pthread_mutex_destroy(&gate->lock);
    free(gate);
}

void sl_gate_close(struct sl_gate *gate)
{
    if (gate->node)
        sl_timer_stop(gate->node, &gate->stall);
    (void)pthread_mutex_lock(&gate->lock);
    gate->node = NULL;
    (void)pthread_mutex_unlock(&gate->lock);
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

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

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

static void *pool_take(struct sl_gate *gate, size_t bytes)
{
    void *at = NULL;

    (void)pthread_mutex_lock(&gate->lock);
    for (int i = 0; i < SL_POOL_BLOCKS && !at; i++) {
        if (gate->pool[i].at && gate->pool[i].bytes == bytes) {
            at = gate->pool[i].at;
            gate->pool[i].at = NULL;
            gate->pooled -= bytes;
        }
    }
    (void)pthread_mutex_unlock(&gate->lock);
    return at;
}

/* Under the lock. Keeps the block, in the place of an older one when there is no empty place; answers what must be unmapped. */
static struct sl_free_block pool_keep(struct sl_gate *gate, struct sl_free_block block)
{
    unsigned place = 0;
    struct sl_free_block old;

    if (block.bytes > POOL_BLOCK_MAX ||
        block.bytes > gate->limits.tensor_memory_bytes - gate->used ||
        gate->pooled > gate->limits.tensor_memory_bytes - gate->used - block.bytes)
        return block;
    while (place < SL_POOL_BLOCKS && gate->pool[place].at)
        place++;
    if (place == SL_POOL_BLOCKS)
        place = gate->pool_turn++ % SL_POOL_BLOCKS;
    old = gate->pool[place];
    gate->pool[place] = block;
    gate->pooled += block.bytes;
    gate->pooled -= old.at ? old.bytes : 0;
    return old;
}

void *sl_gate_alloc(struct sl_gate *gate, size_t bytes)
{
    size_t whole = whole_pages(bytes);
    void *at = whole <= POOL_BLOCK_MAX ? pool_take(gate, whole) : NULL;

    if (at || whole < bytes)
        return at;
    at = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, whole, MADV_HUGEPAGE); /* a wish */
    return at;
}

void sl_gate_free(struct sl_gate *gate, void *at, size_t bytes)
{
    struct sl_free_block old = {at, whole_pages(bytes)};

    (void)pthread_mutex_lock(&gate->lock);
    old = pool_keep(gate, old);
    (void)pthread_mutex_unlock(&gate->lock);
    if (old.at)
        (void)munmap(old.at, old.bytes);
}
