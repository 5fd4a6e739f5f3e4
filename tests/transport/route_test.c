/* SPDX-License-Identifier: Apache-2.0 */
/* route_test.c - targets become ways: which carrier, which address, in which order; names that are not there; listening. */
#include "transport/link.h"
#include "transport/route.h"

#include "tests/support/certs.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct sealane_node *node;

static void begin(void)
{
    const struct sealane_node_options options = {.polled = true};

    cr_assert_eq(sealane_node_new(&options, &node), SEALANE_OK);
}

static void end(void)
{
    sealane_node_free(node);
}

TestSuite(route, .init = begin, .fini = end);

static bool has_ipv6(void)
{
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;

    if (fd >= 0)
        (void)close(fd);
    return has;
}

/* ---- what is refused ---- */

Test(route, refuses_malformed_targets)
{
    static const struct {
        const char *target, *says;
    } wrong[] = {{"", "no port"},
                 {"host", "no port"},
                 {"host:", "none of 0 to 65535"},
                 {"host:65536", "none of 0 to 65535"},
                 {"host:-1", "none of 0 to 65535"},
                 {"host:70x", "none of 0 to 65535"},
                 {"host:123456", "none of 0 to 65535"},
                 {":7000", "no host"},
                 {"host:0", "port 0"},
                 {"host:00", "port 0"},
                 {"::1:7000", "without brackets"},
                 {"[::1:7000", "without brackets"},
                 {"[::1]7000", "none of 0 to 65535"},
                 {"http://host:80", "without brackets"},
                 {"[]:80", "no host"}};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct sl_route_wish wish = {.target = wrong[i].target};

        cr_assert_eq(sl_route_check(node, &wish), SEALANE_INVALID_ARGUMENT, "\"%s\"",
                     wrong[i].target);
        cr_assert_not_null(strstr(sealane_last_error()->message, wrong[i].says), "\"%s\": %s",
                           wrong[i].target, sealane_last_error()->message);
    }
}

Test(route, refuses_a_name_that_no_resolver_takes)
{
    char target[400];
    const struct sl_route_wish wish = {.target = target};

    memset(target, 'a', sizeof(target));
    (void)strcpy(target + 254, ":80");
    cr_assert_eq(sl_route_check(node, &wish), SEALANE_INVALID_ARGUMENT);
    (void)strcpy(target + 253, ":80");
    cr_assert_eq(sl_route_check(node, &wish), SEALANE_OK);
}

Test(route, refuses_carriers_that_do_not_go_there)
{
    struct sl_route_wish wish = {.target = "unix:/x", .link = "tcp"};

    cr_assert_eq(sl_route_check(node, &wish), SEALANE_INVALID_ARGUMENT);
    wish = (struct sl_route_wish){.target = "host:80", .link = "carrier-pigeon"};
    cr_assert_eq(sl_route_check(node, &wish), SEALANE_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(sealane_last_error()->message, "carrier-pigeon"));
    wish = (struct sl_route_wish){.target = "127.0.0.1:0", .link = "local", .listening = true};
    cr_assert_eq(sl_route_check(node, &wish), SEALANE_INVALID_ARGUMENT);
}

/* ---- ways ---- */

/* All ways, a line each. */
static const char *ways(const struct sl_route_wish *wish)
{
    static char text[4000];
    struct sl_route *route;
    const char *way;
    size_t used = 0;

    cr_assert_eq(sl_route_find_now(node, wish, &route), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    text[0] = '\0';
    for (size_t i = 0; (way = sl_route_way(route, i)) != NULL; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\n", way);
    sl_route_free(route);
    return text;
}

Test(route, of_a_unix_target_is_the_target)
{
    cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "unix:/run/x"}),
                     "unix:/run/x over local\n");
    cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "unix-abstract:host:7000"}),
                     "unix-abstract:host:7000 over local\n");
}

Test(route, to_this_host_tries_the_twins_first)
{
    cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "127.0.0.1:7000"}),
                     "unix-abstract:sealane@127.0.0.1:7000 over local\n"
                     "unix-abstract:sealane@0.0.0.0:7000 over local\n"
                     "unix-abstract:sealane@[::]:7000 over local\n"
                     "127.0.0.1:7000 over tcp\n");
    cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "127.0.0.1:7000", .link = "tcp"}),
                     "127.0.0.1:7000 over tcp\n");
    cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "127.0.0.1:7000", .link = "local"}),
                     "unix-abstract:sealane@127.0.0.1:7000 over local\n"
                     "unix-abstract:sealane@0.0.0.0:7000 over local\n"
                     "unix-abstract:sealane@[::]:7000 over local\n");
    if (has_ipv6())
        cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "[::1]:7000"}),
                         "unix-abstract:sealane@[::1]:7000 over local\n"
                         "unix-abstract:sealane@[::]:7000 over local\n"
                         "[::1]:7000 over tcp\n");
}

