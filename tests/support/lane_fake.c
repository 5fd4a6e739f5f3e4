/* SPDX-License-Identifier: Apache-2.0 */
/* lane_fake.c - nodes and lanes in memory. What a real lane promises in lane.h is kept here too: whoever breaks its rules (sends twice,
 * frees what is borrowed) is stopped by an abort or by AddressSanitizer. */
#include "tests/support/lane_fake.h"

#include "transport/link.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A control record on its way to the peer. */
struct item {
    struct item *next;
    enum sl_lane_event_kind kind; /* SL_LANE_READY stands for ALLOW, which is no event */
    uint64_t call;
    enum sealane_status status;
    char text[SL_STATUS_TEXT_MAX + 1];
};

struct sl_lane {
    struct sl_lane *next;
    struct sealane_node *node;
    struct sl_lane_options options;
    struct fake_settings settings;
    void *user;
    struct sl_lane *peer; /* joined */
    bool up, closing, listeners;
    enum sealane_status close_status;
    char close_why[SL_STATUS_TEXT_MAX + 1];
    struct item *items, **items_end;
    struct sl_send *first, *last;
};

struct sl_listener {
    char address[SL_ADDRESS_BYTES];
    struct sealane_node *node;
    struct sl_lane_options options;
};

struct sealane_node {
    pthread_mutex_t lock;
    bool polled, inside, joined;
    pthread_t here;
    uint64_t now_ns;
    struct fake_settings settings;
    struct sl_post *posts, **posts_end;
    struct sl_timers timers;
    struct sl_child *children;
    struct sl_lane *lanes;
    struct sl_listener *listener;
    struct fake_act *acts;
    size_t act_count, act_room;
};

static void broken(const char *what)
{
    (void)fprintf(stderr, "lane_fake: %s\n", what);
    abort();
}

static struct fake_act *did(struct sealane_node *node, enum fake_act_kind kind,
                            struct sl_lane *lane, uint64_t call)
{
    struct fake_act *act;

    if (node->act_count == node->act_room) {
        node->act_room = node->act_room ? node->act_room * 2 : 16;
        node->acts = realloc(node->acts, node->act_room * sizeof(*node->acts));
    }
    act = &node->acts[node->act_count++];
    *act = (struct fake_act){.kind = kind, .lane = lane, .call = call};
    return act;
}

/* ---- node.h ---- */

struct sealane_node *fake_node_new(bool polled)
{
    struct sealane_node *node = calloc(1, sizeof(*node));
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)pthread_mutex_init(&node->lock, NULL);
    node->polled = polled;
    node->here = pthread_self();
    node->now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    node->settings = (struct fake_settings){.eager_bytes = 262144,
                                            .peer_max_calls = 4096,
                                            .fragment_bytes = 8000,
                                            .chunk_bytes = 65536};
    node->posts_end = &node->posts;
    return node;
}

struct fake_settings *fake_settings(struct sealane_node *node)
{
    return &node->settings;
}

void fake_advance(struct sealane_node *node, uint64_t ms)
{
    node->now_ns += ms * 1000000;
}

uint64_t sl_node_now(const struct sealane_node *node)
{
    return node->now_ns;
}

bool sl_node_is_here(const struct sealane_node *node)
{
    return pthread_equal(node->here, pthread_self()) != 0;
}

bool sl_node_is_inside(const struct sealane_node *node)
{
    return sl_node_is_here(node) && node->inside;
}

bool sl_node_is_polled(const struct sealane_node *node)
{
    return node->polled;
}

void sl_node_post(struct sealane_node *node, struct sl_post *post)
{
    (void)pthread_mutex_lock(&node->lock);
    post->next = NULL;
    *node->posts_end = post;
    node->posts_end = &post->next;
    (void)pthread_mutex_unlock(&node->lock);
}

static struct sl_post *post_take(struct sealane_node *node)
{
    struct sl_post *post;

    (void)pthread_mutex_lock(&node->lock);
    post = node->posts;
    if (post)
        node->posts = post->next;
    if (!node->posts)
        node->posts_end = &node->posts;
    (void)pthread_mutex_unlock(&node->lock);
    return post;
}

SEALANE_RESULT sl_timer_start(struct sealane_node *node, struct sl_timer *timer, uint64_t at_ns)
{
    return sl_timers_start(&node->timers, timer, at_ns);
}

void sl_timer_stop(struct sealane_node *node, struct sl_timer *timer)
{
    sl_timers_stop(&node->timers, timer);
}

