/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_raw.c - see link_verbs_raw.h. */
#include "tests/transport/link_verbs_raw.h"

#include "tests/support/rdma.h"
#include "transport/address.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    LIMIT_MS = 10000
};

static const uint8_t hello_right[8] = {'S', 'L', 'V', 'B', 1};

void raw_skip_without_device(void)
{
    if (!rdma_host()[0])
        cr_skip_test("this host has no RDMA device with an address");
}

void raw_address(char *to, size_t bytes, const char *name)
{
    (void)rdma_address(to, bytes, name[0] != 'n');
}

/* ---- the victim ---- */

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void event_note(struct raw *raw, const struct sl_link_event *event)
{
    if (event->kind == SL_LINK_ACCEPTED && !raw->link) {
        raw->link = event->link;
        return;
    }
    cr_assert_eq(event->link, raw->link, "another link was told of: kind %d, %s", (int)event->kind,
                 event->kind == SL_LINK_GONE ? event->why : "");
    cr_assert_eq(raw->gone[0], '\0', "an event after the end");
    if (event->kind == SL_LINK_ARRIVED)
        raw->arrived++;
    else if (event->kind == SL_LINK_GONE)
        (void)snprintf(raw->gone, sizeof(raw->gone), "%s", event->why);
}

bool raw_turn(struct raw *raw, int limit_ms)
{
    struct sl_link_event event;
    struct pollfd sleep = {.events = POLLIN};

    if (sl_link_verbs.poll(raw->victim, &event, 1) == 1) {
        event_note(raw, &event);
        return true;
    }
    sleep.fd = sl_link_verbs.arm(raw->victim);
    if (sleep.fd >= 0 && limit_ms > 0)
        (void)poll(&sleep, 1, limit_ms);
    return false;
}

void raw_expect_gone(struct raw *raw)
{
    for (int64_t until = now_ms() + LIMIT_MS; !raw->gone[0]; (void)raw_turn(raw, 2))
        cr_assert(now_ms() < until, "the link lives on");
}

/* ---- connecting ---- */

/* The manager's next event; CONNECT_REQUEST when none came in time. */
static enum rdma_cm_event_type manager_next(struct raw *raw, int limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    struct rdma_cm_event *event;

    while (rdma_get_cm_event(raw->channel, &event) != 0) {
        if (now_ms() >= until)
            return RDMA_CM_EVENT_CONNECT_REQUEST;
        (void)raw_turn(raw, 1);
    }
    enum rdma_cm_event_type type = event->event;
    (void)rdma_ack_cm_event(event);
    return type;
}

void raw_begin(struct raw *raw, struct sl_port *victim, const char *address)
{
    struct sockaddr_storage at;
    socklen_t bytes;

    memset(raw, 0, sizeof(*raw));
    raw->victim = victim;
    raw->channel = rdma_create_event_channel();
    cr_assert_neq(raw->channel, NULL);
    (void)fcntl(raw->channel->fd, F_SETFL, O_NONBLOCK);
    cr_assert_eq(rdma_create_id(raw->channel, &raw->id, NULL, RDMA_PS_TCP), 0);
    cr_assert_eq(sl_address_parse(address, &at, &bytes), SEALANE_OK);
    cr_assert_eq(rdma_resolve_addr(raw->id, NULL, (struct sockaddr *)&at, 1000), 0);
    cr_assert_eq(manager_next(raw, LIMIT_MS), RDMA_CM_EVENT_ADDR_RESOLVED);
    cr_assert_eq(rdma_resolve_route(raw->id, 1000), 0);
    cr_assert_eq(manager_next(raw, LIMIT_MS), RDMA_CM_EVENT_ROUTE_RESOLVED);
}

enum rdma_cm_event_type raw_ask(struct raw *raw, const void *hello, uint8_t hello_bytes,
                                int limit_ms)
{
    static uint32_t unused = 0x500000; /* numbers of queue pairs that nobody has */
    struct rdma_conn_param param = {.private_data = hello,
                                    .private_data_len = hello_bytes,
                                    .responder_resources = 1,
                                    .initiator_depth = 1,
                                    .retry_count = 3,
                                    .rnr_retry_count = 7,
                                    .qp_num = raw->qp ? raw->qp->qp_num : unused++};

    cr_assert_eq(rdma_connect(raw->id, &param), 0);
    return manager_next(raw, limit_ms);
}

