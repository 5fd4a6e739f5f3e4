/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c - how a channel gets its lanes: the ways to its target tried in turn, a pause after an attempt that failed (gRPC's
 * "connection backoff"), the next lane before the current one is too old.
 */
#include "rpc/channel.h"

#include "transport/bytes.h"
#include "transport/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t ms_ns = 1000000;

/* ---- the state that users see ---- */

static enum sealane_connectivity state_of(const struct sealane_channel *channel)
{
    if (channel->ended)
        return SEALANE_CHANNEL_SHUTDOWN;
    if (channel->current)
        return SEALANE_CHANNEL_READY;
    if (channel->route)
        return SEALANE_CHANNEL_CONNECTING;
    return channel->holding ? SEALANE_CHANNEL_TRANSIENT_FAILURE : SEALANE_CHANNEL_IDLE;
}

static void tell(struct sl_post *post)
{
    struct sealane_channel *channel =
        (struct sealane_channel *)(void *)((char *)post - offsetof(struct sealane_channel, tell));
    int state = atomic_load_explicit(&channel->state, memory_order_relaxed);

    channel->tell_posted = false;
    if (channel->ended) {
        sl_channel_release(channel);
    } else if (state != channel->told && channel->on_state) {
        channel->told = state;
        channel->on_state(channel->on_state_user, (enum sealane_connectivity)state,
                          channel->failed.message);
    }
}

/* By a post, as it may be that the one who asked for a lane stands further up the stack. */
static void state_changed(struct sealane_channel *channel)
{
    int state = (int)state_of(channel);

    if (atomic_exchange_explicit(&channel->state, state, memory_order_relaxed) == state ||
        !channel->on_state || channel->tell_posted || channel->ended)
        return;
    channel->tell_posted = true;
    channel->tell.run = tell;
    sl_node_post(channel->node, &channel->tell);
}

/* ---- pauses ---- */

/* From 0 to almost 1, in 65536ths: who began together shall not go on together. Nobody has to be unable to guess it. */
static uint64_t chance(const struct sealane_channel *channel, const void *whose)
{
    return sl_spread(sl_node_now(channel->node) ^ (uintptr_t)whose, 0x9e3779b97f4a7c15, 16);
}

/* gRPC's connection backoff: each pause is 1.6 times the one before, give or take a fifth, so that the clients of a server that
 * comes back do not come all at once. */
static uint64_t pause_ns(struct sealane_channel *channel)
{
    uint64_t base = (uint64_t)channel->hold_ms * ms_ns;
    uint64_t next = (uint64_t)channel->hold_ms * 8 / 5;
    uint64_t fifth = base / 5;

    channel->hold_ms = next < channel->backoff_max_ms ? (uint32_t)next : channel->backoff_max_ms;
    return base - fifth + chance(channel, channel) * fifth / 32768;
}

/* Those who wait for a lane get none from this attempt. */
static void wanting_fail(struct sealane_channel *channel)
{
    const struct sealane_error failed = channel->failed;

    sl_client_line_fail(channel, failed.status, failed.message);
    sl_channel_connected(channel, failed.status, failed.message);
}

static void hold_over(struct sl_timer *timer)
{
    struct sealane_channel *channel =
        (struct sealane_channel *)(void *)((char *)timer - offsetof(struct sealane_channel, hold));

    channel->holding = false;
    if (channel->refused) {
        channel->refused = false;
        wanting_fail(channel);
    } else if (channel->line_first || channel->connecting) {
        sl_channel_go(channel);
    }
    state_changed(channel);
}

static void hold_back(struct sealane_channel *channel)
{
    channel->hold.fire = hold_over;
    channel->holding = true;
    if (sl_timer_start(channel->node, &channel->hold,
                       sl_node_now(channel->node) + pause_ns(channel)) != SEALANE_OK)
        channel->holding = false; /* without memory for a timer there is no pause */
}

/* ---- age ---- */

static struct sl_client_lane *lane_of_timer(struct sl_timer *timer)
{
    return (struct sl_client_lane *)(void *)((char *)timer -
                                             offsetof(struct sl_client_lane, timer));
}