void sl_node_adopt(struct sealane_node *node, struct sl_child *child)
{
    child->prev = NULL;
    child->next = node->children;
    if (node->children)
        node->children->prev = child;
    node->children = child;
}

void sl_node_disown(struct sealane_node *node, struct sl_child *child)
{
    if (child->prev)
        child->prev->next = child->next;
    else
        node->children = child->next;
    if (child->next)
        child->next->prev = child->prev;
}

/* ---- lanes ---- */

static struct sl_lane *lane_new(struct sealane_node *node, const struct sl_lane_options *options)
{
    struct sl_lane *lane = calloc(1, sizeof(*lane));

    lane->node = node;
    lane->options = *options;
    lane->settings = node->settings;
    lane->items_end = &lane->items;
    lane->next = node->lanes;
    node->lanes = lane;
    return lane;
}

static bool handles(const char *address)
{
    return strncmp(address, "unix", 4) == 0;
}

const struct sl_link_ops *const *sl_node_links(const struct sealane_node *node)
{
    static const struct sl_link_ops carrier = {.name = "local", .handles = handles};
    static const struct sl_link_ops *const links[] = {&carrier, NULL};

    (void)node;
    return links;
}

const char *sl_listener_address(const struct sl_listener *listener)
{
    return listener->address;
}

struct sl_listener *sl_listener_next(const struct sl_listener *listener)
{
    (void)listener;
    return NULL;
}

void sl_listener_chain(struct sl_listener *listener, struct sl_listener *next)
{
    (void)listener;
    (void)next;
    broken("a target of the fake has one address");
}

SEALANE_RESULT sl_node_connect(struct sealane_node *node, const char *address,
                               const struct sl_lane_options *options, struct sl_lane **lane_p)
{
    (void)address;
    if (node->settings.refuse_connect) {
        (void)did(node, FAKE_CONNECT, NULL, 0);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "the fake has no descriptors left");
    }
    *lane_p = lane_new(node, options);
    (void)did(node, FAKE_CONNECT, *lane_p, 0);
    return SEALANE_OK;
}

SEALANE_RESULT sl_node_listen(struct sealane_node *node, const char *address,
                              const struct sl_lane_options *options,
                              struct sl_listener **listener_p)
{
    node->listener = calloc(1, sizeof(*node->listener));
    *node->listener = (struct sl_listener){.node = node, .options = *options};
    (void)snprintf(node->listener->address, sizeof(node->listener->address), "%s", address);
    *listener_p = node->listener;
    return SEALANE_OK;
}

static void lane_end(struct sl_lane *lane)
{
    struct sl_lane **at = &lane->node->lanes;
    struct sl_lane_event event = {.kind = SL_LANE_CLOSED,
                                  .status = lane->close_status,
                                  .bytes = (const uint8_t *)lane->close_why,
                                  .count = strlen(lane->close_why)};

    while (*at != lane)
        at = &(*at)->next;
    *at = lane->next;
    if (lane->peer) {
        lane->peer->peer = NULL;
        sl_lane_close(lane->peer, SEALANE_UNAVAILABLE, "the peer is gone");
    }
    for (struct sl_send *send = lane->first; send; send = send->next)
        send->state = 0; /* reads it: what was freed shows */
    if (lane->options.on_event(lane->options.owner, lane, &event) != SEALANE_OK)
        broken("CLOSED was refused");
    while (lane->items) {
        struct item *next = lane->items->next;
        free(lane->items);
        lane->items = next;
    }
    free(lane);
}

void sl_node_unlisten(struct sl_listener *listener)
{
    struct sealane_node *node = listener->node;

    for (struct sl_lane *lane = node->lanes, *next; lane; lane = next) {
        next = lane->next;
        if (!lane->listeners)
            continue;
        sl_lane_close(lane, SEALANE_UNAVAILABLE, "the server ends");
        lane_end(lane);
        next = node->lanes; /* its end may have changed the list */
    }
    node->listener = NULL;
    free(listener);
}

/* ---- lane.h ---- */

void sl_lane_set_user(struct sl_lane *lane, void *user)
{
    lane->user = user;
}

void *sl_lane_user(const struct sl_lane *lane)
{
    return lane->user;
}

struct sealane_node *sl_lane_node(const struct sl_lane *lane)
{
    return lane->node;
}

uint32_t sl_lane_peer_max_calls(const struct sl_lane *lane)
{
    return lane->settings.peer_max_calls;
}

uint32_t sl_lane_eager_bytes(const struct sl_lane *lane)
{
    return lane->settings.eager_bytes;
}

