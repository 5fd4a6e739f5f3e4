/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - what channel.c (lanes: made, lost, made again) and client.c (the calls on them) share. */
#ifndef SL_CHANNEL_H
#define SL_CHANNEL_H

#include "rpc/call.h"

enum sl_channel_state {
    SL_CHANNEL_IDLE,
    SL_CHANNEL_HOLDING,
    SL_CHANNEL_CONNECTING,
    SL_CHANNEL_READY
};

struct sl_connecting;

struct sealane_channel {
    struct sl_child child;
    struct sl_gate *gate;
    struct sealane_node *node;
    struct sl_lane_options lane_options;
    char *target, *server_name;
    enum sl_channel_state state;
    struct sl_lane *lane;
    enum sealane_status lost_status; /* how the last lane ended */
    char lost_why[SL_STATUS_TEXT_MAX + 1];
    struct sl_timer hold;         /* SL_CHANNEL_HOLDING */
    struct sealane_error refused; /* why a lane could not even start; status OK: it could */
    struct sl_call_table calls;
    uint64_t last_id;
    uint32_t launched; /* calls in the line and on the lane */
    struct sealane_call *line_first, *line_last;
    struct sl_connecting *connecting;
    bool ended;
    struct sl_wait *released; /* told when the channel is gone */
};

/* ---- channel.c ---- */

/* Asks for a lane unless there is one, or one is being made, or the last attempt failed just now. */
void sl_channel_go(struct sealane_channel *channel);

/* FAILED_PRECONDITION inside a handler or callback of the node. */
SEALANE_RESULT sl_channel_refuse_inside(struct sealane_node *node);

/* ---- client.c: calls in the line wait for a lane, calls in the table are on it ---- */

/* The lane is READY: the line goes. */
void sl_client_line_go(struct sealane_channel *channel);

/* There will be no lane: the calls that are in the line now end. Those that their callbacks start wait for the next. */
void sl_client_line_fail(struct sealane_channel *channel, enum sealane_status status,
                         const char *text);

/* The lane has ended: what it borrowed is ours again, and its calls end as channel->lost_… say. */
void sl_client_lane_lost(struct sealane_channel *channel);

/* The channel ends: so do its calls, those that are borrowed from once CLOSED came. */
void sl_client_end(struct sealane_channel *channel);

/* Events of calls. A failure is the server's lie and ends the lane. */
SEALANE_RESULT sl_client_event(struct sealane_channel *channel, struct sl_lane_event *event);

#endif
