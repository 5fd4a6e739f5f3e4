/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_connect.c - listening, connecting, and every event of the connection manager. Both sides say in the private data of
 * the connection who they are: 'S' 'L' 'V' 'B', version, zeros. Neither allows reads or atomics. */
#include "transport/link_verbs_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum {
    BACKLOG = 1024,
    RESOLVE_MS = 2000,
    EVENTS_PER_LOOK = 32,
    HALF_MAX = 64, /* peers that asked and did not confirm yet: each has a queue pair */
    HELLO_BYTES = 8,
    /* Reasons of the InfiniBand connection manager (12.6.7.2), which are not in its header. */
    REJECT_STALE = 10,
    REJECT_NO_SERVICE = 8,
    REJECT_CONSUMER = 28
};

struct sl_verbs_listener {
    struct sl_verbs_listener *next;
    struct rdma_cm_id *id; /* NULL: its device was removed */
    char address[SL_ADDRESS_BYTES];
};

/* An event, copied: it is acknowledged before it is judged, as judging may destroy what it is about. */
struct happening {
    enum rdma_cm_event_type event;
    struct rdma_cm_id *id;
    int status;
    uint8_t hello[HELLO_BYTES]; /* zeros when there was none */
};

static const uint8_t hello[HELLO_BYTES] = {'S', 'L', 'V', 'B', SL_VERBS_VERSION};

static const struct rdma_conn_param parameters = {
    .private_data = hello,
    .private_data_len = sizeof(hello),
    .responder_resources = 0,
    .initiator_depth = 0,
    .retry_count = 6,
    .rnr_retry_count = 7,
};

/* ---- the manager ---- */

/* Its library complains aloud where there is no device, so it is only asked where there is one. */
static bool any_device(void)
{
    int count = 0;
    struct ibv_device **devices = ibv_get_device_list(&count);

    if (devices)
        ibv_free_device_list(devices);
    return count > 0;
}

/* NOT_FOUND where there is no device. */
static SEALANE_RESULT manager_open(struct sl_port *port)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)SL_VERBS_MANAGER_TAG};
    struct rdma_event_channel *channel;

    if (port->deaf)
        return SL_FAIL(SEALANE_UNAVAILABLE, "the connection manager tells nothing any more");
    if (port->channel)
        return SEALANE_OK;
    if (!any_device())
        return SL_FAIL(SEALANE_NOT_FOUND, "this host has no RDMA device");
    SL_TRY(sl_verbs_locked_check());
    if (ibv_fork_init() != 0) /* nothing to do in kernels that copy registered pages at a fork */
        SL_LOG(SL_LOG_WARN, "a fork would harm registered memory: %s", strerror(errno));
    channel = rdma_create_event_channel();
    if (!channel)
        return sl_system_failed("no event channel of", "rdma_cm");
    if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) != 0 ||
        epoll_ctl(port->epoll, EPOLL_CTL_ADD, channel->fd, &event) != 0) {
        enum sealane_status status = sl_system_failed("cannot watch", "rdma_cm");

        rdma_destroy_event_channel(channel);
        return status;
    }
    port->channel = channel;
    return SEALANE_OK;
}

/* ---- listening ---- */

static void listener_free(struct sl_verbs_listener *listener)
{
    if (listener->id && rdma_destroy_id(listener->id) != 0)
        SL_LOG(SL_LOG_ERROR, "cannot end a listener: %s", strerror(errno));
    free(listener);
}

/* Whether an RDMA device has the address, whatever its port. */
static bool is_own(struct sl_port *port, const struct sockaddr_storage *address)
{
    struct sockaddr_storage at = *address;
    struct rdma_cm_id *id;
    bool own;

    if (at.ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)&at)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)(void *)&at)->sin6_port = 0;
    if (rdma_create_id(port->channel, &id, NULL, RDMA_PS_TCP) != 0)
        return false;
    own = rdma_bind_addr(id, (struct sockaddr *)&at) == 0;
    (void)rdma_destroy_id(id);
    return own;
}

