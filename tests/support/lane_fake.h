/* SPDX-License-Identifier: Apache-2.0 */
/* lane_fake.h - node.h and lane.h in memory, for tests of rpc/: no link, no keys, a clock that a test moves.
 *
 * By hand: a test takes the lane that a channel asked for, or has one accepted, tells it events in whatever order it likes and looks
 * at what rpc did (fake_did). Joined: fake_join connects each channel's lane to the listener's, and sealane_node_poll carries messages
 * in fragments and tensors in chunks, with eager window and ALLOW as a real lane does.
 */
#ifndef LANE_FAKE_H
#define LANE_FAKE_H

#include "transport/node.h"

enum fake_act_kind {
    FAKE_SEND,
    FAKE_ABANDON, /* status OK: true was answered */
    FAKE_ALLOW,
    FAKE_STATUS,
    FAKE_CANCEL,
    FAKE_CLOSE,
    FAKE_CONNECT
};

struct fake_act {
    enum fake_act_kind kind;
    struct sl_lane *lane;
    uint64_t call;
    enum sealane_status status;
    char text[SL_STATUS_TEXT_MAX + 1];
    struct sl_send *send; /* FAKE_SEND; may be gone */
};

/* What a test may set, on each lane or on the node for lanes to come. */
struct fake_settings {
    uint32_t eager_bytes;    /* 262144 */
    uint32_t peer_max_calls; /* 4096 */
    uint32_t fragment_bytes; /* 8000; joined */
    uint32_t chunk_bytes;    /* 65536; joined */
    bool abandon_says_no;    /* as while chunks are being sealed */
    bool refuse_connect;     /* sl_node_connect fails at once */
    bool send_fails;         /* FAILED_PRECONDITION, as on a lane that is closing */
};

struct sealane_node *fake_node_new(bool polled);
struct fake_settings *fake_settings(struct sealane_node *node);
void fake_advance(struct sealane_node *node,
                  uint64_t ms); /* moves the clock; timers fire in the next turn */

/* Calls sealane_node_poll until nothing happens any more. */
void fake_settle(struct sealane_node *node);

/* From now on connects are accepted by the node's listener and carried. */
void fake_join(struct sealane_node *node);

/* By hand. The newest lane that was asked for and has not ended; NULL when there is none. */
struct sl_lane *fake_lane(struct sealane_node *node);
struct sl_lane *fake_accept(struct sealane_node *node); /* READY was told */

SEALANE_RESULT fake_tell(struct sl_lane *lane, struct sl_lane_event *event);
SEALANE_RESULT fake_ready(struct sl_lane *lane);
SEALANE_RESULT fake_message(struct sl_lane *lane, uint64_t call, uint8_t flags, const void *bytes,
                            size_t count);
SEALANE_RESULT fake_status(struct sl_lane *lane, uint64_t call, enum sealane_status status,
                           const char *text);
SEALANE_RESULT fake_cancel(struct sl_lane *lane, uint64_t call, enum sealane_status why);
SEALANE_RESULT fake_sent(struct sl_lane *lane, struct sl_send *send);
SEALANE_RESULT fake_place(struct sl_lane *lane, uint64_t call, uint32_t part, uint64_t offset,
                          size_t count, void **place_p);
SEALANE_RESULT fake_filled(struct sl_lane *lane, uint64_t call, uint32_t part, uint64_t offset,
                           size_t count);
void fake_closed(struct sl_lane *lane, enum sealane_status status, const char *why);

/* What rpc did, since the node was made: how often, and the newest; valid until the next (NULL: never). */
unsigned fake_did(const struct sealane_node *node, enum fake_act_kind kind);
const struct fake_act *fake_newest(const struct sealane_node *node, enum fake_act_kind kind);

/* Sends that the node's lanes hold: not SENT, not abandoned. */
unsigned fake_held(const struct sealane_node *node);

#endif