static void receives_post(struct raw *raw)
{
    struct ibv_sge place = {(uintptr_t)raw->bytes, RAW_BYTES, raw->mr->lkey};
    struct ibv_recv_wr work = {.sg_list = &place, .num_sge = 1}, *bad;

    for (int i = 0; i < RAW_DEPTH; i++)
        cr_assert_eq(ibv_post_recv(raw->qp, &work, &bad), 0);
}

static void pair_move(struct raw *raw, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;

    cr_assert_eq(rdma_init_qp_attr(raw->id, &attr, &mask), 0);
    mask &= 0x1fffff;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
    cr_assert_eq(ibv_modify_qp(raw->qp, &attr, mask), 0, "to state %d", (int)state);
}

static void pair_make(struct raw *raw)
{
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = RAW_DEPTH,
                                            .max_recv_wr = RAW_DEPTH,
                                            .max_send_sge = 1,
                                            .max_recv_sge = 1}};

    raw->pd = ibv_alloc_pd(raw->id->verbs);
    raw->cq = ibv_create_cq(raw->id->verbs, 4 * RAW_DEPTH, NULL, NULL, 0);
    cr_assert(raw->pd && raw->cq);
    attr.send_cq = attr.recv_cq = raw->cq;
    raw->qp = ibv_create_qp(raw->pd, &attr);
    raw->mr = ibv_reg_mr(raw->pd, raw->bytes, RAW_BYTES, IBV_ACCESS_LOCAL_WRITE);
    cr_assert(raw->qp && raw->mr);
    pair_move(raw, IBV_QPS_INIT);
    receives_post(raw);
}

void raw_connect(struct raw *raw, struct sl_port *victim, const char *address)
{
    raw_begin(raw, victim, address);
    pair_make(raw);
    cr_assert_eq(raw_ask(raw, hello_right, sizeof(hello_right), LIMIT_MS),
                 RDMA_CM_EVENT_CONNECT_RESPONSE);
    pair_move(raw, IBV_QPS_RTR);
    pair_move(raw, IBV_QPS_RTS);
    cr_assert_eq(rdma_establish(raw->id), 0);
    for (int64_t until = now_ms() + LIMIT_MS; !raw->link; (void)raw_turn(raw, 2))
        cr_assert(now_ms() < until, "nobody was accepted");
}

void raw_close(struct raw *raw)
{
    if (raw->qp)
        (void)ibv_destroy_qp(raw->qp);
    if (raw->mr)
        (void)ibv_dereg_mr(raw->mr);
    if (raw->cq)
        (void)ibv_destroy_cq(raw->cq);
    if (raw->pd)
        (void)ibv_dealloc_pd(raw->pd);
    (void)rdma_destroy_id(raw->id);
    rdma_destroy_event_channel(raw->channel);
}

/* ---- doing ---- */

bool raw_post(struct raw *raw, enum ibv_wr_opcode opcode, size_t count, uint64_t to, uint32_t key,
              uint32_t immediate)
{
    struct ibv_sge place = {(uintptr_t)raw->bytes, (uint32_t)count, raw->mr->lkey};
    struct ibv_send_wr *bad, work = {.wr_id = 1,
                                     .sg_list = &place,
                                     .num_sge = count > 0,
                                     .opcode = opcode,
                                     .send_flags = IBV_SEND_SIGNALED,
                                     .imm_data = htonl(immediate),
                                     .wr.rdma = {to, key}};

    return ibv_post_send(raw->qp, &work, &bad) == 0;
}

int raw_reap(struct raw *raw)
{
    struct ibv_wc wc[RAW_DEPTH];
    int n = ibv_poll_cq(raw->cq, RAW_DEPTH, wc), sends = 0;

    for (int i = 0; i < n; i++)
        sends += wc[i].wr_id == 1;
    return sends;
}

enum ibv_wc_status raw_do(struct raw *raw, enum ibv_wr_opcode opcode, size_t count, uint64_t to,
                          uint32_t key, uint32_t immediate)
{
    int64_t until = now_ms() + LIMIT_MS;
    struct ibv_wc wc = {.wr_id = 0};

    cr_assert(raw_post(raw, opcode, count, to, key, immediate));
    while (wc.wr_id != 1) {
        cr_assert(now_ms() < until, "a work request was never completed");
        if (ibv_poll_cq(raw->cq, 1, &wc) == 0)
            (void)raw_turn(raw, 1);
    }
    return wc.status;
}
