/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - the loop: links, memory, lanes, inbox and timers of one thread. */
#include "transport/helper.h"
#include "transport/lane_inside.h"
#include "transport/link.h"
#include "transport/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PORTS_MAX = 4,
    EVENTS_MAX = 64,
    HALF_OPEN_MAX = 1024, /* lanes of a listener that have not proved who they are yet */
    SPIN_US_DEFAULT = 20,
    SLEEP_FDS = 64, /* listeners past this many are looked at at every millisecond */
    TURN_BYTES =
        262144 /* of tensors, sealed and opened, before message rings are looked at again */
};

struct sl_listener {
    struct sl_listener *next, *chained;
    struct sealane_node *node;
    struct sl_port *port; /* its own: what is accepted there is this listener's */
    const struct sl_link_ops *link;
    struct sl_lane_options options;
    char address[SL_ADDRESS_BYTES];
    uint32_t half_open;
};

struct sealane_node {
    struct sealane_node_options options; /* but for texts */
    struct sl_link_settings settings;
    const struct sl_link_ops *const *links;
    struct sl_port *ports[PORTS_MAX]; /* by index of links; NULL until first used */
    struct sl_memory *memory;
    uint8_t *scratch;
    struct sl_lane *lanes;
    struct sl_lane *ready_first, *ready_last;
    struct sl_listener *listeners;
    struct sl_child *children; /* newest first */
    struct sl_timers timers;
    struct sl_staging_pool staging;
    uint64_t now_ns;
    _Atomic(pthread_t) here;
    bool inside;
    struct sl_inbox inbox;
    atomic_bool stop;
    pthread_t thread;
    struct sl_helper helper;
};

static const struct sl_link_ops *const builtin_links[] = {
    &sl_link_local,
    &sl_link_tcp,
#ifdef SEALANE_VERBS
    &sl_link_verbs, /* numeric addresses are tcp's unless it is asked for by name */
#endif
    NULL,
};

static uint64_t clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- small answers ---- */

uint64_t sl_node_now(const struct sealane_node *node)
{
    return sl_node_is_inside(node) ? node->now_ns : clock_ns();
}

bool sl_node_is_here(const struct sealane_node *node)
{
    return pthread_equal(atomic_load_explicit(&node->here, memory_order_relaxed), pthread_self()) !=
           0;
}

bool sl_node_is_inside(const struct sealane_node *node)
{
    return sl_node_is_here(node) && node->inside;
}

bool sl_node_is_polled(const struct sealane_node *node)
{
    return node->options.polled;
}

struct sl_memory *sl_node_memory(struct sealane_node *node)
{
    return node->memory;
}

struct sl_staging_pool *sl_node_staging(struct sealane_node *node)
{
    return &node->staging;
}

uint8_t *sl_node_scratch(struct sealane_node *node)
{
    return node->scratch;
}

struct sl_helper *sl_node_helper(struct sealane_node *node)
{
    return &node->helper;
}

void sl_node_post(struct sealane_node *node, struct sl_post *post)
{
    sl_inbox_post(&node->inbox, post);
}

/* ---- timers ---- */

SEALANE_RESULT sl_timer_start(struct sealane_node *node, struct sl_timer *timer, uint64_t at_ns)
{
    return sl_timers_start(&node->timers, timer, at_ns);
}

void sl_timer_stop(struct sealane_node *node, struct sl_timer *timer)
{
    sl_timers_stop(&node->timers, timer);
}

static bool timers_fire(struct sealane_node *node)
{
    struct sl_timer *timer;
    bool fired = false;

    while ((timer = sl_timers_due(&node->timers, node->now_ns)) != NULL) {
        timer->fire(timer);
        fired = true;
    }
    return fired;
}

/* ---- lanes ---- */

void sl_node_ready(struct sealane_node *node, struct sl_lane *lane)
{
    if (lane->is_ready)
        return;
    lane->is_ready = true;
    lane->ready_next = NULL;
    if (node->ready_first)
        node->ready_last->ready_next = lane;
    else
        node->ready_first = lane;
    node->ready_last = lane;
}

static void ready_remove(struct sealane_node *node, struct sl_lane *lane)
{
    struct sl_lane **at = &node->ready_first, *before = NULL;

    while (*at && *at != lane) {
        before = *at;
        at = &(*at)->ready_next;
    }
    if (!*at)
        return;
    *at = lane->ready_next;
    if (node->ready_last == lane)
        node->ready_last = before;
    lane->is_ready = false;
}

