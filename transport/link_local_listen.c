/* SPDX-License-Identifier: Apache-2.0 */
/* link_local_listen.c - addresses, listening, accepting and connecting of link_local.
 *
 * A socket file appears under its name only when somebody listens on it already: it is made under another name and linked.
 * So a file that refuses is left over from a server that died, and may be taken away.
 */
#include "transport/link_local_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    SUN_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path),
    SUFFIX_BYTES = 8, /* ".1234abc", of names that are only for a moment */
    NAME_BYTES_MAX = SUN_BYTES - 1 - SUFFIX_BYTES,
    BACKLOG = 128,
    ACCEPTS_PER_LOOK = 16
};

struct sl_local_listener {
    struct sl_local_listener *next;
    int fd;
    char path[SUN_BYTES]; /* empty for abstract names */
    dev_t device;         /* which file there is ours */
    ino_t inode;
};

/* ---- addresses ---- */

static const char path_prefix[] = "unix:";
static const char abstract_prefix[] = "unix-abstract:";

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool sl_local_handles(const char *address)
{
    return begins(address, path_prefix) || begins(address, abstract_prefix);
}

static SEALANE_RESULT address_parse(const char *address, struct sockaddr_un *at, socklen_t *bytes_p)
{
    bool abstract = begins(address, abstract_prefix);
    const char *name = address + strlen(abstract ? abstract_prefix : path_prefix);
    size_t bytes = strlen(name);

    if (!sl_local_handles(address))
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "the address \"%.100s\" is none of unix:/path, unix-abstract:name", address);
    if (bytes == 0 || bytes > NAME_BYTES_MAX)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT,
                       "the address \"%.100s\" has a name of %zu bytes, expected 1 to %d", address,
                       bytes, NAME_BYTES_MAX);
    memset(at, 0, sizeof(*at));
    at->sun_family = AF_UNIX;
    memcpy(at->sun_path + (abstract ? 1 : 0), name, bytes);
    *bytes_p = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes + 1);
    return SEALANE_OK;
}

static int socket_make(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* ---- a file left over ---- */

/* A name beside `path` that nobody has. */
static void name_beside(const char *path, char name[SUN_BYTES])
{
    uint32_t number = (uint32_t)gettid();

    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0)
        SL_LOG(SL_LOG_DEBUG, "no random number for a name: %s", strerror(errno));
    (void)snprintf(name, SUN_BYTES, "%.*s.%07x", NAME_BYTES_MAX, path, number & 0xfffffff);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Asks the file behind the descriptor and no other that may come to bear its name. */
static bool is_refusing(int path_fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int probe = socket_make();
    bool refusing;

    if (probe < 0)
        return false;
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d", path_fd);
    refusing =
        connect(probe, (const struct sockaddr *)&at, sizeof(at)) != 0 && errno == ECONNREFUSED;
    (void)close(probe);
    return refusing;
}

/* Takes `stale` away. Another server may be at the same and may have put its own file there by now: that one goes back. */
static void file_remove(const char *path, const struct stat *stale)
{
    char aside[SUN_BYTES];
    struct stat moved;

    name_beside(path, aside);
    if (rename(path, aside) != 0)
        return;
    if (lstat(aside, &moved) == 0 && !same_file(&moved, stale) && link(aside, path) != 0)
        SL_LOG(SL_LOG_WARN, "the socket file \"%s\" was replaced twice at once", path);
    (void)unlink(aside);
}

/* True: a file was there that refused, and it is no longer. */
static bool left_over_remove(const char *path)
{
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat info, now;
    bool removed = false;

    if (fd < 0)
        return errno == ENOENT;
    if (fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) && is_refusing(fd)) {
        file_remove(path, &info);
        removed = lstat(path, &now) != 0 || !same_file(&now, &info);
    }
    (void)close(fd);
    return removed;
}

/* ---- listening ---- */

/* Every failure of these two leaves errno. */
static bool listen_at(int fd, const struct sockaddr_un *at, socklen_t bytes)
{
    return bind(fd, (const struct sockaddr *)at, bytes) == 0 && listen(fd, BACKLOG) == 0;
}

static bool listen_at_path(struct sl_local_listener *listener, const struct sockaddr_un *at)
{
    struct sockaddr_un made = *at;
    struct stat info;
    bool linked;
    int error;

    name_beside(at->sun_path, made.sun_path);
    if (!listen_at(listener->fd, &made, sizeof(made)))
        return false;
    linked = lstat(made.sun_path, &info) == 0 && link(made.sun_path, at->sun_path) == 0;
    if (!linked && errno == EEXIST && left_over_remove(at->sun_path))
        linked = link(made.sun_path, at->sun_path) == 0;
    error = errno;
    (void)unlink(made.sun_path);
    errno = error;
    if (!linked)
        return false;
    memcpy(listener->path, at->sun_path, sizeof(listener->path));
    listener->device = info.st_dev;
    listener->inode = info.st_ino;
    return true;
}

