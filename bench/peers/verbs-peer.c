/* SPDX-License-Identifier: Apache-2.0 */
/* verbs-peer.c - the floor under bench/ over RDMA: the same payloads by writes with immediate over one reliable queue pair, straight
 * from where they lie to where they shall be. Nothing is decoded, dispatched, copied or sealed. Unlike perftest it sleeps on the
 * completion channel, unless the regime is poll. */
#include "run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PIECE = 1 << 20, /* of a large payload; every device takes so much in a write */
    BATCH = 16,
    SPARE = 16,
    MIN_RNR_TIMER = 12 /* 0.64 ms; the connection manager leaves 0, which means 655 ms */
};

/* What each end tells the other while they connect. */
struct grant {
    uint64_t address;
    uint32_t key;
};

struct peer {
    const struct bench_options *options;
    struct rdma_event_channel *events;
    struct rdma_cm_id *id;
    struct ibv_comp_channel *channel;
    struct ibv_cq *in,
        *out; /* nobody sleeps on out: it is looked at when there is something to post */
    struct ibv_mr *sources, *ring;
    uint8_t *source_bytes, *ring_bytes;
    struct grant theirs;
    uint32_t source_count, pieces;
    uint32_t flying, flying_max; /* payloads that the send queue holds */
    uint64_t posted;             /* payloads */
};

static _Noreturn void fail(const char *what)
{
    bench_die(what, strerror(errno));
}

static bool is_tensor(const struct peer *peer)
{
    return strcmp(peer->options->shape, "tensor") == 0;
}

/* ---- connecting ---- */

static struct rdma_cm_event *await(struct peer *peer, enum rdma_cm_event_type wanted)
{
    struct rdma_cm_event *event;

    if (rdma_get_cm_event(peer->events, &event) != 0)
        fail("rdma_get_cm_event");
    if (event->event != wanted)
        bench_die(rdma_event_str(wanted), rdma_event_str(event->event));
    return event;
}

static void theirs_take(struct peer *peer, struct rdma_cm_event *event)
{
    if (event->param.conn.private_data_len < sizeof(peer->theirs))
        bench_die("private data", "not of a peer");
    memcpy(&peer->theirs, event->param.conn.private_data, sizeof(peer->theirs));
}

static struct ibv_mr *memory(struct peer *peer, size_t bytes, unsigned access, uint8_t **bytes_p)
{
    struct ibv_mr *mr;

    *bytes_p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!*bytes_p)
        bench_die("aligned_alloc", "no memory");
    memset(*bytes_p, 0x5a, bytes);
    mr = ibv_reg_mr(peer->id->pd, *bytes_p, bytes, (int)access);
    if (!mr)
        fail("ibv_reg_mr");
    return mr;
}

static void receive_post(struct peer *peer)
{
    struct ibv_recv_wr work = {.wr_id = 0}, *bad;

    if (ibv_post_recv(peer->id->qp, &work, &bad) != 0)
        bench_die("ibv_post_recv", "refused");
}

static void queues_make(struct peer *peer)
{
    uint32_t outstanding = peer->options->outstanding;
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = (outstanding + SPARE) * peer->pieces,
                                            .max_recv_wr = outstanding + SPARE,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1,
                                            .max_inline_data = 64}};

    peer->channel = ibv_create_comp_channel(peer->id->verbs);
    if (peer->channel) {
        peer->in =
            ibv_create_cq(peer->id->verbs, (int)attr.cap.max_recv_wr, NULL, peer->channel, 0);
        peer->out = ibv_create_cq(peer->id->verbs, (int)attr.cap.max_send_wr, NULL, NULL, 0);
    }
    attr.recv_cq = peer->in;
    attr.send_cq = peer->out;
    if (!peer->in || !peer->out || rdma_create_qp(peer->id, NULL, &attr) != 0)
        fail("a queue pair");
    peer->flying_max = outstanding + SPARE;
    for (uint32_t i = 0; i < outstanding + SPARE; i++)
        receive_post(peer);
}

static void memory_make(struct peer *peer, struct grant *mine)
{
    const struct bench_options *options = peer->options;
    bool sends = strcmp(options->role, "client") == 0;

    peer->source_count = sends && is_tensor(peer) ? bench_sources(options->bytes) : 1;
    peer->sources = memory(peer, peer->source_count * options->bytes, IBV_ACCESS_LOCAL_WRITE,
                           &peer->source_bytes);
    peer->ring = memory(peer, options->outstanding * options->bytes,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &peer->ring_bytes);
    *mine = (struct grant){.address = (uintptr_t)peer->ring_bytes, .key = peer->ring->rkey};
}

