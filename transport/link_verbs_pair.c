/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_pair.c - the queue pair of a link. The connection manager tells addresses and numbers; we make the queue pair
 * ourselves and move it on, so that it may live in a context of our own and every attribute is what it is meant to be. */
#include "transport/link_verbs_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    /* A receiver that was not ready is asked again after 0.64 ms; the connection manager leaves 0 here, which means 655 ms. */
    MIN_RNR_TIMER = 12,
    RNR_RETRY = 7, /* for ever: the lane's clock decides */
    /* 4.096 us * 2^18 = 1.07 s without an acknowledgement, seven times: shorter than the clock of a lane, longer than a link that
     * flaps and than a host that is busy with other things (Soft-RoCE acknowledges by its CPU). 7 retries would be without end on
     * Soft-RoCE. */
    ACK_TIMEOUT = 18,
    RETRIES = 6,
    MASK_VALID = 0x1fffff /* the kernel's answer has bits in it that user space does not know */
};

uint64_t sl_verbs_work_id(const struct sl_verbs *verbs, enum sl_verbs_work work, uint16_t number)
{
    uint32_t generation = verbs->device->entries[verbs->index].generation;

    return (uint64_t)(verbs->index & 0xffffff) << 40 | (uint64_t)(generation & 0xfffff) << 20 |
           (uint64_t)work << 16 | number;
}

/* Devices differ in what they take inline; none is the least that all do. */
static struct ibv_qp *queue_pair(struct sl_verbs *verbs, struct ibv_qp_init_attr *wanted)
{
    static const uint32_t inlines[] = {256, 64, 0};
    struct ibv_qp *qp = NULL;

    for (size_t i = 0; i < sizeof(inlines) / sizeof(inlines[0]) && !qp; i++) {
        struct ibv_qp_init_attr attr = *wanted;

        attr.cap.max_inline_data = inlines[i];
        qp = ibv_create_qp(verbs->pd, &attr);
        if (qp)
            *wanted = attr;
    }
    return qp;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static SEALANE_RESULT pair_create(struct sl_verbs *verbs)
{
    uint32_t limit = (uint32_t)verbs->device->limits.max_qp_wr;
    struct ibv_qp_init_attr attr = {
        .qp_context = verbs,
        .send_cq = verbs->device->cq,
        .recv_cq = verbs->device->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = smaller(SL_VERBS_WORK_MAX, limit),
                .max_recv_wr = smaller(SL_VERBS_SLOTS_MAX + SL_VERBS_RECEIVES, limit),
                .max_send_sge = 1,
                .max_recv_sge = 1}};

    if (limit < 2 * SL_VERBS_SENDS)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "%s takes %u work requests, needed are %d",
                       sl_verbs_device_name(verbs->device), limit, 2 * SL_VERBS_SENDS);
    verbs->qp = queue_pair(verbs, &attr);
    if (!verbs->qp)
        return sl_system_failed("no queue pair on", sl_verbs_device_name(verbs->device));
    verbs->inline_max = attr.cap.max_inline_data;
    verbs->writes_max = smaller(attr.cap.max_send_wr, SL_VERBS_WORK_MAX) - SL_VERBS_SENDS;
    verbs->receive_max = smaller(attr.cap.max_recv_wr, SL_VERBS_SLOTS_MAX + SL_VERBS_RECEIVES);
    return SEALANE_OK;
}

/* What the connection manager knows about a state. */
static SEALANE_RESULT attributes(struct sl_verbs *verbs, enum ibv_qp_state state,
                                 struct ibv_qp_attr *attr, int *mask)
{
    *attr = (struct ibv_qp_attr){.qp_state = state};
    if (rdma_init_qp_attr(verbs->id, attr, mask) != 0)
        return sl_system_failed("no attributes of a queue pair with", verbs->peer);
    *mask &= MASK_VALID;
    return SEALANE_OK;
}

static SEALANE_RESULT modify(struct sl_verbs *verbs, struct ibv_qp_attr *attr, int mask)
{
    int error = ibv_modify_qp(verbs->qp, attr, mask);

    errno = error;
    return error == 0 ? SEALANE_OK
                      : sl_system_failed("cannot move on a queue pair with", verbs->peer);
}

/* The peer may write, and only where a grant says so; there is none yet. */
static SEALANE_RESULT pair_init(struct sl_verbs *verbs)
{
    struct ibv_qp_attr attr;
    int mask;

    SL_TRY(attributes(verbs, IBV_QPS_INIT, &attr, &mask));
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    return modify(verbs, &attr, mask | IBV_QP_ACCESS_FLAGS);
}