static void lane_link_in(struct sealane_node *node, struct sl_lane *lane)
{
    lane->next = node->lanes;
    if (node->lanes)
        node->lanes->prev = lane;
    node->lanes = lane;
    sl_establish_start(lane);
    sl_node_ready(node, lane);
}

static void lane_end(struct sealane_node *node, struct sl_lane *lane)
{
    ready_remove(node, lane);
    if (lane->prev)
        lane->prev->next = lane->next;
    else
        node->lanes = lane->next;
    if (lane->next)
        lane->next->prev = lane->prev;
    if (lane->listener && !lane->was_up)
        lane->listener->half_open--;
    sl_lane_free(lane);
}

/* False: it only waits for its link, and lines up again. */
static bool lane_turn(struct sealane_node *node, struct sl_lane *lane, size_t *budget)
{
    bool was_up = lane->was_up, idles = sl_lane_idles(lane);

    lane->is_ready = false;
    if (idles || sl_lane_turn(lane, budget))
        sl_node_ready(node, lane);
    if (lane->listener && lane->was_up && !was_up)
        lane->listener->half_open--;
    if (lane->state != SL_LANE_CLOSING)
        return !idles;
    if (sl_lane_finish(lane))
        lane_end(node, lane);
    else
        sl_node_ready(node, lane);
    return true;
}

/* Every lane that has something to do, with one budget for all: those that find it spent are the first of the next turn. True:
 * something was done or is left to do. */
static bool lanes_turn(struct sealane_node *node)
{
    struct sl_lane *lane = node->ready_first, *last = node->ready_last;
    size_t budget = TURN_BYTES;
    bool more = lane != NULL, did = false;

    while (more && budget > 0) {
        lane = node->ready_first;
        more = lane != last; /* what is ready again lines up behind it */
        node->ready_first = lane->ready_next;
        if (!node->ready_first)
            node->ready_last = NULL;
        did |= lane_turn(node, lane, &budget);
    }
    return did;
}

/* Strangers that say nothing must not keep others out: the one that has had the most time makes way. */
static void half_open_evict(struct sl_listener *listener)
{
    struct sl_lane *oldest = NULL;

    for (struct sl_lane *lane = listener->node->lanes; lane; lane = lane->next) { /* newest first */
        if (lane->listener == listener && !lane->was_up && lane->state != SL_LANE_CLOSING)
            oldest = lane;
    }
    if (oldest)
        sl_lane_close(oldest, SEALANE_RESOURCE_EXHAUSTED,
                      "too many others wait that have not proved who they are either");
}

/* False: the link is to be dropped. */
static bool accepted(struct sealane_node *node, struct sl_listener *listener, struct sl_link *link)
{
    struct sl_lane *lane;

    if (listener->half_open >= HALF_OPEN_MAX)
        half_open_evict(listener);
    lane = sl_lane_new(node, &listener->options, link);
    if (!lane) {
        SL_LOG(SL_LOG_ERROR, "refused a peer: no memory for a lane");
        return false;
    }
    lane->listener = listener;
    listener->half_open++;
    lane_link_in(node, lane);
    return true;
}

/* Events of one port; `listener` is NULL for the ports that connect. */
static bool port_poll(struct sealane_node *node, const struct sl_link_ops *ops,
                      struct sl_port *port, struct sl_listener *listener)
{
    struct sl_link_event events[EVENTS_MAX];
    struct sl_link
        *refused[EVENTS_MAX]; /* dropped last: later events of this batch may be theirs */
    int refusals = 0, count = ops->poll(port, events, EVENTS_MAX);

    for (int i = 0; i < count; i++) {
        struct sl_link *link = events[i].link;

        if (link->owner)
            sl_lane_link_event(link->owner, &events[i]);
        else if (events[i].kind == SL_LINK_ACCEPTED &&
                 !(listener && accepted(node, listener, link)))
            refused[refusals++] = link;
    }
    for (int i = 0; i < refusals; i++)
        ops->drop(refused[i]);
    return count > 0;
}

