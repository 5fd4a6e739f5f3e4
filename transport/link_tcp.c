/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp.c - links over TCP: ports, the life of a link, polling and sleeping. link_tcp_inside.h has the picture.
 *
 * A poll costs few system calls: one send for each link that wrote, one read for each of the few links that were active a moment
 * ago, and now and then (always after a sleep) a look at the epoll, which knows about all the others.
 */
#include "transport/link_tcp_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    LOOK_EVERY = 64,        /* polls in which nothing is read; a read counts for two of them */
    LOOK_EVERY_WAITING = 4, /* polls, while a link waits for room or for its connection */
    READY_MAX = 32,
    SPIN_LINKS = 8,    /* so many are read from again and again */
    SPIN_TRIES = 256,  /* before such a link counts as idle */
    CROWD_POLLS = 256, /* with more of them each poll looks at the epoll instead, for so long */
    DRAIN_MAX = 64     /* reads of what a dropped link leaves unread */
};

/* ---- lists ---- */

void sl_tcp_list(struct sl_tcp *tcp, enum sl_tcp_list list)
{
    sl_list_add(&tcp->port->lists[list], &tcp->at[list], tcp);
}

void sl_tcp_unlist(struct sl_tcp *tcp, enum sl_tcp_list list)
{
    sl_list_remove(&tcp->port->lists[list], &tcp->at[list]);
}

/* ---- ports ---- */

static SEALANE_RESULT tcp_open(const struct sl_link_settings *settings, struct sl_port **port_p)
{
    struct sl_port *port = calloc(1, sizeof(*port));

    (void)settings; /* none are of this carrier */
    if (!port)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a port");
    port->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (port->epoll < 0) {
        free(port);
        return sl_system_failed("cannot make an epoll for", "link_tcp");
    }
    port->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *port_p = port;
    return SEALANE_OK;
}

static void tcp_drop(struct sl_link *link);

static void tcp_close(struct sl_port *port)
{
    for (struct sl_tcp *tcp = sl_list_first(&port->lists[SL_TCP_ALL]), *next; tcp; tcp = next) {
        next = sl_list_after(&tcp->at[SL_TCP_ALL]);
        tcp_drop(&tcp->link);
    }
    sl_tcp_unlisten(port);
    if (port->spare_fd >= 0)
        (void)close(port->spare_fd);
    (void)close(port->epoll);
    free(port);
}

/* ---- links ---- */

SEALANE_RESULT sl_tcp_new(struct sl_port *port, int fd, const struct sockaddr *peer,
                          struct sl_tcp **tcp_p)
{
    struct sl_tcp *tcp = calloc(1, sizeof(*tcp));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tcp};

    if (!tcp) {
        (void)close(fd);
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a link");
    }
    tcp->link.ops = &sl_link_tcp;
    tcp->port = port;
    tcp->fd = fd;
    sl_address_write(peer, tcp->peer);
    if (epoll_ctl(port->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        enum sealane_status status = sl_system_failed("cannot watch the socket of", tcp->peer);

        (void)close(fd);
        free(tcp);
        return status;
    }
    sl_tcp_list(tcp, SL_TCP_ALL);
    *tcp_p = tcp;
    return SEALANE_OK;
}

void sl_tcp_watch(struct sl_tcp *tcp)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = tcp};
    bool room = tcp->connecting || tcp->blocked;

    if (room == tcp->watches_room)
        return;
    tcp->watches_room = room;
    event.events |= room ? EPOLLOUT : 0u;
    if (epoll_ctl(tcp->port->epoll, EPOLL_CTL_MOD, tcp->fd, &event) != 0)
        sl_tcp_over(tcp, "the socket can no longer be watched: %s", strerror(errno));
}

static void waits_no_more(struct sl_tcp *tcp)
{
    if (tcp->connecting || tcp->blocked)
        tcp->port->waiting--;
    tcp->connecting = tcp->blocked = false;
}

SEALANE_PRINTF(2, 0)
static void why_set(struct sl_tcp *tcp, const char *format, va_list arguments)
{
    if (tcp->why[0] == '\0')
        (void)vsnprintf(tcp->why, sizeof(tcp->why), format, arguments);
}

