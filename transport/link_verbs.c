/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs.c - links over RDMA: ports, the life of a link, polling and sleeping. link_verbs_inside.h has the picture.
 *
 * A poll asks the completion queues, which costs no system call on hardware; now and then, and always after a sleep, it looks at
 * the epoll, which knows of the connection manager and of what devices say by themselves.
 */
#include "transport/link_verbs_inside.h"
#include "transport/log.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_EVERY = 256,       /* polls */
    LOOK_EVERY_WAITING = 4, /* polls, while a link is being connected, or lingers */
    READY_MAX = 16,
    COMPLETIONS_PER_POLL = 256,
    LINGER_MS = 1000,
    LINGER_LINKS = 64,
    DEVICES_US = 500000, /* between looks whether devices are there */
    CLOSE_US = 5000      /* what a port that is closed gives its last words */
};

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- lists ---- */

void sl_verbs_list(struct sl_verbs *verbs, enum sl_verbs_list list)
{
    sl_list_add(&verbs->port->lists[list], &verbs->at[list], verbs);
}

void sl_verbs_unlist(struct sl_verbs *verbs, enum sl_verbs_list list)
{
    sl_list_remove(&verbs->port->lists[list], &verbs->at[list]);
}

/* ---- links ---- */

SEALANE_RESULT sl_verbs_new(struct sl_port *port, struct rdma_cm_id *id, struct sl_verbs **verbs_p)
{
    struct sl_verbs *verbs = calloc(1, sizeof(*verbs));
    enum sealane_status status;

    if (!verbs)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a link");
    verbs->link.ops = &sl_link_verbs;
    verbs->port = port;
    verbs->allowed = SL_VERBS_PIECES;
    verbs->came.first = verbs->lent.first = SL_VERBS_NO_RECEIVE;
    status = sl_verbs_memory_make(verbs);
    if (status != SEALANE_OK) {
        free(verbs->receives);
        free(verbs);
        return status;
    }
    verbs->id = id;
    sl_verbs_list(verbs, SL_VERBS_ALL);
    *verbs_p = verbs;
    return SEALANE_OK;
}

static void waits_no_more(struct sl_verbs *verbs)
{
    if (verbs->connecting)
        verbs->port->waiting--;
    verbs->connecting = false;
}

static void device_forget(struct sl_port *port, struct sl_verbs_device *device)
{
    struct sl_verbs_device **at = &port->devices;

    while (*at != device)
        at = &(*at)->next;
    *at = device->next;
    sl_verbs_device_close(device);
}

void sl_verbs_free(struct sl_verbs *verbs)
{
    struct sl_verbs_device *device = verbs->device;

    waits_no_more(verbs);
    for (int list = 0; list < SL_VERBS_LISTS; list++)
        sl_verbs_unlist(verbs, (enum sl_verbs_list)list);
    sl_verbs_pair_free(verbs);
    if (verbs->id && rdma_destroy_id(verbs->id) != 0)
        SL_LOG(SL_LOG_ERROR, "cannot end a connection id: %s", strerror(errno));
    if (device && device->dead && device->links == 0)
        device_forget(verbs->port, device);
    free(verbs->writes);
    free(verbs->places);
    free(verbs->receives);
    free(verbs);
}

void sl_verbs_over(struct sl_verbs *verbs, const char *format, ...)
{
    va_list arguments;

    verbs->finished = true; /* if it lingers */
    if (verbs->over)
        return;
    verbs->over = verbs->mute = true;
    va_start(arguments, format);
    (void)vsnprintf(verbs->why, sizeof(verbs->why), format, arguments);
    va_end(arguments);
    waits_no_more(verbs);
    sl_verbs_unlist(verbs, SL_VERBS_UNSENT);
    sl_verbs_pair_stop(verbs);
    if (!verbs->at[SL_VERBS_LINGER].in)
        sl_verbs_list(verbs, SL_VERBS_READY);
}

/* What was written is on its way; the last word behind it ends the wait. Our rings are closed at once: their memory may be given
 * back by the caller, and what the peer still writes to them breaks the queue pair. */
static void verbs_drop(struct sl_link *link)
{
    struct sl_verbs *verbs = sl_verbs_of(link);
    struct sl_port *port = verbs->port;

    if (!verbs->mute)
        sl_verbs_flush(verbs);
    if (!sl_verbs_say_end(verbs)) {
        sl_verbs_free(verbs);
        return;
    }
    for (int list = 0; list < SL_VERBS_LISTS; list++)
        sl_verbs_unlist(verbs, (enum sl_verbs_list)list);
    verbs->mute = true;
    verbs->linger_us = now_us() + LINGER_MS * 1000;
    sl_verbs_list(verbs, SL_VERBS_LINGER);
    sl_verbs_pair_close_rings(verbs);
    if (port->lists[SL_VERBS_LINGER].count > LINGER_LINKS)
        sl_verbs_free(sl_list_first(&port->lists[SL_VERBS_LINGER]));
}