static bool ports_poll(struct sealane_node *node)
{
    bool any = false;

    for (size_t i = 0; node->links[i]; i++) {
        if (node->ports[i])
            any |= port_poll(node, node->links[i], node->ports[i], NULL);
    }
    for (struct sl_listener *listener = node->listeners; listener; listener = listener->next)
        any |= port_poll(node, listener->link, listener->port, listener);
    return any;
}

const struct sl_link_ops *const *sl_node_links(const struct sealane_node *node)
{
    return node->links;
}

static SEALANE_RESULT link_find(const struct sealane_node *node, const char *address,
                                const char *name, size_t *index_p)
{
    for (size_t i = 0; node->links[i]; i++) {
        if (name ? strcmp(node->links[i]->name, name) == 0 : node->links[i]->handles(address)) {
            *index_p = i;
            return SEALANE_OK;
        }
    }
    return SL_FAIL(SEALANE_UNIMPLEMENTED, "no carrier%s%s handles the address \"%s\"",
                   name ? " " : "", name ? name : "", address);
}

static SEALANE_RESULT options_check(const struct sl_lane_options *options)
{
    struct sl_hello_geometry geometry = sl_lane_geometry(options);

    if (!options->credentials || !options->on_event)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a lane needs credentials and somebody to tell");
    return sl_geometry_check(&geometry);
}

SEALANE_RESULT sl_node_connect(struct sealane_node *node, const char *address,
                               const struct sl_lane_options *options, struct sl_lane **lane_p)
{
    struct sl_link *link;
    struct sl_lane *lane;
    size_t i;

    SL_TRY(options_check(options));
    SL_TRY(link_find(node, address, options->link, &i));
    if (!node->ports[i])
        SL_TRY(node->links[i]->open(&node->settings, &node->ports[i]));
    SL_TRY(node->links[i]->connect(node->ports[i], address, &link));
    lane = sl_lane_new(node, options, link);
    if (!lane) {
        link->ops->drop(link);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a lane");
    }
    lane_link_in(node, lane);
    *lane_p = lane;
    return SEALANE_OK;
}

SEALANE_RESULT sl_node_listen(struct sealane_node *node, const char *address,
                              const struct sl_lane_options *options,
                              struct sl_listener **listener_p)
{
    struct sl_listener *listener;
    enum sealane_status status;
    size_t i;

    SL_TRY(options_check(options));
    SL_TRY(link_find(node, address, options->link, &i));
    listener = calloc(1, sizeof(*listener));
    if (!listener)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a listener");
    listener->node = node;
    listener->link = node->links[i];
    listener->options = *options;
    listener->options.server_name = listener->options.link = NULL;
    status = listener->link->open(&node->settings, &listener->port);
    if (status == SEALANE_OK) {
        status = listener->link->listen(listener->port, address, listener->address);
        if (status != SEALANE_OK)
            listener->link->close(listener->port);
    }
    if (status != SEALANE_OK) {
        free(listener);
        return status;
    }
    listener->next = node->listeners;
    node->listeners = listener;
    *listener_p = listener;
    return SEALANE_OK;
}

const char *sl_listener_address(const struct sl_listener *listener)
{
    return listener->address;
}

struct sl_listener *sl_listener_next(const struct sl_listener *listener)
{
    return listener->chained;
}

void sl_listener_chain(struct sl_listener *listener, struct sl_listener *next)
{
    listener->chained = next;
}

static bool listener_lanes_finish(struct sealane_node *node, struct sl_listener *listener)
{
    bool left = false;

    for (struct sl_lane *lane = node->lanes, *next; lane; lane = next) {
        next = lane->next;
        if (lane->listener != listener)
            continue;
        sl_lane_close(lane, SEALANE_UNAVAILABLE, "the server ends");
        if (sl_lane_finish(lane))
            lane_end(node, lane);
        else
            left = true;
    }
    return left;
}

void sl_node_unlisten(struct sl_listener *listener)
{
    struct sealane_node *node = listener->node;
    struct sl_listener **at = &node->listeners;
    const struct timespec moment = {.tv_nsec = 100000};

    /* A lane that the helper thread or memory jobs still work on is waited for: milliseconds. */
    while (listener_lanes_finish(node, listener)) {
        (void)nanosleep(&moment, NULL);
        (void)sl_inbox_run(&node->inbox);
        (void)sl_memory_ops(node->memory)->poll(node->memory);
    }
    while (*at != listener)
        at = &(*at)->next;
    *at = listener->next;
    listener->link->close(listener->port);
    free(listener);
}

