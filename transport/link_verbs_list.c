/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_list.c - tells of all RDMA devices, ports and GIDs, which of them a lane would use, and why not the others. Nothing is
 * assumed: devices are opened and asked. */
#include "transport/link_verbs_inside.h"

#include <sealane_transport.h>

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listing {
    struct sl_link_settings wish;
    void (*tell)(void *user, const struct sealane_rdma_gid *gid);
    void *user;
    struct ifaddrs *addresses; /* of this host */
    bool found;                /* what is wished */
};

/* A device, open, and a port of it. */
struct place {
    struct ibv_context *verbs;
    struct ibv_device_attr limits;
    struct sl_verbs_gids gids;
    struct ibv_port_attr port;
    struct sealane_rdma_gid row; /* what all GIDs of the port have in common */
};

#define TELL(text, ...) (void)snprintf(text, sizeof(text), __VA_ARGS__)

/* ---- why not ---- */

static bool is_wished(const struct listing *listing, const struct sealane_rdma_gid *row)
{
    const struct sl_link_settings *wish = &listing->wish;

    return !wish->rdma_device[0] || (strcmp(wish->rdma_device, row->device) == 0 &&
                                     (wish->rdma_port == 0 || wish->rdma_port == row->port));
}

/* What speaks against all GIDs of a port. */
static bool port_is_fit(const struct listing *listing, const struct place *place,
                        struct sealane_rdma_gid *row)
{
    if (!is_wished(listing, row))
        TELL(row->why, "not the rdma_device asked for");
    else if (sl_verbs_device_check(place->verbs->device, &place->limits) != SEALANE_OK)
        TELL(row->why, "%.159s", sealane_last_error()->message);
    else if (place->port.state != IBV_PORT_ACTIVE)
        TELL(row->why, "the port is %s", row->state);
    return !row->why[0];
}

static const struct ifaddrs *address_of(const struct listing *listing, const struct place *place,
                                        const struct ibv_gid_entry *gid)
{
    const struct ifaddrs *at = listing->addresses;

    while (at && !sl_verbs_gid_has(place->verbs->device, gid, at))
        at = at->ifa_next;
    return at;
}

static void gid_judge(const struct listing *listing, const struct place *place,
                      const struct ibv_gid_entry *gid, struct sealane_rdma_gid *row)
{
    const struct ifaddrs *at = address_of(listing, place, gid);

    if (!row->netdev[0] && at)
        TELL(row->netdev, "%s", at->ifa_name);
    if (!port_is_fit(listing, place, row))
        return;
    if (gid->gid_type == IBV_GID_TYPE_ROCE_V1)
        TELL(row->why, "RoCE v1 does not go through routers: lanes use RoCE v2");
    else if (gid->gid_type == IBV_GID_TYPE_IB && !at)
        TELL(row->why, "the port has no IPoIB netdev with an address");
    else if (!at)
        TELL(row->why, "not an address of %s", row->netdev[0] ? row->netdev : "a netdev here");
    else if (gid->gid_type == IBV_GID_TYPE_ROCE_V2 && gid->gid.raw[0] == 0xfe)
        TELL(row->why, "for link-local addresses only");
    row->used = at && gid->gid_type != IBV_GID_TYPE_ROCE_V1;
}

/* ---- rows ---- */

static void gid_tell(const struct listing *listing, const struct place *place,
                     const struct ibv_gid_entry *gid)
{
    struct sealane_rdma_gid row = place->row;

    row.index = (int32_t)gid->gid_index;
    sl_verbs_gid_write(&gid->gid, row.gid);
    TELL(row.type, "%s", sl_verbs_gid_type(gid->gid_type));
    if (gid->ndev_ifindex == 0 || !if_indextoname(gid->ndev_ifindex, row.netdev))
        row.netdev[0] = '\0';
    gid_judge(listing, place, gid, &row);
    listing->tell(listing->user, &row);
}

/* "100 Gb/sec (4X EDR)" */
static void rate_read(struct sealane_rdma_gid *row)
{
    char path[160];
    FILE *file;

    TELL(path, "/sys/class/infiniband/%s/ports/%u/rate", row->device, row->port);
    file = fopen(path, "re");
    if (!file)
        return;
    if (!fgets(row->rate, sizeof(row->rate), file))
        row->rate[0] = '\0';
    row->rate[strcspn(row->rate, "\n")] = '\0';
    (void)fclose(file);
}

