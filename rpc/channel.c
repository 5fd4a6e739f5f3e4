/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - a channel: one lane at a time to one server, made when the first call needs it and again after a loss. The calls on it
 * are in client.c. */
#include "rpc/channel.h"

#include "transport/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOLD_BACK_NS = 100000000 /* after an attempt that failed the next one waits this long */
};

/* A thread in sealane_channel_connect; on its stack. */
struct sl_connecting {
    struct sl_connecting *next;
    struct sl_timer timer;
    struct sl_wait wait;
    struct sealane_channel *channel;
    uint32_t timeout_ms;
    enum sealane_status status;
    char text[SL_STATUS_TEXT_MAX + 1];
    struct sl_post post;
};

static void connecting_done(struct sealane_channel *channel, enum sealane_status status,
                            const char *text)
{
    struct sl_connecting *all = channel->connecting;

    channel->connecting = NULL;
    while (all) {
        struct sl_connecting *next = all->next;

        sl_timer_stop(channel->node, &all->timer);
        all->status = status;
        (void)snprintf(all->text, sizeof(all->text), "%s", text);
        sl_wait_finish(&all->wait);
        all = next;
    }
}

/* ---- lanes ---- */

static void lane_ready(struct sealane_channel *channel)
{
    channel->state = SL_CHANNEL_READY;
    connecting_done(channel, SEALANE_OK, "");
    sl_client_line_go(channel);
}

static void release(struct sealane_channel *channel)
{
    struct sl_wait *released = channel->released;

    sl_gate_leave(channel->gate);
    free(channel->target);
    free(channel->server_name);
    free(channel);
    if (released)
        sl_wait_finish(released);
}

static void hold_over(struct sl_timer *timer)
{
    struct sealane_channel *channel =
        (struct sealane_channel *)(void *)((char *)timer - offsetof(struct sealane_channel, hold));

    struct sealane_error refused = channel->refused;

    channel->state = SL_CHANNEL_IDLE;
    channel->refused.status = SEALANE_OK;
    if (refused.status != SEALANE_OK) {
        sl_client_line_fail(channel, refused.status, refused.message);
        connecting_done(channel, refused.status, refused.message);
    } else if (channel->line_first || channel->connecting) {
        sl_channel_go(channel);
    }
}

static void hold_back(struct sealane_channel *channel)
{
    channel->hold.fire = hold_over;
    channel->state = SL_CHANNEL_HOLDING;
    if (sl_timer_start(channel->node, &channel->hold, sl_node_now(channel->node) + HOLD_BACK_NS) !=
        SEALANE_OK)
        channel->state = SL_CHANNEL_IDLE; /* without memory for a timer there is no pause */
}

static void lane_closed(struct sealane_channel *channel, const struct sl_lane_event *event)
{
    bool was_ready = channel->state == SL_CHANNEL_READY;

    channel->lost_status = event->status;
    (void)snprintf(channel->lost_why, sizeof(channel->lost_why), "%.*s", (int)event->count,
                   (const char *)event->bytes);
    channel->lane = NULL;
    channel->state = SL_CHANNEL_IDLE;
    if (!channel->ended && !was_ready)
        hold_back(channel);
    sl_client_lane_lost(channel);
    if (!was_ready) {
        sl_client_line_fail(channel, channel->lost_status, channel->lost_why);
        connecting_done(channel, channel->lost_status, channel->lost_why);
    } else if (channel->line_first && !channel->ended) {
        sl_channel_go(channel);
    }
    if (channel->ended)
        release(channel);
}

static enum sealane_status channel_event(void *owner, struct sl_lane *lane,
                                         struct sl_lane_event *event)
{
    struct sealane_channel *channel = owner;

    (void)lane;
    switch (event->kind) {
    case SL_LANE_READY:
        if (!channel->ended)
            lane_ready(channel);
        return SEALANE_OK;
    case SL_LANE_CLOSED:
        lane_closed(channel, event);
        return SEALANE_OK;
    default:
        return sl_client_event(channel, event);
    }
}