/* Where somebody listens already and where no device has the address the kernel may say the same. */
static SEALANE_RESULT bind_failed(struct sl_port *port, const char *address,
                                  const struct sockaddr_storage *at)
{
    int error = errno;

    if ((error == ENODEV || error == EADDRNOTAVAIL) && !is_own(port, at))
        return SL_FAIL_CAUSE(SEALANE_NOT_FOUND, error, "no RDMA device has the address \"%s\"",
                             address);
    errno = error == EADDRNOTAVAIL ? EADDRINUSE : error;
    return sl_system_failed("cannot listen at", address);
}

/* The device asked for is there, and has the address; requests for all addresses are judged one by one. */
static SEALANE_RESULT wish_check(struct sl_port *port, const struct rdma_cm_id *id,
                                 const char *address)
{
    char place[SL_VERBS_PLACE_BYTES];
    struct sl_verbs_device *device;

    if (!port->wish.rdma_device[0])
        return SEALANE_OK;
    SL_TRY(sl_verbs_wished(port, &device));
    sl_verbs_wish_write(&port->wish, place);
    if (id->verbs && !sl_verbs_is_wished(&port->wish, id))
        return SL_FAIL(SEALANE_NOT_FOUND, "\"%s\" is an address of %s port %u, not of %s", address,
                       ibv_get_device_name(id->verbs->device), id->port_num, place);
    return SEALANE_OK;
}

static SEALANE_RESULT listener_start(struct sl_port *port, struct sl_verbs_listener *listener,
                                     const char *address)
{
    struct sockaddr_storage at;
    socklen_t bytes;

    SL_TRY(sl_address_parse(address, &at, &bytes));
    SL_TRY(manager_open(port));
    if (rdma_create_id(port->channel, &listener->id, NULL, RDMA_PS_TCP) != 0) {
        listener->id = NULL;
        return sl_system_failed("no connection id for", address);
    }
    if (rdma_bind_addr(listener->id, (struct sockaddr *)&at) != 0)
        return bind_failed(port, address, &at);
    SL_TRY(wish_check(port, listener->id, address));
    if (rdma_listen(listener->id, BACKLOG) != 0)
        return bind_failed(port, address, &at);
    sl_address_write(rdma_get_local_addr(listener->id), listener->address);
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_listen(struct sl_port *port, const char *address,
                               char bound[SL_ADDRESS_BYTES])
{
    struct sl_verbs_listener *listener = calloc(1, sizeof(*listener));
    enum sealane_status status;

    if (!listener)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a listener");
    status = listener_start(port, listener, address);
    if (status != SEALANE_OK) {
        listener_free(listener);
        return status;
    }
    if (bound)
        memcpy(bound, listener->address, SL_ADDRESS_BYTES);
    listener->next = port->listeners;
    port->listeners = listener;
    return SEALANE_OK;
}

static void retry_set(struct sl_port *port, bool on)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)SL_VERBS_RETRY_TAG};
    const struct itimerspec every = {.it_interval.tv_sec = on, .it_value.tv_sec = on};

    if (port->retry < 0) {
        port->retry = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (port->retry < 0 || epoll_ctl(port->epoll, EPOLL_CTL_ADD, port->retry, &event) != 0)
            SL_LOG(SL_LOG_ERROR, "no clock to listen again by: %s", strerror(errno));
    }
    (void)timerfd_settime(port->retry, 0, &every, NULL);
}

static void listener_lost(struct sl_port *port, struct sl_verbs_listener *listener)
{
    SL_LOG(SL_LOG_WARN, "the RDMA device at %s was removed: listening again when it is back",
           listener->address);
    (void)rdma_destroy_id(listener->id);
    listener->id = NULL;
    retry_set(port, true);
}

static void listener_hears(struct sl_port *port, const struct happening *what)
{
    for (struct sl_verbs_listener *at = port->listeners; at; at = at->next) {
        if (at->id == what->id && what->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            listener_lost(port, at);
            return;
        }
    }
    SL_LOG(SL_LOG_DEBUG, "a listener hears: %s", rdma_event_str(what->event));
}

