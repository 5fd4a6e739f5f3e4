/* SPDX-License-Identifier: Apache-2.0 */
/* lane.h - one secured connection to one peer, as rpc/ sees it: messages and tensors of calls, told apart by call ids.
 *
 * A lane is made by sl_node_connect or by a listener. It tells what happens through one function, on the node's thread.
 * That function may send, allow, abandon, answer and close on any lane, but frees nothing that the lane still borrows. A
 * status other than OK returned from it ends the lane with that reason (the peer broke the protocol).
 *
 * A message is bytes (rpc's head and protobuf) and parts (tensors, carried beside it through the bulk ring). Its bytes
 * come as one or more MESSAGE events, flagged FIRST and LAST; its parts come as PLACE/FILLED pairs after LAST. Parts of
 * a message that together exceed the receiver's eager_bytes follow only once the receiver said sl_lane_allow.
 */
#ifndef SL_LANE_H
#define SL_LANE_H

#include "transport/status.h"

#include <sealane_transport.h>

struct sl_lane;

enum sl_message_flags {
    SL_MESSAGE_FIRST = 1,
    SL_MESSAGE_LAST = 2,
    SL_MESSAGE_END = 4 /* with LAST: the sender's final status OK goes with this message */
};

/* Tensor bytes that travel beside a message. */
struct sl_part {
    const void *data; /* NULL only when bytes is 0 */
    uint64_t bytes;
};

/* One message on its way out; embedded in the sender's call. Everything it points to is borrowed until the SENT event
 * (or until sl_lane_abandon answers true). The sender fills the first block, zeroes the rest. */
struct sl_send {
    uint64_t call;
    const uint8_t *bytes; /* host memory */
    size_t count;         /* at least 1 */
    const struct sl_part *parts;
    size_t part_count;
    uint8_t flags; /* SL_MESSAGE_END or 0 */

    /* the lane's */
    struct sl_send *prev, *next;
    size_t sent;          /* bytes taken into frames */
    size_t part;          /* next part to take chunks from */
    uint64_t part_offset; /* next byte of it */
    uint32_t jobs;        /* seal jobs that still read the parts */
    uint8_t state;
    bool allowed;
};

enum sl_lane_event_kind {
    SL_LANE_READY,   /* both CONFIRMs verified: calls may start */
    SL_LANE_MESSAGE, /* call, flags, bytes/count: a piece of a message; valid during the event only */
    SL_LANE_PLACE, /* call, part, offset, bytes count are about to come: set `place` to where they shall go (private memory,
                        valid until the matching FILLED or CLOSED), or leave it NULL to have them skipped and credited */
    SL_LANE_FILLED, /* call, part, offset, count: what was placed is verified and in place */
    SL_LANE_STATUS, /* call, status, bytes/count text: the peer ended the call */
    SL_LANE_CANCEL, /* call, status: the peer gave the call up (CANCELLED or DEADLINE_EXCEEDED) */
    SL_LANE_SENT,   /* send: nothing of it is borrowed any more */
    SL_LANE_CLOSED /* status, bytes/count text: the last event; the lane is freed when it returns. All placed memory and all
                        sends are no longer borrowed */
};

struct sl_lane_event {
    enum sl_lane_event_kind kind;
    uint8_t flags;
    uint32_t part;
    uint64_t call;
    uint64_t offset;
    const uint8_t *bytes;
    size_t count;
    void *place;
    enum sealane_status status;
    struct sl_send *send;
};

typedef enum sealane_status sl_lane_function(void *owner, struct sl_lane *lane,
                                             struct sl_lane_event *event);

/* Zero means the default that stands behind each field. Both sides' limits are told in HELLO; the receiver's counts. */
struct sl_lane_options {
    struct sealane_credentials
        *credentials;            /* borrowed until the lane's (listener's) end; required */
    const char *server_name;     /* client: required; copied */
    const char *link;            /* the carrier's name; NULL: the first that handles the address */
    sl_lane_function *on_event;  /* required */
    void *owner;                 /* handed to on_event */
    uint32_t message_slot_bytes; /* 8192; multiple of 64, at least 1024 */
    uint32_t message_slots;      /* 128; at least 8 */
    uint32_t bulk_chunk_bytes;   /* 65536; 16384 or 65536 */
    uint32_t bulk_slots;         /* 64; at least 8 */
    uint32_t
        epoch_shift; /* key epoch = seq >> shift; default: slot_bytes << shift is at most 16 GiB. Tests: 3 */
    uint32_t eager_bytes;          /* 262144: parts of one message that may come unasked */
    uint32_t max_calls;            /* 4096: calls at a time that we let the peer have */
    uint32_t handshake_timeout_ms; /* 5000 */
    uint32_t dead_after_ms;        /* 20000 */
};

/* For rpc's own per-lane state; NULL until set. */
void sl_lane_set_user(struct sl_lane *lane, void *user);
void *sl_lane_user(const struct sl_lane *lane);

struct sealane_node *sl_lane_node(const struct sl_lane *lane);

/* After READY: what the two sides announced. */
uint32_t sl_lane_peer_max_calls(
    const struct sl_lane *lane); /* how many calls the peer lets us have */
uint32_t sl_lane_eager_bytes(
    const struct sl_lane *lane); /* what we let the peer send unasked, per message */
void sl_lane_security(const struct sl_lane *lane, struct sealane_security *security_p);

/* Queues a message. After READY only; FAILED_PRECONDITION on a lane that is closing. Messages of different calls share the
 * ring round-robin; of one call they keep their order. */
SEALANE_RESULT sl_lane_send(struct sl_lane *lane, struct sl_send *send);

/* Gives a queued message up. True: nothing of it is borrowed any more, no SENT comes. False: SENT comes later (chunks are
 * being sealed). The receiver is not told: send STATUS or CANCEL too. */
SEALANE_MUST_USE bool sl_lane_abandon(struct sl_lane *lane, struct sl_send *send);

/* Lets the parts of the peer's message of `call` come; memory for all of them is reserved. */
SEALANE_RESULT sl_lane_allow(struct sl_lane *lane, uint64_t call);

enum {
    SL_STATUS_TEXT_MAX = 512
}; /* bytes of UTF-8; longer text is cut at a character */

/* Ends a call from the answering side. `text` is copied. */
SEALANE_RESULT sl_lane_status(struct sl_lane *lane, uint64_t call, enum sealane_status status,
                              const char *text);

/* Gives a call up from the asking side. */
SEALANE_RESULT sl_lane_cancel(struct sl_lane *lane, uint64_t call, enum sealane_status why);

/* Ends the lane: what is queued is not waited for. CLOSED comes in a coming turn, never from inside this call. */
void sl_lane_close(struct sl_lane *lane, enum sealane_status status, const char *why);

#endif