static void attempt_begin(struct sealane_channel *channel);

static void too_old(struct sl_timer *timer)
{
    struct sealane_channel *channel = lane_of_timer(timer)->channel;

    if (!channel->route)
        attempt_begin(channel);
}

static void grace_over(struct sl_timer *timer)
{
    struct sl_client_lane *at = lane_of_timer(timer);

    sl_lane_close(at->lane, SEALANE_UNAVAILABLE,
                  "the lane was too old and its grace is over: lane_grace_ms");
}

static void watch(struct sl_client_lane *at, void (*fire)(struct sl_timer *timer), uint64_t ns)
{
    at->timer.fire = fire;
    if (sl_timer_start(at->channel->node, &at->timer, sl_node_now(at->channel->node) + ns) !=
        SEALANE_OK)
        SL_LOG(SL_LOG_WARN, "no memory for a timer: a lane to %s may grow too old",
               at->channel->target);
}

/* Up to a tenth earlier, so that channels which began together do not all connect again together. */
static void age_watch(struct sl_client_lane *at)
{
    uint64_t age = at->channel->max_lane_age_ms * ms_ns;

    watch(at, too_old, age - age / 10 * chance(at->channel, at) / 65536);
}

void sl_channel_call_over(struct sl_client_lane *at)
{
    if (at->leaving && !at->down && at->calls.count == 0)
        sl_lane_close(at->lane, SEALANE_CANCELLED, "the lane was replaced by a younger one");
}

/* ---- attempts ---- */

static enum sealane_status lane_event(void *owner, struct sl_lane *lane,
                                      struct sl_lane_event *event);

static void attempt_over(struct sealane_channel *channel)
{
    sl_route_free(channel->route);
    channel->route = NULL;
    channel->coming = NULL;
}

/* A lane that only grew too old goes on until there is another. */
static void attempt_failed(struct sealane_channel *channel)
{
    attempt_over(channel);
    SL_LOG(SL_LOG_DEBUG, "no lane to %s: %s", channel->target, channel->failed.message);
    if (channel->current) {
        watch(channel->current, too_old, pause_ns(channel));
        return;
    }
    hold_back(channel);
    state_changed(channel);
    wanting_fail(channel);
}

static SEALANE_RESULT lane_start(struct sealane_channel *channel, size_t way)
{
    struct sl_client_lane *at = calloc(1, sizeof(*at));
    struct sl_lane_options options = channel->lane_options;
    enum sealane_status status;

    if (!at)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a lane");
    at->channel = channel;
    options.owner = at;
    options.on_event = lane_event;
    status = sl_table_init(&at->calls);
    if (status == SEALANE_OK)
        status = sl_route_connect(channel->route, way, &options, &at->lane);
    if (status != SEALANE_OK) {
        free(at);
        return status;
    }
    at->next = channel->lanes;
    channel->lanes = at;
    channel->coming = at;
    return SEALANE_OK;
}

/* Until a lane is coming or no way is left. */
static void ways_try(struct sealane_channel *channel)
{
    channel->coming = NULL;
    while (sl_route_way(channel->route, channel->way)) {
        if (lane_start(channel, channel->way++) == SEALANE_OK)
            return;
        channel->failed = *sealane_last_error();
    }
    attempt_failed(channel);
}

static void route_found(void *owner, struct sl_route *route)
{
    struct sealane_channel *channel = owner;

    channel->way = 0;
    if (sl_route_result(route) == SEALANE_OK) {
        ways_try(channel);
    } else {
        channel->failed = *sealane_last_error();
        attempt_failed(channel);
    }
}

static void attempt_begin(struct sealane_channel *channel)
{
    const struct sl_route_wish wish = {
        .target = channel->target, .link = channel->link, .done = route_found, .owner = channel};

    if (sl_route_find(channel->node, &wish, &channel->route) == SEALANE_OK)
        return;
    channel->failed = *sealane_last_error();
    SL_LOG(SL_LOG_WARN, "cannot look for a way to %s: %s", channel->target,
           channel->failed.message);
    if (channel->current) {
        watch(channel->current, too_old, pause_ns(channel));
        return;
    }
    channel->refused = true; /* told when the pause is over, not inside the call that asked */
    hold_back(channel);
}

