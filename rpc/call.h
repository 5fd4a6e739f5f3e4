/* SPDX-License-Identifier: Apache-2.0 */
/* call.h - one call at one end: what both ends do alike. client.c and server.c hold what they do differently.
 *
 * A call is touched by the node's thread, except while a user's thread packs its request or its answer. It ends exactly once
 * (`decided`), and is let go of only when nothing of it is borrowed: no part being sealed, no memory being filled. Holders: the
 * node's side, the user's (a blocking or kept call, a handler that has not answered), posts on their way.
 */
#ifndef SL_CALL_H
#define SL_CALL_H

#include "rpc/codec.h"
#include "rpc/gate.h"

struct sl_server_lane;

/* A part of an arriving message. */
struct sl_arrival {
    Sealane__Tensor *tensor; /* NULL: skipped */
    uint8_t *at;
    uint64_t bytes;
    uint64_t placed, filled;
    bool pooled; /* from the gate, else from the arena */
};

/* A message on its way in. */
struct sl_intake {
    uint8_t *buffer; /* while it comes in several pieces */
    size_t have, want;
    ProtobufCMessage *message;
    struct sl_arrival *parts;
    size_t part_count;
    uint64_t left;     /* bytes of kept parts that are not filled */
    uint64_t reserved; /* from the gate */
    struct sl_waiter waiter;
    uint32_t placing; /* PLACEs without their FILLED */
    bool refused;     /* too large: the rest is ignored */
    bool ready;       /* memory is there: parts may come */
};

/* A thread that sleeps until something is done. */
struct sl_wait {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool done;
};

enum sl_server_phase {
    SL_PHASE_ARRIVING,
    SL_PHASE_RUNNING,
    SL_PHASE_ANSWERED
};

/* Memory of a call that is too large for its arena. */
struct sl_large {
    struct sl_large *next;
    void *at;
    size_t bytes;
};

struct sealane_call {
    struct sl_gate *gate;
    _Atomic unsigned holders;
    struct sl_lane *lane; /* NULL: not sent yet, or lost */
    uint64_t id;
    struct sealane_call *bucket_next;
    uint64_t deadline_ns; /* 0: none */
    struct sl_timer timer;
    struct sl_packed packed; /* what we send */
    struct sl_send send;
    bool sending; /* the lane has `send` */
    bool decided;
    enum sealane_status status;
    struct sl_intake intake;
    struct sl_post post;
    struct sl_large *large;
    struct sealane_security security;

    /* client */
    struct sealane_channel *channel; /* NULL at a server */
    struct sl_client_lane *at;       /* the lane it is on */
    const struct sealane_method *method;
    struct sealane_call *wait_prev, *wait_next; /* of the channel's line */
    bool in_line;
    bool launched; /* counted among the channel's calls */
    bool complete; /* the reply is here */
    bool end_seen; /* and its final status is OK */
    struct sealane_completion completion;
    struct sl_wait *wait;
    struct sl_post cancel;
    atomic_bool cancelled;

    /* server */
    struct sl_server_lane *peer; /* NULL once the server or lane ended */
    enum sl_server_phase phase;
    sealane_invoke *invoke;
    sealane_function *function;
    void *user;
    const ProtobufCMessageDescriptor *reply_type;
    atomic_bool answered;
    enum sealane_status
        answer_status; /* the handler's; `status` and `text` are the node's thread's */
    const char *answer_text;
    atomic_bool over;
    void (*on_end)(void *user);
    void *on_end_user;

    char text[SL_STATUS_TEXT_MAX + 1];
    struct sl_call_arena arena; /* last: its first block is not cleared */
};

/* A new call with one holder; NULL without memory. Any thread. */
struct sealane_call *sl_call_new(struct sl_gate *gate);
void sl_call_hold(struct sealane_call *call);
void sl_call_leave(struct sealane_call *call);

/* Records how the call ended; the first time counts. False: it had ended. */
bool sl_call_decide(struct sealane_call *call, enum sealane_status status, const char *text);

/* A deadline that is timeout_ns from now; 0 stays none. */
uint64_t sl_deadline_of(const struct sealane_node *node, uint64_t timeout_ns);

