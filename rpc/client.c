/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - a call at the client's end: packed on its caller's thread, put in line or on the lane, ended once. */
#include "rpc/channel.h"

#include "transport/log.h"

#include <stdio.h>
#include <string.h>

/* ---- the line of calls that wait for a lane ---- */

static void line_push(struct sealane_channel *channel, struct sealane_call *call)
{
    call->in_line = true;
    call->wait_next = NULL;
    call->wait_prev = channel->line_last;
    if (channel->line_last)
        channel->line_last->wait_next = call;
    else
        channel->line_first = call;
    channel->line_last = call;
}

static void line_remove(struct sealane_channel *channel, struct sealane_call *call)
{
    call->in_line = false;
    if (call->wait_prev)
        call->wait_prev->wait_next = call->wait_next;
    else
        channel->line_first = call->wait_next;
    if (call->wait_next)
        call->wait_next->wait_prev = call->wait_prev;
    else
        channel->line_last = call->wait_prev;
}

/* ---- a call's end ---- */

static void deliver(struct sealane_call *call)
{
    const ProtobufCMessage *reply = call->status == SEALANE_OK ? call->intake.message : NULL;

    if (call->wait)
        sl_wait_finish(call->wait);
    else
        call->completion.deliver(call, call->status, reply, call->completion.done,
                                 call->completion.user);
    sl_call_leave(call);
}

/* Delivers once the call has ended and nothing of it is borrowed. */
static void settle(struct sealane_call *call)
{
    struct sl_client_lane *at = call->at;

    if (!call->decided || !sl_call_is_free(call))
        return;
    if (at)
        sl_table_remove(&at->calls, call);
    if (call->launched)
        call->channel->launched--;
    call->lane = NULL;
    call->at = NULL;
    call->channel = NULL;
    if (at)
        sl_channel_call_over(at);
    deliver(call);
}

/* Ends a call from this side. The peer hears of it when it knows the call. */
void sl_client_fail(struct sealane_call *call, enum sealane_status status, const char *text)
{
    bool given_up = status == SEALANE_CANCELLED || status == SEALANE_DEADLINE_EXCEEDED;

    if (!sl_call_decide(call, status, text))
        return;
    if (call->in_line)
        line_remove(call->channel, call);
    sl_call_stop(call);
    if (call->at && !call->at->down &&
        sl_lane_cancel(call->lane, call->id, given_up ? status : SEALANE_CANCELLED) != SEALANE_OK)
        SL_LOG(SL_LOG_DEBUG, "call %llu ended on a lane that ends too",
               (unsigned long long)call->id);
    settle(call);
}

static void fail_with_last_error(struct sealane_call *call)
{
    sl_client_fail(call, sealane_last_error()->status, sealane_last_error()->message);
}

static void call_late(struct sl_timer *timer)
{
    sl_client_fail(sl_call_of_timer(timer), SEALANE_DEADLINE_EXCEEDED,
                   "the deadline passed before the reply came");
}

/* ---- a call's way out ---- */

/* Part of the time may have passed while there was no lane. */
static void tell_time_left(struct sealane_call *call)
{
    uint64_t now = sl_node_now(call->channel->node);

    if (call->deadline_ns != 0)
        sl_head_set_timeout(call->packed.bytes,
                            call->deadline_ns > now ? call->deadline_ns - now : 1);
}

static SEALANE_RESULT put_on_lane(struct sl_client_lane *at, struct sealane_call *call)
{
    uint32_t allowed = sl_lane_peer_max_calls(at->lane);

    if (at->calls.count >= allowed)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "the lane has %u calls already, the server's max_calls", at->calls.count);
    call->at = at;
    call->lane = at->lane;
    call->id = ++at->last_id;
    sl_table_add(&at->calls, call);
    sl_lane_security(at->lane, &call->security);
    tell_time_left(call);
    if (sl_call_send(call, 0) == SEALANE_OK)
        return SEALANE_OK;
    sl_table_remove(&at->calls, call);
    call->lane = NULL;
    call->at = NULL;
    if (sealane_last_error()->status != SEALANE_FAILED_PRECONDITION)
        return sealane_last_error()->status;
    line_push(at->channel, call); /* the lane is about to end: the next one will do */
    return SEALANE_OK;
}