void sl_verbs_listeners_check(struct sl_port *port)
{
    for (struct sl_verbs_listener *at = port->listeners; at; at = at->next) {
        if (at->id && at->id->verbs && access(at->id->verbs->device->dev_path, F_OK) != 0)
            listener_lost(port, at);
    }
}

void sl_verbs_listen_again(struct sl_port *port)
{
    bool all = true;
    uint64_t ticks;

    (void)!read(port->retry, &ticks, sizeof(ticks));
    for (struct sl_verbs_listener *at = port->listeners; at; at = at->next) {
        char address[SL_ADDRESS_BYTES];

        memcpy(address, at->address, sizeof(address));
        if (at->id || listener_start(port, at, address) == SEALANE_OK)
            continue;
        if (at->id)
            (void)rdma_destroy_id(at->id);
        at->id = NULL;
        all = false;
    }
    if (all)
        retry_set(port, false);
}

void sl_verbs_unlisten(struct sl_port *port)
{
    while (port->listeners) {
        struct sl_verbs_listener *listener = port->listeners;

        port->listeners = listener->next;
        listener_free(listener);
    }
}

/* ---- connecting ---- */

static void connect_start(struct sl_verbs *verbs, struct sockaddr_storage *at)
{
    bool wished = verbs->port->wish.rdma_device[0];
    struct sockaddr_storage from;
    struct sockaddr *source = wished ? (struct sockaddr *)&from : NULL;

    if (manager_open(verbs->port) != SEALANE_OK ||
        (wished && sl_verbs_source(verbs->port, (struct sockaddr *)at, &from) != SEALANE_OK)) {
        sl_verbs_over(verbs, "%s", sealane_last_error()->message);
    } else if (rdma_create_id(verbs->port->channel, &verbs->id, verbs, RDMA_PS_TCP) != 0) {
        verbs->id = NULL;
        sl_verbs_over(verbs, "no connection id: %s", strerror(errno));
    } else if (rdma_resolve_addr(verbs->id, source, (struct sockaddr *)at, RESOLVE_MS) != 0) {
        sl_verbs_over(verbs, "no RDMA device leads to %.50s: %s", verbs->peer, strerror(errno));
    }
}

SEALANE_RESULT sl_verbs_connect(struct sl_port *port, const char *address, struct sl_link **link_p)
{
    struct sockaddr_storage at;
    struct sl_verbs *verbs;
    socklen_t bytes;

    SL_TRY(sl_address_parse(address, &at, &bytes));
    SL_TRY(sl_verbs_new(port, NULL, &verbs));
    sl_address_write((const struct sockaddr *)&at, verbs->peer);
    verbs->connecting = true;
    port->waiting++;
    connect_start(verbs, &at);
    *link_p = &verbs->link;
    return SEALANE_OK;
}

static void address_found(struct sl_verbs *verbs)
{
    char place[SL_VERBS_PLACE_BYTES];

    sl_verbs_wish_write(&verbs->port->wish, place);
    if (!sl_verbs_is_wished(&verbs->port->wish, verbs->id))
        sl_verbs_over(verbs, "%.50s is reached by %.20s port %u, not by %.40s as asked for",
                      verbs->peer, ibv_get_device_name(verbs->id->verbs->device),
                      verbs->id->port_num, place);
    else if (rdma_resolve_route(verbs->id, RESOLVE_MS) != 0)
        sl_verbs_over(verbs, "no route to %.50s: %s", verbs->peer, strerror(errno));
}

static void route_found(struct sl_verbs *verbs)
{
    struct rdma_conn_param param = parameters;

    if (sl_verbs_pair_make(verbs) != SEALANE_OK) {
        sl_verbs_over(verbs, "%s", sealane_last_error()->message);
        return;
    }
    param.qp_num = verbs->qp->qp_num;
    if (rdma_connect(verbs->id, &param) != 0)
        sl_verbs_over(verbs, "cannot connect to %.50s: %s", verbs->peer, strerror(errno));
}