static void port_describe(struct place *place, unsigned number)
{
    static const char *const states[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
    struct sealane_rdma_gid *row = &place->row;
    size_t state = (size_t)place->port.state;

    row->port = number;
    row->index = -1;
    TELL(row->state, "%s", state < sizeof(states) / sizeof(states[0]) ? states[state] : "unknown");
    TELL(row->link_layer, "%s",
         place->port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
    row->mtu_bytes = 128u << place->port.active_mtu; /* enum ibv_mtu: 1 is 256 */
    row->max_message_bytes = place->port.max_msg_sz;
    rate_read(row);
}

static void port_tell(struct listing *listing, struct place *place, unsigned number)
{
    bool any = false;
    int error = ibv_query_port(place->verbs, (uint8_t)number, &place->port);

    if (error != 0)
        memset(&place->port, 0, sizeof(place->port));
    port_describe(place, number);
    listing->found |= is_wished(listing, &place->row);
    for (size_t i = 0; i < place->gids.count; i++) {
        if (place->gids.at[i].port_num != number)
            continue;
        gid_tell(listing, place, &place->gids.at[i]);
        any = true;
    }
    if (any)
        return;
    if (port_is_fit(listing, place, &place->row))
        TELL(place->row.why, "the port has no GID");
    listing->tell(listing->user, &place->row);
    place->row.why[0] = '\0';
}

static SEALANE_RESULT device_ask(struct place *place)
{
    int error = ibv_query_device(place->verbs, &place->limits);

    errno = error;
    if (error != 0)
        return sl_system_failed("cannot ask for the limits of", place->row.device);
    place->row.max_work_requests = (uint32_t)place->limits.max_qp_wr;
    place->row.max_regions = (uint32_t)place->limits.max_mr;
    return sl_verbs_gids_read(place->verbs, place->limits.phys_port_cnt, &place->gids);
}

/* A device that does not answer has a row, too. */
static void device_fails(struct listing *listing, struct place *place)
{
    listing->found |= strcmp(listing->wish.rdma_device, place->row.device) == 0;
    place->row.index = -1;
    TELL(place->row.why, "%.159s", sealane_last_error()->message);
    listing->tell(listing->user, &place->row);
}

static void device_tell(struct listing *listing, struct ibv_device *device)
{
    struct place place = {.verbs = ibv_open_device(device)};
    enum sealane_status status;

    TELL(place.row.device, "%s", ibv_get_device_name(device));
    status = place.verbs ? device_ask(&place) : sl_system_failed("cannot open", place.row.device);
    if (status != SEALANE_OK)
        device_fails(listing, &place);
    for (unsigned port = 1; status == SEALANE_OK && port <= place.limits.phys_port_cnt; port++)
        port_tell(listing, &place, port);
    free(place.gids.at);
    if (place.verbs)
        (void)ibv_close_device(place.verbs);
}

/* ---- the door ---- */

static SEALANE_RESULT wished_check(const struct listing *listing)
{
    char place[SL_VERBS_PLACE_BYTES];

    sl_verbs_wish_write(&listing->wish, place);
    return listing->found || !listing->wish.rdma_device[0]
               ? SEALANE_OK
               : SL_FAIL(SEALANE_NOT_FOUND, "there is no RDMA device %s", place);
}

SEALANE_RESULT sealane_rdma_list(const char *rdma_device,
                                 void (*tell)(void *user, const struct sealane_rdma_gid *gid),
                                 void *user)
{
    struct listing listing = {.tell = tell, .user = user};
    struct ibv_device **devices;

    SL_TRY(sl_link_settings_read(rdma_device, &listing.wish));
    if (getifaddrs(&listing.addresses) != 0)
        return sl_system_failed("cannot list addresses of", "this host");
    devices = ibv_get_device_list(NULL);
    for (size_t i = 0; devices && devices[i]; i++)
        device_tell(&listing, devices[i]);
    if (devices)
        ibv_free_device_list(devices);
    freeifaddrs(listing.addresses);
    return wished_check(&listing);
}
