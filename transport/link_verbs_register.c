/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_register.c - memory that an RDMA device may touch: the host's, and another device's (a GPU's) by a dma-buf or by the
 * driver that lends its pages, nvidia-peermem. No relaxed ordering. */
#include "transport/link_verbs_inside.h"
#include "transport/log.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    /* Locked by a lane: a slab of staging, pieces and receives, and the smallest rings; with default rings. */
    LANE_LEAST = (2 << 20) + (256 << 10),
    LANE_DEFAULT = 8 << 20,
    LANES_WORTH_NO_WORD = 4
};

/* ---- how much may be locked ---- */

/* Who has this is not asked for limits (mlock(2)). */
static bool may_lock_all(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};

    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK));
}

/* Better said at the start than found out by the hundredth lane. */
SEALANE_RESULT sl_verbs_locked_check(void)
{
    static const char how[] =
        "raise it by ulimit -l, LimitMEMLOCK= or /etc/security/limits.conf, or give CAP_IPC_LOCK";
    struct rlimit locked = {0};

    if (may_lock_all() || getrlimit(RLIMIT_MEMLOCK, &locked) != 0)
        return SEALANE_OK;
    if (locked.rlim_cur < LANE_LEAST)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED,
                       "RLIMIT_MEMLOCK is %llu bytes, an RDMA lane locks at least %d: %s",
                       (unsigned long long)locked.rlim_cur, LANE_LEAST, how);
    if (locked.rlim_cur < (rlim_t)LANE_DEFAULT * LANES_WORTH_NO_WORD)
        SL_LOG(SL_LOG_WARN,
               "RLIMIT_MEMLOCK is %llu bytes, an RDMA lane with default rings locks %d: %s",
               (unsigned long long)locked.rlim_cur, LANE_DEFAULT, how);
    return SEALANE_OK;
}

/* ---- the host's memory ---- */

static SEALANE_RESULT register_failed(const struct sl_verbs *verbs, size_t bytes, int error)
{
    const char *name = sl_verbs_device_name(verbs->device);
    struct rlimit locked = {0};

    (void)getrlimit(RLIMIT_MEMLOCK, &locked);
    if (error == ENOMEM && locked.rlim_cur != RLIM_INFINITY)
        return SL_FAIL_CAUSE(
            SEALANE_RESOURCE_EXHAUSTED, error,
            "cannot register %zu bytes with %s: RLIMIT_MEMLOCK is %llu bytes; raise it by "
            "ulimit -l, LimitMEMLOCK= or /etc/security/limits.conf",
            bytes, name, (unsigned long long)locked.rlim_cur);
    return SL_FAIL_CAUSE(SEALANE_RESOURCE_EXHAUSTED, error,
                         "cannot register %zu bytes with %s (%d regions at most): %s", bytes, name,
                         verbs->device->limits.max_mr, strerror(error));
}

static SEALANE_RESULT size_check(const struct sl_verbs *verbs, size_t bytes)
{
    uint64_t max = verbs->device->limits.max_mr_size;

    if (bytes == 0 || bytes > max)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "%s registers 1 to %llu bytes, not %zu",
                       sl_verbs_device_name(verbs->device), (unsigned long long)max, bytes);
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_register(struct sl_verbs *verbs, const void *base, size_t bytes,
                                 struct ibv_mr **mr_p)
{
    struct ibv_mr *mr;

    SL_TRY(size_check(verbs, bytes));
    mr = ibv_reg_mr(verbs->pd, (void *)(uintptr_t)base, bytes, IBV_ACCESS_LOCAL_WRITE);
    if (!mr)
        return register_failed(verbs, bytes, errno);
    *mr_p = mr;
    return SEALANE_OK;
}

/* ---- rings ---- */

