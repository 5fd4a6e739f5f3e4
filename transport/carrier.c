/* SPDX-License-Identifier: Apache-2.0 */
/* carrier.c - what all carriers do alike; carrier.h. */
#include "transport/carrier.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static enum sealane_status status_of(int error)
{
    switch (error) {
    case EADDRINUSE:
    case EEXIST:
        return SEALANE_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return SEALANE_PERMISSION_DENIED;
    case ENOENT:
    case ENOTDIR:
    case EADDRNOTAVAIL:
    case ENODEV:
        return SEALANE_NOT_FOUND;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case ENOSPC:
        return SEALANE_RESOURCE_EXHAUSTED;
    default:
        return SEALANE_UNAVAILABLE;
    }
}

SEALANE_RESULT sl_system_failed(const char *what, const char *on)
{
    int error = errno;

    return SL_FAIL_CAUSE(status_of(error), error, "%s \"%s\": %s", what, on, strerror(error));
}

bool sl_peer_turn_away(int listener_fd, int *spare_fd)
{
    int fd = -1;

    if (*spare_fd >= 0) {
        (void)close(*spare_fd);
        fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
    if (fd >= 0)
        (void)close(fd);
    *spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return fd >= 0;
}

/* ---- lists ---- */

SEALANE_RESULT sl_ring_is_hosts(const struct sl_ring_memory *memory, const char *link)
{
    if (memory->place == SL_PLACE_HOST)
        return SEALANE_OK;
    return SL_FAIL(SEALANE_UNIMPLEMENTED, "link %s cannot write to memory of a device", link);
}

void sl_list_add(struct sl_list *list, struct sl_knot *knot, void *of)
{
    if (knot->in)
        return;
    *knot = (struct sl_knot){.prev = list->last, .of = of, .in = true};
    if (list->last)
        list->last->next = knot;
    else
        list->first = knot;
    list->last = knot;
    list->count++;
}

void sl_list_remove(struct sl_list *list, struct sl_knot *knot)
{
    if (!knot->in)
        return;
    knot->in = false;
    if (knot->prev)
        knot->prev->next = knot->next;
    else
        list->first = knot->next;
    if (knot->next)
        knot->next->prev = knot->prev;
    else
        list->last = knot->prev;
    list->count--;
}
