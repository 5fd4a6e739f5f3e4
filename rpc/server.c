/* SPDX-License-Identifier: Apache-2.0 */
/* server.c - the server's end: services, lanes that came, and the calls on them. */
#include "rpc/call.h"
#include "transport/route.h"

#include "transport/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct service {
    struct service *next;
    const struct sealane_service *service;
    struct sealane_handler *handlers;
    void *user;
};

struct listening {
    struct listening *next;
    struct sl_listener *listeners; /* a chain: all addresses of a name, and their twins */
};

struct sl_server_lane {
    struct sl_server_lane *prev, *next;
    struct sealane_server *server;
    struct sl_lane *lane;
    struct sl_call_table calls;
    uint64_t highest_id;
    bool down; /* CLOSED came */
    enum sealane_status down_status;
    char down_why[SL_STATUS_TEXT_MAX + 1];
};

struct sealane_server {
    struct sl_child child;
    struct sl_gate *gate;
    struct sealane_node *node;
    struct sl_lane_options lane_options;
    struct service *services;
    struct listening *listening; /* in the order of listen calls */
    char *link;
    struct sl_server_lane *lanes;
    sealane_server_lane_function *on_lane;
    void *on_lane_user;
};

/* ---- a call's end ---- */

/* Lets the node's side go once nothing is borrowed and the handler has answered: until then the call counts among max_calls,
 * or a client that gives calls up as fast as it makes them could have any number of handlers at work. */
static void settle(struct sealane_call *call)
{
    if (!call->decided || !sl_call_is_free(call) || !call->peer)
        return;
    if (call->phase == SL_PHASE_RUNNING && !call->peer->down)
        return;
    sl_table_remove(&call->peer->calls, call);
    call->peer = NULL;
    call->lane = NULL;
    sl_call_leave(call);
}

/* The call is over for the client; a handler that has it will still answer, to nobody. */
static void over(struct sealane_call *call, enum sealane_status status, const char *text)
{
    if (!sl_call_decide(call, status, text))
        return;
    atomic_store(&call->over, true);
    sl_call_stop(call);
    settle(call);
}

void sl_server_fail(struct sealane_call *call, enum sealane_status status, const char *text)
{
    if (!call->decided && sl_lane_status(call->lane, call->id, status, text) != SEALANE_OK)
        SL_LOG(SL_LOG_DEBUG, "call %llu ends on a lane that ends too",
               (unsigned long long)call->id);
    over(call, status, text);
}

static void fail_with_last_error(struct sealane_call *call)
{
    sl_server_fail(call, sealane_last_error()->status, sealane_last_error()->message);
}

static void call_late(struct sl_timer *timer)
{
    sl_server_fail(sl_call_of_timer(timer), SEALANE_DEADLINE_EXCEEDED,
                   "the deadline passed before the handler answered");
}

/* ---- answering ---- */

/* On the node's thread: sends what the handler said, unless nobody waits for it any more. */
static void answer(struct sealane_call *call)
{
    call->phase = SL_PHASE_ANSWERED;
    if (call->peer && !call->decided) {
        if (call->answer_status != SEALANE_OK)
            sl_server_fail(call, call->answer_status, call->answer_text);
        else if (sl_call_send(call, SL_MESSAGE_END) != SEALANE_OK)
            over(call, SEALANE_UNAVAILABLE, "the lane ended");
    } else {
        settle(call);
    }
    sl_call_leave(call); /* the handler's */
}

static void answer_post(struct sl_post *post)
{
    answer((struct sealane_call *)(void *)((char *)post - offsetof(struct sealane_call, post)));
}

static void answer_anywhere(struct sealane_call *call)
{
    struct sl_gate *gate = call->gate;

    sl_gate_hold(gate); /* the call may be gone before the post returns */
    call->post.run = answer_post;
    if (!sl_gate_post_or_run(gate, &call->post))
        sl_call_leave(call); /* the server has ended: nobody to tell */
    sl_gate_leave(gate);
}

/* True the first time. */
static bool answer_once(struct sealane_call *call)
{
    if (!atomic_exchange(&call->answered, true))
        return true;
    SL_LOG(SL_LOG_ERROR, "call %llu was answered twice; the first answer counts",
           (unsigned long long)call->id);
    return false;
}

