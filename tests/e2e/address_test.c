/* SPDX-License-Identifier: Apache-2.0 */
/* address_test.c - servers and channels at host:port: which carrier a call takes, and that nobody who is in the way is trusted. */
#include "kitchen.sealane.h"
#include "tests/support/certs.h"
#include "tests/support/rdma.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sealane_credentials *server_credentials, *client_credentials;
static struct sealane_node *server_node, *client_node;
static struct sealane_server *server;
static char address[128];

static void serve_echo(struct sealane_call *call, const Kitchen__V1__Dish *request, void *user)
{
    (void)user;
    if (kitchen_v1_kitchen_echo__reply(call, request) != SEALANE_OK)
        (void)fprintf(stderr, "reply: %s\n", sealane_last_error()->message);
}

static struct sealane_server *server_at(const char *where, const char *link,
                                        struct sealane_credentials *credentials)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    const struct sealane_server_options options = {.credentials = credentials, .link = link};
    struct sealane_server *made;

    cr_assert_eq(sealane_server_new(server_node, &options, &made), SEALANE_OK);
    cr_assert_eq(kitchen_v1_kitchen__register(made, &handlers, NULL), SEALANE_OK);
    cr_assert_eq(sealane_server_listen(made, where), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    return made;
}

static void begin(void)
{
    server_credentials = certs_load("root-p256", "good/server-p256", NULL);
    client_credentials = certs_load("root-p256", "good/client-p256", NULL);
    cr_assert_eq(sealane_node_new(NULL, &server_node), SEALANE_OK);
    cr_assert_eq(sealane_node_new(NULL, &client_node), SEALANE_OK);
}

static void end(void)
{
    sealane_node_free(client_node);
    sealane_node_free(server_node);
    sealane_credentials_free(client_credentials);
    sealane_credentials_free(server_credentials);
}

TestSuite(address, .init = begin, .fini = end, .timeout = 60);

static void open_at(const char *where, const char *link)
{
    server = server_at(where, link, server_credentials);
    cr_assert_eq(sealane_server_address(server, 0, address, sizeof(address)), SEALANE_OK);
}

