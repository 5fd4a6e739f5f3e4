/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_gid.c - which device, port and GID a lane uses, and what speaks against one. On RoCE the GIDs of a port are the addresses
 * of its netdev, once for each version of RoCE; on InfiniBand they are the port's own, and its addresses are those of its IPoIB
 * netdevs. */
#include "transport/link_verbs_inside.h"
#include "transport/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    REGIONS = 2 * SL_RING_COUNT +
              2, /* of a lane, at least: rings, memory behind receives, one to write from */
    NAMES_BYTES = 80
};

/* ---- the device asked for ---- */

bool sl_verbs_is_wished(const struct sl_link_settings *wish, const struct rdma_cm_id *id)
{
    return !wish->rdma_device[0] ||
           (strcmp(ibv_get_device_name(id->verbs->device), wish->rdma_device) == 0 &&
            (wish->rdma_port == 0 || wish->rdma_port == id->port_num));
}

void sl_verbs_wish_write(const struct sl_link_settings *wish, char to[SL_VERBS_PLACE_BYTES])
{
    if (wish->rdma_port > 0)
        (void)snprintf(to, SL_VERBS_PLACE_BYTES, "%s port %u", wish->rdma_device, wish->rdma_port);
    else
        (void)snprintf(to, SL_VERBS_PLACE_BYTES, "%s", wish->rdma_device);
}

static SEALANE_RESULT not_there(const char *name, struct ibv_device **devices)
{
    char names[NAMES_BYTES] = "";
    size_t used = 0;

    for (size_t i = 0; devices[i] && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
                                 ibv_get_device_name(devices[i]));
    return SL_FAIL(SEALANE_NOT_FOUND, "there is no RDMA device %s: there %s %s", name,
                   devices[0] && devices[1] ? "are" : "is", used > 0 ? names : "none");
}

/* A device is opened while the list is there: it goes with the list, unless it is open. */
static SEALANE_RESULT named_get(struct sl_port *port, struct ibv_device **devices,
                                struct sl_verbs_device **device_p)
{
    const char *name = port->wish.rdma_device;

    for (size_t i = 0; devices[i]; i++) {
        if (strcmp(ibv_get_device_name(devices[i]), name) == 0)
            return sl_verbs_device_get(port, devices[i], device_p);
    }
    return not_there(name, devices);
}

SEALANE_RESULT sl_verbs_wished(struct sl_port *port, struct sl_verbs_device **device_p)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    enum sealane_status status;

    if (!devices)
        return sl_system_failed("cannot list", "RDMA devices");
    status = named_get(port, devices, device_p);
    ibv_free_device_list(devices);
    if (status == SEALANE_OK && port->wish.rdma_port > (*device_p)->limits.phys_port_cnt)
        status = SL_FAIL(SEALANE_NOT_FOUND, "%s has no port %u: it has %u", port->wish.rdma_device,
                         port->wish.rdma_port, (*device_p)->limits.phys_port_cnt);
    return status;
}

/* ---- what a device must have ---- */

static SEALANE_RESULT limit_check(const char *name, const char *of, int has, int needed)
{
    if (has < needed)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "%s has %d %s, a lane needs %d", name, has, of,
                       needed);
    return SEALANE_OK;
}

SEALANE_RESULT sl_verbs_device_check(const struct ibv_device *device,
                                     const struct ibv_device_attr *limits)
{
    const char *name = device->name;

    if (device->transport_type != IBV_TRANSPORT_IB)
        return SL_FAIL(SEALANE_UNIMPLEMENTED,
                       "%s is no InfiniBand or RoCE device: it cannot write with an immediate",
                       name);
    SL_TRY(limit_check(name, "work requests in a queue pair (max_qp_wr)", limits->max_qp_wr,
                       2 * SL_VERBS_SENDS));
    SL_TRY(limit_check(name, "completions in a queue (max_cqe)", limits->max_cqe,
                       SL_VERBS_RECEIVES + SL_VERBS_SENDS));
    SL_TRY(limit_check(name, "parts in a work request (max_sge)", limits->max_sge, 1));
    return limit_check(name, "memory regions (max_mr)", limits->max_mr, REGIONS);
}

/* ---- addresses of a port ---- */

SEALANE_RESULT sl_verbs_gids_read(struct ibv_context *verbs, unsigned ports,
                                  struct sl_verbs_gids *gids_p)
{
    size_t max = 0;
    ssize_t count;

