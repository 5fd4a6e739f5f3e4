/* SPDX-License-Identifier: Apache-2.0 */
/* link_local.c - links on the same host: ports, the life of a link, polling and sleeping. link_local_inside.h has the picture.
 *
 * Polling is cheap because it looks at shared memory only; the sockets, which carry what is rare (peers, handshakes, ends),
 * are looked at now and then, and always after a sleep.
 */
#include "transport/link_local_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LOOK_EVERY = 64,        /* polls */
    LOOK_EVERY_SHAKING = 4, /* polls, while a link still shakes hands */
    READY_MAX = 32
};

/* ---- ports ---- */

static SEALANE_RESULT local_open(const struct sl_link_settings *settings, struct sl_port **port_p)
{
    struct sl_port *port = calloc(1, sizeof(*port));

    (void)settings; /* none are of this carrier */
    if (!port)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a port");
    port->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (port->epoll < 0) {
        free(port);
        return sl_system_failed("cannot make an epoll for", "link_local");
    }
    port->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *port_p = port;
    return SEALANE_OK;
}

static void local_drop(struct sl_link *link);

static void local_close(struct sl_port *port)
{
    while (port->links)
        local_drop(&port->links->link);
    sl_local_unlisten(port);
    if (port->spare_fd >= 0)
        (void)close(port->spare_fd);
    (void)close(port->epoll);
    free(port);
}

SEALANE_RESULT sl_local_watch(struct sl_port *port, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

    if (epoll_ctl(port->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return sl_system_failed("cannot watch a socket of", "link_local");
    return SEALANE_OK;
}

void sl_local_watch_room(struct sl_local *local, bool wanted)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = local};

    if (local->wants_write == wanted || local->over)
        return;
    local->wants_write = wanted;
    event.events |= wanted ? EPOLLOUT : 0u;
    if (epoll_ctl(local->port->epoll, EPOLL_CTL_MOD, local->fd, &event) != 0)
        sl_local_over(local, "the socket can no longer be watched");
}

/* ---- links ---- */

static void circle_add(struct sl_local *local)
{
    struct sl_local *at = local->port->links;

    if (!at) {
        local->port->links = local->prev = local->next = local;
        return;
    }
    local->prev = at->prev;
    local->next = at;
    at->prev->next = local;
    at->prev = local;
}

static void circle_remove(struct sl_local *local)
{
    struct sl_port *port = local->port;

    if (port->links == local)
        port->links = local->next == local ? NULL : local->next;
    local->prev->next = local->next;
    local->next->prev = local->prev;
}

SEALANE_RESULT sl_local_new(struct sl_port *port, int fd, struct sl_local **local_p)
{
    struct sl_local *local = calloc(1, sizeof(*local));
    enum sealane_status status;

    if (!local) {
        (void)close(fd);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a link");
    }
    local->link.ops = &sl_link_local;
    local->port = port;
    local->fd = fd;
    local->page_fd = -1;
    for (int i = 0; i < SL_RING_COUNT; i++)
        local->rings[i].fd = -1;
    local->shaking = true;
    port->shaking++;
    circle_add(local);
    status = sl_local_watch(port, fd, local);
    if (status != SEALANE_OK) {
        local_drop(&local->link);
        return status;
    }
    *local_p = local;
    return SEALANE_OK;
}

void sl_local_shaken(struct sl_local *local)
{
    if (local->shaking)
        local->port->shaking--;
    local->shaking = false;
}

void sl_local_over(struct sl_local *local, const char *why)
{
    if (local->over)
        return;
    local->over = true;
    (void)snprintf(local->why, sizeof(local->why), "%s", why);
    /* The page stays shared after the socket is gone; what is told of it ends here. */
    local->last = sl_local_page_end(local);
    local->port->news = true;
    sl_local_shaken(local);
    if (epoll_ctl(local->port->epoll, EPOLL_CTL_DEL, local->fd, NULL) != 0)
        SL_LOG(SL_LOG_ERROR, "cannot stop watching a socket: %s", strerror(errno));
}

/* Packets that are under way stay readable for the peer after the close. */
static void local_drop(struct sl_link *link)
{
    struct sl_local *local = sl_local_of(link);

    circle_remove(local);
    sl_local_shaken(local);
    /* A child that was forked may hold the socket too: the close alone would end neither link nor watch. */
    (void)epoll_ctl(local->port->epoll, EPOLL_CTL_DEL, local->fd, NULL);
    (void)shutdown(local->fd, SHUT_RDWR);
    (void)close(local->fd);
    sl_local_unmap(local);
    free(local);
}

/* ---- polling ---- */

static bool outcome_is_left(const struct sl_local *local)
{
    return local->tell_accepted || local->tell_connected || local->tell_writable ||
           (local->over && !local->ended);
}