static struct rdma_conn_param parameters(const struct grant *mine)
{
    return (struct rdma_conn_param){.private_data = mine,
                                    .private_data_len = sizeof(*mine),
                                    .retry_count = 7,
                                    .rnr_retry_count = 7};
}

static void connected(struct peer *peer)
{
    struct ibv_qp_attr attr = {.min_rnr_timer = MIN_RNR_TIMER};

    if (ibv_modify_qp(peer->id->qp, &attr, IBV_QP_MIN_RNR_TIMER) != 0)
        bench_die("ibv_modify_qp", "refused");
}

static struct rdma_addrinfo *address_of(const struct bench_options *options, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST | flags,
                                  .ai_port_space = RDMA_PS_TCP};
    struct rdma_addrinfo *found;
    const char *colon = strrchr(options->address, ':');
    char host[64];

    if (!colon)
        bench_die(options->address, "expected HOST:PORT");
    (void)snprintf(host, sizeof(host), "%.*s", (int)(colon - options->address), options->address);
    if (rdma_getaddrinfo(host, colon + 1, &hints, &found) != 0)
        fail(options->address);
    return found;
}

static void listen_and_accept(struct peer *peer)
{
    struct rdma_addrinfo *at = address_of(peer->options, RAI_PASSIVE);
    struct rdma_cm_event *event;
    struct rdma_conn_param answer;
    struct rdma_cm_id *listener;
    struct grant mine = {.key = 0};
    char address[128];

    if (rdma_create_id(peer->events, &listener, NULL, RDMA_PS_TCP) != 0 ||
        rdma_bind_addr(listener, at->ai_src_addr) != 0 || rdma_listen(listener, 1) != 0)
        fail("rdma_listen");
    (void)snprintf(address, sizeof(address), "%.*s:%d",
                   (int)(strrchr(peer->options->address, ':') - peer->options->address),
                   peer->options->address, ntohs(rdma_get_src_port(listener)));
    bench_ready(address);
    event = await(peer, RDMA_CM_EVENT_CONNECT_REQUEST);
    peer->id = event->id;
    theirs_take(peer, event);
    (void)rdma_ack_cm_event(event);
    queues_make(peer);
    memory_make(peer, &mine);
    answer = parameters(&mine);
    if (rdma_accept(peer->id, &answer) != 0)
        fail("rdma_accept");
    (void)rdma_ack_cm_event(await(peer, RDMA_CM_EVENT_ESTABLISHED));
    connected(peer);
}