/* Into the arena, which is the handler's until it has answered. */
static void answer_say(struct sealane_call *call, enum sealane_status status, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = sl_call_arena_alloc(&call->arena, bytes);

    if (copy)
        memcpy(copy, text, bytes);
    call->answer_status = status;
    call->answer_text = copy ? copy : "";
}

SEALANE_RESULT sealane_call_reply(struct sealane_call *call, const ProtobufCMessage *reply)
{
    struct sl_pack_options pack = {.max_message_bytes = call->gate->limits.max_message_bytes};
    enum sealane_status status;

    if (!answer_once(call))
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the call was answered before");
    status = sl_check_type(reply, call->reply_type);
    if (status == SEALANE_OK)
        status = sl_codec_pack(&call->arena, reply, &pack, &call->packed);
    if (status != SEALANE_OK)
        answer_say(call, status, sealane_last_error()->message);
    answer_anywhere(call);
    return status;
}

void sealane_call_fail(struct sealane_call *call, enum sealane_status status, const char *format,
                       ...)
{
    char text[SL_STATUS_TEXT_MAX + 8]; /* the lane cuts it at a character */
    va_list args;

    if (!answer_once(call))
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (status <= SEALANE_OK ||
        status > SEALANE_UNAUTHENTICATED) { /* no such failure: the peer would not take it */
        SL_LOG(SL_LOG_ERROR,
               "a call failed with status %d, which is none of 1 to %d: UNKNOWN is sent",
               (int)status, SEALANE_UNAUTHENTICATED);
        status = SEALANE_UNKNOWN;
    }
    answer_say(call, status, text);
    answer_anywhere(call);
}

void sealane_call_on_end(struct sealane_call *call, void (*function)(void *user), void *user)
{
    call->on_end = function;
    call->on_end_user = user;
}

bool sealane_call_is_over(const struct sealane_call *call)
{
    return atomic_load(&call->over);
}

/* ---- a call's way in ---- */

/* "/package.Service/Method" */
static const struct sealane_method *method_find(const struct sealane_server *server,
                                                const struct sl_head *head,
                                                struct sealane_call *call)
{
    for (const struct service *s = server->services; s; s = s->next) {
        size_t name = strlen(s->service->name);

        if (head->path_bytes < name + 2 || head->path[0] != '/' ||
            memcmp(head->path + 1, s->service->name, name) != 0 || head->path[name + 1] != '/')
            continue;
        for (size_t m = 0; m < s->service->method_count; m++) {
            const struct sealane_method *method = &s->service->methods[m];

            if (strlen(method->path) != head->path_bytes ||
                memcmp(method->path, head->path, head->path_bytes) != 0)
                continue;
            call->invoke = s->handlers[m].invoke;
            call->function = s->handlers[m].function;
            call->user = s->user;
            call->reply_type = method->reply;
            return call->function ? method : NULL;
        }
    }
    return NULL;
}

static void run_if_whole(struct sealane_call *call)
{
    if (call->decided || call->phase != SL_PHASE_ARRIVING || !sl_intake_is_whole(&call->intake))
        return;
    call->phase = SL_PHASE_RUNNING;
    sl_call_hold(call); /* the handler's */
    call->invoke(call, call->intake.message, call->function, call->user);
}

static void request_open(struct sealane_call *call, const struct sl_server_lane *peer,
                         struct sl_head *head, const uint8_t *bytes)
{
    enum sealane_status status;

    call->method = method_find(peer->server, head, call);
    if (!call->method) {
        (void)SL_FAIL(SEALANE_UNIMPLEMENTED, "no method %.*s here",
                      (int)(head->path_bytes < 300 ? head->path_bytes : 300), head->path);
        fail_with_last_error(call);
        return;
    }
    call->deadline_ns = sl_deadline_of(peer->server->node, head->timeout_ns);
    status = sl_call_watch(call, call_late);
    if (status == SEALANE_OK)
        status = sl_intake_open(call, head, bytes, call->method->request);
    if (status != SEALANE_OK)
        fail_with_last_error(call);
    else
        run_if_whole(call);
}

static SEALANE_RESULT take_pieces(struct sl_server_lane *peer, struct sealane_call *call,
                                  const struct sl_lane_event *event)
{
    struct sl_message_bytes whole;
    struct sl_head head;
    enum sl_took took;

    SL_TRY(sl_intake_take(call, event, &took, &whole));
    if (took == SL_TOOK_TOO_MUCH)
        fail_with_last_error(call);
    if (took != SL_TOOK_ALL)
        return SEALANE_OK;
    SL_TRY(sl_head_parse(whole.at, whole.count, &head));
    request_open(call, peer, &head, whole.at);
    return SEALANE_OK;
}

