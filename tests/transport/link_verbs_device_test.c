/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_device_test.c - which RDMA device, port and GID a node uses: by what it was told, and by what is there. In the rig there are
 * rxe0, and rxe1 and rxe2 at the ends of a wire; elsewhere cases that need them are skipped. */
#include "tests/transport/link_pair.h"
#include "tests/transport/link_verbs_raw.h"
#include "transport/link_verbs_inside.h"

#include <sealane_transport.h>

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    WAIT_MS = 4000
};

struct end {
    struct sl_port *port;
    struct sl_link *link;
    char why[120];
    bool connected;
};

static struct end server, client;

static const char *rig(const char *name)
{
    const char *value = getenv(name);

    if (!value || !value[0])
        cr_skip_test("only in the rig is it known what devices there are");
    return value;
}

static struct sl_port *port_open(const char *rdma_device)
{
    struct sl_link_settings settings;
    struct sl_port *port;

    cr_assert_eq(sl_link_settings_read(rdma_device, &settings), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(sl_link_verbs.open(&settings, &port), SEALANE_OK);
    return port;
}

static void end_turn(struct end *end)
{
    struct sl_link_event events[8];
    int count = end->port ? sl_link_verbs.poll(end->port, events, 8) : 0;

    for (int i = 0; i < count; i++) {
        if (events[i].kind == SL_LINK_ACCEPTED)
            end->link = events[i].link;
        end->connected |= events[i].kind == SL_LINK_CONNECTED || events[i].kind == SL_LINK_ACCEPTED;
        if (events[i].kind == SL_LINK_GONE)
            (void)snprintf(end->why, sizeof(end->why), "%s", events[i].why);
    }
}

/* Until the client is connected or knows why not. */
static void turn(void)
{
    const struct timespec moment = {.tv_nsec = 1000000};

    for (int ms = 0; ms < WAIT_MS && !client.why[0] && !(client.connected && server.connected);
         ms++) {
        end_turn(&client);
        end_turn(&server);
        (void)nanosleep(&moment, NULL);
    }
}

/* A server of one device, listening at host, and a client of another that asks `to`. */
static void meet(const char *server_device, const char *host, const char *client_device,
                 const char *to)
{
    char address[SL_ADDRESS_BYTES], bound[SL_ADDRESS_BYTES];

    server.port = port_open(server_device);
    client.port = port_open(client_device);
    (void)snprintf(address, sizeof(address), "%s:0", host);
    cr_assert_eq(sl_link_verbs.listen(server.port, address, bound), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    (void)snprintf(address, sizeof(address), "%s%s", to, strrchr(bound, ':'));
    cr_assert_eq(sl_link_verbs.connect(client.port, address, &client.link), SEALANE_OK);
    turn();
}

/* Which device and port the client's end is on. */
static void expect_client_on(const char *device, int port)
{
    const struct sl_verbs *verbs = sl_verbs_of(client.link);

    cr_assert(client.connected && server.connected, "%s", client.why);
    cr_assert_str_eq(sl_verbs_device_name(verbs->device), device);
    cr_assert_eq(verbs->id->port_num, port);
}

static void part(void)
{
    sl_link_verbs.close(client.port);
    sl_link_verbs.close(server.port);
}

static void wire(char near[16], char far[16])
{
    cr_assert_eq(sscanf(rig("SEALANE_RIG_WIRE"), "%15s %15s", near, far), 2);
}

Test(link_verbs_device, goes_over_ipv6)
{
    char host[64];

    (void)snprintf(host, sizeof(host), "[%s]", rig("SEALANE_RIG_SELF6"));
    meet(NULL, host, NULL, host);
    cr_assert(client.connected && server.connected, "%s", client.why);
    part();
}

Test(link_verbs_device, goes_over_ipv6_from_the_device_asked_for)
{
    char host[64];

    (void)snprintf(host, sizeof(host), "[%s]", rig("SEALANE_RIG_SELF6"));
    meet("rxe0", host, "rxe0:1", host);
    cr_assert(client.connected && server.connected, "%s", client.why);
    part();
}

Test(link_verbs_device, leaves_from_the_device_asked_for)
{
    char near[16], far[16];

    wire(near, far);
    meet("rxe2", far, "rxe1:1", far);
    expect_client_on("rxe1", 1);
    part();
}

/* Where a node that uses rxe1 leaves from to reach `peer`; "": it cannot. */
static const char *source_to(const char *peer)
{
    static char text[SL_ADDRESS_BYTES];
    struct sl_port *port = port_open("rxe1");
    struct sockaddr_storage to, from;
    enum sealane_status status;
    socklen_t bytes;

    text[0] = '\0';
    cr_assert_eq(sl_address_parse(peer, &to, &bytes), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    status = sl_verbs_source(port, (struct sockaddr *)&to, &from);
    if (status == SEALANE_OK)
        sl_address_write((struct sockaddr *)&from, text);
    else
        cr_assert_eq(status, SEALANE_NOT_FOUND, "%s", sealane_last_error()->message);
    sl_link_verbs.close(port);
    return text;
}

Test(link_verbs_device, leaves_from_the_address_nearest_to_the_peer)
{
    (void)rig("SEALANE_RIG_WIRE");
    cr_assert_eq(system("ip address add 10.99.1.1/24 dev wire0 && "
                        "ip address add fd99:1::1/64 dev wire0 nodad"),
                 0);
    cr_assert_str_eq(source_to("10.77.1.2:7000"), "10.77.1.1:0");
    cr_assert_str_eq(source_to("10.99.1.2:7000"), "10.99.1.1:0");
    cr_assert_str_eq(source_to("10.88.0.1:7000"), "10.77.1.1:0");
    cr_assert_str_eq(source_to("[fd77:1::2]:7000"), "[fd77:1::1]:0");
    cr_assert_str_eq(source_to("[fd99:1::2]:7000"), "[fd99:1::1]:0");
    cr_assert_str_eq(source_to("[fe80::7%wire0]:7000"), "[fe80::ff:fe00:101%wire0]:0");
    cr_assert_str_eq(source_to("[fe80::7%wire1]:7000"), "");
    cr_assert_eq(system("ip address del 10.99.1.1/24 dev wire0 && "
                        "ip address del fd99:1::1/64 dev wire0"),
                 0);
}

/* The address that the kernel gave rxe0's netdev. */
Test(link_verbs_device, goes_over_link_local_addresses)
{
    char text[INET6_ADDRSTRLEN], host[96] = "";
    struct ifaddrs *all;

    (void)rig("SEALANE_RIG_ADDRESS");
    cr_assert_eq(getifaddrs(&all), 0);
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        const struct sockaddr_in6 *ipv6 = (const void *)at->ifa_addr;

        if (strcmp(at->ifa_name, "dummy0") == 0 && ipv6 && ipv6->sin6_family == AF_INET6 &&
            IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr))
            (void)snprintf(host, sizeof(host), "[%s%%%s]",
                           inet_ntop(AF_INET6, &ipv6->sin6_addr, text, sizeof(text)), at->ifa_name);
    }
    freeifaddrs(all);
    cr_assert_neq(host[0], '\0');
    meet("rxe0", host, "rxe0", host);
    expect_client_on("rxe0", 1);
    part();
}

Test(link_verbs_device, a_server_at_all_addresses_takes_in_its_device_only)
{
    char near[16], far[16];

    wire(near, far);
    meet("rxe0", "0.0.0.0", "rxe1", far);
    cr_assert_not(client.connected);
    cr_assert_not_null(strstr(client.why, "turned us away"), "%s", client.why);
    part();
}

Test(link_verbs_device, an_address_of_another_device_is_not_listened_at)
{
    char near[16], far[16], address[32];
    struct sl_port *port;

    wire(near, far);
    port = port_open("rxe0");
    (void)snprintf(address, sizeof(address), "%s:0", near);
    cr_assert_eq(sl_link_verbs.listen(port, address, NULL), SEALANE_NOT_FOUND);
    cr_assert_not_null(strstr(sealane_last_error()->message, "is an address of rxe1 port 1"), "%s",
                       sealane_last_error()->message);
    sl_link_verbs.close(port);
}

Test(link_verbs_device, says_which_devices_there_are)
{
    const char *host = rig("SEALANE_RIG_ADDRESS");

    meet(NULL, host, "mlx5_7", host);
    cr_assert_not_null(strstr(client.why, "no RDMA device mlx5_7"), "%s", client.why);
    cr_assert_not_null(strstr(client.why, "rxe0"), "%s", client.why);
    part();
}

Test(link_verbs_device, says_that_a_device_has_no_such_port)
{
    const char *host = rig("SEALANE_RIG_ADDRESS");

    meet(NULL, host, "rxe0:2", host);
    cr_assert_str_eq(client.why, "rxe0 has no port 2: it has 1");
    part();
}

/* A soft device more, on a netdev that `make` makes of dummy9. */
static void rxe9_make(const char *make)
{
    (void)rig("SEALANE_RIG_ADDRESS");
    cr_assert_eq(system("ip link add dummy9 type dummy"), 0);
    cr_assert_eq(system(make), 0);
    cr_assert_eq(system("rdma link add rxe9 type rxe netdev dummy9"), 0);
}

static void rxe9_end(void)
{
    cr_assert_eq(system("rdma link delete rxe9 && ip link delete dummy9"), 0);
}

Test(link_verbs_device, says_that_a_device_has_no_address_of_the_kind)
{
    rxe9_make("ip link set dummy9 up && ip address add 10.99.0.1/24 dev dummy9");
    meet(NULL, "[fd77::1]", "rxe9", "[fd77::1]");
    cr_assert_str_eq(client.why, "rxe9 has no IPv6 address on a port that is up");
    part();
    rxe9_end();
}

/* ---- the GID of a lane ---- */

static uint32_t pretended_type;
static bool pretends;

int __real__ibv_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t bytes);
int __wrap__ibv_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t bytes);