static bool outcome_take(struct sl_local *local, enum sl_link_event_kind *kind_p)
{
    if (local->tell_accepted) {
        local->tell_accepted = false;
        *kind_p = SL_LINK_ACCEPTED;
    } else if (local->tell_connected) {
        local->tell_connected = false;
        *kind_p = SL_LINK_CONNECTED;
    } else if (local->tell_writable && !local->over) {
        local->tell_writable = false;
        *kind_p = SL_LINK_WRITABLE;
    } else if (local->over && !local->ended && !sl_local_has_arrivals(local)) {
        local->ended = true;
        local->tell_writable = false;
        *kind_p = SL_LINK_GONE;
    } else {
        return false;
    }
    return true;
}

/* At most one outcome per link and poll: whoever hears ACCEPTED may drop the link at once. */
static int outcomes_tell(struct sl_port *port, struct sl_link_event *events, int max)
{
    struct sl_local *local = port->links;
    bool left = false;
    int count = 0;

    if (!local)
        return 0;
    do {
        struct sl_link_event *event = &events[count];
        enum sl_link_event_kind kind;

        if (count < max && outcome_take(local, &kind)) {
            *event = (struct sl_link_event){.kind = kind, .link = &local->link};
            if (kind == SL_LINK_GONE)
                memcpy(event->why, local->why, sizeof(event->why));
            count++;
        }
        left |= outcome_is_left(local);
        local = local->next;
    } while (local != port->links);
    port->news = left;
    return count;
}

/* One link's socket. True: `event` was filled. */
static bool socket_look(struct sl_local *local, uint32_t ready, struct sl_link_event *event)
{
    if ((ready & EPOLLOUT) && local->wants_write) {
        sl_local_watch_room(local, false);
        local->tell_writable = local->port->news = true;
    }
    if (!(ready & ~(uint32_t)EPOLLOUT))
        return false;
    /* Its first event is still to be told, or the port's packet is in use: what waits keeps waiting in the kernel. */
    if (local->tell_accepted || local->tell_connected || !event) {
        local->port->look = true;
        return false;
    }
    return sl_local_packets(local, event);
}

static int sockets_look(struct sl_port *port, struct sl_link_event *event)
{
    struct epoll_event ready[READY_MAX];
    int n = epoll_wait(port->epoll, ready, READY_MAX, 0), count = 0;

    port->look = n == READY_MAX || n < 0;
    for (int i = 0; i < n; i++) {
        if (!ready[i].data.ptr)
            sl_local_accept(port);
        else if (socket_look(ready[i].data.ptr, ready[i].events, count ? NULL : event))
            count++;
    }
    return count;
}

static int arrivals_take(struct sl_port *port, struct sl_link_event *events, int max)
{
    struct sl_local *local = port->links;
    int count = 0;

    if (!local || max == 0)
        return 0;
    do {
        count += sl_local_arrivals(local, events + count, max - count);
        local = local->next;
    } while (local != port->links && count < max);
    port->links = local; /* whoever had no turn in a full poll comes first in the next */
    return count;
}

static void sleeping_set(struct sl_port *port, uint32_t sleeping)
{
    struct sl_local *local = port->links;

    if (!local)
        return;
    do {
        if (local->mine)
            atomic_store_explicit(&local->mine->sleeping, sleeping, memory_order_relaxed);
        local = local->next;
    } while (local != port->links);
}

static bool look_is_due(struct sl_port *port)
{
    unsigned every = port->shaking > 0 ? LOOK_EVERY_SHAKING : LOOK_EVERY;

    if (port->asleep) {
        port->asleep = false;
        sleeping_set(port, 0);
        port->look = true;
    }
    return ++port->polls % every == 0 || port->look;
}

static int local_poll(struct sl_port *port, struct sl_link_event *events, int max)
{
    int count = 0;

    if (max <= 0)
        return 0;
    if (look_is_due(port))
        count = sockets_look(port, events);
    if (port->news)
        count += outcomes_tell(port, events + count, max - count);
    return count + arrivals_take(port, events + count, max - count);
}

static bool any_arrivals(const struct sl_port *port)
{
    const struct sl_local *local = port->links;

    if (!local)
        return false;
    do {
        if (sl_local_has_arrivals(local))
            return true;
        local = local->next;
    } while (local != port->links);
    return false;
}

static int local_arm(struct sl_port *port)
{
    sleeping_set(port, 1);
    /* Pairs with the fence in write_imm: either the writer sees the sleeper, or this sees the entry. */
    atomic_thread_fence(memory_order_seq_cst);
    port->asleep = !port->news && !port->look && !any_arrivals(port);
    if (!port->asleep)
        sleeping_set(port, 0);
    return port->asleep ? port->epoll : -1;
}

const struct sl_link_ops sl_link_local = {
    .name = "local",
    .handles = sl_local_handles,
    .open = local_open,
    .close = local_close,
    .listen = sl_local_listen,
    .connect = sl_local_connect,
    .drop = local_drop,
    .grant = sl_local_grant,
    .attach = sl_local_attach,
    .sources = sl_local_sources,
    .forget = sl_local_forget,
    .send = sl_local_send,
    .write_imm = sl_local_write_imm,
    .poll = local_poll,
    .arm = local_arm,
};