/* The peer accepted. */
static void answered(struct sl_verbs *verbs, const struct happening *what)
{
    if (memcmp(what->hello, hello, sizeof(hello)) != 0)
        sl_verbs_over(verbs, "%.50s is no sealane of this version", verbs->peer);
    else if (sl_verbs_pair_ready(verbs) != SEALANE_OK)
        sl_verbs_over(verbs, "%s", sealane_last_error()->message);
    else if (rdma_establish(verbs->id) != 0)
        sl_verbs_over(verbs, "cannot confirm to %.50s: %s", verbs->peer, strerror(errno));
    else
        sl_verbs_established(verbs);
}

void sl_verbs_established(struct sl_verbs *verbs)
{
    if (verbs->up || verbs->mute)
        return;
    verbs->up = true;
    if (verbs->connecting) {
        verbs->connecting = false;
        verbs->port->waiting--;
        verbs->tell_connected = true;
    } else {
        sl_verbs_unlist(verbs, SL_VERBS_HALF);
        verbs->tell_accepted = true;
        SL_LOG(SL_LOG_DEBUG, "accepted %s", verbs->peer);
    }
    sl_verbs_list(verbs, SL_VERBS_READY);
    sl_verbs_flush(verbs);
}

/* ---- accepting ---- */

static void refuse(struct rdma_cm_id *id, const char *why)
{
    struct sockaddr *peer = rdma_get_peer_addr(id);
    char address[SL_ADDRESS_BYTES];

    sl_address_write(peer, address);
    SL_LOG(SL_LOG_WARN, "turned away %s: %s", address, why);
    if (rdma_reject(id, hello, sizeof(hello)) != 0)
        SL_LOG(SL_LOG_DEBUG, "cannot say no to %s: %s", address, strerror(errno));
}

static SEALANE_RESULT accept_start(struct sl_verbs *verbs)
{
    struct rdma_conn_param param = parameters;

    SL_TRY(sl_verbs_pair_make(verbs));
    SL_TRY(sl_verbs_pair_ready(verbs));
    param.qp_num = verbs->qp->qp_num;
    if (rdma_accept(verbs->id, &param) != 0)
        return sl_system_failed("cannot accept", verbs->peer);
    return SEALANE_OK;
}

/* Strangers that ask and never confirm must not keep others out: the one that has had the most time makes way. */
static void asked(struct sl_port *port, const struct happening *what)
{
    struct sl_verbs *verbs;

    if (memcmp(what->hello, hello, sizeof(hello)) != 0) {
        refuse(what->id, "no sealane of this version");
        (void)rdma_destroy_id(what->id);
        return;
    }
    if (!sl_verbs_is_wished(&port->wish, what->id)) {
        refuse(what->id, "it came in through another RDMA device than the one asked for");
        (void)rdma_destroy_id(what->id);
        return;
    }
    if (port->lists[SL_VERBS_HALF].count >= HALF_MAX)
        sl_verbs_free(sl_list_first(&port->lists[SL_VERBS_HALF]));
    if (sl_verbs_new(port, what->id, &verbs) != SEALANE_OK) {
        refuse(what->id, sealane_last_error()->message);
        (void)rdma_destroy_id(what->id);
        return;
    }
    what->id->context = verbs;
    sl_address_write(rdma_get_peer_addr(what->id), verbs->peer);
    if (accept_start(verbs) != SEALANE_OK) {
        refuse(what->id, sealane_last_error()->message);
        sl_verbs_free(verbs);
        return;
    }
    sl_verbs_list(verbs, SL_VERBS_HALF);
}

/* ---- what the manager says ---- */

static void rejected(struct sl_verbs *verbs, const struct happening *what)
{
    if (what->status == REJECT_NO_SERVICE)
        sl_verbs_over(verbs, "cannot connect to %.50s: nobody listens there", verbs->peer);
    else if (what->status == REJECT_STALE)
        sl_verbs_over(verbs, "cannot connect to %.50s: it takes us for an old connection",
                      verbs->peer);
    else if (what->status == REJECT_CONSUMER)
        sl_verbs_over(verbs, "%.50s %s", verbs->peer,
                      memcmp(what->hello, hello, sizeof(hello)) == 0
                          ? "turned us away: its log says why"
                          : "is no sealane of this version");
    else
        sl_verbs_over(verbs, "%.50s refused the connection: reason %d", verbs->peer, what->status);
}