/* A connection manager that chose otherwise: soft devices have RoCE v2 only. */
int __wrap__ibv_query_gid_ex(struct ibv_context *verbs, uint32_t port, uint32_t index,
                             struct ibv_gid_entry *entry, uint32_t flags, size_t bytes)
{
    int error = __real__ibv_query_gid_ex(verbs, port, index, entry, flags, bytes);

    if (pretends)
        entry->gid_type = pretended_type;
    return error;
}

ssize_t __real__ibv_query_gid_table(struct ibv_context *verbs, struct ibv_gid_entry *entries,
                                    size_t max, uint32_t flags, size_t bytes);
ssize_t __wrap__ibv_query_gid_table(struct ibv_context *verbs, struct ibv_gid_entry *entries,
                                    size_t max, uint32_t flags, size_t bytes);

ssize_t __wrap__ibv_query_gid_table(struct ibv_context *verbs, struct ibv_gid_entry *entries,
                                    size_t max, uint32_t flags, size_t bytes)
{
    ssize_t count = __real__ibv_query_gid_table(verbs, entries, max, flags, bytes);

    for (ssize_t i = 0; i < count && pretends; i++)
        entries[i].gid_type = pretended_type;
    return count;
}

Test(link_verbs_device, a_lane_does_not_go_by_version_1_of_roce)
{
    const char *host = rig("SEALANE_RIG_ADDRESS");

    pretends = true;
    pretended_type = IBV_GID_TYPE_ROCE_V1;
    meet(NULL, host, NULL, host);
    cr_assert_not(client.connected || server.connected);
    cr_assert_not_null(strstr(client.why, "turned us away"), "%s", client.why);
    part();
}