/* A call with a tensor goes there and back over the carrier that is expected. */
static void expect_over(const char *target, const struct sealane_channel_options *extra,
                        const char *link)
{
    static uint8_t bytes[300000];
    uint64_t shape[] = {sizeof(bytes)};
    struct sealane_channel_options options = extra ? *extra : (struct sealane_channel_options){0};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_security security;
    struct sealane_channel *channel;
    struct sealane_call *call;

    tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    tensor.n_shape = 1;
    tensor.shape = shape;
    tensor.data.len = sizeof(bytes);
    tensor.data.data = bytes;
    memset(bytes, 0x5a, sizeof(bytes));
    request.tensor = &tensor;
    options.credentials = client_credentials;
    cr_assert_eq(sealane_channel_new(client_node, target, &options, &channel), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(kitchen_v1_kitchen_echo(channel, &request, NULL, &reply, &call), SEALANE_OK,
                 "%s: %s", target, sealane_last_error()->message);
    cr_assert_eq(reply->tensor->data.len, sizeof(bytes));
    cr_assert_eq(memcmp(reply->tensor->data.data, bytes, sizeof(bytes)), 0);
    sealane_call_security(call, &security);
    cr_assert_str_eq(security.link, link, "%s went over %s", target, security.link);
    sealane_call_free(call);
    sealane_channel_free(channel);
}

Test(address, of_this_host_is_reached_over_local_by_itself)
{
    open_at("127.0.0.1:0", NULL);
    expect_over(address, NULL, "local");
    expect_over(address, &(struct sealane_channel_options){.link = "tcp"}, "tcp");
    expect_over(address, &(struct sealane_channel_options){.link = "local"}, "local");
}

Test(address, may_be_a_name)
{
    char target[64];

    open_at("localhost:0", NULL);
    (void)snprintf(target, sizeof(target), "localhost%s", strrchr(address, ':'));
    expect_over(target, NULL, "local");
    expect_over(target, &(struct sealane_channel_options){.link = "tcp"}, "tcp");
}

Test(address, of_a_server_of_all_addresses_is_any_of_them)
{
    char target[64];

    open_at(":0", NULL);
    (void)snprintf(target, sizeof(target), "127.0.0.1%s", strrchr(address, ':'));
    expect_over(target, NULL, "local");
    expect_over(target, &(struct sealane_channel_options){.link = "tcp"}, "tcp");
    if (address[0] != '[')
        return;
    (void)snprintf(target, sizeof(target), "[::1]%s", strrchr(address, ':'));
    expect_over(target, NULL, "local");
    expect_over(target, &(struct sealane_channel_options){.link = "tcp"}, "tcp");
}

Test(address, without_a_twin_is_reached_over_tcp)
{
    open_at("127.0.0.1:0", "tcp");
    expect_over(address, NULL, "tcp");
}

static void of_device(char where[64])
{
    if (!rdma_host()[0])
        cr_skip_test("this host has no RDMA device with an address");
    (void)snprintf(where, 64, "%s:0", rdma_host());
}

Test(address, of_an_rdma_device_is_reached_over_verbs_when_told_to)
{
    struct sealane_channel_options channel = {.server_name = "server.test"};
    char where[64];

    of_device(where);
    open_at(where, NULL);
    expect_over(address, &channel, "local");
    channel.link = "verbs";
    expect_over(address, &channel, "verbs");
    channel.link = "tcp";
    expect_over(address, &channel, "tcp");
}

Test(address, without_a_twin_is_reached_over_verbs_by_itself)
{
    char where[64];

    of_device(where);
    open_at(where, "verbs");
    expect_over(address, &(struct sealane_channel_options){.server_name = "server.test"}, "verbs");
}

Test(address, of_ipv6_and_an_rdma_device_is_reached_over_verbs)
{
    const char *host = getenv("SEALANE_RIG_SELF6");
    char where[64];

    if (!host)
        cr_skip_test("only in the rig is it known which IPv6 address a device has");
    (void)snprintf(where, sizeof(where), "[%s]:0", host);
    open_at(where, NULL);
    expect_over(address,
                &(struct sealane_channel_options){.server_name = "server.test", .link = "verbs"},
                "verbs");
}

/* Nodes that use one RDMA device. */
static void nodes_use(const char *server_device, const char *client_device)
{
    const struct sealane_node_options options[] = {{.rdma_device = server_device},
                                                   {.rdma_device = client_device}};

    if (!getenv("SEALANE_RIG"))
        cr_skip_test("only in the rig is it known which RDMA devices there are");
    sealane_node_free(client_node);
    sealane_node_free(server_node);
    cr_assert_eq(sealane_node_new(&options[0], &server_node), SEALANE_OK);
    cr_assert_eq(sealane_node_new(&options[1], &client_node), SEALANE_OK);
}

/* Why a channel does not connect over verbs. */
static void expect_not_over_verbs(const char *why)
{
    struct sealane_channel_options options = {.credentials = client_credentials,
                                              .server_name = "server.test",
                                              .link = "verbs"};
    struct sealane_channel *channel;

    cr_assert_eq(sealane_channel_new(client_node, address, &options, &channel), SEALANE_OK);
    cr_assert_eq(sealane_channel_connect(channel, 10000), SEALANE_UNAVAILABLE);
    cr_assert_not_null(strstr(sealane_last_error()->message, why), "%s",
                       sealane_last_error()->message);
    sealane_channel_free(channel);
}

Test(address, of_the_rdma_device_asked_for_is_reached_over_verbs)
{
    char where[64];

    nodes_use("rxe0", "rxe0:1");
    of_device(where);
    open_at(where, NULL);
    expect_over(address,
                &(struct sealane_channel_options){.server_name = "server.test", .link = "verbs"},
                "verbs");
}

Test(address, of_another_rdma_device_than_asked_for_is_served_over_tcp)
{
    char where[64];

    nodes_use("rxe1", NULL);
    of_device(where);
    open_at(where, NULL);
    expect_over(address,
                &(struct sealane_channel_options){.server_name = "server.test", .link = "tcp"},
                "tcp");
    expect_not_over_verbs("nobody listens there");
}

Test(address, is_not_reached_by_an_rdma_device_that_is_not_there)
{
    char where[64];

    nodes_use(NULL, "mlx5_7");
    of_device(where);
    open_at(where, NULL);
    expect_not_over_verbs("there is no RDMA device mlx5_7: there are ");
    expect_over(address, &(struct sealane_channel_options){.server_name = "server.test"}, "local");
}

Test(address, may_be_the_twin_only)
{
    char target[64];

    (void)snprintf(target, sizeof(target), "127.0.0.1:%d", 20000 + (int)getpid() % 10000);
    open_at(target, "local");
    cr_assert_eq(strncmp(address, "unix-abstract:", 14), 0, "%s", address);
    expect_over(target, NULL, "local");
}

Test(address, takes_the_name_wanted_from_the_target)
{
    struct sealane_channel_options options = {.credentials = client_credentials};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_channel *channel;
    struct sealane_call *call;
    struct sealane_credentials *other = certs_load("root-p256", "bad/wrong-ip", NULL);

    server = server_at("127.0.0.1:0", NULL, other);
    cr_assert_eq(sealane_server_address(server, 0, address, sizeof(address)), SEALANE_OK);
    cr_assert_eq(sealane_channel_new(client_node, address, &options, &channel), SEALANE_OK);
    cr_assert_eq(kitchen_v1_kitchen_echo(channel, &request, NULL, &reply, &call),
                 SEALANE_UNAUTHENTICATED);
    cr_assert_not_null(strstr(sealane_last_error()->message, "127.0.0.1"), "%s",
                       sealane_last_error()->message);
    sealane_channel_free(channel);
    sealane_server_free(server);
    sealane_credentials_free(other);
}

/* ---- many at once ---- */

enum {
    MANY = 200
};

static void count_good(struct sealane_call *call, enum sealane_status status,
                       const Kitchen__V1__Dish *reply, void *user)
{
    (void)call;
    (void)reply;
    atomic_fetch_add((atomic_int *)user, status == SEALANE_OK ? 1 : 1000);
}

/* As after a server's restart: everybody comes back in the same moment, and nobody is turned away. */
Test(address, takes_in_many_clients_at_once)
{
    const struct sealane_channel_options options = {.credentials = client_credentials,
                                                    .small_rings = true,
                                                    .link = "tcp",
                                                    .connect_timeout_ms = 40000};
    static struct sealane_channel *channels[MANY];
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    atomic_int ends = 0;

    open_at("127.0.0.1:0", NULL);
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(sealane_channel_new(client_node, address, &options, &channels[i]), SEALANE_OK);
        cr_assert_eq(kitchen_v1_kitchen_echo__start(channels[i], &request, NULL, count_good, &ends,
                                                    NULL),
                     SEALANE_OK);
    }
    for (int i = 0; i < 4000 && atomic_load(&ends) < MANY; i++)
        (void)usleep(10000);
    cr_assert_eq(atomic_load(&ends), MANY, "%d ended well, %d did not", atomic_load(&ends) % 1000,
                 atomic_load(&ends) / 1000);
    for (int i = 0; i < MANY; i++)
        sealane_channel_free(channels[i]);
}