void sl_channel_go(struct sealane_channel *channel)
{
    if (channel->current || channel->route || channel->holding || channel->ended)
        return;
    attempt_begin(channel);
    state_changed(channel);
}

/* ---- lanes ---- */

static void lane_ready(struct sl_client_lane *at)
{
    struct sealane_channel *channel = at->channel;
    struct sl_client_lane *old = channel->current;

    SL_LOG(SL_LOG_INFO, "lane to %s: %s", channel->target,
           sl_route_way(channel->route, channel->way - 1));
    attempt_over(channel);
    channel->current = at;
    channel->failed = (struct sealane_error){.status = SEALANE_OK};
    channel->hold_ms = channel->backoff_ms;
    age_watch(at);
    if (old) {
        old->leaving = true;
        watch(old, grace_over, channel->lane_grace_ms * ms_ns);
        sl_channel_call_over(old);
    }
    state_changed(channel);
    sl_channel_connected(channel, SEALANE_OK, "");
    sl_client_line_go(channel);
}

static void failed_as(struct sealane_channel *channel, const struct sl_client_lane *at)
{
    channel->failed.status = at->down_status;
    (void)snprintf(channel->failed.message, sizeof(channel->failed.message), "%.*s",
                   (int)sizeof(channel->failed.message) - 1, at->down_why);
}

/* The way led nowhere: the next one. That nobody listens at a twin is usual; that somebody does who is not the server is not. */
static void coming_lost(struct sealane_channel *channel, const struct sl_client_lane *at)
{
    const char *next = sl_route_way(channel->route, channel->way);

    failed_as(channel, at);
    if (next)
        SL_LOG(at->down_status == SEALANE_UNAVAILABLE ? SL_LOG_DEBUG : SL_LOG_WARN,
               "%s: %s; next is %s", sl_route_way(channel->route, channel->way - 1), at->down_why,
               next);
    ways_try(channel);
}

static void lane_unlink(struct sl_client_lane *at)
{
    struct sl_client_lane **from = &at->channel->lanes;

    while (*from != at)
        from = &(*from)->next;
    *from = at->next;
    sl_timer_stop(at->channel->node, &at->timer);
}

static void lane_closed(struct sl_client_lane *at, const struct sl_lane_event *event)
{
    struct sealane_channel *channel = at->channel;

    at->down = true;
    at->down_status = event->status;
    (void)snprintf(at->down_why, sizeof(at->down_why), "%.*s", (int)event->count,
                   (const char *)event->bytes);
    lane_unlink(at);
    if (channel->current == at) {
        channel->current = NULL;
        failed_as(channel, at);
    }
    sl_client_lane_lost(at);
    if (channel->coming == at && !channel->ended)
        coming_lost(channel, at);
    else if (channel->line_first)
        sl_channel_go(channel);
    free(at);
    state_changed(channel);
    sl_channel_release(channel);
}

static enum sealane_status lane_event(void *owner, struct sl_lane *lane,
                                      struct sl_lane_event *event)
{
    struct sl_client_lane *at = owner;

    (void)lane;
    switch (event->kind) {
    case SL_LANE_READY:
        if (!at->channel->ended)
            lane_ready(at);
        return SEALANE_OK;
    case SL_LANE_CLOSED:
        lane_closed(at, event);
        return SEALANE_OK;
    default:
        return sl_client_event(at, event);
    }
}

void sl_channel_stop(struct sealane_channel *channel)
{
    attempt_over(channel);
    sl_timer_stop(channel->node, &channel->hold);
    for (struct sl_client_lane *at = channel->lanes; at; at = at->next)
        sl_lane_close(at->lane, SEALANE_CANCELLED, "the channel ended"); /* CLOSED comes */
}
