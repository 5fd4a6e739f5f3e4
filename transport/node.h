/* SPDX-License-Identifier: Apache-2.0 */
/* node.h - one thread's world, as the rest of the house sees it: time, timers, the inbox, lanes.
 *
 * Everything of a node is touched by its one thread only (invariant 7). Other threads reach it through sl_node_post.
 * The loop of a turn: links are polled, memory kinds are polled, lanes with work are pumped, posts run, timers fire.
 */
#ifndef SL_NODE_H
#define SL_NODE_H

#include "transport/inbox.h"
#include "transport/lane.h"
#include "transport/timer.h"

struct sl_link_ops;
struct sl_memory;
struct sl_handshake;

/* What tests hand in instead of the built-in carriers and memory; NULL fields mean the defaults. */
struct sl_node_setup {
    const struct sl_link_ops *const *links; /* NULL-terminated, borrowed until the node's end */
    struct sl_memory *memory;               /* becomes the node's, closed by it */
};

SEALANE_RESULT sl_node_new(const struct sealane_node_options *options,
                           const struct sl_node_setup *setup, struct sealane_node **node_p);

/* CLOCK_MONOTONIC in ns, read once per turn (exact enough for deadlines in ms) and anew on other threads. */
uint64_t sl_node_now(const struct sealane_node *node);

/* True on the node's own thread (for a polled node: the thread that last polled it, or that made it). */
bool sl_node_is_here(const struct sealane_node *node);

/* True while a handler, callback or event function of this node runs on this thread. */
bool sl_node_is_inside(const struct sealane_node *node);
bool sl_node_is_polled(const struct sealane_node *node);

/* ---- inbox: the only way in from other threads ---- */

/* Has `run` called on the node's thread in a coming turn, in order of posting. Any thread, the node's own included. */
void sl_node_post(struct sealane_node *node, struct sl_post *post);

/* ---- timers, node's thread only ---- */

/* Starts, or moves, a timer (timer.h); it fires once, in the first turn at or after at_ns. RESOURCE_EXHAUSTED without memory. */
SEALANE_RESULT sl_timer_start(struct sealane_node *node, struct sl_timer *timer, uint64_t at_ns);
void sl_timer_stop(struct sealane_node *node, struct sl_timer *timer); /* fine when not running */

/* ---- what must end with the node (channels, servers) ---- */

/* sealane_node_free calls `end` on the node's thread (polled: on the caller's), newest first, before the lanes end. */
struct sl_child {
    struct sl_child *prev, *next;
    void (*end)(struct sl_child *child);
};
void sl_node_adopt(struct sealane_node *node, struct sl_child *child);
void sl_node_disown(struct sealane_node *node, struct sl_child *child);

/* ---- lanes, node's thread only ---- */

/* The carriers, NULL-terminated. Any thread. */
const struct sl_link_ops *const *sl_node_links(const struct sealane_node *node);

/* Starts a lane to `address`, over the carrier that options->link names. Errors of address form and of resources come at once; all else is a CLOSED event. */
SEALANE_RESULT sl_node_connect(struct sealane_node *node, const char *address,
                               const struct sl_lane_options *options, struct sl_lane **lane_p);

/* Listens, as options->link says; each accepted, authenticated and authorised peer becomes a lane whose first event is READY. Options are
 * copied, what they point to is borrowed until sl_node_unlisten. */
struct sl_listener;
SEALANE_RESULT sl_node_listen(struct sealane_node *node, const char *address,
                              const struct sl_lane_options *options,
                              struct sl_listener **listener_p);

/* Where it listens: a port 0 is a real one here. The listener's. */
const char *sl_listener_address(const struct sl_listener *listener);

/* Listeners that belong together: a chain that its maker builds, unlistened one by one. */
struct sl_listener *sl_listener_next(const struct sl_listener *listener);
void sl_listener_chain(struct sl_listener *listener, struct sl_listener *next);

/* Stops accepting and ends the listener's lanes with CLOSED (their events still reach on_event before this returns). */
void sl_node_unlisten(struct sl_listener *listener);

#endif
