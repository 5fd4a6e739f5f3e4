/* SPDX-License-Identifier: Apache-2.0 */
/* call.c - what both ends of a call do alike: its life, the table by id, waiting threads, and the accessors of the door. Messages on
 * their way in are in intake.c. */
#include "rpc/call.h"

#include "transport/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* ---- life ---- */

static struct sealane_call *call_memory(struct sl_gate *gate)
{
    struct sealane_call *call = sl_gate_spare_take(gate);

    if (call)
        return call;
    call = aligned_alloc(64, (sizeof(*call) + 63) / 64 * 64);
    /* Unpacked protobuf takes several times its packed size; empty messages most. */
    if (call)
        sl_call_arena_init(&call->arena,
                           (size_t)gate->limits.max_message_bytes * SL_UNPACK_FACTOR + (1 << 20));
    return call;
}

struct sealane_call *sl_call_new(struct sl_gate *gate)
{
    struct sealane_call *call = call_memory(gate);

    if (!call)
        return NULL;
    memset(call, 0, offsetof(struct sealane_call, text)); /* the arena behind it is in use */
    call->text[0] = '\0';
    atomic_init(&call->holders, 1);
    call->gate = gate;
    sl_gate_hold(gate);
    return call;
}

void sl_call_dispose(struct sealane_call *call)
{
    sl_call_arena_clear(&call->arena);
    free(call);
}

void sl_call_hold(struct sealane_call *call)
{
    atomic_fetch_add_explicit(&call->holders, 1, memory_order_relaxed);
}

static void memory_free(struct sealane_call *call)
{
    struct sl_intake *intake = &call->intake;

    for (const struct sl_large *large = call->large; large; large = large->next)
        sl_gate_free(call->gate, large->at, large->bytes);

    for (size_t i = 0; i < intake->part_count; i++) {
        if (intake->parts[i].pooled)
            sl_gate_free(call->gate, intake->parts[i].at, intake->parts[i].bytes);
    }
    sl_gate_return(call->gate, intake->reserved);
}