static SEALANE_RESULT launch(struct sealane_call *call)
{
    struct sealane_channel *channel = call->channel;

    if (channel->ended)
        return SL_FAIL(SEALANE_CANCELLED, "the channel ended");
    if (channel->launched >= channel->gate->limits.max_calls)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "the channel has %u calls already, its max_calls", channel->launched);
    if (channel->holding)
        return SL_FAIL(channel->failed.status, "%s", channel->failed.message);
    SL_TRY(sl_call_watch(call, call_late));
    channel->launched++;
    call->launched = true;
    if (channel->current)
        return put_on_lane(channel->current, call);
    line_push(channel, call);
    sl_channel_go(channel);
    return SEALANE_OK;
}

static void launch_post(struct sl_post *post)
{
    struct sealane_call *call =
        (struct sealane_call *)(void *)((char *)post - offsetof(struct sealane_call, post));

    if (!call->gate->node) { /* the channel ended while the call was on its way */
        (void)sl_call_decide(call, SEALANE_CANCELLED, "the channel ended");
        call->channel = NULL;
        deliver(call);
        return;
    }
    if (launch(call) != SEALANE_OK)
        fail_with_last_error(call);
}

/* Off the node's thread nothing can be refused at once: what goes wrong ends the call. */
static SEALANE_RESULT launch_anywhere(struct sealane_call *call)
{
    if (!sl_node_is_here(call->channel->node)) {
        call->post.run = launch_post;
        if (!sl_gate_post(call->gate, &call->post))
            return SL_FAIL(SEALANE_CANCELLED, "the channel ended");
        return SEALANE_OK;
    }
    if (launch(call) == SEALANE_OK)
        return SEALANE_OK;
    if (call->launched)
        call->channel->launched--;
    sl_timer_stop(call->channel->node, &call->timer);
    return sealane_last_error()->status;
}

/* ---- the line and the table, all at once ---- */

void sl_client_line_go(struct sealane_channel *channel)
{
    struct sealane_call *call, *last = channel->line_last;
    bool done = last == NULL;

    while (!done && channel->current && (call = channel->line_first) != NULL) {
        done = call == last;
        line_remove(channel, call);
        if (put_on_lane(channel->current, call) != SEALANE_OK)
            fail_with_last_error(call);
    }
}

void sl_client_line_fail(struct sealane_channel *channel, enum sealane_status status,
                         const char *text)
{
    struct sealane_call *last = channel->line_last, *call;
    bool done = last == NULL;

    while (!done && (call = channel->line_first) != NULL) {
        done = call == last;
        sl_client_fail(call, status, text);
    }
}

static void end_with_lane(struct sealane_call *call)
{
    const struct sl_client_lane *at = call->at;

    call->sending = false;
    call->intake.placing = 0;
    (void)sl_call_decide(call, at->down_status, at->down_why);
    sl_call_stop(call);
    settle(call);
}

static void end_with_channel(struct sealane_call *call)
{
    sl_client_fail(call, SEALANE_CANCELLED, "the channel ended");
}

void sl_client_lane_lost(struct sl_client_lane *at)
{
    sl_table_each(&at->calls, end_with_lane);
}

void sl_client_end(struct sealane_channel *channel)
{
    sl_client_line_fail(channel, SEALANE_CANCELLED, "the channel ended");
    for (struct sl_client_lane *at = channel->lanes; at; at = at->next)
        sl_table_each(&at->calls, end_with_channel);
}

/* ---- events ---- */