static void listener_free(struct sl_local_listener *listener)
{
    struct stat now;

    /* While it still listens, nobody who means well replaces the file between these two. */
    if (listener->path[0] && lstat(listener->path, &now) == 0 && now.st_dev == listener->device &&
        now.st_ino == listener->inode)
        (void)unlink(listener->path);
    if (listener->fd >= 0) {
        (void)shutdown(listener->fd, SHUT_RDWR); /* a forked child may hold it too */
        (void)close(listener->fd);
    }
    free(listener);
}

static SEALANE_RESULT listen_failed(const char *address)
{
    if (errno == EEXIST || errno == EADDRINUSE)
        return SL_FAIL_CAUSE(
            SEALANE_ALREADY_EXISTS, errno,
            "cannot listen at \"%s\": another server listens there, or a file that is no socket is in the way",
            address);
    return sl_system_failed("cannot listen at", address);
}

static SEALANE_RESULT listener_start(struct sl_port *port, struct sl_local_listener *listener,
                                     const char *address)
{
    struct sockaddr_un at;
    socklen_t bytes;

    SL_TRY(address_parse(address, &at, &bytes));
    listener->fd = socket_make();
    if (listener->fd < 0)
        return sl_system_failed("no socket for", address);
    if (at.sun_path[0] ? !listen_at_path(listener, &at) : !listen_at(listener->fd, &at, bytes))
        return listen_failed(address);
    return sl_local_watch(port, listener->fd, NULL);
}

SEALANE_RESULT sl_local_listen(struct sl_port *port, const char *address,
                               char bound[SL_ADDRESS_BYTES])
{
    struct sl_local_listener *listener = calloc(1, sizeof(*listener));
    enum sealane_status status;

    if (!listener)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a listener");
    listener->fd = -1;
    status = listener_start(port, listener, address);
    if (status != SEALANE_OK) {
        listener_free(listener);
        return status;
    }
    if (bound)
        (void)snprintf(bound, SL_ADDRESS_BYTES, "%s", address);
    listener->next = port->listeners;
    port->listeners = listener;
    return SEALANE_OK;
}

void sl_local_unlisten(struct sl_port *port)
{
    while (port->listeners) {
        struct sl_local_listener *listener = port->listeners;

        port->listeners = listener->next;
        (void)epoll_ctl(port->epoll, EPOLL_CTL_DEL, listener->fd, NULL);
        listener_free(listener);
    }
}

/* ---- accepting ---- */

static void peer_log(int fd, const char *how)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);

    if (sl_log_wants(__FILE__, SL_LOG_DEBUG) &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0)
        SL_LOG(SL_LOG_DEBUG, "%s process %d of user %u", how, (int)peer.pid, (unsigned)peer.uid);
}

/* False: nobody was there. */
static bool peer_refuse(struct sl_port *port, const struct sl_local_listener *listener)
{
    if (!sl_peer_turn_away(listener->fd, &port->spare_fd))
        return false;
    SL_LOG(SL_LOG_WARN, "turned away a local peer: out of file descriptors");
    return true;
}

static void peer_take(struct sl_port *port, int fd)
{
    struct sl_local *local;

    peer_log(fd, "accepted");
    if (sl_local_new(port, fd, &local) != SEALANE_OK) {
        SL_LOG(SL_LOG_ERROR, "turned away a local peer: %s", sealane_last_error()->message);
        return;
    }
    local->tell_accepted = port->news = true;
}

static void accept_from(struct sl_port *port, struct sl_local_listener *listener)
{
    for (int i = 0; i < ACCEPTS_PER_LOOK; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            peer_take(port, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            if (!peer_refuse(port, listener))
                return;
        } else {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                SL_LOG(SL_LOG_ERROR, "cannot accept: %s", strerror(errno));
            return;
        }
    }
    port->look = true; /* more may wait */
}

void sl_local_accept(struct sl_port *port)
{
    for (struct sl_local_listener *at = port->listeners; at; at = at->next)
        accept_from(port, at);
}

/* ---- connecting ---- */

/* Whether somebody listens is known at once, but is told by GONE as with carriers that learn it later. */
SEALANE_RESULT sl_local_connect(struct sl_port *port, const char *address, struct sl_link **link_p)
{
    char why[SL_LOCAL_WHY_BYTES];
    struct sockaddr_un at;
    struct sl_local *local;
    socklen_t bytes;
    int fd, error;

    SL_TRY(address_parse(address, &at, &bytes));
    fd = socket_make();
    if (fd < 0)
        return sl_system_failed("no socket for", address);
    error = connect(fd, (const struct sockaddr *)&at, bytes) == 0 ? 0 : errno;
    SL_TRY(sl_local_new(port, fd, &local));
    local->takes_fds = true;
    if (error != 0) {
        (void)snprintf(why, sizeof(why), "cannot connect to %.60s: %s", address,
                       error == EAGAIN ? "the server's backlog is full" : strerror(error));
        sl_local_over(local, why);
    } else {
        peer_log(fd, "connected to");
        local->tell_connected = port->news = true;
    }
    *link_p = &local->link;
    return SEALANE_OK;
}
