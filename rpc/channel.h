/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - what channel.c (the door), connect.c (how a channel gets its lanes) and client.c (the calls on them) share.
 *
 * New calls go on the current lane. While there is none they stand in line. Of other lanes one may be coming, and any number leaving:
 * replaced because of their age, kept until their calls are done or their grace is over.
 */
#ifndef SL_CHANNEL_H
#define SL_CHANNEL_H

#include "rpc/call.h"
#include "transport/route.h"

/* A lane of a channel, from its start to CLOSED. */
struct sl_client_lane {
    struct sl_client_lane *next;
    struct sealane_channel *channel;
    struct sl_lane *lane;
    struct sl_call_table calls;
    uint64_t last_id;
    struct sl_timer timer; /* current: its age; leaving: its grace */
    bool leaving;
    bool down; /* CLOSED came */
    enum sealane_status down_status;
    char down_why[SL_STATUS_TEXT_MAX + 1];
};

struct sl_connecting;

struct sealane_channel {
    struct sl_child child;
    struct sl_gate *gate;
    struct sealane_node *node;
    struct sl_lane_options lane_options;
    char *target, *server_name, *link;
    uint32_t backoff_ms, backoff_max_ms, max_lane_age_ms, lane_grace_ms; /* options */

    struct sl_client_lane *lanes; /* all */
    struct sl_client_lane *current, *coming;
    struct sl_route *route; /* of the attempt under way */
    size_t way;             /* the next one to try */
    bool holding;           /* the last attempt failed; the next one waits for `hold` */
    struct sl_timer hold;
    uint32_t hold_ms;            /* the next pause, before jitter */
    struct sealane_error failed; /* why the last attempt failed */
    bool refused;                /* it could not even begin */

    uint32_t launched; /* calls in the line and on the lanes */
    struct sealane_call *line_first, *line_last;
    struct sl_connecting *connecting;
    bool ended;
    struct sl_wait *released; /* told when the channel is gone */

    _Atomic int state; /* enum sealane_connectivity */
    int told;          /* the state that on_state heard last */
    struct sl_post tell;
    bool tell_posted;
    sealane_channel_state_function *on_state;
    void *on_state_user;
};

/* ---- channel.c ---- */

/* FAILED_PRECONDITION inside a handler or callback of the node. */
SEALANE_RESULT sl_channel_refuse_inside(struct sealane_node *node);

/* Threads in sealane_channel_connect learn how the attempt went. */
void sl_channel_connected(struct sealane_channel *channel, enum sealane_status status,
                          const char *text);

/* Frees the channel once it has ended and nothing of it is borrowed any more. */
void sl_channel_release(struct sealane_channel *channel);

/* ---- connect.c ---- */

/* Asks for a lane unless there is one, or one is being made, or the last attempt failed just now. Nothing is told from inside. */
void sl_channel_go(struct sealane_channel *channel);

/* The channel ends: no further attempt, and the lanes close. */
void sl_channel_stop(struct sealane_channel *channel);

/* Something that may have been a lane's last call is over. */
void sl_channel_call_over(struct sl_client_lane *at);

/* ---- client.c: calls in the line wait for a lane, calls in a lane's table are on it ---- */

/* A lane is there: the line goes. */
void sl_client_line_go(struct sealane_channel *channel);

/* There will be no lane: the calls that are in the line now end. Those that their callbacks start wait for the next. */
void sl_client_line_fail(struct sealane_channel *channel, enum sealane_status status,
                         const char *text);

/* The lane is down: what it borrowed is ours again, and its calls end as down_… say. */
void sl_client_lane_lost(struct sl_client_lane *at);

/* The channel ends: so do its calls, those that are borrowed from once CLOSED came. */
void sl_client_end(struct sealane_channel *channel);

/* Events of calls. A failure is the server's lie and ends the lane. */
SEALANE_RESULT sl_client_event(struct sl_client_lane *at, struct sl_lane_event *event);

#endif