void sl_lane_security(const struct sl_lane *lane, struct sealane_security *security_p)
{
    (void)lane;
    *security_p = (struct sealane_security){.peer = "dns:fake.test", .link = "fake"};
}

static bool holds(const struct sl_lane *lane, const struct sl_send *send)
{
    for (const struct sl_send *s = lane->first; s; s = s->next) {
        if (s == send)
            return true;
    }
    return false;
}

static void unhold(struct sl_lane *lane, struct sl_send *send)
{
    if (!holds(lane, send))
        broken("a send that the lane does not hold");
    if (send->prev)
        send->prev->next = send->next;
    else
        lane->first = send->next;
    if (send->next)
        send->next->prev = send->prev;
    else
        lane->last = send->prev;
    send->prev = send->next = NULL;
}

SEALANE_RESULT sl_lane_send(struct sl_lane *lane, struct sl_send *send)
{
    if (!lane->up || lane->closing || lane->settings.send_fails)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the lane is closing");
    if (holds(lane, send))
        broken("sent twice");
    did(lane->node, FAKE_SEND, lane, send->call)->send = send;
    send->sent = 0;
    send->allowed = false;
    send->next = NULL;
    send->prev = lane->last;
    if (lane->last)
        lane->last->next = send;
    else
        lane->first = send;
    lane->last = send;
    return SEALANE_OK;
}

bool sl_lane_abandon(struct sl_lane *lane, struct sl_send *send)
{
    struct fake_act *act = did(lane->node, FAKE_ABANDON, lane, send->call);

    if (lane->settings.abandon_says_no) {
        act->status = SEALANE_UNAVAILABLE;
        return false;
    }
    unhold(lane, send);
    return true;
}

static SEALANE_RESULT control(struct sl_lane *lane, enum sl_lane_event_kind kind, uint64_t call,
                              enum sealane_status status, const char *text)
{
    struct item *item;

    if (lane->closing)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION, "the lane is closing");
    item = calloc(1, sizeof(*item));
    item->kind = kind;
    item->call = call;
    item->status = status;
    (void)snprintf(item->text, sizeof(item->text), "%s", text);
    *lane->items_end = item;
    lane->items_end = &item->next;
    return SEALANE_OK;
}

SEALANE_RESULT sl_lane_allow(struct sl_lane *lane, uint64_t call)
{
    (void)did(lane->node, FAKE_ALLOW, lane, call);
    return control(lane, SL_LANE_READY, call, SEALANE_OK, "");
}

SEALANE_RESULT sl_lane_status(struct sl_lane *lane, uint64_t call, enum sealane_status status,
                              const char *text)
{
    struct fake_act *act = did(lane->node, FAKE_STATUS, lane, call);

    act->status = status;
    (void)snprintf(act->text, sizeof(act->text), "%s", text);
    return control(lane, SL_LANE_STATUS, call, status, act->text);
}

SEALANE_RESULT sl_lane_cancel(struct sl_lane *lane, uint64_t call, enum sealane_status why)
{
    did(lane->node, FAKE_CANCEL, lane, call)->status = why;
    return control(lane, SL_LANE_CANCEL, call, why, "");
}

void sl_lane_close(struct sl_lane *lane, enum sealane_status status, const char *why)
{
    struct fake_act *act;

    if (lane->closing)
        return;
    act = did(lane->node, FAKE_CLOSE, lane, 0);
    act->status = status;
    (void)snprintf(act->text, sizeof(act->text), "%s", why);
    lane->closing = true;
    lane->close_status = status;
    (void)snprintf(lane->close_why, sizeof(lane->close_why), "%s", why);
}

/* ---- by hand ---- */

struct sl_lane *fake_lane(struct sealane_node *node)
{
    return node->lanes;
}

enum sealane_status fake_tell(struct sl_lane *lane, struct sl_lane_event *event)
{
    bool was_inside = lane->node->inside;
    enum sealane_status status;

    lane->node->inside = true;
    status = lane->options.on_event(lane->options.owner, lane, event);
    lane->node->inside = was_inside;
    if (status != SEALANE_OK)
        sl_lane_close(lane, status, sealane_last_error()->message);
    return status;
}

enum sealane_status fake_ready(struct sl_lane *lane)
{
    lane->up = true;
    return fake_tell(lane, &(struct sl_lane_event){.kind = SL_LANE_READY});
}

struct sl_lane *fake_accept(struct sealane_node *node)
{
    struct sl_lane *lane;

    if (!node->listener)
        broken("nobody listens");
    lane = lane_new(node, &node->listener->options);
    lane->listeners = true;
    if (fake_ready(lane) != SEALANE_OK)
        broken("READY was refused");
    return lane;
}