/* The words before it are in the completion queue: they travelled ahead of it. */
static void disconnected(struct sl_verbs *verbs)
{
    if (verbs->device)
        (void)sl_verbs_completions(verbs->device, verbs->device->cq->cqe);
    sl_verbs_over(verbs, "the peer %.60s is gone", verbs->peer);
}

static void ended(struct sl_verbs *verbs, const struct happening *what)
{
    int error = what->status < 0 ? -what->status : what->status;

    switch (what->event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
        sl_verbs_over(verbs, "no RDMA device leads to %.50s: %s", verbs->peer, strerror(error));
        break;
    case RDMA_CM_EVENT_ROUTE_ERROR:
        sl_verbs_over(verbs, "no route to %.50s: %s", verbs->peer, strerror(error));
        break;
    case RDMA_CM_EVENT_UNREACHABLE:
        sl_verbs_over(verbs, "%.50s does not answer: %s", verbs->peer, strerror(error));
        break;
    case RDMA_CM_EVENT_REJECTED:
        rejected(verbs, what);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        disconnected(verbs);
        break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        sl_verbs_over(verbs, "the RDMA device to %.50s was removed", verbs->peer);
        break;
    default:
        sl_verbs_over(verbs, "cannot connect to %.50s: %s", verbs->peer, strerror(error));
        break;
    }
}

/* Every event has its decision here. A half-made link that ends is nobody's: it goes at once. */
static void judge(struct sl_verbs *verbs, const struct happening *what)
{
    switch (what->event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        address_found(verbs);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        route_found(verbs);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        answered(verbs, what);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        sl_verbs_established(verbs);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        ended(verbs, what);
        break;
    default: /* an address moved (an open connection stays where it is), or the time to wait after an end is over */
        SL_LOG(SL_LOG_DEBUG, "%s: %s", verbs->peer, rdma_event_str(what->event));
        break;
    }
    if (verbs->over && verbs->at[SL_VERBS_HALF].in)
        sl_verbs_free(verbs);
}

/* It answers none but who opened it: a process that changed its user ends up here. What is connected stays so. */
static void manager_lost(struct sl_port *port, int error)
{
    SL_LOG(SL_LOG_ERROR, "the connection manager tells nothing any more: %s", strerror(error));
    port->deaf = true;
    (void)epoll_ctl(port->epoll, EPOLL_CTL_DEL, port->channel->fd, NULL);
    for (struct sl_verbs *at = sl_list_first(&port->lists[SL_VERBS_ALL]); at;
         at = sl_list_after(&at->at[SL_VERBS_ALL])) {
        if (!at->up)
            sl_verbs_over(at, "the connection manager tells nothing any more: %s", strerror(error));
    }
}

static bool happening_take(struct sl_port *port, struct happening *what)
{
    struct rdma_cm_event *event;

    if (!port->channel || port->deaf)
        return false;
    if (rdma_get_cm_event(port->channel, &event) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            manager_lost(port, errno);
        return false;
    }
    *what = (struct happening){.event = event->event, .id = event->id, .status = event->status};
    if (event->param.conn.private_data && event->param.conn.private_data_len >= sizeof(what->hello))
        memcpy(what->hello, event->param.conn.private_data, sizeof(what->hello));
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        event->id->context = NULL;
    (void)rdma_ack_cm_event(event);
    return true;
}

bool sl_verbs_manager_take(struct sl_port *port)
{
    struct happening what;

    for (int i = 0; i < EVENTS_PER_LOOK; i++) {
        if (!happening_take(port, &what))
            return false;
        if (what.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            asked(port, &what);
        else if (what.id->context)
            judge(what.id->context, &what);
        else
            listener_hears(port, &what);
    }
    return true;
}
