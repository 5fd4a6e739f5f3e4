/* SPDX-License-Identifier: Apache-2.0 */
/* lane_inside.h - what the files that make up a lane share: establish.c (link to READY), lane.c (frames, life) and
 * bulk.c (chunks). Nobody else includes it but node.c, which turns lanes, and tests.
 *
 *   CONNECTING -> TLS -> HELLO -> RINGS -> CONFIRM -> READY -> CLOSING -> (freed)
 *                 any of these ---------------------------------^
 *
 * Frames are accepted in CONFIRM (one CONFIRM record only) and READY.
 */
#ifndef SL_LANE_INSIDE_H
#define SL_LANE_INSIDE_H

#include "transport/frame.h"
#include "transport/hello.h"
#include "transport/helper.h"
#include "transport/lane.h"
#include "transport/node.h"
#include "transport/ring.h"
#include "transport/staging.h"

enum {
    SL_WAITING_LOG2 = 8
};

enum sl_lane_state {
    SL_LANE_CONNECTING,
    SL_LANE_TLS,
    SL_LANE_HELLO,   /* client: waits for the server's HELLO; server: for the client's */
    SL_LANE_RINGS,   /* server: waits for the client's RINGS */
    SL_LANE_CONFIRM, /* keys exist; waits for the peer's CONFIRM */
    SL_LANE_UP,
    SL_LANE_CLOSING
};

enum sl_send_state {
    SL_SEND_NONE,
    SL_SEND_MESSAGE, /* in lane->messages */
    SL_SEND_WAITING, /* in lane->waiting, for ALLOW */
    SL_SEND_BULK,    /* in lane->bulk */
    SL_SEND_SEALING, /* in lane->sealing: nothing left to take, jobs still read it */
    SL_SEND_DONE
};

/* A list of sends: first in, first out, with removal from the middle. */
struct sl_sends {
    struct sl_send *first, *last;
};

/* Bytes that wait, front to back: control records. */
struct sl_queue {
    uint8_t *at;
    size_t begin, end, size;
};

/* A run of chunks on its way out. */
struct sl_batch {
    struct sl_run run;
    struct sl_send *send; /* NULL once it was abandoned and nothing reads it */
    uint8_t *staging;
    uint64_t write; /* the link's number of its write; 0: not written yet */
    uint32_t first_job;
};

struct sl_bulk_out {
    struct sl_batch *batches; /* [limit] ring: begun .. written .. announced */
    uint64_t begun, written, announced;
    uint64_t released;
    struct sl_job *jobs; /* [2 * limit]; those of batch i adjoin */
    uint32_t limit;      /* batches and jobs at a time */
    uint64_t jobs_taken, jobs_done;
    size_t posted_bytes; /* written and not released */
};

struct sl_bulk_in {
    struct sl_run *runs; /* [slots] announced, not wholly submitted */
    uint64_t runs_in, runs_out;
    uint32_t run_chunk;    /* chunks of the first run that were submitted */
    uint64_t announced;    /* bulk seq after the last announced run */
    uint64_t submitted;    /* bulk seq of the next chunk to be opened or skipped */
    struct sl_job *jobs;   /* [slots] by seq: what is being opened */
    struct sl_run *filled; /* [slots] by seq: what it will have filled; count 0: skipped */
};

struct sl_lane {
    struct sl_lane *prev, *next; /* the node's list */
    struct sl_lane *ready_next;  /* the node's list of lanes with something to do */
    bool is_ready;
    bool idles;         /* ready for what the link's counters will say, and for nothing else */
    uint64_t link_seen; /* these counters at the end of the last turn */
    bool server;
    struct sealane_node *node;
    struct sl_listener *listener; /* server */
    struct sl_link *link;         /* NULL once dropped */
    struct sl_lane_options options;
    char *server_name;
    void *user;
    enum sl_lane_state state;
    bool was_up;    /* READY was told */
    bool out_first; /* whose turn it is to have the budget */
    enum sealane_status close_status;
    char close_why[512];

    /* establish.c */
    struct sl_handshake *handshake;
    bool handshake_busy; /* the helper thread has it */
    bool handshake_over;
    enum sealane_status handshake_status; /* what the helper's advance answered */
    char handshake_why[512];
    bool gone; /* the link went while the helper was busy */
    char gone_why[120];
    struct sl_queue early;   /* bytes that came while the helper was busy */
    struct sl_task task;     /* the helper's */
    struct sl_post advanced; /* and back */
    struct sl_hello mine, peers;
    struct sl_hello_bytes messages[3];
    uint8_t transcript[SL_HASH_BYTES];
    struct sealane_security security;
    struct sl_timer timer;

    /* lane.c */
    struct sl_sender tx[SL_RING_COUNT];
    struct sl_receiver rx[SL_RING_COUNT];
    uint32_t rx_untold_data; /* frames with records since the peer was told of acks */
    struct sl_staging staging;
    struct sl_queue control;
    struct sl_sends messages_out;
    struct sl_sends waiting[1 << SL_WAITING_LOG2]; /* for ALLOW, by call */
    uint64_t spread;
    struct sl_sends sealing;
    uint64_t last_begun; /* highest call id of which a FIRST was sent */
    bool confirm_sent;
    bool pong_due;
    uint8_t pong[8];
    uint64_t heard_ns;
    uint64_t pinged_ns;
    uint64_t checked_ns;        /* when liveness was looked at last */
    struct sl_link_write stuck; /* sealed, not accepted by the link yet; bytes 0: none */