/* Each piece comes in memory of its own size, so that reading past it shows. */
enum sealane_status fake_message(struct sl_lane *lane, uint64_t call, uint8_t flags,
                                 const void *bytes, size_t count)
{
    uint8_t *copy = malloc(count + (count == 0));
    struct sl_lane_event event = {
        .kind = SL_LANE_MESSAGE, .call = call, .flags = flags, .bytes = copy, .count = count};
    enum sealane_status status;

    memcpy(copy, bytes, count);
    status = fake_tell(lane, &event);
    free(copy);
    return status;
}

enum sealane_status fake_status(struct sl_lane *lane, uint64_t call, enum sealane_status status,
                                const char *text)
{
    return fake_tell(lane, &(struct sl_lane_event){.kind = SL_LANE_STATUS,
                                                   .call = call,
                                                   .status = status,
                                                   .bytes = (const uint8_t *)text,
                                                   .count = strlen(text)});
}

enum sealane_status fake_cancel(struct sl_lane *lane, uint64_t call, enum sealane_status why)
{
    return fake_tell(lane,
                     &(struct sl_lane_event){.kind = SL_LANE_CANCEL, .call = call, .status = why});
}

enum sealane_status fake_sent(struct sl_lane *lane, struct sl_send *send)
{
    unhold(lane, send);
    return fake_tell(
        lane, &(struct sl_lane_event){.kind = SL_LANE_SENT, .call = send->call, .send = send});
}

enum sealane_status fake_place(struct sl_lane *lane, uint64_t call, uint32_t part, uint64_t offset,
                               size_t count, void **place_p)
{
    struct sl_lane_event event = {
        .kind = SL_LANE_PLACE, .call = call, .part = part, .offset = offset, .count = count};
    enum sealane_status status = fake_tell(lane, &event);

    *place_p = event.place;
    return status;
}

enum sealane_status fake_filled(struct sl_lane *lane, uint64_t call, uint32_t part, uint64_t offset,
                                size_t count)
{
    return fake_tell(lane, &(struct sl_lane_event){.kind = SL_LANE_FILLED,
                                                   .call = call,
                                                   .part = part,
                                                   .offset = offset,
                                                   .count = count});
}

void fake_closed(struct sl_lane *lane, enum sealane_status status, const char *why)
{
    bool was_inside = lane->node->inside;
    struct sealane_node *node = lane->node;

    lane->closing = true;
    lane->close_status = status;
    (void)snprintf(lane->close_why, sizeof(lane->close_why), "%s", why);
    node->inside = true;
    lane_end(lane);
    node->inside = was_inside;
}

unsigned fake_did(const struct sealane_node *node, enum fake_act_kind kind)
{
    unsigned count = 0;

    for (size_t i = 0; i < node->act_count; i++)
        count += node->acts[i].kind == kind;
    return count;
}

const struct fake_act *fake_newest(const struct sealane_node *node, enum fake_act_kind kind)
{
    for (size_t i = node->act_count; i > 0; i--) {
        if (node->acts[i - 1].kind == kind)
            return &node->acts[i - 1];
    }
    return NULL;
}

unsigned fake_held(const struct sealane_node *node)
{
    unsigned count = 0;

    for (const struct sl_lane *lane = node->lanes; lane; lane = lane->next) {
        for (const struct sl_send *send = lane->first; send; send = send->next)
            count++;
    }
    return count;
}

/* ---- joined ---- */

void fake_join(struct sealane_node *node)
{
    node->joined = true;
}

/* Whatever was refused: fake_tell has closed the lane for it. */
static void carried(enum sealane_status status)
{
    (void)status;
}

static bool join_new(struct sealane_node *node)
{
    for (struct sl_lane *lane = node->lanes; lane; lane = lane->next) {
        if (lane->up || lane->closing || lane->listeners || !node->listener)
            continue;
        lane->peer = fake_accept(node);
        lane->peer->peer = lane;
        carried(fake_ready(lane));
        return true;
    }
    return false;
}

static void items_carry(struct sl_lane *lane)
{
    struct item *item;

    while ((item = lane->items) != NULL && lane->peer && !lane->peer->closing) {
        struct sl_lane_event event = {.kind = item->kind,
                                      .call = item->call,
                                      .status = item->status,
                                      .bytes = (const uint8_t *)item->text,
                                      .count = strlen(item->text)};

        lane->items = item->next;
        if (!lane->items)
            lane->items_end = &lane->items;
        if (item->kind != SL_LANE_READY) {
            carried(fake_tell(lane->peer, &event));
        } else {
            for (struct sl_send *send = lane->peer->first; send; send = send->next)
                send->allowed |= send->call == item->call;
        }
        free(item);
    }
}