static SEALANE_RESULT call_begin(struct sl_server_lane *peer, const struct sl_lane_event *event)
{
    struct sealane_server *server = peer->server;
    struct sealane_call *call;
    char text[128];

    if (event->call <= peer->highest_id)
        return SL_FAIL(SEALANE_DATA_LOSS, "the client began call %llu after call %llu",
                       (unsigned long long)event->call, (unsigned long long)peer->highest_id);
    peer->highest_id = event->call;
    if (peer->calls.count >= server->gate->limits.max_calls) {
        (void)snprintf(text, sizeof(text), "the lane has %u calls already, the server's max_calls",
                       peer->calls.count);
        return sl_lane_status(peer->lane, event->call, SEALANE_RESOURCE_EXHAUSTED, text);
    }
    call = sl_call_new(server->gate);
    if (!call)
        return sl_lane_status(peer->lane, event->call, SEALANE_RESOURCE_EXHAUSTED,
                              "the server has no memory for a call");
    call->peer = peer;
    call->lane = peer->lane;
    call->id = event->call;
    sl_lane_security(peer->lane, &call->security);
    sl_table_add(&peer->calls, call);
    return take_pieces(peer, call, event);
}

/* ---- lane events ---- */

static SEALANE_RESULT call_event(struct sl_server_lane *peer, struct sl_lane_event *event)
{
    struct sealane_call *call = sl_table_find(&peer->calls, event->call);

    if (event->kind == SL_LANE_MESSAGE && (event->flags & SL_MESSAGE_FIRST))
        return call_begin(peer, event);
    if (!call && (event->call == 0 || event->call > peer->highest_id))
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "the client speaks of call %llu, the last one begun was %llu",
                       (unsigned long long)event->call, (unsigned long long)peer->highest_id);
    if (!call || call->decided)
        return SEALANE_OK; /* ended: nobody's any more */
    switch (event->kind) {
    case SL_LANE_MESSAGE:
        return take_pieces(peer, call, event);
    case SL_LANE_PLACE:
        return sl_intake_place(call, event);
    case SL_LANE_CANCEL:
        over(call, event->status, "the client gave the call up");
        return SEALANE_OK;
    default:
        return SL_FAIL(SEALANE_DATA_LOSS,
                       "the client ended call %llu with a status, which only a server does",
                       (unsigned long long)event->call);
    }
}

static SEALANE_RESULT take_filled(struct sl_server_lane *peer, const struct sl_lane_event *event)
{
    struct sealane_call *call = sl_table_find(&peer->calls, event->call);

    if (!call)
        return SEALANE_OK;
    sl_intake_filled(call, event);
    if (call->decided)
        settle(call);
    else
        run_if_whole(call);
    return SEALANE_OK;
}

static void take_sent(const struct sl_lane_event *event)
{
    struct sealane_call *call =
        (struct sealane_call *)(void *)((char *)event->send - offsetof(struct sealane_call, send));

    call->sending = false;
    if (sl_call_decide(call, SEALANE_OK, ""))
        sl_call_stop(call);
    settle(call);
}

static void tell_lane(struct sealane_server *server, const struct sl_lane *lane, bool up,
                      const char *why)
{
    struct sealane_security security;

    if (!server->on_lane)
        return;
    sl_lane_security(lane, &security);
    server->on_lane(server->on_lane_user, &security, up, why);
}

static SEALANE_RESULT lane_up(struct sealane_server *server, struct sl_lane *lane)
{
    struct sl_server_lane *peer = calloc(1, sizeof(*peer));

    enum sealane_status status =
        peer ? sl_table_init(&peer->calls)
             : SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a lane's calls");

    if (status != SEALANE_OK) {
        free(peer);
        return status;
    }
    peer->server = server;
    peer->lane = lane;
    peer->next = server->lanes;
    if (server->lanes)
        server->lanes->prev = peer;
    server->lanes = peer;
    sl_lane_set_user(lane, peer);
    tell_lane(server, lane, true, "");
    return SEALANE_OK;
}

static void end_with_lane(struct sealane_call *call)
{
    const struct sl_server_lane *peer = call->peer;

    call->sending = false;
    call->intake.placing = 0;
    if (call->decided)
        settle(call);
    else
        over(call, peer->down_status, peer->down_why);
}