static SEALANE_RESULT port_ask(struct sl_verbs *verbs)
{
    struct ibv_port_attr attr;
    int error = ibv_query_port(verbs->device->verbs, verbs->id->port_num, &attr);

    errno = error;
    if (error != 0)
        return sl_system_failed("cannot ask for a port of", sl_verbs_device_name(verbs->device));
    verbs->write_bytes_max = attr.max_msg_sz;
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_pair_make(struct sl_verbs *verbs)
{
    SL_TRY(sl_verbs_device_get(verbs->port, verbs->id->verbs->device, &verbs->device));
    SL_TRY(sl_verbs_enter(verbs));
    SL_TRY(sl_verbs_reserve(verbs, SL_VERBS_RECEIVES + SL_VERBS_SENDS));
    SL_TRY(port_ask(verbs));
    verbs->pd = ibv_alloc_pd(verbs->device->verbs);
    if (!verbs->pd)
        return sl_system_failed("no protection domain on", sl_verbs_device_name(verbs->device));
    SL_TRY(pair_create(verbs));
    SL_TRY(pair_init(verbs));
    return sl_verbs_receives_post(verbs);
}

SEALANE_RESULT sl_verbs_pair_ready(struct sl_verbs *verbs)
{
    struct ibv_qp_attr attr;
    int mask;

    SL_TRY(attributes(verbs, IBV_QPS_RTR, &attr, &mask));
    SL_TRY(sl_verbs_gid_check(verbs, &attr.ah_attr));
    attr.min_rnr_timer = MIN_RNR_TIMER;
    attr.max_dest_rd_atomic = 0;
    SL_TRY(modify(verbs, &attr, mask | IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC));
    SL_TRY(attributes(verbs, IBV_QPS_RTS, &attr, &mask));
    attr.timeout = ACK_TIMEOUT;
    attr.retry_cnt = RETRIES;
    attr.rnr_retry = RNR_RETRY;
    attr.max_rd_atomic = 0;
    return modify(verbs, &attr,
                  mask | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                      IBV_QP_MAX_QP_RD_ATOMIC);
}

void sl_verbs_pair_stop(struct sl_verbs *verbs)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    int error = verbs->qp ? ibv_modify_qp(verbs->qp, &attr, IBV_QP_STATE) : 0;

    if (error != 0 && !verbs->device->dead)
        SL_LOG(SL_LOG_WARN, "cannot stop the queue pair with %s: %s", verbs->peer, strerror(error));
}

/* ---- ends ---- */

static void pair_destroy(struct sl_verbs *verbs)
{
    int error = verbs->qp ? ibv_destroy_qp(verbs->qp) : 0;

    if (error != 0)
        SL_LOG(SL_LOG_ERROR, "cannot destroy the queue pair with %s: %s", verbs->peer,
               strerror(error));
    verbs->qp = NULL;
}

static bool deregister(struct ibv_mr **mr)
{
    int error = *mr ? ibv_dereg_mr(*mr) : 0;

    if (error == 0)
        *mr = NULL;
    return error == 0;
}

/* Their memory may be given back as soon as this returns. */
void sl_verbs_pair_close_rings(struct sl_verbs *verbs)
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        struct ibv_mr **mr = &verbs->mine[ring].mr;

        if (deregister(mr))
            continue;
        pair_destroy(verbs); /* in use, says the device: then by nobody from now on */
        if (!deregister(mr))
            SL_LOG(SL_LOG_ERROR, "cannot close a ring to %s", verbs->peer);
    }
}

void sl_verbs_pair_free(struct sl_verbs *verbs)
{
    bool clean = true;

    pair_destroy(verbs);
    sl_verbs_pair_close_rings(verbs);
    for (size_t i = 0; i < SL_LINK_SOURCES; i++)
        clean &= deregister(&verbs->sources[i].mr);
    for (size_t i = 0; i < sizeof(verbs->blocks) / sizeof(verbs->blocks[0]); i++) {
        struct sl_verbs_block *block = &verbs->blocks[i];

        clean &= deregister(&block->mr);
        if (block->base)
            (void)munmap(block->base, block->bytes);
    }
    if (verbs->pd && ibv_dealloc_pd(verbs->pd) != 0)
        clean = false;
    if (!clean)
        SL_LOG(SL_LOG_ERROR, "the device keeps what belonged to the link with %s", verbs->peer);
    if (verbs->device)
        sl_verbs_leave(verbs);
}