Test(link_verbs_device, says_which_lane_would_go_by_version_1_of_roce)
{
    struct ibv_ah_attr way = {.is_global = 1, .grh.sgid_index = 1};
    const char *host = rig("SEALANE_RIG_ADDRESS");

    meet(NULL, host, NULL, host);
    expect_client_on("rxe0", 1);
    cr_assert_eq(sl_verbs_gid_check(sl_verbs_of(client.link), &way), SEALANE_OK);
    pretends = true;
    pretended_type = IBV_GID_TYPE_ROCE_V1;
    cr_assert_eq(sl_verbs_gid_check(sl_verbs_of(client.link), &way), SEALANE_FAILED_PRECONDITION);
    cr_assert_str_eq(sealane_last_error()->message,
                     "rdma_cm chose RoCE v1 on rxe0 port 1, expected v2: the log says how");
    way.is_global = 0; /* InfiniBand within a subnet */
    cr_assert_eq(sl_verbs_gid_check(sl_verbs_of(client.link), &way), SEALANE_OK);
    part();
}

/* ---- what a device must have ---- */

static void expect_too_little(const struct ibv_device_attr *limits, const char *says)
{
    struct ibv_device device = {.transport_type = IBV_TRANSPORT_IB, .name = "mlx5_3"};

    cr_assert_eq(sl_verbs_device_check(&device, limits), SEALANE_RESOURCE_EXHAUSTED, "%s", says);
    cr_assert_not_null(strstr(sealane_last_error()->message, says), "%s",
                       sealane_last_error()->message);
    cr_assert_not_null(strstr(sealane_last_error()->message, "mlx5_3"));
}