/* ---- ports ---- */

static SEALANE_RESULT verbs_open(const struct sl_link_settings *settings, struct sl_port **port_p)
{
    struct sl_port *port = calloc(1, sizeof(*port));

    if (!port)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a port");
    port->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (port->epoll < 0) {
        free(port);
        return sl_system_failed("cannot make an epoll for", "link_verbs");
    }
    port->retry = -1;
    if (settings)
        port->wish = *settings;
    *port_p = port;
    return SEALANE_OK;
}

static void completions_judge(struct sl_port *port, int budget)
{
    for (struct sl_verbs_device *device = port->devices; device; device = device->next)
        (void)sl_verbs_completions(device, budget);
}

static void lingerers_end(struct sl_port *port)
{
    int64_t now = sl_list_first(&port->lists[SL_VERBS_LINGER]) ? now_us() : 0;

    for (struct sl_verbs *verbs = sl_list_first(&port->lists[SL_VERBS_LINGER]), *next; verbs;
         verbs = next) {
        next = sl_list_after(&verbs->at[SL_VERBS_LINGER]);
        if (verbs->finished || verbs->linger_us <= now)
            sl_verbs_free(verbs);
    }
}

/* The last words have a moment to arrive: nobody asks this port again. */
static void lingerers_await(struct sl_port *port)
{
    const struct timespec moment = {.tv_nsec = 20000};
    int64_t until = now_us() + CLOSE_US;

    for (;;) {
        completions_judge(port, COMPLETIONS_PER_POLL);
        lingerers_end(port);
        if (!sl_list_first(&port->lists[SL_VERBS_LINGER]) || now_us() >= until)
            return;
        (void)nanosleep(&moment, NULL);
    }
}

static void verbs_close(struct sl_port *port)
{
    for (struct sl_verbs *verbs = sl_list_first(&port->lists[SL_VERBS_ALL]), *next; verbs;
         verbs = next) {
        next = sl_list_after(&verbs->at[SL_VERBS_ALL]);
        verbs_drop(&verbs->link);
    }
    sl_verbs_unlisten(port);
    lingerers_await(port);
    while (sl_list_first(&port->lists[SL_VERBS_LINGER]))
        sl_verbs_free(sl_list_first(&port->lists[SL_VERBS_LINGER]));
    while (port->devices)
        device_forget(port, port->devices);
    if (port->retry >= 0)
        (void)close(port->retry);
    if (port->channel)
        rdma_destroy_event_channel(port->channel);
    (void)close(port->epoll);
    free(port);
}

/* ---- polling ---- */

static bool has_outcome(const struct sl_verbs *verbs)
{
    return verbs->tell_accepted || verbs->tell_connected ||
           (!sl_verbs_has_come(verbs) && ((verbs->over && !verbs->ended) || verbs->tell_writable));
}

static bool outcome_take(struct sl_verbs *verbs, struct sl_link_event *event)
{
    *event = (struct sl_link_event){.link = &verbs->link};
    if (verbs->tell_accepted) {
        verbs->tell_accepted = false;
        event->kind = SL_LINK_ACCEPTED;
    } else if (verbs->tell_connected) {
        verbs->tell_connected = false;
        event->kind = SL_LINK_CONNECTED;
    } else if (verbs->over) {
        verbs->ended = true;
        verbs->tell_writable = false;
        event->kind = SL_LINK_GONE;
        memcpy(event->why, verbs->why, sizeof(event->why));
    } else {
        verbs->tell_writable = false;
        event->kind = SL_LINK_WRITABLE;
    }
    return true;
}

static bool has_news(const struct sl_verbs *verbs)
{
    return has_outcome(verbs) || sl_verbs_has_come(verbs);
}

static void device_look(struct sl_port *port, uint32_t tag)
{
    struct sl_verbs_device *device = port->devices;

    while (device && device->number != tag / 2)
        device = device->next;
    if (device && tag % 2 == 0)
        sl_verbs_wakes_take(device);
    else if (device)
        sl_verbs_async_take(port, device);
}

/* A device that nobody uses any more is let go of, so that it can be removed. */
static void devices_check(struct sl_port *port)
{
    bool any = port->devices || port->listeners;
    int64_t now = any ? now_us() : 0;

    if (!any || now - port->devices_us < DEVICES_US)
        return;
    port->devices_us = now;
    sl_verbs_devices_check(port);
    sl_verbs_listeners_check(port);
    for (struct sl_verbs_device *device = port->devices, *next; device; device = next) {
        next = device->next;
        if (device->dead && device->links == 0)
            device_forget(port, device);
    }
}