/* A reply's bytes may come only for a call that this side made; for one that ended they are nobody's. */
static SEALANE_RESULT call_of(struct sl_client_lane *at, uint64_t id, struct sealane_call **call_p)
{
    struct sealane_call *call = sl_table_find(&at->calls, id);

    if (!call && (id == 0 || id > at->last_id))
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "the server speaks of call %llu, the last one made was %llu",
                       (unsigned long long)id, (unsigned long long)at->last_id);
    *call_p = call && !call->decided ? call : NULL;
    return SEALANE_OK;
}

static void finish_if_whole(struct sealane_call *call)
{
    if (!call->end_seen || !sl_intake_is_whole(&call->intake) ||
        !sl_call_decide(call, SEALANE_OK, ""))
        return;
    sl_call_stop(call);
    settle(call);
}

/* What the server said wrongly is not the caller's INVALID_ARGUMENT. */
static void fail_to_read(struct sealane_call *call)
{
    if (sealane_last_error()->status == SEALANE_INVALID_ARGUMENT)
        (void)SL_FAIL(SEALANE_INTERNAL, "the reply of %s cannot be read: %s", call->method->path,
                      sealane_last_error()->message);
    fail_with_last_error(call);
}

static SEALANE_RESULT reply_open(struct sealane_call *call, const struct sl_message_bytes *whole)
{
    struct sl_head head;

    SL_TRY(sl_head_parse(whole->at, whole->count, &head)); /* a lie: the lane's end */
    if (head.path_bytes != 0 || head.timeout_ns != 0)
        return SL_FAIL(SEALANE_DATA_LOSS, "a reply's head has a path of %u bytes and %llu ns",
                       head.path_bytes, (unsigned long long)head.timeout_ns);
    if (sl_intake_open(call, &head, whole->at, call->method->reply) != SEALANE_OK)
        fail_to_read(call);
    else
        finish_if_whole(call);
    return SEALANE_OK;
}

static SEALANE_RESULT take_message(struct sealane_call *call, const struct sl_lane_event *event)
{
    struct sl_message_bytes whole;
    enum sl_took took;

    SL_TRY(sl_intake_take(call, event, &took, &whole));
    if (event->flags & SL_MESSAGE_END)
        call->end_seen = true;
    if (took == SL_TOOK_TOO_MUCH)
        fail_with_last_error(call);
    return took == SL_TOOK_ALL ? reply_open(call, &whole) : SEALANE_OK;
}

static void take_status(struct sealane_call *call, const struct sl_lane_event *event)
{
    char text[SL_STATUS_TEXT_MAX + 1];

    if (event->status == SEALANE_OK && !call->intake.message) {
        sl_client_fail(call, SEALANE_INTERNAL, "the server ended the call with OK and no reply");
        return;
    }
    if (event->status == SEALANE_OK) {
        call->end_seen = true;
        finish_if_whole(call);
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)event->count, (const char *)event->bytes);
    if (sl_call_decide(call, event->status, text)) {
        sl_call_stop(call);
        settle(call);
    }
}

static void take_filled(struct sl_client_lane *at, const struct sl_lane_event *event)
{
    struct sealane_call *call = sl_table_find(&at->calls, event->call);

    if (!call)
        return;
    sl_intake_filled(call, event);
    if (call->decided)
        settle(call); /* it ended while memory was being filled */
    else
        finish_if_whole(call);
}

static void take_sent(const struct sl_lane_event *event)
{
    struct sealane_call *call =
        (struct sealane_call *)(void *)((char *)event->send - offsetof(struct sealane_call, send));

    call->sending = false;
    settle(call);
}

static SEALANE_RESULT call_event(struct sl_client_lane *at, struct sl_lane_event *event)
{
    struct sealane_call *call = NULL;

    SL_TRY(call_of(at, event->call, &call));
    if (!call)
        return SEALANE_OK;
    switch (event->kind) {
    case SL_LANE_MESSAGE:
        return take_message(call, event);
    case SL_LANE_PLACE:
        return sl_intake_place(call, event);
    case SL_LANE_STATUS:
        take_status(call, event);
        return SEALANE_OK;
    default:
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "the server cancelled call %llu, which only a client does",
                       (unsigned long long)event->call);
    }
}