/* ---- connecting ---- */

void sl_channel_go(struct sealane_channel *channel)
{
    if (channel->state != SL_CHANNEL_IDLE)
        return;
    channel->state = SL_CHANNEL_CONNECTING;
    if (sl_node_connect(channel->node, channel->target, &channel->lane_options, &channel->lane) ==
        SEALANE_OK)
        return;
    /* Told when the pause is over, not inside the call that asked. */
    channel->refused = *sealane_last_error();
    SL_LOG(SL_LOG_WARN, "cannot start a lane to %s: %s", channel->target, channel->refused.message);
    hold_back(channel);
}

static void connect_late(struct sl_timer *timer)
{
    struct sl_connecting *late =
        (struct sl_connecting *)(void *)((char *)timer - offsetof(struct sl_connecting, timer));
    struct sl_connecting **at = &late->channel->connecting;

    while (*at != late)
        at = &(*at)->next;
    *at = late->next;
    late->status = SEALANE_DEADLINE_EXCEEDED;
    (void)snprintf(late->text, sizeof(late->text), "no lane to %.300s within %u ms",
                   late->channel->target, late->timeout_ms);
    sl_wait_finish(&late->wait);
}

static enum sealane_status connect_begin(void *argument)
{
    struct sl_connecting *mine = argument;
    struct sealane_channel *channel = mine->channel;

    if (channel->state == SL_CHANNEL_READY) {
        sl_wait_finish(&mine->wait);
        return SEALANE_OK;
    }
    mine->timer.fire = connect_late;
    SL_TRY(sl_timer_start(channel->node, &mine->timer,
                          sl_node_now(channel->node) + (uint64_t)mine->timeout_ms * 1000000));
    mine->next = channel->connecting;
    channel->connecting = mine;
    sl_channel_go(channel);
    return SEALANE_OK;
}

SEALANE_RESULT sl_channel_refuse_inside(struct sealane_node *node)
{
    if (sl_node_is_inside(node) || (sl_node_is_here(node) && !sl_node_is_polled(node)))
        return SL_FAIL(
            SEALANE_FAILED_PRECONDITION,
            "a blocking call inside a handler or callback of the same node would wait for itself");
    return SEALANE_OK;
}

SEALANE_RESULT sealane_channel_connect(struct sealane_channel *channel, uint32_t timeout_ms)
{
    struct sl_connecting mine = {.channel = channel, .timeout_ms = timeout_ms};
    struct sl_gate *gate = channel->gate;
    enum sealane_status status;

    SL_TRY(sl_channel_refuse_inside(channel->node));
    sl_wait_init(&mine.wait);
    sl_gate_hold(gate);
    status = sl_run_there(gate, channel->node, connect_begin, &mine);
    sl_gate_leave(gate);
    if (status != SEALANE_OK)
        return status;
    sl_wait_for(channel->node, &mine.wait);
    if (mine.status != SEALANE_OK)
        return SL_FAIL(mine.status, "%s", mine.text);
    return SEALANE_OK;
}

/* ---- making and ending ---- */

static void channel_end(struct sl_child *child)
{
    struct sealane_channel *channel =
        (struct sealane_channel *)(void *)((char *)child - offsetof(struct sealane_channel, child));

    channel->ended = true;
    sl_client_end(channel);
    connecting_done(channel, SEALANE_CANCELLED, "the channel ended");
    sl_timer_stop(channel->node, &channel->hold);
    sl_gate_close(channel->gate);
    if (channel->lane)
        sl_lane_close(channel->lane, SEALANE_CANCELLED,
                      "the channel ended"); /* CLOSED releases the rest */
    else
        release(channel);
}

static enum sealane_status end_now(void *argument)
{
    struct sealane_channel *channel = argument;

    sl_node_disown(channel->node, &channel->child);
    channel_end(&channel->child);
    return SEALANE_OK;
}