void sl_tcp_over(struct sl_tcp *tcp, const char *format, ...)
{
    va_list arguments;

    if (tcp->over)
        return;
    tcp->over = true;
    va_start(arguments, format);
    why_set(tcp, format, arguments);
    va_end(arguments);
    waits_no_more(tcp);
    sl_tcp_discard(tcp);
    tcp->unread = false;
    if (epoll_ctl(tcp->port->epoll, EPOLL_CTL_DEL, tcp->fd, NULL) != 0)
        SL_LOG(SL_LOG_ERROR, "cannot stop watching a socket: %s", strerror(errno));
    sl_tcp_list(tcp, SL_TCP_READY);
}

void sl_tcp_silence(struct sl_tcp *tcp, int error)
{
    if (tcp->connecting) {
        sl_tcp_over(tcp, "cannot connect to %.60s: %s", tcp->peer, strerror(error));
        return;
    }
    tcp->mute = true;
    (void)snprintf(tcp->why, sizeof(tcp->why), "the connection to %.60s broke: %s", tcp->peer,
                   strerror(error));
    waits_no_more(tcp);
    sl_tcp_watch(tcp);
    sl_tcp_discard(tcp);
    tcp->unread = true; /* its end at least */
    sl_tcp_list(tcp, SL_TCP_READY);
}

/* Closing a socket with unread bytes resets the connection, which would destroy what is still on its way to the peer. */
static void socket_end(int fd)
{
    uint8_t unread[16384];

    (void)shutdown(fd, SHUT_WR);
    for (int i = 0; i < DRAIN_MAX && recv(fd, unread, sizeof(unread), MSG_DONTWAIT) > 0; i++) {
    }
    /* A child that was forked may hold the socket too: the close alone would not end the link. */
    (void)shutdown(fd, SHUT_RDWR);
    (void)close(fd);
}

static void tcp_drop(struct sl_link *link)
{
    struct sl_tcp *tcp = sl_tcp_of(link);

    if (!tcp->over && !tcp->mute)
        sl_tcp_flush(tcp);
    if (tcp->out.count > 0)
        SL_LOG(SL_LOG_INFO, "dropped a link while %s had no room for all that was written",
               tcp->peer);
    waits_no_more(tcp);
    for (int list = 0; list < SL_TCP_LISTS; list++)
        sl_tcp_unlist(tcp, (enum sl_tcp_list)list);
    (void)epoll_ctl(tcp->port->epoll, EPOLL_CTL_DEL, tcp->fd, NULL);
    socket_end(tcp->fd);
    free(tcp);
}

/* ---- polling ---- */

static bool has_outcome(const struct sl_tcp *tcp)
{
    return tcp->tell_accepted || tcp->tell_connected || tcp->tell_writable ||
           (tcp->over && !tcp->ended);
}

static bool outcome_take(struct sl_tcp *tcp, struct sl_link_event *event)
{
    *event = (struct sl_link_event){.link = &tcp->link};
    if (tcp->tell_accepted) {
        tcp->tell_accepted = false;
        event->kind = SL_LINK_ACCEPTED;
    } else if (tcp->tell_connected) {
        tcp->tell_connected = false;
        event->kind = SL_LINK_CONNECTED;
    } else if (tcp->over && !tcp->ended) {
        tcp->ended = true;
        tcp->tell_writable = false;
        event->kind = SL_LINK_GONE;
        memcpy(event->why, tcp->why, sizeof(event->why));
    } else if (tcp->tell_writable) {
        tcp->tell_writable = false;
        event->kind = SL_LINK_WRITABLE;
    } else {
        return false;
    }
    return true;
}

/* What the epoll says about one link. */
static void socket_look(struct sl_tcp *tcp, uint32_t ready)
{
    if (tcp->connecting) {
        sl_tcp_connected(tcp);
        return;
    }
    if ((ready & EPOLLOUT) && tcp->blocked) {
        waits_no_more(tcp);
        sl_tcp_watch(tcp);
        sl_tcp_list(tcp, SL_TCP_UNSENT);
    }
    if (ready & ~(uint32_t)EPOLLOUT) {
        tcp->unread = true;
        sl_tcp_list(tcp, SL_TCP_READY);
    }
}