/* ---- children ---- */

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
    else if (node->children == child)
        node->children = child->next;
    else
        return; /* not, or no longer, adopted */
    if (child->next)
        child->next->prev = child->prev;
    child->prev = child->next = NULL;
}

/* ---- the loop ---- */

/* What the lanes wrote leaves in the turn that wrote it: who polls a node by hand may not come back soon. */
static void ports_flush(struct sealane_node *node)
{
    for (size_t i = 0; node->links[i]; i++) {
        if (node->ports[i])
            (void)node->links[i]->poll(node->ports[i], NULL, 0);
    }
    for (struct sl_listener *listener = node->listeners; listener; listener = listener->next)
        (void)listener->link->poll(listener->port, NULL, 0);
}

static bool node_turn(struct sealane_node *node)
{
    bool busy;

    node->now_ns = clock_ns();
    node->inside = true;
    busy = sl_inbox_run(&node->inbox);
    busy |= ports_poll(node);
    busy |= sl_memory_ops(node->memory)->poll(node->memory) > 0;
    if (lanes_turn(node)) {
        ports_flush(node);
        busy = true;
    }
    busy |= timers_fire(node);
    node->inside = false;
    return busy;
}

/* Descriptors of all ports, armed; -1 when something is there already. */
static int ports_arm(struct sealane_node *node, struct pollfd *fds, int max)
{
    int count = 0;

    for (size_t i = 0; node->links[i]; i++) {
        if (!node->ports[i])
            continue;
        fds[count] = (struct pollfd){.fd = node->links[i]->arm(node->ports[i]), .events = POLLIN};
        if (fds[count++].fd < 0)
            return -1;
    }
    for (struct sl_listener *l = node->listeners; l && count < max; l = l->next) {
        fds[count] = (struct pollfd){.fd = l->link->arm(l->port), .events = POLLIN};
        if (fds[count++].fd < 0)
            return -1;
    }
    return count;
}

static void node_sleep(struct sealane_node *node, int timeout_ms)
{
    struct pollfd fds[SLEEP_FDS] = {{.fd = node->inbox.fd, .events = POLLIN}};
    struct timespec time;
    int count;

    sl_inbox_sleep_begin(&node->inbox);
    count = ports_arm(node, fds + 1, SLEEP_FDS - 1);
    if (count >= 0 && sl_lanes_idle(node->ready_first) && sl_inbox_is_empty(&node->inbox) &&
        !atomic_load_explicit(&node->stop, memory_order_relaxed)) {
        if (timeout_ms != 0 && (count == SLEEP_FDS - 1 || node->ready_first))
            timeout_ms = 1; /* what is waited for may come without waking */
        time = sl_timers_sleep(&node->timers, clock_ns(), timeout_ms);
        if (ppoll(fds, (nfds_t)count + 1, &time, NULL) < 0 && errno != EINTR)
            SL_LOG(SL_LOG_ERROR, "poll failed: errno %d", errno);
    }
    sl_inbox_sleep_end(&node->inbox);
}

SEALANE_RESULT sealane_node_poll(struct sealane_node *node, int timeout_ms)
{
    if (!node->options.polled)
        return SL_FAIL(SEALANE_FAILED_PRECONDITION,
                       "sealane_node_poll on a node that runs its own thread");
    if (sl_node_is_inside(node))
        return SL_FAIL(SEALANE_FAILED_PRECONDITION,
                       "sealane_node_poll from inside a handler or callback of the node");
    atomic_store_explicit(&node->here, pthread_self(), memory_order_relaxed);
    if (!node_turn(node) && timeout_ms != 0) {
        node_sleep(node, timeout_ms);
        (void)node_turn(node);
    }
    return SEALANE_OK;
}

/* ---- end ---- */

static void node_end(struct sealane_node *node)
{
    const struct timespec moment = {.tv_nsec = 100000};

    node->inside = true; /* handlers that run now must not block on this node */
    (void)sl_inbox_run(&node->inbox);
    while (node->children) {
        struct sl_child *child = node->children;

        sl_node_disown(node, child);
        child->end(child);
    }
    while (node->listeners)
        sl_node_unlisten(node->listeners);
    for (struct sl_lane *lane = node->lanes; lane; lane = lane->next)
        sl_lane_close(lane, SEALANE_CANCELLED, "the node ends");
    while (node->lanes) {
        (void)node_turn(node);
        node->inside = true;
        if (node->lanes)
            (void)nanosleep(&moment, NULL);
    }
    while (sl_inbox_run(&node->inbox)) {
    }
    node->inside = false;
}

