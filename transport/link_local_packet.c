/* SPDX-License-Identifier: Apache-2.0 */
/* link_local_packet.c - the socket of a link: handshake bytes, descriptors, wake-ups. What does not belong there ends the link,
 * and no descriptor that came uninvited stays open. */
#include "transport/link_local_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PER_LOOK = 16, /* packets read from one link before the next one's turn */
    FDS_MAX = 8    /* of one packet; the kernel closes what is past it and says so */
};

union control {
    char bytes[CMSG_SPACE(FDS_MAX * sizeof(int))];
    struct cmsghdr align;
};

/* ---- out ---- */

static void fd_put(struct msghdr *message, union control *control, int fd)
{
    struct cmsghdr *head;

    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(sizeof(int));
    head = CMSG_FIRSTHDR(message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(int));
}

/* 0 or errno. */
static int packet_send(struct sl_local *local, struct iovec *pieces, size_t count, int fd)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    union control control = {{0}};
    ssize_t sent;

    if (fd >= 0)
        fd_put(&message, &control, fd);
    do
        sent = sendmsg(local->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

SEALANE_RESULT sl_local_send(struct sl_link *link, const uint8_t *bytes, size_t count)
{
    struct sl_local *local = sl_local_of(link);
    char type = 'B';
    struct iovec pieces[] = {{&type, 1}, {(void *)(uintptr_t)bytes, count}};
    int error;

    if (count == 0 || count > SL_LINK_SEND_BYTES)
        return SL_FAIL(SEALANE_INVALID_ARGUMENT, "a send of %zu bytes, expected 1 to %d", count,
                       SL_LINK_SEND_BYTES);
    error = packet_send(local, pieces, 2, -1);
    if (error == 0)
        return SEALANE_OK;
    if (error != EAGAIN)
        return SL_FAIL_CAUSE(SEALANE_UNAVAILABLE, error, "cannot send to the local peer: %s",
                             strerror(error));
    sl_local_watch_room(local, true);
    return SL_AGAIN;
}

/* The peer has read our part of the handshake before it comes to this; if even so its socket is full, it does not read. */
SEALANE_RESULT sl_local_pass(struct sl_local *local, char type, uint8_t ring, int fd)
{
    struct iovec pieces[] = {{&type, 1}, {&ring, 1}};
    int error = packet_send(local, pieces, 2, fd);

    if (error != 0)
        return SL_FAIL_CAUSE(SEALANE_UNAVAILABLE, error,
                             "cannot pass a descriptor to the local peer: %s", strerror(error));
    return SEALANE_OK;
}

/* A full socket has the peer awake already; one at its end tells GONE by itself. */
void sl_local_wake(struct sl_local *local)
{
    char type = 'W';
    struct iovec piece = {&type, 1};
    int error = packet_send(local, &piece, 1, -1);

    if (error == 0 || error == EAGAIN || error == EPIPE || error == ECONNRESET)
        return;
    sl_local_over(local, "the peer sleeps and cannot be woken");
}

/* ---- in ---- */

/* The one descriptor of a packet, or -1. More than one: all are closed, *many is set. */
static int fd_take(struct msghdr *message, bool *many)
{
    int fd = -1;

    *many = false;
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head; head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; at + sizeof(int) <= head->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
            if (fd >= 0) {
                (void)close(fd);
                *many = true;
            }
            memcpy(&fd, CMSG_DATA(head) + at, sizeof(int));
        }
    }
    if (*many) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

/* Keeps a descriptor that is waited for. */
static bool fd_keep(struct sl_local *local, size_t bytes, int fd)
{
    const uint8_t *packet = local->port->packet;
    int *place = NULL;

    if (bytes != 2 || fd < 0)
        return false;
    if (packet[0] == 'P' && !local->theirs)
        place = &local->page_fd;
    else if (packet[0] == 'R' && packet[1] < SL_RING_COUNT && !local->rings[packet[1]].base)
        place = &local->rings[packet[1]].fd;
    if (!place || *place >= 0)
        return false;
    *place = fd;
    return true;
}

enum taken {
    TAKEN_NOTHING, /* nothing waits, or the link is over */
    TAKEN_PACKET,
    TAKEN_BYTES
};

static enum taken packet_judge(struct sl_local *local, size_t bytes, int fd)
{
    const uint8_t *packet = local->port->packet;

    if (packet[0] == 'B' && bytes > 1 && fd < 0)
        return TAKEN_BYTES;
    if (packet[0] == 'W' && bytes == 1 && fd < 0)
        return TAKEN_PACKET;
    if (fd_keep(local, bytes, fd))
        return TAKEN_PACKET;
    if (fd >= 0)
        (void)close(fd);
    sl_local_over(local, "the peer sent a packet that does not belong here");
    return TAKEN_NOTHING;
}

/* How a read that brought no packet is taken. ECONNRESET comes once, when the peer closed without reading all of ours; what
 * it sent before still waits behind it. */
static enum taken none_came(struct sl_local *local, ssize_t bytes)
{
    if (bytes < 0 && errno == EAGAIN)
        return TAKEN_NOTHING;
    if (bytes < 0 && (errno == EINTR || errno == ECONNRESET))
        return TAKEN_PACKET;
    sl_local_over(local, bytes == 0 ? "the peer closed" : strerror(errno));
    return TAKEN_NOTHING;
}

static enum taken packet_take(struct sl_local *local, size_t *bytes_p)
{
    union control control;
    struct iovec piece = {local->port->packet, SL_LOCAL_PACKET_BYTES};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    ssize_t bytes;
    bool many;
    int fd;

    /* Without room for them the kernel drops descriptors before they are any of this process. */
    if (local->takes_fds) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control);
    }
    bytes = recvmsg(local->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0)
        return none_came(local, bytes);
    fd = fd_take(&message, &many);
    if (many || (message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
        if (fd >= 0)
            (void)close(fd);
        sl_local_over(local, "the peer sent more bytes or descriptors than a packet may hold");
        return TAKEN_NOTHING;
    }
    if (bytes == 0) { /* the end; an empty packet ends it too */
        if (fd >= 0)
            (void)close(fd);
        return none_came(local, bytes);
    }
    *bytes_p = (size_t)bytes;
    return packet_judge(local, (size_t)bytes, fd);
}

bool sl_local_packets(struct sl_local *local, struct sl_link_event *event)
{
    for (int i = 0; i < PER_LOOK; i++) {
        size_t bytes = 0;
        enum taken taken = packet_take(local, &bytes);

        if (taken == TAKEN_NOTHING)
            return false;
        local->port->look = true; /* more may wait behind it */
        if (taken == TAKEN_PACKET)
            continue;
        *event = (struct sl_link_event){.kind = SL_LINK_BYTES,
                                        .link = &local->link,
                                        .bytes = local->port->packet + 1,
                                        .count = bytes - 1};
        return true;
    }
    return false;
}