void sealane_channel_free(struct sealane_channel *channel)
{
    struct sl_wait released;
    struct sealane_node *node;
    struct sl_gate *gate;

    if (!channel)
        return;
    node = channel->node;
    gate = channel->gate;
    if (sl_channel_refuse_inside(node) != SEALANE_OK) {
        SL_LOG(SL_LOG_ERROR,
               "sealane_channel_free inside a handler or callback of its node does nothing");
        return;
    }
    sl_wait_init(&released);
    channel->released = &released;
    sl_gate_hold(gate);
    if (sl_run_inside(gate, node, end_now, channel) == SEALANE_OK)
        sl_wait_for(node, &released);
    sl_gate_leave(gate);
}

static enum sealane_status adopt(void *argument)
{
    struct sealane_channel *channel = argument;

    sl_node_adopt(channel->node, &channel->child);
    return SEALANE_OK;
}

static void options_take(struct sealane_channel *channel,
                         const struct sealane_channel_options *options)
{
    channel->lane_options = (struct sl_lane_options){
        .credentials = options->credentials,
        .server_name = channel->server_name,
        .on_event = channel_event,
        .owner = channel,
        .bulk_chunk_bytes = options->small_rings ? 16384 : 0,
        .bulk_slots = options->small_rings ? 16 : 0,
        .message_slots = options->small_rings ? 16 : 0,
        .epoch_shift = options->epoch_shift,
        .handshake_timeout_ms = options->connect_timeout_ms,
    };
}

SEALANE_RESULT sealane_channel_new(struct sealane_node *node, const char *target,
                                   const struct sealane_channel_options *options,
                                   struct sealane_channel **channel_p)
{
    struct sl_limits limits = {options ? options->max_message_bytes : 0,
                               options ? options->max_tensor_bytes : 0,
                               options ? options->tensor_memory_bytes : 0,
                               options ? options->max_calls : 0};
    struct sealane_channel *channel;
    enum sealane_status status;

    if (!node || !target || !options || !options->credentials)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a channel needs a node, a target and credentials");
    if (!options->server_name || !options->server_name[0])
        return SL_FAIL(
            SEALANE_INVALID_ARGUMENT,
            "a channel to \"%s\" needs server_name, the name in the server's certificate", target);
    SL_TRY(sl_node_check_address(node, target));
    channel = calloc(1, sizeof(*channel));
    if (!channel)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a channel");
    channel->node = node;
    channel->child.end = channel_end;
    channel->target = strdup(target);
    channel->server_name = strdup(options->server_name);
    options_take(channel, options);
    status = channel->target && channel->server_name
                 ? sl_gate_new(node, &limits, &channel->gate)
                 : SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a channel");
    if (status == SEALANE_OK)
        status = sl_table_init(&channel->calls);
    if (status == SEALANE_OK)
        status = sl_run_there(channel->gate, node, adopt, channel);
    if (status != SEALANE_OK) {
        if (channel->gate)
            sl_gate_leave(channel->gate);
        free(channel->target);
        free(channel->server_name);
        free(channel);
        return status;
    }
    *channel_p = channel;
    return SEALANE_OK;
}

struct asking {
    struct sealane_channel *channel;
    struct sealane_security *security;
};

static enum sealane_status security_of(void *argument)
{
    const struct asking *asking = argument;

    if (asking->channel->state != SL_CHANNEL_READY)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the channel to %s has no lane now",
                       asking->channel->target);
    sl_lane_security(asking->channel->lane, asking->security);
    return SEALANE_OK;
}

SEALANE_RESULT sealane_channel_security(struct sealane_channel *channel,
                                        struct sealane_security *security_p)
{
    struct sealane_security security;
    struct asking asking = {channel, &security};

    SL_TRY(sl_run_there(channel->gate, channel->node, security_of, &asking));
    *security_p = security;
    return SEALANE_OK;
}