/* Starts the deadline's timer when there is a deadline. */
SEALANE_RESULT sl_call_watch(struct sealane_call *call, void (*late)(struct sl_timer *timer));
struct sealane_call *sl_call_of_timer(struct sl_timer *timer);

/* Hands call->packed to the lane. */
SEALANE_RESULT sl_call_send(struct sealane_call *call, uint8_t flags);

/* True when nothing of the call is borrowed any more. */
bool sl_call_is_free(const struct sealane_call *call);

/* Ends what is going out and coming in, as far as nothing is borrowed; memory is freed with the call. Can be repeated. */
void sl_call_stop(struct sealane_call *call);

/* INVALID_ARGUMENT when a user's message is not initialised as, or of, the type. */
SEALANE_RESULT sl_check_type(const ProtobufCMessage *message,
                             const ProtobufCMessageDescriptor *type);

/* ---- intake ---- */

enum sl_took {
    SL_TOOK_PART,    /* more pieces come */
    SL_TOOK_ALL,     /* `bytes`/`count` are the whole message */
    SL_TOOK_NOTHING, /* belongs to a message that was refused */
    SL_TOOK_TOO_MUCH /* larger than may be: the last error names the option */
};

struct sl_message_bytes {
    const uint8_t *at;
    size_t count;
};

/* Takes a MESSAGE event's bytes. A failure is the peer's lie and ends the lane. */
SEALANE_RESULT sl_intake_take(struct sealane_call *call, const struct sl_lane_event *event,
                              enum sl_took *took_p, struct sl_message_bytes *whole_p);

/* Unpacks a whole message and prepares for its parts: reserves memory, or lines up for it, and allows them to come. A failure is the
 * call's. */
SEALANE_RESULT sl_intake_open(struct sealane_call *call, struct sl_head *head, const uint8_t *bytes,
                              const ProtobufCMessageDescriptor *type);

/* PLACE and FILLED. A failure is the peer's lie and ends the lane. FILLED answers a PLACE of ours: it cannot lie. */
SEALANE_RESULT sl_intake_place(struct sealane_call *call, struct sl_lane_event *event);
void sl_intake_filled(struct sealane_call *call, const struct sl_lane_event *event);

/* True once the message and all its tensors are here and verified. */
bool sl_intake_is_whole(const struct sl_intake *intake);

/* ---- calls by id ---- */

enum {
    SL_BUCKETS_LOG2 = 10,
    SL_BUCKETS = 1 << SL_BUCKETS_LOG2
};

struct sl_call_table {
    struct sealane_call *buckets[SL_BUCKETS];
    uint64_t spread;
    uint32_t count;
};

/* Of a zeroed table, before its first use. */
SEALANE_RESULT sl_table_init(struct sl_call_table *table);

void sl_table_add(struct sl_call_table *table, struct sealane_call *call);
void sl_table_remove(struct sl_call_table *table, struct sealane_call *call);
struct sealane_call *sl_table_find(const struct sl_call_table *table, uint64_t id);

/* Calls function for each call; that may remove its call from the table, no other. */
void sl_table_each(struct sl_call_table *table, void (*function)(struct sealane_call *call));

/* ---- other threads ---- */

void sl_wait_init(struct sl_wait *wait);
void sl_wait_finish(struct sl_wait *wait); /* the waiter may go on, and `wait` be gone, at once */
void sl_wait_for(struct sealane_node *node, struct sl_wait *wait);

/* Runs a function on the node's thread, now when this is it, and waits for it. Its last error becomes this thread's. UNAVAILABLE when
 * the gate is closed. */
typedef enum sealane_status sl_errand(void *argument);
SEALANE_RESULT sl_run_there(struct sl_gate *gate, struct sealane_node *node, sl_errand *errand,
                            void *argument);

/* The same from outside of handlers and callbacks only, and always in a turn of the node: what it calls is inside. */
SEALANE_RESULT sl_run_inside(struct sl_gate *gate, struct sealane_node *node, sl_errand *errand,
                             void *argument);

/* ---- the two ends ---- */
void sl_client_fail(struct sealane_call *call, enum sealane_status status, const char *text);
void sl_server_fail(struct sealane_call *call, enum sealane_status status, const char *text);

#endif