Test(link_verbs_device, a_device_with_too_little_is_not_used)
{
    const struct ibv_device_attr enough = {
        .max_qp_wr = 1024, .max_cqe = 4096, .max_sge = 1, .max_mr = 64};
    struct ibv_device device = {.transport_type = IBV_TRANSPORT_IB, .name = "mlx5_3"};
    struct ibv_device_attr less;

    cr_assert_eq(sl_verbs_device_check(&device, &enough), SEALANE_OK);
    less = enough, less.max_qp_wr = 2 * SL_VERBS_SENDS - 1;
    expect_too_little(&less, "max_qp_wr");
    less = enough, less.max_cqe = 8;
    expect_too_little(&less, "max_cqe");
    less = enough, less.max_sge = 0;
    expect_too_little(&less, "max_sge");
    less = enough, less.max_mr = 3;
    expect_too_little(&less, "max_mr");
    device.transport_type = IBV_TRANSPORT_IWARP;
    cr_assert_eq(sl_verbs_device_check(&device, &enough), SEALANE_UNIMPLEMENTED);
}

/* Soft devices have one port each. */
Test(link_verbs_device, a_port_asked_for_is_no_other)
{
    struct ibv_device device = {.name = "mlx5_0"};
    struct ibv_context verbs = {.device = &device};
    const struct rdma_cm_id id = {.verbs = &verbs, .port_num = 2};
    static const struct {
        const char *wish;
        bool is;
    } cases[] = {{"", true},         {"mlx5_0", true}, {"mlx5_0:2", true}, {"mlx5_0:1", false},
                 {"mlx5_00", false}, {"mlx5_", false}, {"mlx5_1:2", false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sl_link_settings wish;

        cr_assert_eq(sl_link_settings_read(cases[i].wish, &wish), SEALANE_OK);
        cr_assert_eq(sl_verbs_is_wished(&wish, &id), cases[i].is, "%s", cases[i].wish);
    }
}

/* ---- the option ---- */

Test(link_verbs_device, a_node_refuses_what_is_no_name_of_a_device)
{
    static const char *const wrong[] = {":1",
                                        "rxe0:",
                                        "rxe0:0",
                                        "rxe0:256",
                                        "rxe0:1x",
                                        "../../x",
                                        "rxe 0",
                                        "rxe0:1:2",
                                        ".hidden",
                                        "rxe0:-1",
                                        "rxe0:9999999999999999999"};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sealane_node_options options = {.polled = true, .rdma_device = wrong[i]};
        struct sealane_node *node = NULL;

        cr_assert_eq(sealane_node_new(&options, &node), SEALANE_INVALID_ARGUMENT, "%s", wrong[i]);
        cr_assert_null(node);
        cr_assert_not_null(strstr(sealane_last_error()->message, "rdma_device"), "%s",
                           sealane_last_error()->message);
    }
}

Test(link_verbs_device, a_node_takes_a_name_and_a_port)
{
    static const char *const right[] = {"", "mlx5_0", "mlx5_0:1", "bnxt_re-bond0.7:255"};

    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
        struct sealane_node_options options = {.polled = true, .rdma_device = right[i]};
        struct sealane_node *node;

        cr_assert_eq(sealane_node_new(&options, &node), SEALANE_OK, "%s",
                     sealane_last_error()->message);
        sealane_node_free(node);
    }
}

/* ---- the list ---- */

struct rows {
    int count, used, others_used;
    bool ipv4, ipv6;
};

static void row(void *user, const struct sealane_rdma_gid *gid)
{
    struct rows *rows = user;
    bool mine = strcmp(gid->device, "rxe0") == 0;

    rows->count++;
    if (!gid->used)
        cr_assert_neq(gid->why[0], '\0', "%s port %u GID %d", gid->device, gid->port, gid->index);
    if (!gid->used || !mine) {
        rows->others_used += gid->used;
        return;
    }
    rows->used++;
    cr_assert_str_eq(gid->type, "RoCE v2");
    cr_assert_str_eq(gid->state, "ACTIVE");
    cr_assert_str_eq(gid->link_layer, "Ethernet");
    cr_assert_gt(gid->max_work_requests, 0);
    rows->ipv4 |= strncmp(gid->gid, "::ffff:", 7) == 0;
    rows->ipv6 |= strncmp(gid->gid, "fd77:", 5) == 0;
}

