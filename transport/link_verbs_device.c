/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_device.c - RDMA devices: opened per port, their completions and what they say by themselves. A limit is
 * read from the device, never assumed. */
#include "transport/link_verbs_inside.h"
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
    QUEUE_BEGIN = 4096, /* completions; grows */
    BATCH = 16,
    ACKS = 64, /* completion events that are acknowledged together: each takes a lock */
    ASYNC_PER_LOOK = 16
};

const char *sl_verbs_device_name(const struct sl_verbs_device *device)
{
    return ibv_get_device_name(device->verbs->device);
}

/* ---- opening and closing ---- */

static bool descriptor_watch(struct sl_port *port, int fd, uint32_t tag)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = tag};
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
           epoll_ctl(port->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static SEALANE_RESULT device_start(struct sl_port *port, struct sl_verbs_device *device)
{
    const char *name = sl_verbs_device_name(device);
    int error = ibv_query_device(device->verbs, &device->limits);
    int entries;

    errno = error;
    if (error != 0)
        return sl_system_failed("cannot ask for the limits of", name);
    SL_TRY(sl_verbs_device_check(device->verbs->device, &device->limits));
    device->channel = ibv_create_comp_channel(device->verbs);
    if (!device->channel)
        return sl_system_failed("no completion channel on", name);
    entries = device->limits.max_cqe < QUEUE_BEGIN ? device->limits.max_cqe : QUEUE_BEGIN;
    device->cq = ibv_create_cq(device->verbs, entries, device, device->channel, 0);
    if (!device->cq)
        return sl_system_failed("no completion queue on", name);
    if (!descriptor_watch(port, device->channel->fd, device->number * 2) ||
        !descriptor_watch(port, device->verbs->async_fd, device->number * 2 + 1))
        return sl_system_failed("cannot watch", name);
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_device_get(struct sl_port *port, struct ibv_device *like,
                                   struct sl_verbs_device **device_p)
{
    struct sl_verbs_device *device = port->devices;
    enum sealane_status status;

    while (device && (device->dead || device->verbs->device != like))
        device = device->next;
    *device_p = device;
    if (device)
        return SEALANE_OK;
    device = calloc(1, sizeof(*device));
    if (!device)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a device");
    device->number = port->device_count++;
    device->verbs = ibv_open_device(like);
    if (!device->verbs) {
        free(device);
        return sl_system_failed("cannot open", ibv_get_device_name(like));
    }
    status = device_start(port, device);
    if (status != SEALANE_OK) {
        sl_verbs_device_close(device);
        return status;
    }
    device->next = port->devices;
    port->devices = device;
    *device_p = device;
    return SEALANE_OK;
}

void sl_verbs_device_close(struct sl_verbs_device *device)
{
    bool clean = true;

    if (device->unacked > 0)
        ibv_ack_cq_events(device->cq, device->unacked);
    if (device->cq)
        clean &= ibv_destroy_cq(device->cq) == 0;
    if (device->channel)
        clean &= ibv_destroy_comp_channel(device->channel) == 0;
    if (!clean && !device->dead)
        SL_LOG(SL_LOG_ERROR, "%s does not let go of its queues", sl_verbs_device_name(device));
    if (ibv_close_device(device->verbs) != 0)
        SL_LOG(SL_LOG_ERROR, "cannot close a device: %s", strerror(errno));
    free(device->entries);
    free(device);
}

/* ---- links of a device ---- */

static SEALANE_RESULT entries_grow(struct sl_verbs_device *device)
{
    uint32_t count = device->entry_count ? device->entry_count * 2 : 16;
    struct sl_verbs_entry *entries = realloc(device->entries, count * sizeof(*entries));

    if (!entries)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a table of %u links", count);
    memset(entries + device->entry_count, 0, (count - device->entry_count) * sizeof(*entries));
    device->entries = entries;
    device->entry_count = count;
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_enter(struct sl_verbs *verbs)
{
    struct sl_verbs_device *device = verbs->device;
    uint32_t index = 0;

    while (index < device->entry_count && device->entries[index].link)
        index++;
    verbs->device = NULL; /* not in its table yet */
    if (index == device->entry_count)
        SL_TRY(entries_grow(device));
    verbs->device = device;
    verbs->index = index;
    device->entries[index].link = verbs;
    device->entries[index].generation++;
    device->links++;
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_reserve(struct sl_verbs *verbs, uint32_t more)
{
    struct sl_verbs_device *device = verbs->device;
    uint32_t wanted = device->reserved + more, max = (uint32_t)device->limits.max_cqe;
    uint32_t twice = (uint32_t)device->cq->cqe * 2;
    int error = 0;

    if (wanted > max)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "the completion queue of %s has room for %u, its %u links may need %u",
                       sl_verbs_device_name(device), max, device->links, wanted);
    if (wanted > (uint32_t)device->cq->cqe) {
        twice = twice < wanted ? wanted : twice;
        error = ibv_resize_cq(device->cq, (int)(twice < max ? twice : max));
    }
    errno = error;
    if (error != 0)
        return sl_system_failed("the completion queue cannot grow on",
                                sl_verbs_device_name(device));
    device->reserved = wanted;
    verbs->reserved += more;
    return SEALANE_OK;
}

void sl_verbs_leave(struct sl_verbs *verbs)
{
    struct sl_verbs_device *device = verbs->device;

    device->entries[verbs->index].link = NULL;
    device->reserved -= verbs->reserved;
    device->links--;
    verbs->device = NULL;
}

/* ---- completions ---- */

/* What a person may do about it. */
static const char *usual_cause(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer's host does not answer";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer takes nothing in";
    case IBV_WC_REM_ACCESS_ERR:
        return "the peer's ring is closed to us, or was never ours";
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        return "the peer's queue pair refused it or broke";
    case IBV_WC_LOC_LEN_ERR:
        return "more came than was agreed";
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_PROT_ERR:
        return "memory that is not registered for it";
    case IBV_WC_LOC_QP_OP_ERR:
        return "the queue pair broke, or the network went down";
    default:
        return "the queue pair broke";
    }
}

static void failed(struct sl_verbs *verbs, enum sl_verbs_work work, enum ibv_wc_status status)
{
    if (status == IBV_WC_WR_FLUSH_ERR)
        sl_verbs_over(verbs, "the queue pair with %.50s broke", verbs->peer);
    else if (work == SL_VERBS_WORK_RECEIVE)
        sl_verbs_over(verbs, "%.40s: the peer sent what it may not, or where it may not",
                      ibv_wc_status_str(status));
    else
        sl_verbs_over(verbs, "%.40s: %s", ibv_wc_status_str(status), usual_cause(status));
}

static void completion(struct sl_verbs_device *device, const struct ibv_wc *wc)
{
    uint32_t index = (uint32_t)(wc->wr_id >> 40);
    uint32_t generation = (uint32_t)(wc->wr_id >> 20) & 0xfffff;
    enum sl_verbs_work work = (enum sl_verbs_work)(wc->wr_id >> 16 & 0xf);
    uint16_t number = (uint16_t)wc->wr_id;
    struct sl_verbs *verbs;

    if (index >= device->entry_count)
        return;
    verbs = device->entries[index].link;
    if (!verbs || (device->entries[index].generation & 0xfffff) != generation)
        return; /* of a link that is no more */
    if (work != SL_VERBS_WORK_RECEIVE)
        sl_verbs_work_done(verbs, work, number);
    if (wc->status != IBV_WC_SUCCESS)
        failed(verbs, work, wc->status);
    else if (work == SL_VERBS_WORK_RECEIVE)
        sl_verbs_came(verbs, wc, number);
}

int sl_verbs_completions(struct sl_verbs_device *device, int budget)
{
    struct ibv_wc wcs[BATCH];
    int n = BATCH, all = 0;

    while (n == BATCH && all < budget) {
        n = device->dead ? 0 : ibv_poll_cq(device->cq, BATCH, wcs);
        for (int i = 0; i < n; i++)
            completion(device, &wcs[i]);
        all += n > 0 ? n : 0;
    }
    return all;
}

void sl_verbs_wakes_take(struct sl_verbs_device *device)
{
    struct ibv_cq *cq;
    void *context;

    while (ibv_get_cq_event(device->channel, &cq, &context) == 0) {
        device->armed = false;
        device->unacked++;
    }
    if (device->unacked >= ACKS) {
        ibv_ack_cq_events(device->cq, device->unacked);
        device->unacked = 0;
    }
}

void sl_verbs_device_arm(struct sl_port *port, struct sl_verbs_device *device)
{
    int error;

    if (device->armed || device->dead)
        return;
    error = ibv_req_notify_cq(device->cq, 0);
    device->armed = error == 0;
    if (error != 0)
        sl_verbs_device_over(port, device, "cannot be asked to wake us: %s", strerror(error));
}

/* ---- what a device says by itself ---- */

void sl_verbs_device_over(struct sl_port *port, struct sl_verbs_device *device, const char *format,
                          ...)
{
    char why[SL_VERBS_WHY_BYTES];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    if (device->dead)
        return;
    device->dead = true;
    SL_LOG(SL_LOG_WARN, "%s %s", sl_verbs_device_name(device), why);
    (void)epoll_ctl(port->epoll, EPOLL_CTL_DEL, device->channel->fd, NULL);
    (void)epoll_ctl(port->epoll, EPOLL_CTL_DEL, device->verbs->async_fd, NULL);
    for (uint32_t i = 0; i < device->entry_count; i++) {
        if (device->entries[i].link)
            sl_verbs_over(device->entries[i].link, "%.30s %.80s", sl_verbs_device_name(device),
                          why);
    }
}

static void port_over(struct sl_verbs_device *device, int number)
{
    for (uint32_t i = 0; i < device->entry_count; i++) {
        struct sl_verbs *verbs = device->entries[i].link;

        if (verbs && verbs->id->port_num == number)
            sl_verbs_over(verbs, "port %d of %.40s went down", number,
                          sl_verbs_device_name(device));
    }
}

/* The completions that came before say more than the event. */
static void pair_over(struct sl_verbs_device *device, struct ibv_qp *qp, const char *why)
{
    struct sl_verbs *verbs = qp->qp_context;

    (void)sl_verbs_completions(device, device->cq->cqe);
    sl_verbs_over(verbs, "%s", why);
}

/* Every event has its decision here; those without one only mean something to who uses what sealane does not. */
static void async_judge(struct sl_port *port, struct sl_verbs_device *device,
                        const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_QP_FATAL:
        pair_over(device, event->element.qp, "the queue pair broke");
        break;
    case IBV_EVENT_QP_REQ_ERR:
        pair_over(device, event->element.qp,
                  "the peer asked for what its queue pair does not allow");
        break;
    case IBV_EVENT_QP_ACCESS_ERR:
        pair_over(device, event->element.qp, "the peer reached for memory that it was not granted");
        break;
    case IBV_EVENT_COMM_EST:
        sl_verbs_established(event->element.qp->qp_context);
        break;
    case IBV_EVENT_CQ_ERR:
        sl_verbs_device_over(port, device, "lost completions: its queue overran");
        break;
    case IBV_EVENT_PORT_ERR:
        port_over(device, event->element.port_num);
        break;
    case IBV_EVENT_DEVICE_FATAL:
        sl_verbs_device_over(port, device, "broke or was removed");
        break;
    default:
        SL_LOG(SL_LOG_INFO, "%s: %s", sl_verbs_device_name(device),
               ibv_event_type_str(event->event_type));
        break;
    }
}

/* Acknowledged first: what is decided may destroy what the event is about, which waits for that. */
void sl_verbs_async_take(struct sl_port *port, struct sl_verbs_device *device)
{
    for (int i = 0; i < ASYNC_PER_LOOK && !device->dead; i++) {
        struct ibv_async_event event;

        if (ibv_get_async_event(device->verbs, &event) != 0) {
            if (errno != EAGAIN && errno != EINTR)
                sl_verbs_device_over(port, device, "was removed: %s", strerror(errno));
            return;
        }
        ibv_ack_async_event(&event);
        async_judge(port, device, &event);
    }
    port->look = true;
}

void sl_verbs_devices_check(struct sl_port *port)
{
    for (struct sl_verbs_device *device = port->devices; device; device = device->next) {
        if (!device->dead && access(device->verbs->device->dev_path, F_OK) != 0)
            sl_verbs_device_over(port, device, "was removed");
    }
}