static void *node_run(void *argument)
{
    struct sealane_node *node = argument;
    uint64_t spin_ns = (uint64_t)node->options.spin_us * 1000, idle_since = 0;

    atomic_store_explicit(&node->here, pthread_self(), memory_order_relaxed);
    while (!atomic_load_explicit(&node->stop, memory_order_acquire)) {
        if (node_turn(node)) {
            idle_since = node->now_ns;
            continue;
        }
        if (node->now_ns - idle_since >= spin_ns) {
            node_sleep(node, -1);
            idle_since = clock_ns();
        }
    }
    node_end(node);
    return NULL;
}

static void node_release(struct sealane_node *node)
{
    sl_helper_stop(&node->helper);
    for (size_t i = 0; node->links[i]; i++) {
        if (node->ports[i])
            node->links[i]->close(node->ports[i]);
    }
    sl_staging_pool_clear(&node->staging);
    if (node->memory)
        sl_memory_ops(node->memory)->close(node->memory);
    sl_inbox_clear(&node->inbox);
    sl_timers_clear(&node->timers);
    free(node->scratch);
    free(node);
}

static SEALANE_RESULT node_fill(struct sealane_node *node, const struct sl_node_setup *setup)
{
    size_t links = 0;

    node->links = setup && setup->links ? setup->links : builtin_links;
    while (node->links[links])
        links++;
    if (links > PORTS_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "%zu links, expected at most %d", links,
                       PORTS_MAX);
    SL_TRY(sl_link_settings_read(node->options.rdma_device, &node->settings));
    SL_TRY(sl_inbox_init(&node->inbox));
    node->scratch = aligned_alloc(64, SL_SCRATCH_BYTES);
    if (!node->scratch)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a node");
    if (setup && setup->memory)
        node->memory = setup->memory;
    else
        SL_TRY(sl_memory_host_new(&node->memory));
    return SEALANE_OK;
}

SEALANE_RESULT sl_node_new(const struct sealane_node_options *options,
                           const struct sl_node_setup *setup, struct sealane_node **node_p)
{
    struct sealane_node *node = calloc(1, sizeof(*node));
    enum sealane_status status;

    if (!node)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a node");
    if (options)
        node->options = *options;
    if (node->options.spin_us == 0)
        node->options.spin_us = SPIN_US_DEFAULT;
    node->inbox.fd = -1;
    node->now_ns = clock_ns();
    sl_staging_pool_init(&node->staging, &node->timers);
    sl_helper_init(&node->helper, sl_handshake_thread_end);
    if (node->options.polled) /* else its own thread says so, and until then nobody is here */
        atomic_store_explicit(&node->here, pthread_self(), memory_order_relaxed);
    status = node_fill(node, setup);
    if (status == SEALANE_OK && !node->options.polled) {
        int error = pthread_create(&node->thread, NULL, node_run, node);
        if (error != 0)
            status = SL_FAIL_CAUSE(SEALANE_RESOURCE_EXHAUSTED, error,
                                   "no thread for a node: errno %d", error);
    }
    if (status != SEALANE_OK) {
        node_release(node);
        return status;
    }
    *node_p = node;
    return SEALANE_OK;
}

SEALANE_RESULT sealane_node_new(const struct sealane_node_options *options,
                                struct sealane_node **node_p)
{
    return sl_node_new(options, NULL, node_p);
}

void sealane_node_free(struct sealane_node *node)
{
    if (!node)
        return;
    if (sl_node_is_inside(node)) {
        SL_LOG(SL_LOG_ERROR,
               "sealane_node_free from inside a handler or callback of the node does nothing");
        return;
    }
    if (node->options.polled) {
        atomic_store_explicit(&node->here, pthread_self(), memory_order_relaxed);
        node_end(node);
    } else {
        atomic_store_explicit(&node->stop, true, memory_order_release);
        sl_inbox_wake(&node->inbox);
        (void)pthread_join(node->thread, NULL);
    }
    node_release(node);
}