/* What the peer sees are offsets: a grant tells nothing about this process's addresses. */
static struct ibv_mr *by_pages(const struct sl_verbs *verbs, const struct sl_ring_memory *ring)
{
    return ibv_reg_mr_iova(verbs->pd, ring->base, ring->bytes, 0,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/* Whether the RDMA device's driver takes dma-bufs at all: only one that does finds fault with a descriptor that is none. */
static bool takes_dmabufs(const struct sl_verbs *verbs)
{
    struct ibv_mr *mr = ibv_reg_dmabuf_mr(verbs->pd, 0, (size_t)sysconf(_SC_PAGESIZE), 0, -1,
                                          IBV_ACCESS_LOCAL_WRITE);

    if (mr)
        (void)ibv_dereg_mr(mr);
    return mr || errno == EBADF;
}

/* On failure `why` says what stood against it. */
static struct ibv_mr *by_dmabuf(const struct sl_verbs *verbs, const struct sl_ring_memory *ring,
                                char *why, size_t bytes)
{
    struct ibv_mr *mr = NULL;

    if (ring->dmabuf < 0)
        (void)snprintf(why, bytes, "it has no dma-buf");
    else if (ring->dmabuf_offset % (uint64_t)sysconf(_SC_PAGESIZE) != 0)
        (void)snprintf(why, bytes, "it begins amid a page of its dma-buf");
    else if (!takes_dmabufs(verbs))
        (void)snprintf(why, bytes, "%s takes no dma-bufs", sl_verbs_device_name(verbs->device));
    else
        mr = ibv_reg_dmabuf_mr(verbs->pd, ring->dmabuf_offset, ring->bytes, 0, ring->dmabuf,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!mr && why[0] == '\0')
        (void)snprintf(why, bytes, "%s refuses the dma-buf: %s",
                       sl_verbs_device_name(verbs->device), strerror(errno));
    return mr;
}

/* Where its driver lends the pages of a GPU (nvidia-peermem, and its name before CUDA 11.4), its addresses register as the host's. */
static struct ibv_mr *by_peermem(const struct sl_verbs *verbs, const struct sl_ring_memory *ring,
                                 char *why, size_t bytes)
{
    static const char *const modules[] = {"/sys/module/nvidia_peermem/version",
                                          "/sys/kernel/mm/memory_peers/nv_mem/version",
                                          "/sys/kernel/mm/memory_peers/nv_mem_nc/version"};
    bool loaded = false;
    struct ibv_mr *mr;

    for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]) && !loaded; i++)
        loaded = access(modules[i], F_OK) == 0;
    mr = loaded ? by_pages(verbs, ring) : NULL;
    if (!loaded)
        (void)snprintf(why, bytes, "nvidia-peermem is not loaded");
    else if (!mr)
        (void)snprintf(why, bytes, "nvidia-peermem refuses it: %s", strerror(errno));
    return mr;
}

static SEALANE_RESULT device_ring(struct sl_verbs *verbs, const struct sl_ring_memory *ring,
                                  struct ibv_mr **mr_p)
{
    char dmabuf[96] = "", peermem[96] = "";
    const char *how = "dma-buf";
    struct ibv_mr *mr = by_dmabuf(verbs, ring, dmabuf, sizeof(dmabuf));

    if (!mr) {
        how = "peermem";
        mr = by_peermem(verbs, ring, peermem, sizeof(peermem));
    }
    if (!mr)
        return SL_FAIL(SEALANE_UNIMPLEMENTED, "%s cannot write to memory of a device: %s; %s",
                       sl_verbs_device_name(verbs->device), dmabuf, peermem);
    SL_LOG(SL_LOG_INFO, "%s writes to memory of a device by %s%s%s",
           sl_verbs_device_name(verbs->device), how, dmabuf[0] ? ", as " : "", dmabuf);
    verbs->link.device_ring = how;
    *mr_p = mr;
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_register_ring(struct sl_verbs *verbs, const struct sl_ring_memory *ring,
                                      struct ibv_mr **mr_p)
{
    struct ibv_mr *mr;

    SL_TRY(size_check(verbs, ring->bytes));
    if (ring->place == SL_PLACE_DEVICE)
        return device_ring(verbs, ring, mr_p);
    mr = by_pages(verbs, ring);
    if (!mr)
        return register_failed(verbs, ring->bytes, errno);
    *mr_p = mr;
    return SEALANE_OK;
}