static void sockets_look(struct sl_port *port)
{
    struct epoll_event ready[READY_MAX];
    int n = epoll_wait(port->epoll, ready, READY_MAX, 0);

    port->effort = 0;
    port->look = n == READY_MAX || n < 0; /* more may wait */
    for (int i = 0; i < n; i++) {
        if (!ready[i].data.ptr)
            sl_tcp_accept(port);
        else
            socket_look(ready[i].data.ptr, ready[i].events);
    }
}

static void unsent_flush(struct sl_port *port)
{
    while (sl_list_first(&port->lists[SL_TCP_UNSENT]))
        sl_tcp_flush(sl_list_first(&port->lists[SL_TCP_UNSENT]));
}

/* Something is there without asking the kernel. */
static bool has_news(const struct sl_tcp *tcp)
{
    return has_outcome(tcp) || (!tcp->ended && (tcp->unread || sl_tcp_has_more(tcp)));
}

/* Whether a link is looked at in the next poll without being asked for. */
static bool stays_ready(const struct sl_tcp *tcp)
{
    struct sl_port *port = tcp->port;

    if (has_news(tcp))
        return true;
    if (tcp->ended || tcp->connecting || tcp->tries >= SPIN_TRIES || port->crowded > 0)
        return false;
    if (port->lists[SL_TCP_READY].count >= SPIN_LINKS)
        port->crowded = CROWD_POLLS;
    return port->crowded == 0;
}

/* Whoever hears ACCEPTED may drop the link at once, so an outcome is all that its link tells in a poll. */
static int link_turn(struct sl_tcp *tcp, struct sl_link_event *events, int max)
{
    if (has_outcome(tcp))
        return outcome_take(tcp, events);
    if (tcp->over || tcp->connecting)
        return 0;
    return sl_tcp_take(tcp, events, max);
}

/* Each link that is ready has one turn at most; who had none in a full poll comes first in the next. */
static int links_turn(struct sl_port *port, struct sl_link_event *events, int max)
{
    int count = 0;

    for (size_t n = port->lists[SL_TCP_READY].count; n > 0 && count < max; n--) {
        struct sl_tcp *tcp = sl_list_first(&port->lists[SL_TCP_READY]);

        sl_tcp_unlist(tcp, SL_TCP_READY);
        count += link_turn(tcp, events + count, max - count);
        if (stays_ready(tcp))
            sl_tcp_list(tcp, SL_TCP_READY);
    }
    return count;
}

static bool look_is_due(struct sl_port *port)
{
    port->effort += 1 + 2 * (unsigned)port->lists[SL_TCP_READY].count;
    if (port->crowded > 0) {
        port->crowded--;
        return true;
    }
    return port->look || port->effort >= (port->waiting > 0 ? LOOK_EVERY_WAITING : LOOK_EVERY);
}

static int tcp_poll(struct sl_port *port, struct sl_link_event *events, int max)
{
    if (look_is_due(port))
        sockets_look(port);
    unsent_flush(port);
    return links_turn(port, events, max);
}

static int tcp_arm(struct sl_port *port)
{
    unsent_flush(port);
    sockets_look(port);
    unsent_flush(port);
    for (const struct sl_tcp *tcp = sl_list_first(&port->lists[SL_TCP_READY]); tcp;
         tcp = sl_list_after(&tcp->at[SL_TCP_READY])) {
        if (has_news(tcp))
            return -1;
    }
    if (port->look)
        return -1;
    port->look = true; /* after the sleep */
    return port->epoll;
}

const struct sl_link_ops sl_link_tcp = {
    .name = "tcp",
    .handles = sl_address_is_numeric,
    .open = tcp_open,
    .close = tcp_close,
    .listen = sl_tcp_listen,
    .connect = sl_tcp_connect,
    .drop = tcp_drop,
    .grant = sl_tcp_grant,
    .attach = sl_tcp_attach,
    .sources = sl_tcp_sources,
    .forget = sl_tcp_forget,
    .send = sl_tcp_send,
    .write_imm = sl_tcp_write_imm,
    .poll = tcp_poll,
    .arm = tcp_arm,
};