static void chunk_carry(struct sl_lane *lane, const struct sl_send *send, uint32_t part,
                        uint64_t offset)
{
    uint64_t left = send->parts[part].bytes - offset;
    size_t count = left < lane->settings.chunk_bytes ? (size_t)left : lane->settings.chunk_bytes;
    void *place;

    if (fake_place(lane->peer, send->call, part, offset, count, &place) != SEALANE_OK || !place)
        return;
    memcpy(place, (const uint8_t *)send->parts[part].data + offset, count);
    carried(fake_filled(lane->peer, send->call, part, offset, count));
}

static void parts_carry(struct sl_lane *lane, const struct sl_send *send)
{
    for (uint32_t part = 0; part < send->part_count; part++) {
        for (uint64_t offset = 0;
             offset < send->parts[part].bytes && lane->peer && !lane->peer->closing;
             offset += lane->settings.chunk_bytes)
            chunk_carry(lane, send, part, offset);
    }
}

static bool fragment_carry(struct sl_lane *lane, struct sl_send *send)
{
    size_t left = send->count - send->sent;
    size_t count = left < lane->settings.fragment_bytes ? left : lane->settings.fragment_bytes;
    uint8_t flags = send->sent == 0 ? SL_MESSAGE_FIRST : 0;

    if (left == 0)
        return false;
    if (count == left)
        flags |= (uint8_t)(SL_MESSAGE_LAST | send->flags);
    send->sent += count;
    carried(fake_message(lane->peer, send->call, flags, send->bytes + send->sent - count, count));
    return true;
}

/* One step of one send of the lane; false when all wait. */
static bool send_carry(struct sl_lane *lane)
{
    for (struct sl_send *send = lane->first; send; send = send->next) {
        uint64_t total = 0;

        if (fragment_carry(lane, send))
            return true;
        for (size_t i = 0; i < send->part_count; i++)
            total += send->parts[i].bytes;
        if (total > lane->peer->settings.eager_bytes && !send->allowed)
            continue;
        parts_carry(lane, send);
        if (holds(lane, send))
            carried(fake_sent(lane, send));
        return true;
    }
    return false;
}

static bool lanes_turn(struct sealane_node *node)
{
    bool any = node->joined && join_new(node);

    for (struct sl_lane *lane = node->lanes; lane; lane = lane->next) {
        if (lane->closing) {
            lane_end(lane);
            return true;
        }
        if (lane->peer && !lane->peer->closing) {
            any |= lane->items != NULL;
            items_carry(lane);
        }
        if (lane->peer && !lane->peer->closing && !lane->closing && send_carry(lane))
            return true;
    }
    return any;
}

/* ---- the loop ---- */

static bool turn(struct sealane_node *node)
{
    struct sl_post *post;
    struct sl_timer *timer;
    bool any = false;

    node->inside = true;
    while ((post = post_take(node)) != NULL) {
        post->run(post);
        any = true;
    }
    any |= lanes_turn(node);
    while ((timer = sl_timers_due(&node->timers, node->now_ns)) != NULL) {
        timer->fire(timer);
        any = true;
    }
    node->inside = false;
    return any;
}

SEALANE_RESULT sealane_node_poll(struct sealane_node *node, int timeout_ms)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    if (node->inside)
        broken("a poll inside a handler");
    node->here = pthread_self();
    if (!turn(node) && timeout_ms != 0) {
        (void)nanosleep(&moment, NULL);
        fake_advance(node, 1);
    }
    return SEALANE_OK;
}

void fake_settle(struct sealane_node *node)
{
    while (turn(node)) {
    }
}

SEALANE_RESULT sealane_node_new(const struct sealane_node_options *options,
                                struct sealane_node **node_p)
{
    *node_p = fake_node_new(options && options->polled);
    return SEALANE_OK;
}

void sealane_node_free(struct sealane_node *node)
{
    node->inside = true;
    while (node->children) {
        struct sl_child *child = node->children;

        sl_node_disown(node, child);
        child->end(child);
    }
    for (struct sl_lane *lane = node->lanes; lane; lane = lane->next)
        sl_lane_close(lane, SEALANE_CANCELLED, "the node ends");
    while (node->lanes || node->posts) {
        (void)turn(node);
        node->inside = true;
    }
    sl_timers_clear(&node->timers);
    (void)pthread_mutex_destroy(&node->lock);
    free(node->acts);
    free(node);
}