static void lane_down(struct sl_server_lane *peer, const struct sl_lane_event *event)
{
    struct sealane_server *server = peer->server;

    peer->down = true;
    peer->down_status = event->status;
    (void)snprintf(peer->down_why, sizeof(peer->down_why), "%.*s", (int)event->count,
                   (const char *)event->bytes);
    sl_table_each(&peer->calls, end_with_lane);
    if (peer->prev)
        peer->prev->next = peer->next;
    else
        server->lanes = peer->next;
    if (peer->next)
        peer->next->prev = peer->prev;
    tell_lane(server, peer->lane, false, peer->down_why);
    free(peer);
}

static enum sealane_status server_event(void *owner, struct sl_lane *lane,
                                        struct sl_lane_event *event)
{
    struct sl_server_lane *peer = sl_lane_user(lane);

    switch (event->kind) {
    case SL_LANE_READY:
        return lane_up(owner, lane);
    case SL_LANE_CLOSED:
        if (peer)
            lane_down(peer, event);
        return SEALANE_OK;
    case SL_LANE_FILLED:
        return take_filled(peer, event);
    case SL_LANE_SENT:
        take_sent(event);
        return SEALANE_OK;
    default:
        return call_event(peer, event);
    }
}

/* ---- making and ending ---- */

static void services_free(struct sealane_server *server)
{
    while (server->services) {
        struct service *next = server->services->next;

        free(server->services->handlers);
        free(server->services);
        server->services = next;
    }
}

static void server_end(struct sl_child *child)
{
    struct sealane_server *server =
        (struct sealane_server *)(void *)((char *)child - offsetof(struct sealane_server, child));

    while (server->listening) {
        struct listening *next = server->listening->next;

        sl_route_unlisten(server->listening->listeners); /* tells CLOSED of every lane */
        free(server->listening);
        server->listening = next;
    }
    sl_gate_close(server->gate);
    services_free(server);
    sl_gate_leave(server->gate);
    free(server->link);
    free(server);
}

static enum sealane_status end_now(void *argument)
{
    struct sealane_server *server = argument;

    sl_node_disown(server->node, &server->child);
    server_end(&server->child);
    return SEALANE_OK;
}

void sealane_server_free(struct sealane_server *server)
{
    struct sl_gate *gate;

    if (!server)
        return;
    if (sl_node_is_inside(server->node)) {
        SL_LOG(SL_LOG_ERROR,
               "sealane_server_free inside a handler or callback of its node does nothing");
        return;
    }
    gate = server->gate;
    sl_gate_hold(gate);
    if (sl_run_inside(gate, server->node, end_now, server) != SEALANE_OK)
        SL_LOG(SL_LOG_ERROR, "a server was freed twice");
    sl_gate_leave(gate);
}

static enum sealane_status adopt(void *argument)
{
    struct sealane_server *server = argument;

    sl_node_adopt(server->node, &server->child);
    return SEALANE_OK;
}

static void options_take(struct sealane_server *server,
                         const struct sealane_server_options *options)
{
    server->lane_options = (struct sl_lane_options){
        .credentials = options->credentials,
        .on_event = server_event,
        .owner = server,
        .bulk_chunk_bytes = options->small_rings ? 16384 : 0,
        .bulk_slots = options->small_rings ? 16 : 0,
        .message_slots = options->small_rings ? 16 : 0,
        .epoch_shift = options->epoch_shift,
        .max_calls = options->max_calls,
        .handshake_timeout_ms = options->handshake_timeout_ms,
        .dead_after_ms = options->dead_after_ms,
    };
}

SEALANE_RESULT sealane_server_new(struct sealane_node *node,
                                  const struct sealane_server_options *options,
                                  struct sealane_server **server_p)
{
    struct sl_limits limits = {options ? options->max_message_bytes : 0,
                               options ? options->max_tensor_bytes : 0,
                               options ? options->tensor_memory_bytes : 0,
                               options ? options->max_calls : 0};
    struct sealane_server *server;
    enum sealane_status status;

    if (!node || !options || !options->credentials)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a server needs a node and credentials");
    server = calloc(1, sizeof(*server));
    if (!server)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a server");
    server->node = node;
    server->child.end = server_end;
    options_take(server, options);
    server->link = strdup(options->link ? options->link : "");
    status = server->link ? sl_gate_new(node, &limits, &server->gate)
                          : SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a server");
    if (status == SEALANE_OK)
        status = sl_run_there(server->gate, node, adopt, server);
    if (status != SEALANE_OK) {
        if (server->gate)
            sl_gate_leave(server->gate);
        free(server->link);
        free(server);
        return status;
    }
    *server_p = server;
    return SEALANE_OK;
}