    *gids_p = (struct sl_verbs_gids){0};
    for (unsigned port = 1; port <= ports; port++) {
        struct ibv_port_attr attr;

        if (ibv_query_port(verbs, (uint8_t)port, &attr) == 0 && attr.gid_tbl_len > 0)
            max += (size_t)attr.gid_tbl_len;
    }
    gids_p->at = calloc(max + 1, sizeof(*gids_p->at));
    if (!gids_p->at)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %zu GIDs", max);
    count = ibv_query_gid_table(verbs, gids_p->at, max, 0);
    if (count < 0) {
        free(gids_p->at);
        errno = (int)-count;
        return sl_system_failed("cannot ask for the GIDs of", verbs->device->name);
    }
    gids_p->count = (size_t)count;
    return SEALANE_OK;
}

/* As a GID is written: IPv4 is ::ffff:a.b.c.d. */
static void gid_of(const struct sockaddr *address, uint8_t gid[16])
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

    if (address->sa_family == AF_INET) {
        memcpy(gid, mapped, sizeof(mapped));
        memcpy(gid + 12, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
    } else {
        memcpy(gid, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16);
    }
}

/* What a netdev's file of sysfs says; -1: nothing. */
static long netdev_number(const char *netdev, const char *file)
{
    char path[128], text[32];
    FILE *from;
    long number = -1;

    (void)snprintf(path, sizeof(path), "/sys/class/net/%s/%s", netdev, file);
    from = fopen(path, "re");
    if (!from)
        return -1;
    if (fgets(text, sizeof(text), from))
        number = strtol(text, NULL, 0);
    (void)fclose(from);
    return number;
}

/* An IPoIB netdev names its device, and its port from 0 (in kernels before 3.15 by dev_id; one of both is 0 then). */
static bool is_ipoib_of(const char *netdev, const struct ibv_device *device, unsigned port)
{
    char path[192];
    long dev_port = netdev_number(netdev, "dev_port"), dev_id = netdev_number(netdev, "dev_id");

    (void)snprintf(path, sizeof(path), "/sys/class/net/%s/device/infiniband/%s", netdev,
                   device->name);
    return netdev_number(netdev, "type") == ARPHRD_INFINIBAND && access(path, F_OK) == 0 &&
           (dev_port > dev_id ? dev_port : dev_id) + 1 == (long)port;
}

