/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - what a channel or server and its calls share, and what outlives it: the way to the node's thread, which closes with the
 * channel or server, and the memory that arriving tensors take.
 *
 * A call may be cancelled, answered or freed by any thread at any time, also while its channel, server or node ends. Each call holds
 * the gate; what wants to reach the node goes through it, and learns when there is nobody there any more.
 */
#ifndef SL_GATE_H
#define SL_GATE_H

#include "rpc/pool.h"
#include "transport/node.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SL_SPARE_CALLS = 64
};

struct sealane_call;

struct sl_limits {
    uint32_t max_message_bytes;
    uint64_t max_tensor_bytes;
    uint64_t tensor_memory_bytes;
    uint32_t max_calls;
};

/* Waits for memory, first come first served; then holds it. Whoever holds memory that others wait for must make progress: a peer that
 * announces tensors and never sends them would otherwise keep everybody's out. */
struct sl_waiter {
    struct sl_waiter *prev, *next;
    uint64_t bytes;
    bool waiting;
    bool filling;                              /* reserved, and its bytes are still to come */
    uint64_t moved_ns;                         /* when the last of them came */
    void (*granted)(struct sl_waiter *waiter); /* on the node's thread */
    void (*stalled)(
        struct sl_waiter
            *waiter); /* on the node's thread: it has made no progress for long, others wait */
};

struct sl_gate {
    pthread_mutex_t lock;
    _Atomic unsigned holders;
    struct sealane_node *node; /* NULL once closed */
    struct sl_limits limits;
    uint64_t used;                  /* of limits.tensor_memory_bytes */
    struct sl_waiter *first, *last; /* node's thread, under the lock */
    struct sl_post grant;
    bool grant_posted;
    struct sl_waiter *filling; /* node's thread: those that hold memory and wait for bytes */
    struct sl_timer stall;     /* runs while calls wait in line */
    struct sl_pool pool;       /* kept as far as the limit leaves room */
    struct sl_post age;        /* starts aging, which runs while the pool keeps something */
    struct sl_timer aging;
    bool ages;
    struct sealane_call *spares[SL_SPARE_CALLS]; /* calls that ended: memory for the next ones */
    unsigned spare_count;
};

/* Limits that are 0 become the defaults that sealane.h states. */
SEALANE_RESULT sl_gate_new(struct sealane_node *node, const struct sl_limits *limits,
                           struct sl_gate **gate_p);
void sl_gate_hold(struct sl_gate *gate);
void sl_gate_leave(struct sl_gate *gate);

/* Nobody reaches the node any more. On the node's thread. */
void sl_gate_close(struct sl_gate *gate);

/* Posts to the node; false when the gate is closed (the post will not run). Any thread. */
SEALANE_MUST_USE bool sl_gate_post(struct sl_gate *gate, struct sl_post *post);

/* The same, but runs it at once when this is the node's thread. */
SEALANE_MUST_USE bool sl_gate_post_or_run(struct sl_gate *gate, struct sl_post *post);

/* Reserves, or lines up until sl_gate_return makes room. Node's thread. True: reserved now. */
SEALANE_MUST_USE bool sl_gate_reserve(struct sl_gate *gate, struct sl_waiter *waiter);

/* Bytes came; all came, or the call ended. Node's thread. */
void sl_gate_moved(struct sl_gate *gate, struct sl_waiter *waiter);
void sl_gate_filled(struct sl_gate *gate, struct sl_waiter *waiter);

/* Steps out of the line. Node's thread. */
void sl_gate_unwait(struct sl_gate *gate, struct sl_waiter *waiter);

/* Gives reserved bytes back. Any thread. */
void sl_gate_return(struct sl_gate *gate, uint64_t bytes);

/* A call that ended, for its memory, its arena renewed; NULL when there is none. Any thread. */
struct sealane_call *sl_gate_spare_take(struct sl_gate *gate);

/* False when there are enough, or when nobody will need it: dispose of it. */
SEALANE_MUST_USE bool sl_gate_spare_keep(struct sl_gate *gate, struct sealane_call *call);
void sl_call_dispose(struct sealane_call *call); /* call.c */

/* Memory of one large tensor; NULL when the system has none. Any thread. */
void *sl_gate_alloc(struct sl_gate *gate, size_t bytes);
void sl_gate_free(struct sl_gate *gate, void *at, size_t bytes);

#endif