Test(link_verbs_device, lists_devices_ports_and_gids_and_why_not_the_others)
{
    struct rows all = {0}, one = {0};

    (void)rig("SEALANE_RIG_ADDRESS");
    cr_assert_eq(sealane_rdma_list(NULL, row, &all), SEALANE_OK);
    cr_assert(all.ipv4 && all.ipv6 && all.others_used >= 2);
    cr_assert_eq(sealane_rdma_list("rxe0:1", row, &one), SEALANE_OK);
    cr_assert(one.ipv4 && one.ipv6);
    cr_assert_eq(one.others_used, 0);
    cr_assert_eq(one.count, all.count);
}

Test(link_verbs_device, says_that_a_device_is_not_there_to_be_listed)
{
    struct rows rows = {0};

    cr_assert_eq(sealane_rdma_list("mlx5_7", row, &rows), SEALANE_NOT_FOUND);
    cr_assert_eq(rows.used + rows.others_used, 0);
}

struct wanted {
    const char *device;
    int rows;
    char why[160]; /* of its last row */
};

static void row_of(void *user, const struct sealane_rdma_gid *gid)
{
    struct wanted *wanted = user;

    if (strcmp(gid->device, wanted->device) != 0)
        return;
    wanted->rows++;
    cr_assert_not(gid->used, "GID %d %s", gid->index, gid->gid);
    memcpy(wanted->why, gid->why, sizeof(wanted->why));
}

Test(link_verbs_device, a_port_that_is_down_is_not_used)
{
    struct wanted wanted = {.device = "rxe9"};

    rxe9_make("ip link set dummy9 down");
    cr_assert_eq(sealane_rdma_list(NULL, row_of, &wanted), SEALANE_OK);
    cr_assert_gt(wanted.rows, 0);
    cr_assert_str_eq(wanted.why, "the port is DOWN");
    rxe9_end();
}

Test(link_verbs_device, a_gid_of_another_wire_is_not_used)
{
    struct wanted wanted = {.device = "rxe0"};

    (void)rig("SEALANE_RIG_ADDRESS");
    pretends = true;
    pretended_type = IBV_GID_TYPE_ROCE_V1;
    cr_assert_eq(sealane_rdma_list(NULL, row_of, &wanted), SEALANE_OK);
    cr_assert_eq(strncmp(wanted.why, "RoCE v1", 7), 0, "%s", wanted.why);
    pretended_type = IBV_GID_TYPE_IB;
    cr_assert_eq(sealane_rdma_list(NULL, row_of, &wanted), SEALANE_OK);
    cr_assert_str_eq(wanted.why, "the port has no IPoIB netdev with an address");
}

/* A RoCE device always has the GID that is made of its hardware address; the netdev need not have that address. */
Test(link_verbs_device, a_gid_that_is_nobodys_address_is_not_used)
{
    struct wanted wanted = {.device = "rxe9"};

    rxe9_make("ip link set dummy9 addrgenmode none && ip link set dummy9 up");
    cr_assert_eq(sealane_rdma_list("rxe9", row_of, &wanted), SEALANE_OK);
    cr_assert_eq(wanted.rows, 1);
    cr_assert_str_eq(wanted.why, "not an address of dummy9");
    rxe9_end();
}

Test(link_verbs_device, the_tool_prints_the_list)
{
    char line[512], text[16384] = "";
    FILE *pipe = popen(SEALANE_BIN_DIR "/sealane-info", "r");

    cr_assert_not_null(pipe);
    while (fgets(line, sizeof(line), pipe) && strlen(text) + strlen(line) < sizeof(text))
        (void)strcat(text, line);
    cr_assert_eq(pclose(pipe), 0);
    cr_assert_not_null(strstr(text, "links: local, verbs, tcp"), "%s", text);
    if (getenv("SEALANE_RIG"))
        cr_assert(strstr(text, "rxe0 port 1: ACTIVE, Ethernet") && strstr(text, "RoCE v2  used"),
                  "%s", text);
    cr_assert_eq(system(SEALANE_BIN_DIR "/sealane-info --rdma-device :9 2>/dev/null >&2"), 2 << 8);
    cr_assert_eq(system(SEALANE_BIN_DIR "/sealane-info --rdma-device mlx5_7 >/dev/null"), 1 << 8);
}