bool sl_verbs_gid_has(const struct ibv_device *device, const struct ibv_gid_entry *gid,
                      const struct ifaddrs *at)
{
    uint8_t raw[16];

    if (!at->ifa_addr ||
        (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
        return false;
    if (gid->gid_type == IBV_GID_TYPE_IB)
        return is_ipoib_of(at->ifa_name, device, gid->port_num);
    gid_of(at->ifa_addr, raw);
    return gid->gid_type == IBV_GID_TYPE_ROCE_V2 && memcmp(raw, gid->gid.raw, sizeof(raw)) == 0 &&
           (gid->ndev_ifindex == 0 || gid->ndev_ifindex == if_nametoindex(at->ifa_name));
}

/* ---- where to leave from ---- */

static bool is_link_local(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static uint32_t scope_of(const struct sockaddr *address)
{
    return ((const struct sockaddr_in6 *)(const void *)address)->sin6_scope_id;
}

static bool is_same_net(const struct ifaddrs *at, const struct sockaddr *peer)
{
    uint8_t mine[16], theirs[16], mask[16];

    if (!at->ifa_netmask)
        return false;
    gid_of(at->ifa_addr, mine);
    gid_of(peer, theirs);
    gid_of(at->ifa_netmask, mask);
    for (int i = 0; i < 16; i++) {
        if ((mine[i] ^ theirs[i]) & mask[i])
            return false;
    }
    return true;
}

/* How well one may leave from an address: 0: not at all. A link-local one leads to such only, and within its own link. */
static int fitness(const struct ifaddrs *at, const struct sockaddr *peer)
{
    if (!at->ifa_addr || at->ifa_addr->sa_family != peer->sa_family ||
        is_link_local(at->ifa_addr) != is_link_local(peer))
        return 0;
    if (is_link_local(peer) && scope_of(peer) != 0 && scope_of(peer) != scope_of(at->ifa_addr))
        return 0;
    return is_same_net(at, peer) ? 2 : 1;
}

static bool is_active(struct ibv_context *verbs, unsigned port)
{
    struct ibv_port_attr attr;

    return ibv_query_port(verbs, (uint8_t)port, &attr) == 0 && attr.state == IBV_PORT_ACTIVE;
}

/* The best of the host's addresses that the device has; NULL: none. */
static const struct ifaddrs *source_find(const struct sl_verbs_device *device, unsigned port,
                                         const struct sl_verbs_gids *gids,
                                         const struct ifaddrs *all, const struct sockaddr *peer)
{
    const struct ifaddrs *best = NULL;

    for (size_t i = 0; i < gids->count; i++) {
        const struct ibv_gid_entry *gid = &gids->at[i];

        if ((port > 0 && gid->port_num != port) || !is_active(device->verbs, gid->port_num))
            continue;
        for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
            if (fitness(at, peer) > (best ? fitness(best, peer) : 0) &&
                sl_verbs_gid_has(device->verbs->device, gid, at))
                best = at;
        }
    }
    return best;
}

static SEALANE_RESULT source_choose(struct sl_port *port, const struct sl_verbs_device *device,
                                    const struct sl_verbs_gids *gids, const struct sockaddr *peer,
                                    struct sockaddr_storage *source_p)
{
    bool ipv6 = peer->sa_family == AF_INET6;
    char place[SL_VERBS_PLACE_BYTES];
    const struct ifaddrs *found;
    struct ifaddrs *all;

    if (getifaddrs(&all) != 0)
        return sl_system_failed("cannot list addresses of", "this host");
    found = source_find(device, port->wish.rdma_port, gids, all, peer);
    memset(source_p, 0, sizeof(*source_p));
    if (found)
        memcpy(source_p, found->ifa_addr,
               ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
    freeifaddrs(all);
    sl_verbs_wish_write(&port->wish, place);
    return found ? SEALANE_OK
                 : SL_FAIL(SEALANE_NOT_FOUND, "%s has no %s%s address on a port that is up", place,
                           is_link_local(peer) ? "link-local " : "", ipv6 ? "IPv6" : "IPv4");
}

SEALANE_RESULT sl_verbs_source(struct sl_port *port, const struct sockaddr *peer,
                               struct sockaddr_storage *source_p)
{
    struct sl_verbs_device *device;
    struct sl_verbs_gids gids;
    enum sealane_status status;

    SL_TRY(sl_verbs_wished(port, &device));
    SL_TRY(sl_verbs_gids_read(device->verbs, device->limits.phys_port_cnt, &gids));
    status = source_choose(port, device, &gids, peer, source_p);
    free(gids.at);
    return status;
}

/* ---- the GID of a queue pair ---- */

const char *sl_verbs_gid_type(uint32_t type)
{
    switch (type) {
    case IBV_GID_TYPE_IB:
        return "InfiniBand";
    case IBV_GID_TYPE_ROCE_V1:
        return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
        return "RoCE v2";
    default:
        return "unknown";
    }
}

void sl_verbs_gid_write(const union ibv_gid *gid, char to[SL_VERBS_GID_BYTES])
{
    if (!inet_ntop(AF_INET6, gid->raw, to, SL_VERBS_GID_BYTES))
        to[0] = '\0';
}

/* The link's error has little room; the log says what to do. */
static SEALANE_RESULT is_version_1(const char *name, const struct ibv_gid_entry *gid)
{
    SL_LOG(
        SL_LOG_WARN,
        "to have RoCE v2 on %s port %u: mkdir -p /sys/kernel/config/rdma_cm/%s && echo \"RoCE v2\" "
        "> /sys/kernel/config/rdma_cm/%s/ports/%u/default_roce_mode",
        name, gid->port_num, name, name, gid->port_num);
    return SL_FAIL(SEALANE_FAILED_PRECONDITION,
                   "rdma_cm chose RoCE v1 on %.40s port %u, expected v2: the log says how", name,
                   gid->port_num);
}

SEALANE_RESULT sl_verbs_gid_check(const struct sl_verbs *verbs, const struct ibv_ah_attr *way)
{
    const char *name = sl_verbs_device_name(verbs->device);
    struct ibv_gid_entry gid = {0};
    char text[SL_VERBS_GID_BYTES];
    int error;

    if (!way->is_global) { /* within an InfiniBand subnet no GID is needed */
        SL_LOG(SL_LOG_INFO, "%s is reached through %s port %u, InfiniBand LID %u", verbs->peer,
               name, verbs->id->port_num, way->dlid);
        return SEALANE_OK;
    }
    error =
        ibv_query_gid_ex(verbs->device->verbs, verbs->id->port_num, way->grh.sgid_index, &gid, 0);
    errno = error;
    if (error != 0)
        return sl_system_failed("cannot ask for the GID of a lane on", name);
    if (gid.gid_type == IBV_GID_TYPE_ROCE_V1)
        return is_version_1(name, &gid);
    sl_verbs_gid_write(&gid.gid, text);
    SL_LOG(SL_LOG_INFO, "%s is reached through %s port %u, GID %u: %s, %s", verbs->peer, name,
           gid.port_num, gid.gid_index, sl_verbs_gid_type(gid.gid_type), text);
    return SEALANE_OK;
}
