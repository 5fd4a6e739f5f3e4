/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_connect.c - listening, accepting and connecting of link_tcp. */
#include "transport/link_tcp_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    ACCEPTS_PER_LOOK = 16,
    /* A host that vanished is noticed after two minutes: IDLE + COUNT * EVERY seconds of silence, or that long without an
     * acknowledgement or with a closed window. Lanes have shorter clocks of their own; this is for what they do not watch. */
    KEEP_IDLE_S = 60,
    KEEP_EVERY_S = 20,
    KEEP_COUNT = 3,
    USER_TIMEOUT_MS = (KEEP_IDLE_S + KEEP_COUNT * KEEP_EVERY_S) * 1000,
    /* Bytes in the kernel that wait for the peer's window: what is queued there can no longer be overtaken. */
    NOT_SENT_MAX = 262144
};

struct sl_tcp_listener {
    struct sl_tcp_listener *next;
    int fd;
};

/* ---- sockets ---- */

static int socket_make(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
}

static bool option_set(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

/* None of these fails on a TCP socket of a kernel that has epoll; without them a link is slower, not wrong. */
static void socket_tune(int fd)
{
    if (!option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1) ||
        !option_set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOT_SENT_MAX) ||
        !option_set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT_MS) ||
        !option_set(fd, SOL_SOCKET, SO_KEEPALIVE, 1) ||
        !option_set(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S) ||
        !option_set(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S) ||
        !option_set(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT))
        SL_LOG(SL_LOG_WARN, "a socket option is refused: %s", strerror(errno));
}

static bool is_loopback(const struct sockaddr *at)
{
    if (at->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)at)->sin_addr.s_addr) >> 24 == 127;
    return at->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)at)->sin6_addr);
}

/* Inside a host there is no path to probe, and the timers of an algorithm that paces (bbr) cost a third of a transfer's CPU time
 * there. Refused, it is only slower. */
static void path_tune(int fd, const struct sockaddr *peer)
{
    static const char plain[] = "reno";

    if (is_loopback(peer))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, plain, sizeof(plain) - 1);
}

/* ---- listening ---- */

static void listener_free(struct sl_tcp_listener *listener)
{
    if (listener->fd >= 0) {
        (void)shutdown(listener->fd, SHUT_RDWR); /* a forked child may hold it too */
        (void)close(listener->fd);
    }
    free(listener);
}

/* A restarted server need not wait for connections of its predecessor to fade; "[::]" takes IPv4 in too. */
static bool listen_at(int fd, const struct sockaddr_storage *at, socklen_t bytes)
{
    return option_set(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
           (at->ss_family != AF_INET6 || option_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0)) &&
           bind(fd, (const struct sockaddr *)at, bytes) == 0 && listen(fd, BACKLOG) == 0;
}

static SEALANE_RESULT listener_start(struct sl_port *port, struct sl_tcp_listener *listener,
                                     const char *address)
{
    struct epoll_event event = {.events = EPOLLIN};
    struct sockaddr_storage at;
    socklen_t bytes;

    SL_TRY(sl_address_parse(address, &at, &bytes));
    listener->fd = socket_make(at.ss_family);
    if (listener->fd < 0)
        return sl_system_failed("no socket for", address);
    if (!listen_at(listener->fd, &at, bytes))
        return sl_system_failed("cannot listen at", address);
    if (epoll_ctl(port->epoll, EPOLL_CTL_ADD, listener->fd, &event) != 0)
        return sl_system_failed("cannot watch", address);
    return SEALANE_OK;
}

static SEALANE_RESULT bound_tell(const struct sl_tcp_listener *listener, const char *address,
                                 char bound[SL_ADDRESS_BYTES])
{
    struct sockaddr_storage at = {0};
    socklen_t bytes = sizeof(at);

    if (getsockname(listener->fd, (struct sockaddr *)&at, &bytes) != 0)
        return sl_system_failed("cannot tell the port of", address);
    sl_address_write((const struct sockaddr *)&at, bound);
    return SEALANE_OK;
}

SEALANE_RESULT sl_tcp_listen(struct sl_port *port, const char *address,
                             char bound[SL_ADDRESS_BYTES])
{
    struct sl_tcp_listener *listener = calloc(1, sizeof(*listener));
    enum sealane_status status;

    if (!listener)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a listener");
    listener->fd = -1;
    status = listener_start(port, listener, address);
    if (status == SEALANE_OK && bound)
        status = bound_tell(listener, address, bound);
    if (status != SEALANE_OK) {
        listener_free(listener);
        return status;
    }
    listener->next = port->listeners;
    port->listeners = listener;
    return SEALANE_OK;
}