struct adding {
    struct sealane_server *server;
    struct service *service;
};

static enum sealane_status add(void *argument)
{
    const struct adding *adding = argument;
    const char *name = adding->service->service->name;

    for (const struct service *s = adding->server->services; s; s = s->next) {
        if (strcmp(s->service->name, name) == 0)
            return SL_FAIL(SEALANE_ALREADY_EXISTS, "the server has a service %s already", name);
    }
    adding->service->next = adding->server->services;
    adding->server->services = adding->service;
    return SEALANE_OK;
}

SEALANE_RESULT sealane_server_add(struct sealane_server *server,
                                  const struct sealane_service *service,
                                  const struct sealane_handler *handlers, void *user)
{
    size_t bytes = (service->method_count + 1) * sizeof(*handlers);
    struct adding adding = {server, calloc(1, sizeof(*adding.service))};
    enum sealane_status status;

    if (!adding.service || !(adding.service->handlers = malloc(bytes))) {
        free(adding.service);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a service");
    }
    memcpy(adding.service->handlers, handlers, service->method_count * sizeof(*handlers));
    adding.service->service = service;
    adding.service->user = user;
    status = sl_run_there(server->gate, server->node, add, &adding);
    if (status != SEALANE_OK) {
        free(adding.service->handlers);
        free(adding.service);
    }
    return status;
}

struct listen_errand {
    struct sealane_server *server;
    struct sl_route *route;
};

static enum sealane_status listen_now(void *argument)
{
    const struct listen_errand *errand = argument;
    struct listening **at = &errand->server->listening;
    struct listening *listening = calloc(1, sizeof(*listening));
    enum sealane_status status;

    if (!listening)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory to listen");
    status = sl_route_listen(errand->route, &errand->server->lane_options, &listening->listeners);
    if (status != SEALANE_OK) {
        free(listening);
        return status;
    }
    while (*at)
        at = &(*at)->next;
    *at = listening;
    return SEALANE_OK;
}

SEALANE_RESULT sealane_server_listen(struct sealane_server *server, const char *address)
{
    const struct sl_route_wish wish = {.target = address, .link = server->link, .listening = true};
    struct listen_errand errand = {.server = server};
    enum sealane_status status;

    SL_TRY(sl_route_find_now(server->node, &wish, &errand.route));
    status = sl_run_there(server->gate, server->node, listen_now, &errand);
    sl_route_free(errand.route);
    return status;
}

struct address_errand {
    struct sealane_server *server;
    size_t index;
    char *address;
    size_t bytes;
};

static enum sealane_status address_now(void *argument)
{
    const struct address_errand *errand = argument;
    const struct listening *at = errand->server->listening;
    size_t left = errand->index;

    while (at && left > 0) {
        at = at->next;
        left--;
    }
    if (!at)
        return SL_FAIL(SEALANE_OUT_OF_RANGE, "the server has no address number %zu", errand->index);
    if (snprintf(errand->address, errand->bytes, "%s", sl_listener_address(at->listeners)) >=
        (int)errand->bytes)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "%zu bytes are too few for the address %s",
                       errand->bytes, sl_listener_address(at->listeners));
    return SEALANE_OK;
}

SEALANE_RESULT sealane_server_address(struct sealane_server *server, size_t index, char *address,
                                      size_t bytes)
{
    struct address_errand errand = {server, index, address, bytes};

    return sl_run_there(server->gate, server->node, address_now, &errand);
}

struct on_lane_errand {
    struct sealane_server *server;
    sealane_server_lane_function *function;
    void *user;
};

static enum sealane_status on_lane_now(void *argument)
{
    const struct on_lane_errand *errand = argument;

    errand->server->on_lane = errand->function;
    errand->server->on_lane_user = errand->user;
    return SEALANE_OK;
}

void sealane_server_on_lane(struct sealane_server *server, sealane_server_lane_function *function,
                            void *user)
{
    struct on_lane_errand errand = {server, function, user};

    if (sl_run_there(server->gate, server->node, on_lane_now, &errand) != SEALANE_OK)
        SL_LOG(SL_LOG_ERROR, "a server that has ended tells of no lanes");
}