static void epoll_look(struct sl_port *port)
{
    struct epoll_event ready[READY_MAX];
    int n = epoll_wait(port->epoll, ready, READY_MAX, 0);

    port->effort = 0;
    port->look = n == READY_MAX || n < 0; /* more may wait */
    devices_check(port);
    for (int i = 0; i < n; i++) {
        if (ready[i].data.u32 == (uint32_t)SL_VERBS_RETRY_TAG)
            sl_verbs_listen_again(port);
        else if (ready[i].data.u32 == (uint32_t)SL_VERBS_MANAGER_TAG)
            port->look |= sl_verbs_manager_take(port);
        else
            device_look(port, ready[i].data.u32);
    }
}

static void unsent_flush(struct sl_port *port)
{
    while (sl_list_first(&port->lists[SL_VERBS_UNSENT]))
        sl_verbs_flush(sl_list_first(&port->lists[SL_VERBS_UNSENT]));
}

/* Each link has one turn at most. Whoever hears ACCEPTED may drop the link at once, so an outcome is all that its link tells in a
 * poll. */
static int links_turn(struct sl_port *port, struct sl_link_event *events, int max)
{
    int count = 0;

    for (size_t n = port->lists[SL_VERBS_READY].count; n > 0 && count < max; n--) {
        struct sl_verbs *verbs = sl_list_first(&port->lists[SL_VERBS_READY]);

        sl_verbs_unlist(verbs, SL_VERBS_READY);
        if (verbs->at[SL_VERBS_HALF].in) { /* over before anybody was told of it */
            sl_verbs_free(verbs);
            continue;
        }
        count += has_outcome(verbs) ? outcome_take(verbs, &events[count])
                                    : sl_verbs_take(verbs, &events[count], max - count);
        if (has_news(verbs))
            sl_verbs_list(verbs, SL_VERBS_READY);
    }
    return count;
}

static bool look_is_due(struct sl_port *port)
{
    bool waits = port->waiting > 0 || sl_list_first(&port->lists[SL_VERBS_HALF]) ||
                 sl_list_first(&port->lists[SL_VERBS_LINGER]);

    return port->look || ++port->effort >= (waits ? LOOK_EVERY_WAITING : LOOK_EVERY);
}

static int verbs_poll(struct sl_port *port, struct sl_link_event *events, int max)
{
    unsent_flush(port);
    if (max == 0)
        return 0;
    while (sl_list_first(&port->lists[SL_VERBS_LENT]))
        sl_verbs_lent_return(sl_list_first(&port->lists[SL_VERBS_LENT]));
    if (look_is_due(port))
        epoll_look(port);
    completions_judge(port, COMPLETIONS_PER_POLL);
    lingerers_end(port);
    return links_turn(port, events, max);
}

static bool news_wait(const struct sl_port *port)
{
    const struct sl_verbs *verbs = sl_list_first(&port->lists[SL_VERBS_READY]);

    while (verbs && !has_news(verbs))
        verbs = sl_list_after(&verbs->at[SL_VERBS_READY]);
    return verbs != NULL;
}

static int verbs_arm(struct sl_port *port)
{
    unsent_flush(port);
    epoll_look(port);
    for (struct sl_verbs_device *device = port->devices; device; device = device->next) {
        sl_verbs_device_arm(port, device);
        /* What came before it was armed wakes nobody. */
        if (sl_verbs_completions(device, device->cq->cqe) >= device->cq->cqe)
            port->look = true;
    }
    lingerers_end(port);
    if (port->look || news_wait(port))
        return -1;
    port->look = true; /* after the sleep */
    return port->epoll;
}

/* Where there is no device, a numeric address is another carrier's. Looked at anew each time: devices come and go. */
static bool verbs_handles(const char *address)
{
    struct dirent *entry = NULL;
    DIR *devices;

    if (!sl_address_is_numeric(address) || !(devices = opendir("/sys/class/infiniband")))
        return false;
    do
        entry = readdir(devices);
    while (entry && entry->d_name[0] == '.');
    (void)closedir(devices);
    return entry != NULL;
}

const struct sl_link_ops sl_link_verbs = {
    .name = "verbs",
    .handles = verbs_handles,
    .open = verbs_open,
    .close = verbs_close,
    .listen = sl_verbs_listen,
    .connect = sl_verbs_connect,
    .drop = verbs_drop,
    .grant = sl_verbs_grant,
    .attach = sl_verbs_attach,
    .sources = sl_verbs_sources,
    .forget = sl_verbs_forget,
    .send = sl_verbs_send,
    .write_imm = sl_verbs_write_imm,
    .poll = verbs_poll,
    .arm = verbs_arm,
};