void sl_tcp_unlisten(struct sl_port *port)
{
    while (port->listeners) {
        struct sl_tcp_listener *listener = port->listeners;

        port->listeners = listener->next;
        (void)epoll_ctl(port->epoll, EPOLL_CTL_DEL, listener->fd, NULL);
        listener_free(listener);
    }
}

/* ---- accepting ---- */

/* False: nobody was there. */
static bool peer_refuse(struct sl_port *port, const struct sl_tcp_listener *listener)
{
    if (!sl_peer_turn_away(listener->fd, &port->spare_fd))
        return false;
    SL_LOG(SL_LOG_WARN, "turned away a peer: out of file descriptors");
    return true;
}

static void peer_take(struct sl_port *port, int fd, const struct sockaddr *peer)
{
    struct sl_tcp *tcp;

    socket_tune(fd);
    path_tune(fd, peer);
    if (sl_tcp_new(port, fd, peer, &tcp) != SEALANE_OK) {
        SL_LOG(SL_LOG_ERROR, "turned away a peer: %s", sealane_last_error()->message);
        return;
    }
    tcp->tell_accepted = true;
    sl_tcp_list(tcp, SL_TCP_READY);
    SL_LOG(SL_LOG_DEBUG, "accepted %s", tcp->peer);
}

/* True: there may be more. */
static bool accept_one(struct sl_port *port, struct sl_tcp_listener *listener)
{
    struct sockaddr_storage peer = {0};
    socklen_t bytes = sizeof(peer);
    int fd = accept4(listener->fd, (struct sockaddr *)&peer, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0) {
        peer_take(port, fd, (const struct sockaddr *)&peer);
        return true;
    }
    if (errno == EMFILE || errno == ENFILE)
        return peer_refuse(port, listener);
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        SL_LOG(SL_LOG_ERROR, "cannot accept: %s", strerror(errno));
    return false;
}

static void accept_from(struct sl_port *port, struct sl_tcp_listener *listener)
{
    for (int i = 0; i < ACCEPTS_PER_LOOK; i++) {
        if (!accept_one(port, listener))
            return;
    }
    port->look = true;
}

void sl_tcp_accept(struct sl_port *port)
{
    for (struct sl_tcp_listener *at = port->listeners; at; at = at->next)
        accept_from(port, at);
}

/* ---- connecting ---- */

SEALANE_RESULT sl_tcp_connect(struct sl_port *port, const char *address, struct sl_link **link_p)
{
    struct sockaddr_storage at;
    struct sl_tcp *tcp;
    socklen_t bytes;
    int fd, error;

    SL_TRY(sl_address_parse(address, &at, &bytes));
    fd = socket_make(at.ss_family);
    if (fd < 0)
        return sl_system_failed("no socket for", address);
    socket_tune(fd);
    path_tune(fd, (const struct sockaddr *)&at);
    error = connect(fd, (const struct sockaddr *)&at, bytes) == 0 ? 0 : errno;
    SL_TRY(sl_tcp_new(port, fd, (const struct sockaddr *)&at, &tcp));
    tcp->connecting = true;
    port->waiting++;
    if (error != 0 && error != EINPROGRESS)
        sl_tcp_over(tcp, "cannot connect to %.60s: %s", tcp->peer, strerror(error));
    else
        sl_tcp_watch(tcp);
    *link_p = &tcp->link;
    return SEALANE_OK;
}

/* A port of this host at which nobody listens may be the very one that the kernel chose to connect from: then the socket is
 * connected to itself, and would keep a server from listening there. */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage from = {0}, to = {0};
    socklen_t from_bytes = sizeof(from), to_bytes = sizeof(to);

    return getsockname(fd, (struct sockaddr *)&from, &from_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&to, &to_bytes) == 0 && from_bytes == to_bytes &&
           memcmp(&from, &to, from_bytes) == 0;
}

void sl_tcp_connected(struct sl_tcp *tcp)
{
    int error = 0;
    socklen_t bytes = sizeof(error);

    if (getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error == 0 && is_connected_to_itself(tcp->fd))
        error = ECONNREFUSED;
    if (error != 0) {
        sl_tcp_over(tcp, "cannot connect to %.60s: %s", tcp->peer, strerror(error));
        return;
    }
    tcp->connecting = false;
    tcp->port->waiting--;
    tcp->tell_connected = true;
    sl_tcp_watch(tcp);
    sl_tcp_list(tcp, SL_TCP_READY);
    if (tcp->out.count > 0)
        sl_tcp_list(tcp, SL_TCP_UNSENT);
}