    /* bulk.c */
    struct sl_sends bulk;
    struct sl_bulk_out out;
    struct sl_bulk_in in;
};

/* ---- lists ---- */
void sl_sends_push(struct sl_sends *sends, struct sl_send *send);
void sl_sends_remove(struct sl_sends *sends, struct sl_send *send);

SEALANE_RESULT sl_queue_push(struct sl_queue *queue, const void *bytes, size_t count);
void sl_queue_clear(struct sl_queue *queue);

/* ---- establish.c ---- */

/* The lane has its link: starts the clock and, at a server, TLS. */
void sl_establish_start(struct sl_lane *lane);

/* The lane is up: from now on, and again at each look, the clock watches for silence. */
void sl_establish_watch(struct sl_lane *lane);

/* A link's event for a lane that is neither up nor closing. */
void sl_establish_event(struct sl_lane *lane, const struct sl_link_event *event);

/* Sends what TLS has to say; called again when the link is writable. */
void sl_establish_flush(struct sl_lane *lane);

/* ---- lane.c ---- */

struct sl_lane *sl_lane_new(struct sealane_node *node, const struct sl_lane_options *options,
                            struct sl_link *link);
void sl_lane_free(struct sl_lane *lane);

/* A link's event. */
void sl_lane_link_event(struct sl_lane *lane, const struct sl_link_event *event);

/* Does what can be done now, sealing and opening at most *budget bytes of tensors. True: there is more to do in the next turn,
 * whatever comes. */
bool sl_lane_turn(struct sl_lane *lane, size_t *budget);

/* A turn would do nothing: the lane waits for its link's counters, which move without an event, and they have not moved yet. */
bool sl_lane_idles(const struct sl_lane *lane);

/* So do all of a list of ready lanes: the node may sleep. */
bool sl_lanes_idle(const struct sl_lane *first);

/* Closing: true once CLOSED was told and the lane may be freed. */
bool sl_lane_finish(struct sl_lane *lane);

/* The geometry that options ask for, defaults filled in. */
struct sl_hello_geometry sl_lane_geometry(const struct sl_lane_options *options);

/* The list in which a send of this call waits for ALLOW. */
struct sl_sends *sl_lane_waiting(struct sl_lane *lane, uint64_t call);

/* Ends the lane with the calling thread's last error. */
void sl_lane_break(struct sl_lane *lane, enum sealane_status status);

/* Tells the owner; a refusal ends the lane. */
void sl_lane_tell(struct sl_lane *lane, struct sl_lane_event *event);

/* Queues a control record ahead of data. */
SEALANE_RESULT sl_lane_control(struct sl_lane *lane, const struct sl_record *record);

/* The helpers for both rings' lane state. */
SEALANE_RESULT sl_lane_rings_make(struct sl_lane *lane); /* memory and grants of our rings */
SEALANE_RESULT sl_lane_rings_attach(
    struct sl_lane *lane); /* the peer's rings, a part of the staging */
SEALANE_RESULT sl_lane_keys_make(struct sl_lane *lane, const uint8_t secret[SL_SECRET_BYTES]);
void sl_lane_wake(struct sl_lane *lane); /* has the lane turned */
void sl_lane_sent(struct sl_lane *lane, struct sl_send *send);

/* ---- lane_out.c ---- */

/* Posts what was sealed, now or when the link takes it. */
void sl_lane_post(struct sl_lane *lane, const struct sl_link_write *write);

/* Sends as many frames as there is something to say and room for. */
void sl_lane_frames_out(struct sl_lane *lane);

/* ---- lane_in.c ---- */

/* The link says that something was written: a hint that is bounded, not believed. */
void sl_lane_arrived(struct sl_lane *lane, uint32_t immediate);

/* Takes every frame that arrived. */
void sl_lane_frames_in(struct sl_lane *lane);

/* ---- bulk.c ---- */

SEALANE_RESULT sl_bulk_init(struct sl_lane *lane,
                            uint32_t limit); /* chunks sealed and not written */
void sl_bulk_clear(struct sl_lane *lane);

/* A BULK record came. */
SEALANE_RESULT sl_bulk_announced(struct sl_lane *lane, const struct sl_record *record);

/* Opens and seals at most *budget plaintext bytes (host memory). */
void sl_bulk_turn_in(struct sl_lane *lane, size_t *budget);
void sl_bulk_turn_out(struct sl_lane *lane, size_t *budget);

/* True when the next turn could open or seal something, whatever comes. */
bool sl_bulk_has_work(struct sl_lane *lane);

/* The next BULK record that may go, or false: chunks that were placed and not announced. */
bool sl_bulk_next_record(struct sl_lane *lane, struct sl_record *record,
                         uint8_t body[SL_BULK_BODY_BYTES]);

/* Jobs that still touch memory. */
bool sl_bulk_is_busy(const struct sl_lane *lane);

/* Of a lane that is closing, which takes no turns any more: true once no job touches memory. */
bool sl_bulk_drain(struct sl_lane *lane);

/* ---- node.c ---- */

struct sl_memory *sl_node_memory(struct sealane_node *node);
struct sl_staging_pool *sl_node_staging(struct sealane_node *node);
uint8_t *sl_node_scratch(
    struct sealane_node *node); /* SL_SCRATCH_BYTES of private memory, for one frame */
void sl_node_ready(struct sealane_node *node, struct sl_lane *lane);
struct sl_helper *sl_node_helper(struct sealane_node *node);

enum {
    SL_SCRATCH_BYTES = 65536
};

#endif