SEALANE_RESULT sl_client_event(struct sl_client_lane *at, struct sl_lane_event *event)
{
    switch (event->kind) {
    case SL_LANE_FILLED:
        take_filled(at, event);
        return SEALANE_OK;
    case SL_LANE_SENT:
        take_sent(event);
        return SEALANE_OK;
    default:
        return call_event(at, event);
    }
}

/* ---- the door's calls ---- */

static SEALANE_RESULT call_make(struct sealane_channel *channel,
                                const struct sealane_method *method,
                                const ProtobufCMessage *request,
                                const struct sealane_call_options *options,
                                struct sealane_call **call_p)
{
    uint64_t timeout_ns = options ? (uint64_t)options->timeout_ms * 1000000 : 0;
    struct sl_pack_options pack = {.method = method->path,
                                   .timeout_ns = timeout_ns,
                                   .max_message_bytes = channel->gate->limits.max_message_bytes};
    struct sealane_call *call;
    enum sealane_status status;

    SL_TRY(sl_check_type(request, method->request));
    call = sl_call_new(channel->gate);
    if (!call)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a call");
    call->channel = channel;
    call->method = method;
    call->deadline_ns = sl_deadline_of(channel->node, timeout_ns);
    status = sl_codec_pack(&call->arena, request, &pack, &call->packed);
    if (status != SEALANE_OK) {
        sl_call_leave(call);
        return status;
    }
    *call_p = call;
    return SEALANE_OK;
}

SEALANE_RESULT sealane_unary_start(struct sealane_channel *channel,
                                   const struct sealane_method *method,
                                   const ProtobufCMessage *request,
                                   const struct sealane_call_options *options,
                                   const struct sealane_completion *completion,
                                   struct sealane_call **call_p)
{
    struct sealane_call *call;
    enum sealane_status status;

    SL_TRY(call_make(channel, method, request, options, &call));
    call->completion = *completion;
    if (call_p)
        *call_p = call; /* before it starts: done may run on another thread at once */
    status = launch_anywhere(call);
    if (status == SEALANE_OK)
        return SEALANE_OK;
    if (call_p)
        *call_p = NULL;
    sl_call_leave(call);
    return status;
}

SEALANE_RESULT sealane_unary_call(struct sealane_channel *channel,
                                  const struct sealane_method *method,
                                  const ProtobufCMessage *request,
                                  const struct sealane_call_options *options,
                                  const ProtobufCMessage **reply_p, struct sealane_call **call_p)
{
    struct sealane_node *node = channel->node;
    struct sealane_call *call;
    struct sl_wait wait;
    enum sealane_status status;

    *reply_p = NULL;
    *call_p = NULL;
    SL_TRY(sl_channel_refuse_inside(node));
    SL_TRY(call_make(channel, method, request, options, &call));
    sl_wait_init(&wait);
    call->wait = &wait;
    sl_call_hold(call); /* the caller's */
    status = launch_anywhere(call);
    if (status != SEALANE_OK) {
        sl_call_leave(call);
        sl_call_leave(call);
        return status;
    }
    sl_wait_for(node, &wait);
    if (call->status != SEALANE_OK) {
        status = SL_FAIL(call->status, "%s", call->text);
        sl_call_leave(call);
        return status;
    }
    *reply_p = call->intake.message;
    *call_p = call;
    return SEALANE_OK;
}

static void cancel_post(struct sl_post *post)
{
    struct sealane_call *call =
        (struct sealane_call *)(void *)((char *)post - offsetof(struct sealane_call, cancel));

    if (call->channel && call->gate->node)
        sl_client_fail(call, SEALANE_CANCELLED, "cancelled by the caller");
    sl_call_leave(call);
}

void sealane_call_cancel(struct sealane_call *call)
{
    if (atomic_exchange(&call->cancelled, true))
        return;
    call->cancel.run = cancel_post;
    sl_call_hold(call); /* the post's */
    if (!sl_gate_post(call->gate, &call->cancel))
        sl_call_leave(call);
}