/* ---- who is in the way ---- */

/* Somebody took the twin's name before the server came. The server goes on without it, its clients do not trust whom they find. */
static void squat(const char *tcp_address, char *name, size_t bytes)
{
    (void)snprintf(name, bytes, "unix-abstract:sealane@%s", tcp_address);
}

Test(address, of_a_squatter_with_another_certificate_is_passed_over)
{
    struct sealane_credentials *evil = certs_load("root-p256", "bad/wrong-name", NULL);
    struct sealane_server *squatter;
    char twin[160];

    open_at("127.0.0.1:0", "tcp");
    squat(address, twin, sizeof(twin));
    squatter = server_at(twin, NULL, evil);
    expect_over(address, NULL, "tcp");
    sealane_server_free(squatter);
    sealane_credentials_free(evil);
}

Test(address, of_a_squatter_who_says_nothing_is_passed_over_after_a_while)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int bytes;

    open_at("127.0.0.1:0", "tcp");
    bytes = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "sealane@%s", address);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&at,
                      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 2 + (size_t)bytes)),
                 0);
    cr_assert_eq(listen(fd, 8), 0);
    expect_over(address, &(struct sealane_channel_options){.connect_timeout_ms = 1000}, "tcp");
    (void)close(fd);
}

Test(address, whose_twin_is_taken_is_listened_at_without_it)
{
    struct sealane_server *squatter;
    struct sealane_credentials *evil = certs_load("root-p256", "bad/wrong-name", NULL);
    char target[128], twin[160];

    open_at("127.0.0.1:0", "tcp"); /* finds a free port */
    (void)snprintf(target, sizeof(target), "%s", address);
    sealane_server_free(server);
    squat(target, twin, sizeof(twin));
    squatter = server_at(twin, NULL, evil);
    open_at(target, NULL);
    expect_over(target, NULL, "tcp");
    sealane_server_free(squatter);
    sealane_credentials_free(evil);
}