void sl_call_leave(struct sealane_call *call)
{
    struct sl_gate *gate = call->gate;

    if (atomic_fetch_sub_explicit(&call->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (call->on_end)
        call->on_end(call->on_end_user);
    memory_free(call);
    sl_call_arena_renew(&call->arena);
    if (!sl_gate_spare_keep(gate, call))
        sl_call_dispose(call);
    sl_gate_leave(gate);
}

bool sl_call_decide(struct sealane_call *call, enum sealane_status status, const char *text)
{
    if (call->decided)
        return false;
    call->decided = true;
    call->status = status;
    (void)snprintf(call->text, sizeof(call->text), "%s", text);
    return true;
}

struct sealane_call *sl_call_of_timer(struct sl_timer *timer)
{
    return (struct sealane_call *)(void *)((char *)timer - offsetof(struct sealane_call, timer));
}

uint64_t sl_deadline_of(const struct sealane_node *node, uint64_t timeout_ns)
{
    const uint64_t most =
        (uint64_t)INT64_MAX / 2; /* 146 years: sums with the clock stay in range */

    return timeout_ns == 0 ? 0 : sl_node_now(node) + (timeout_ns < most ? timeout_ns : most);
}

SEALANE_RESULT sl_call_watch(struct sealane_call *call, void (*late)(struct sl_timer *timer))
{
    if (call->deadline_ns == 0)
        return SEALANE_OK;
    call->timer.fire = late;
    return sl_timer_start(call->gate->node, &call->timer, call->deadline_ns);
}

SEALANE_RESULT sl_call_send(struct sealane_call *call, uint8_t flags)
{
    call->send = (struct sl_send){
        .call = call->id,
        .bytes = call->packed.bytes,
        .count = call->packed.count,
        .parts = call->packed.parts,
        .part_count = call->packed.part_count,
        .flags = flags,
    };
    SL_TRY(sl_lane_send(call->lane, &call->send));
    call->sending = true;
    return SEALANE_OK;
}

SEALANE_RESULT sl_check_type(const ProtobufCMessage *message,
                             const ProtobufCMessageDescriptor *type)
{
    if (!message || message->descriptor != type)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a message is %s, expected an initialised %s",
                       !message               ? "NULL"
                       : !message->descriptor ? "not initialised"
                                              : message->descriptor->name,
                       type->name);
    return SEALANE_OK;
}

bool sl_call_is_free(const struct sealane_call *call)
{
    return !call->sending && call->intake.placing == 0;
}

void sl_call_stop(struct sealane_call *call)
{
    if (call->timer.place != 0)
        sl_timer_stop(call->gate->node, &call->timer);
    if (call->sending && sl_lane_abandon(call->lane, &call->send))
        call->sending = false;
    if (call->intake.waiter.waiting)
        sl_gate_unwait(call->gate, &call->intake.waiter);
    sl_gate_filled(call->gate, &call->intake.waiter);
}

/* ---- table ---- */

static struct sealane_call **bucket_of(struct sl_call_table *table, uint64_t id)
{
    return &table->buckets[sl_spread(id, table->spread, SL_BUCKETS_LOG2)];
}

SEALANE_RESULT sl_table_init(struct sl_call_table *table)
{
    if (getrandom(&table->spread, sizeof(table->spread), 0) != (ssize_t)sizeof(table->spread))
        return SL_FAIL_CAUSE(SEALANE_RESOURCE_EXHAUSTED, errno, "no random bytes: errno %d", errno);
    return SEALANE_OK;
}

void sl_table_add(struct sl_call_table *table, struct sealane_call *call)
{
    struct sealane_call **bucket = bucket_of(table, call->id);

    call->bucket_next = *bucket;
    *bucket = call;
    table->count++;
}

void sl_table_remove(struct sl_call_table *table, struct sealane_call *call)
{
    struct sealane_call **at = bucket_of(table, call->id);

    while (*at && *at != call)
        at = &(*at)->bucket_next;
    if (!*at)
        return;
    *at = call->bucket_next;
    table->count--;
}

struct sealane_call *sl_table_find(const struct sl_call_table *table, uint64_t id)
{
    struct sealane_call *call = table->buckets[sl_spread(id, table->spread, SL_BUCKETS_LOG2)];

    while (call && call->id != id)
        call = call->bucket_next;
    return call;
}

void sl_table_each(struct sl_call_table *table, void (*function)(struct sealane_call *call))
{
    for (size_t i = 0; table->count > 0 && i < SL_BUCKETS; i++) {
        struct sealane_call *call = table->buckets[i];

        while (call) {
            struct sealane_call *next = call->bucket_next;

            function(call);
            call = next;
        }
    }
}

/* ---- other threads ---- */

void sl_wait_init(struct sl_wait *wait)
{
    (void)pthread_mutex_init(&wait->lock, NULL);
    (void)pthread_cond_init(&wait->wake, NULL);
    wait->done = false;
}

void sl_wait_finish(struct sl_wait *wait)
{
    (void)pthread_mutex_lock(&wait->lock);
    wait->done = true;
    (void)pthread_cond_signal(&wait->wake);
    (void)pthread_mutex_unlock(&wait->lock);
}

enum {
    BUSY_POLLS = 2000
}; /* a polled node's caller spins for about the time of a round trip before it sleeps */

static void poll_until(struct sealane_node *node, const struct sl_wait *wait)
{
    for (int polls = 0; !wait->done; polls++) {
        if (sealane_node_poll(node, polls < BUSY_POLLS ? 0 : 100) != SEALANE_OK)
            return; /* checked by the callers: it cannot be refused here */
    }
}

void sl_wait_for(struct sealane_node *node, struct sl_wait *wait)
{
    if (sl_node_is_polled(node) && sl_node_is_here(node)) {
        poll_until(node, wait);
    } else {
        (void)pthread_mutex_lock(&wait->lock);
        while (!wait->done)
            (void)pthread_cond_wait(&wait->wake, &wait->lock);
        (void)pthread_mutex_unlock(&wait->lock);
    }
    (void)pthread_mutex_destroy(&wait->lock);
    (void)pthread_cond_destroy(&wait->wake);
}

struct errand {
    struct sl_post post;
    struct sl_wait wait;
    sl_errand *run;
    void *argument;
    enum sealane_status status;
    char text[512];
};

static void errand_run(struct sl_post *post)
{
    struct errand *errand = (struct errand *)(void *)((char *)post - offsetof(struct errand, post));

    errand->status = errand->run(errand->argument);
    if (errand->status != SEALANE_OK)
        (void)snprintf(errand->text, sizeof(errand->text), "%s", sealane_last_error()->message);
    sl_wait_finish(&errand->wait);
}

SEALANE_RESULT sl_run_inside(struct sl_gate *gate, struct sealane_node *node, sl_errand *run,
                             void *argument)
{
    struct errand errand = {.post.run = errand_run, .run = run, .argument = argument};

    sl_wait_init(&errand.wait);
    if (!sl_gate_post(gate, &errand.post))
        return SL_FAIL(SEALANE_UNAVAILABLE, "the channel or server has ended");
    sl_wait_for(node, &errand.wait);
    if (errand.status != SEALANE_OK)
        return SL_FAIL(errand.status, "%s", errand.text);
    return SEALANE_OK;
}

SEALANE_RESULT sl_run_there(struct sl_gate *gate, struct sealane_node *node, sl_errand *run,
                            void *argument)
{
    return sl_node_is_here(node) ? run(argument) : sl_run_inside(gate, node, run, argument);
}

/* ---- the door ---- */

void sealane_call_keep(struct sealane_call *call)
{
    sl_call_hold(call);
}

void sealane_call_free(struct sealane_call *call)
{
    if (call)
        sl_call_leave(call);
}

enum {
    LARGE_MIN =
        256 * 1024 /* from here on memory comes from the gate, which keeps it for the next call */
};

static void *large_alloc(struct sealane_call *call, size_t bytes)
{
    struct sl_large *large = sl_call_arena_alloc(&call->arena, sizeof(*large));

    if (!large)
        return NULL;
    *large = (struct sl_large){call->large, sl_gate_alloc(call->gate, bytes), bytes};
    if (large->at)
        call->large = large;
    return large->at;
}

void *sealane_call_alloc(struct sealane_call *call, size_t bytes)
{
    if (bytes >= LARGE_MIN)
        return large_alloc(call, bytes);
    return sl_call_arena_alloc(&call->arena, bytes > 64 ? bytes : 64);
}

const char *sealane_call_message(const struct sealane_call *call)
{
    return call->text;
}

int64_t sealane_call_remaining_ms(const struct sealane_call *call)
{
    struct timespec now;

    if (call->deadline_ns == 0)
        return INT64_MAX;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return ((int64_t)call->deadline_ns - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec)) /
           1000000;
}

void sealane_call_security(const struct sealane_call *call, struct sealane_security *security_p)
{
    *security_p = call->security;
}
