/* SPDX-License-Identifier: Apache-2.0 */
/* channel.c - the door of a channel: making, asking, ending. connect.c gets its lanes, the calls on them are in client.c. */
#include "rpc/channel.h"

#include "transport/log.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BACKOFF_MS = 1000, /* gRPC's doc/connection-backoff.md: INITIAL_BACKOFF, MAX_BACKOFF */
    BACKOFF_MAX_MS = 120000,
    LANE_AGE_MS = 24 * 3600 * 1000,
    LANE_GRACE_MS = 600000,
    HOST_BYTES = 254
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

void sl_channel_connected(struct sealane_channel *channel, enum sealane_status status,
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

/* ---- connecting ---- */

static void connect_late(struct sl_timer *timer)
{
    struct sl_connecting *late =
        (struct sl_connecting *)(void *)((char *)timer - offsetof(struct sl_connecting, timer));
    struct sl_connecting **at = &late->channel->connecting;

    while (*at != late)
        at = &(*at)->next;
    *at = late->next;
    if (late->channel->holding) { /* that says more than that the time is over */
        late->status = late->channel->failed.status;
        (void)snprintf(late->text, sizeof(late->text), "%s", late->channel->failed.message);
    } else {
        late->status = SEALANE_DEADLINE_EXCEEDED;
        (void)snprintf(late->text, sizeof(late->text), "no lane to %.300s within %u ms",
                       late->channel->target, late->timeout_ms);
    }
    sl_wait_finish(&late->wait);
}

static enum sealane_status connect_begin(void *argument)
{
    struct sl_connecting *mine = argument;
    struct sealane_channel *channel = mine->channel;

    if (channel->current) {
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

static void channel_free_parts(struct sealane_channel *channel)
{
    free(channel->target);
    free(channel->server_name);
    free(channel->link);
    free(channel);
}

void sl_channel_release(struct sealane_channel *channel)
{
    struct sl_wait *released = channel->released;

    if (!channel->ended || channel->lanes || channel->tell_posted)
        return;
    sl_gate_leave(channel->gate);
    channel_free_parts(channel);
    if (released)
        sl_wait_finish(released);
}

static void channel_end(struct sl_child *child)
{
    struct sealane_channel *channel =
        (struct sealane_channel *)(void *)((char *)child - offsetof(struct sealane_channel, child));

    channel->ended = true;
    sl_client_end(channel);
    sl_channel_connected(channel, SEALANE_CANCELLED, "the channel ended");
    sl_gate_close(channel->gate);
    sl_channel_stop(channel);
    sl_channel_release(channel);
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
        .bulk_chunk_bytes = options->small_rings ? 16384 : 0,
        .bulk_slots = options->small_rings ? 16 : 0,
        .message_slots = options->small_rings ? 16 : 0,
        .epoch_shift = options->epoch_shift,
        .handshake_timeout_ms = options->connect_timeout_ms,
        .dead_after_ms = options->dead_after_ms,
    };
    channel->backoff_ms = options->backoff_ms ? options->backoff_ms : BACKOFF_MS;
    channel->backoff_max_ms = options->backoff_max_ms ? options->backoff_max_ms : BACKOFF_MAX_MS;
    if (channel->backoff_max_ms < channel->backoff_ms)
        channel->backoff_max_ms = channel->backoff_ms;
    channel->hold_ms = channel->backoff_ms;
    channel->max_lane_age_ms = options->max_lane_age_ms ? options->max_lane_age_ms : LANE_AGE_MS;
    channel->lane_grace_ms = options->lane_grace_ms ? options->lane_grace_ms : LANE_GRACE_MS;
}

/* The name that the server's certificate must carry: the option's, else the target's host. */
static SEALANE_RESULT name_take(struct sealane_channel *channel, const char *wanted)
{
    char host[HOST_BYTES];

    if ((!wanted || !wanted[0]) &&
        !sl_route_host(channel->node, channel->target, host, sizeof(host)))
        return SL_FAIL(
            SEALANE_INVALID_ARGUMENT,
            "a channel to \"%s\" needs server_name, the name in the server's certificate",
            channel->target);
    channel->server_name = strdup(wanted && wanted[0] ? wanted : host);
    if (!channel->server_name)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a channel");
    return SEALANE_OK;
}

static SEALANE_RESULT channel_fill(struct sealane_channel *channel, const char *target,
                                   const struct sealane_channel_options *options)
{
    const struct sl_limits limits = {options->max_message_bytes, options->max_tensor_bytes,
                                     options->tensor_memory_bytes, options->max_calls};
    const struct sl_route_wish wish = {.target = target, .link = options->link};

    SL_TRY(sl_route_check(channel->node, &wish));
    channel->target = strdup(target);
    channel->link = strdup(options->link ? options->link : "");
    if (!channel->target || !channel->link)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a channel");
    SL_TRY(name_take(channel, options->server_name));
    options_take(channel, options);
    SL_TRY(sl_gate_new(channel->node, &limits, &channel->gate));
    return sl_run_there(channel->gate, channel->node, adopt, channel);
}

SEALANE_RESULT sealane_channel_new(struct sealane_node *node, const char *target,
                                   const struct sealane_channel_options *options,
                                   struct sealane_channel **channel_p)
{
    struct sealane_channel *channel;
    enum sealane_status status;

    if (!node || !target || !options || !options->credentials)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "a channel needs a node, a target and credentials");
    channel = calloc(1, sizeof(*channel));
    if (!channel)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a channel");
    channel->node = node;
    channel->child.end = channel_end;
    status = channel_fill(channel, target, options);
    if (status == SEALANE_OK) {
        *channel_p = channel;
        return SEALANE_OK;
    }
    if (channel->gate)
        sl_gate_leave(channel->gate);
    channel_free_parts(channel);
    return status;
}

/* ---- asking ---- */

struct asking {
    struct sealane_channel *channel;
    struct sealane_security *security;
};

static enum sealane_status security_of(void *argument)
{
    const struct asking *asking = argument;

    if (!asking->channel->current)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the channel to %s has no lane now",
                       asking->channel->target);
    sl_lane_security(asking->channel->current->lane, asking->security);
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

enum sealane_connectivity sealane_channel_state(const struct sealane_channel *channel)
{
    return (enum sealane_connectivity)atomic_load_explicit(&channel->state, memory_order_relaxed);
}

struct on_state_errand {
    struct sealane_channel *channel;
    sealane_channel_state_function *function;
    void *user;
};

static enum sealane_status on_state_now(void *argument)
{
    const struct on_state_errand *errand = argument;
    struct sealane_channel *channel = errand->channel;

    channel->on_state = errand->function;
    channel->on_state_user = errand->user;
    channel->told = atomic_load_explicit(&channel->state, memory_order_relaxed);
    return SEALANE_OK;
}

void sealane_channel_on_state(struct sealane_channel *channel,
                              sealane_channel_state_function *function, void *user)
{
    struct on_state_errand errand = {channel, function, user};

    if (sl_run_there(channel->gate, channel->node, on_state_now, &errand) != SEALANE_OK)
        SL_LOG(SL_LOG_ERROR, "a channel that has ended tells of no states");
}