static void connect_to(struct peer *peer)
{
    struct rdma_addrinfo *to = address_of(peer->options, 0);
    struct rdma_conn_param ask;
    struct rdma_cm_event *event;
    struct grant mine = {.key = 0};

    if (rdma_create_id(peer->events, &peer->id, NULL, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(peer->id, NULL, to->ai_dst_addr, 2000) != 0)
        fail("rdma_resolve_addr");
    (void)rdma_ack_cm_event(await(peer, RDMA_CM_EVENT_ADDR_RESOLVED));
    if (rdma_resolve_route(peer->id, 2000) != 0)
        fail("rdma_resolve_route");
    (void)rdma_ack_cm_event(await(peer, RDMA_CM_EVENT_ROUTE_RESOLVED));
    queues_make(peer);
    memory_make(peer, &mine);
    ask = parameters(&mine);
    if (rdma_connect(peer->id, &ask) != 0)
        fail("rdma_connect");
    event = await(peer, RDMA_CM_EVENT_ESTABLISHED);
    theirs_take(peer, event);
    (void)rdma_ack_cm_event(event);
    connected(peer);
}

/* ---- payloads ---- */

static int completions(struct ibv_cq *cq, struct ibv_wc *wcs)
{
    int n = ibv_poll_cq(cq, BATCH, wcs);

    for (int i = 0; i < n; i++) {
        if (wcs[i].status != IBV_WC_SUCCESS)
            bench_die("completion", ibv_wc_status_str(wcs[i].status));
    }
    return n;
}

static void send_room_await(struct peer *peer)
{
    struct ibv_wc wcs[BATCH];

    do {
        int n = completions(peer->out, wcs);
        peer->flying -= n > 0 ? (uint32_t)n : 0;
    } while (peer->flying == peer->flying_max);
}

static void work_post(struct peer *peer, struct ibv_send_wr *work)
{
    struct ibv_send_wr *bad;

    if (ibv_post_send(peer->id->qp, work, &bad) != 0)
        bench_die("ibv_post_send", "refused");
}

/* A payload from the next source into the peer's slot, which the immediate names. */
static void payload_post(struct peer *peer, uint32_t slot, uint64_t bytes)
{
    uint64_t from =
        (uintptr_t)peer->source_bytes + peer->posted++ % peer->source_count * peer->options->bytes;
    uint64_t to = peer->theirs.address + slot * peer->options->bytes;

    send_room_await(peer);
    peer->flying++;
    do {
        uint32_t piece = bytes < PIECE ? (uint32_t)bytes : PIECE;
        bool last = piece == bytes;
        struct ibv_sge place = {.addr = from, .length = piece, .lkey = peer->sources->lkey};
        struct ibv_send_wr work = {.sg_list = &place,
                                   .num_sge = piece > 0,
                                   .opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                                   .send_flags = (last ? IBV_SEND_SIGNALED : 0) |
                                                 (piece > 0 && piece <= 64 ? IBV_SEND_INLINE : 0),
                                   .imm_data = htonl(slot),
                                   .wr.rdma = {.remote_addr = to, .rkey = peer->theirs.key}};

        work_post(peer, &work);
        bytes -= piece;
        from += piece;
        to += piece;
    } while (bytes > 0);
}

/* What arrived: at least one. */
static int arrivals(struct peer *peer, struct ibv_wc *wcs)
{
    struct ibv_cq *cq;
    void *context;
    int n;

    while ((n = completions(peer->in, wcs)) == 0) {
        if (peer->options->regime == BENCH_POLL)
            continue;
        if (ibv_req_notify_cq(peer->in, 0) != 0)
            fail("ibv_req_notify_cq");
        n = completions(peer->in, wcs);
        if (n > 0)
            break; /* the event will be taken by a later sleep */
        if (ibv_get_cq_event(peer->channel, &cq, &context) != 0)
            fail("ibv_get_cq_event");
        ibv_ack_cq_events(peer->in, 1);
    }
    for (int i = 0; i < n; i++)
        receive_post(peer);
    return n;
}

/* Until killed. */
static _Noreturn void serve(struct peer *peer)
{
    struct ibv_wc wcs[BATCH];
    uint64_t answer = is_tensor(peer) ? 0 : peer->options->bytes;

    listen_and_accept(peer);
    for (;;) {
        int n = arrivals(peer, wcs);

        for (int i = 0; i < n; i++)
            payload_post(peer, ntohl(wcs[i].imm_data), answer);
    }
}

static int fly(struct peer *peer)
{
    uint32_t outstanding = peer->options->outstanding, flying = outstanding;
    double *begun = calloc(outstanding, sizeof(*begun));
    struct bench_window window;
    struct ibv_wc wcs[BATCH];

    connect_to(peer);
    bench_window_begin(&window, peer->options);
    for (uint32_t slot = 0; slot < outstanding; slot++) {
        begun[slot] = window.now_s;
        payload_post(peer, slot, peer->options->bytes);
    }
    while (flying > 0) {
        int n = arrivals(peer, wcs);

        for (int i = 0; i < n; i++) {
            uint32_t slot = ntohl(wcs[i].imm_data) % outstanding;
            bool more = bench_answered(&window, begun[slot]);

            begun[slot] = window.now_s;
            if (more)
                payload_post(peer, slot, peer->options->bytes);
            flying -= !more;
        }
    }
    bench_window_end(&window);
    free(begun);
    return 0;
}

int main(int argc, char **argv)
{
    struct bench_options options;
    struct peer peer = {.options = &options};

    bench_options_parse(&options, argc, argv);
    if (!options.role)
        bench_die("--role", "server or client");
    bench_place(&options);
    peer.pieces = (uint32_t)((options.bytes + PIECE - 1) / PIECE);
    peer.events = rdma_create_event_channel();
    if (!peer.events)
        fail("rdma_create_event_channel");
    if (strcmp(options.role, "server") == 0)
        serve(&peer);
    return fly(&peer);
}