/* link_tcp under that name: which carriers there are decides the ways, not the device. */
Test(route, past_a_device_goes_over_tcp_too)
{
    const struct sealane_node_options options = {.polled = true};
    struct sl_link_ops rdma = sl_link_tcp;
    const struct sl_link_ops *const links[] = {&rdma, &sl_link_tcp, NULL};

    rdma.name = "verbs";
    sealane_node_free(node);
    cr_assert_eq(sl_node_new(&options, &(struct sl_node_setup){.links = links}, &node), SEALANE_OK);
    cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "192.0.2.1:7000"}),
                     "192.0.2.1:7000 over verbs\n"
                     "192.0.2.1:7000 over tcp\n");
    sealane_node_free(node);
    node = NULL; /* which goes over the stack's links */
}

/* RFC 5737 and RFC 3849: nobody's addresses. */
Test(route, to_another_host_is_tcp_only)
{
    cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "203.0.113.1:7000"}),
                     "203.0.113.1:7000 over tcp\n");
    cr_assert_str_eq(ways(&(struct sl_route_wish){.target = "[2001:db8::1]:7000"}),
                     "[2001:db8::1]:7000 over tcp\n");
}

Test(route, of_a_name_has_all_its_addresses)
{
    const char *text = ways(&(struct sl_route_wish){.target = "localhost:7000"});

    cr_assert_not_null(strstr(text, "unix-abstract:sealane@127.0.0.1:7000 over local\n"), "%s",
                       text);
    cr_assert_not_null(strstr(text, "\n127.0.0.1:7000 over tcp\n"), "%s", text);
    cr_assert_gt(strstr(text, "over tcp"), strstr(text, "sealane@127.0.0.1"));
}

Test(route, names_the_host_of_a_target)
{
    char host[254];

    cr_assert(sl_route_host(node, "a.test:80", host, sizeof(host)));
    cr_assert_str_eq(host, "a.test");
    cr_assert(sl_route_host(node, "[::1]:80", host, sizeof(host)));
    cr_assert_str_eq(host, "::1");
    cr_assert(sl_route_host(node, "[fe80::1%eth0]:80", host, sizeof(host)));
    cr_assert_str_eq(host, "fe80::1", "a scope is this host's business");
    cr_assert_not(sl_route_host(node, "unix:/a.test:80", host, sizeof(host)));
    cr_assert_not(sl_route_host(node, ":80", host, sizeof(host)));
}

/* ---- in the background ---- */

struct told {
    unsigned count;
    enum sealane_status status;
    char why[512];
};

static void done(void *owner, struct sl_route *route)
{
    struct told *told = owner;

    told->count++;
    told->status = sl_route_result(route);
    if (told->status != SEALANE_OK)
        (void)snprintf(told->why, sizeof(told->why), "%s", sealane_last_error()->message);
}

static void poll_until(const struct told *told, unsigned count)
{
    for (int i = 0; i < 3000 && told->count < count; i++)
        cr_assert_eq(sealane_node_poll(node, 10), SEALANE_OK);
    cr_assert_eq(told->count, count);
}

/* RFC 6761 6.4: no name below .invalid exists. Without a resolver the answer is the same. */
Test(route, tells_that_a_name_is_not_there, .timeout = 60)
{
    struct told told = {0};
    const struct sl_route_wish wish = {.target = "no-such-host.invalid:7000",
                                       .done = done,
                                       .owner = &told};
    struct sl_route *route;

    cr_assert_eq(sl_route_find(node, &wish, &route), SEALANE_OK);
    cr_assert_eq(told.count, 0, "never inside the call that asks");
    poll_until(&told, 1);
    cr_assert_eq(told.status, SEALANE_UNAVAILABLE);
    cr_assert_not_null(strstr(told.why, "no-such-host.invalid"), "%s", told.why);
    sl_route_free(route);
    cr_assert_eq(sl_route_find_now(node, &wish, &route), SEALANE_UNAVAILABLE);
}

Test(route, is_told_in_a_coming_turn_even_when_nothing_is_looked_up)
{
    struct told told = {0};
    const struct sl_route_wish wish = {.target = "127.0.0.1:7000", .done = done, .owner = &told};
    struct sl_route *route;

    cr_assert_eq(sl_route_find(node, &wish, &route), SEALANE_OK);
    cr_assert_eq(told.count, 0);
    poll_until(&told, 1);
    cr_assert_eq(told.status, SEALANE_OK);
    sl_route_free(route);
}

Test(route, that_was_freed_is_not_told_of, .timeout = 60)
{
    struct told told = {0};
    const char *targets[] = {"127.0.0.1:7000", "no-such-host.invalid:7000", "localhost:7000"};

    for (int i = 0; i < 30; i++) {
        const struct sl_route_wish wish = {.target = targets[i % 3], .done = done, .owner = &told};
        struct sl_route *route;

        cr_assert_eq(sl_route_find(node, &wish, &route), SEALANE_OK);
        if (i % 2)
            (void)usleep(500);
        sl_route_free(route);
        cr_assert_eq(sealane_node_poll(node, 0), SEALANE_OK);
    }
    cr_assert_eq(told.count, 0);
}