Test(address, that_is_taken_or_nobodys_is_refused)
{
    const struct sealane_server_options options = {.credentials = server_credentials};
    struct sealane_server *other;
    char small[8];

    open_at("127.0.0.1:0", NULL);
    cr_assert_eq(sealane_server_new(server_node, &options, &other), SEALANE_OK);
    cr_assert_eq(sealane_server_listen(other, address), SEALANE_ALREADY_EXISTS);
    cr_assert_eq(sealane_server_listen(other, "203.0.113.1:7000"), SEALANE_NOT_FOUND);
    cr_assert_eq(sealane_server_listen(other, "no-such-host.invalid:7000"), SEALANE_UNAVAILABLE);
    cr_assert_eq(sealane_server_listen(other, "127.0.0.1"), SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(sealane_server_address(other, 0, address, sizeof(address)), SEALANE_OUT_OF_RANGE);
    cr_assert_eq(sealane_server_address(server, 0, small, sizeof(small)), SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(sealane_server_address(server, 1, address, sizeof(address)), SEALANE_OUT_OF_RANGE);
}

Test(address, without_a_server_is_unavailable_and_says_why)
{
    struct sealane_channel_options options = {.credentials = client_credentials};
    struct sealane_channel *channel;

    open_at("127.0.0.1:0", NULL);
    sealane_server_free(server);
    cr_assert_eq(sealane_channel_new(client_node, address, &options, &channel), SEALANE_OK);
    cr_assert_eq(sealane_channel_connect(channel, 5000), SEALANE_UNAVAILABLE);
    cr_assert_not_null(strstr(sealane_last_error()->message, "refused"), "%s",
                       sealane_last_error()->message);
    sealane_channel_free(channel);
    cr_assert_eq(sealane_channel_new(client_node, "no-such-host.invalid:7000", &options, &channel),
                 SEALANE_OK);
    cr_assert_eq(sealane_channel_connect(channel, 20000), SEALANE_UNAVAILABLE);
    cr_assert_not_null(strstr(sealane_last_error()->message, "no-such-host.invalid"), "%s",
                       sealane_last_error()->message);
    sealane_channel_free(channel);
}