/* A resolver that takes its time. */
static unsigned resolver_ms;
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **all_p);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **all_p);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **all_p)
{
    if (!(hints->ai_flags & AI_NUMERICHOST))
        (void)usleep(resolver_ms * 1000);
    return __real_getaddrinfo(host, port, hints, all_p);
}

/* The node is gone before the resolver answers, with addresses or without. Leaks and races are the sanitizers' to find. */
Test(route, may_be_looked_up_longer_than_its_node_lives, .timeout = 60)
{
    static const char *const targets[] = {"no-such-host.invalid:7000", "localhost:7000"};
    struct told told = {0};

    resolver_ms = 100;
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        const struct sl_route_wish wish = {.target = targets[i], .done = done, .owner = &told};
        struct sl_route *route;

        cr_assert_eq(sl_route_find(node, &wish, &route), SEALANE_OK);
        sl_route_free(route);
        sealane_node_free(node);
        (void)usleep(300000);
        begin();
    }
    cr_assert_eq(told.count, 0);
}

/* ---- listening ---- */

static enum sealane_status ignore(void *owner, struct sl_lane *lane, struct sl_lane_event *event)
{
    (void)owner;
    (void)lane;
    (void)event;
    return SEALANE_OK;
}

static struct sl_lane_options options_make(void)
{
    return (struct sl_lane_options){
        .credentials = certs_load("root-p256", "good/server-p256", NULL), .on_event = ignore};
}

static enum sealane_status listen_to(const char *target, const struct sl_lane_options *options,
                                     struct sl_listener **listeners_p)
{
    const struct sl_route_wish wish = {.target = target, .listening = true};
    struct sl_route *route;
    enum sealane_status status;

    SL_TRY(sl_route_find_now(node, &wish, &route));
    status = sl_route_listen(route, options, listeners_p);
    sl_route_free(route);
    return status;
}

Test(route, listens_at_a_free_port_and_its_twin)
{
    struct sl_lane_options options = options_make();
    struct sl_listener *first, *twin;
    char expected[SL_ADDRESS_BYTES];

    cr_assert_eq(listen_to("127.0.0.1:0", &options, &first), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(strncmp(sl_listener_address(first), "127.0.0.1:", 10), 0);
    cr_assert_str_neq(sl_listener_address(first), "127.0.0.1:0");
    twin = sl_listener_next(first);
    cr_assert_not_null(twin);
    (void)snprintf(expected, sizeof(expected), "unix-abstract:sealane@%s",
                   sl_listener_address(first));
    cr_assert_str_eq(sl_listener_address(twin), expected);
    cr_assert_null(sl_listener_next(twin));
    sl_route_unlisten(first);
    sealane_credentials_free(options.credentials);
}

static const char *port_of(const struct sl_listener *listener)
{
    return strrchr(sl_listener_address(listener), ':');
}

Test(route, listens_at_one_port_of_all_addresses_of_a_name)
{
    struct sl_lane_options options = options_make();
    struct sl_listener *first;

    cr_assert_eq(listen_to("localhost:0", &options, &first), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    for (const struct sl_listener *at = first; at; at = sl_listener_next(at))
        cr_assert_str_eq(port_of(at), port_of(first));
    sl_route_unlisten(first);
    sealane_credentials_free(options.credentials);
}

Test(route, listens_at_all_addresses)
{
    struct sl_lane_options options = options_make();
    struct sl_listener *first;

    cr_assert_eq(listen_to(":0", &options, &first), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(strncmp(sl_listener_address(first), has_ipv6() ? "[::]:" : "0.0.0.0:", 5), 0, "%s",
                 sl_listener_address(first));
    sl_route_unlisten(first);
    sealane_credentials_free(options.credentials);
}

Test(route, listens_at_all_or_nothing)
{
    struct sl_lane_options options = options_make();
    struct sl_listener *first, *second;
    char target[SL_ADDRESS_BYTES];

    cr_assert_eq(listen_to("127.0.0.1:0", &options, &first), SEALANE_OK);
    (void)snprintf(target, sizeof(target), "localhost%s", port_of(first));
    cr_assert_eq(listen_to(target, &options, &second), SEALANE_ALREADY_EXISTS);
    sl_route_unlisten(first);
    cr_assert_eq(listen_to(target, &options, &second), SEALANE_OK,
                 "something of the attempt that failed still listens: %s",
                 sealane_last_error()->message);
    sl_route_unlisten(second);
    cr_assert_eq(listen_to("203.0.113.1:0", &options, &second), SEALANE_NOT_FOUND,
                 "an address that is not this host's");
    sealane_credentials_free(options.credentials);
}
