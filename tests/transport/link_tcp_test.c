/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_test.c - the contract over IPv4 and IPv6, then what only this carrier has: few system calls, ports, limits of the system.
 * What becomes of the stream is in link_tcp_stream_test.c, peers that lie are in link_tcp_hostile_test.c. */
#include "tests/transport/link_contract.h"
#include "tests/transport/link_tcp_raw.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>

/* There is just one address of this host that needs no set-up; the port is the process's, below those that the kernel gives out. */
static void ipv6_address(char *to, size_t bytes, const char *name)
{
    (void)snprintf(to, bytes, "[::1]:%d", (name[0] == 'n' ? 10000 : 20000) + (int)getpid() % 10000);
}

static void ipv6_skip_without(void)
{
    struct sl_port *port;
    char bound[SL_ADDRESS_BYTES];
    enum sealane_status status;

    cr_assert_eq(sl_link_tcp.open(NULL, &port), SEALANE_OK);
    status = sl_link_tcp.listen(port, "[::1]:0", bound);
    sl_link_tcp.close(port);
    if (status != SEALANE_OK)
        cr_skip_test("this host has no ::1: %s", sealane_last_error()->message);
}

static const char *const malformed[] = {"127.0.0.1:65536",
                                        "127.0.0.1",
                                        "127.0.0.1:",
                                        "127.0.0.1:x",
                                        "127.0.0.1:70 ",
                                        "127.0.0.1:000070",
                                        "127.1:7000",
                                        "1.2.3.4.5:7",
                                        "1.2.3.256:7",
                                        "[::1]7000",
                                        "[::1]",
                                        "[::1:7000",
                                        "[::1]:-1",
                                        "[::1]:",
                                        "[::g]:7000",
                                        "[]:7000",
                                        "[1.2.3.4]:700",
                                        "[::1%nope]:70",
                                        "[fe80::1%]:7000",
                                        "[",
                                        "1.:1",
                                        "[::1]:65536",
                                        "[::1] :1",
                                        "127.0.0.1:7000:80",
                                        NULL};

static const struct link_world ipv4_world = {.ops = &sl_link_tcp,
                                             .address = raw_address,
                                             .malformed = malformed,
                                             .foreign = "unix:/path",
                                             .fills_up = true};
static const struct link_world ipv6_world = {.ops = &sl_link_tcp,
                                             .begin = ipv6_skip_without,
                                             .address = ipv6_address,
                                             .malformed = malformed,
                                             .foreign = "unix-abstract:name",
                                             .fills_up = true};

LINK_CONTRACT(link_tcp, &ipv4_world)
LINK_CONTRACT(link_tcp_ipv6, &ipv6_world)

/* ---- system calls, counted ---- */

static unsigned sends, reads, looks;
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __real_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    sends++;
    return __real_sendmsg(fd, message, flags);
}

ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
    reads++;
    return __real_recv(fd, to, bytes, flags);
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
    looks++;
    return __real_epoll_wait(fd, events, max, timeout);
}

Test(link_tcp, sends_all_writes_of_a_turn_with_one_system_call)
{
    static uint8_t large[SLOTS * STRIDE];
    struct link_pair pair;
    struct sl_link_event event;

    pair_up(&pair, &ipv4_world);
    sends = 0;
    for (uint32_t i = 0; i < 20; i++) {
        struct sl_link_write write = {.ring = SL_RING_BULK,
                                      .slot = i % 3 ? i % 8 : 0,
                                      .from = large,
                                      .bytes = i % 3 ? STRIDE : sizeof(large),
                                      .immediate = i};

        cr_assert_eq(sl_link_tcp.write_imm(pair.sides[CONNECTING].link, &write), SEALANE_OK);
    }
    cr_assert_eq(sends, 0, "a write called the kernel");
    cr_assert_eq(sl_link_tcp.poll(pair.sides[CONNECTING].port, &event, 1), 0);
    cr_assert_eq(sends, 1, "one turn took %u system calls", sends);
    for (uint32_t i = 0; i < 20; i++)
        cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, i);
    pair_down(&pair);
}

Test(link_tcp, asks_the_kernel_little_about_many_idle_links)
{
    enum {
        LINKS = 200,
        POLLS = 6400
    };
    struct sl_link *links[LINKS][2];
    struct sl_link_event event;
    struct link_pair pair;

    ports_open(&pair, &ipv4_world);
    for (int i = 0; i < LINKS; i++)
        connect_more(&pair, links[i]);
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(sl_link_tcp.poll(pair.sides[ACCEPTING].port, &event, 1), 0);
    reads = looks = 0;
    for (int i = 0; i < POLLS; i++)
        cr_assert_eq(sl_link_tcp.poll(pair.sides[ACCEPTING].port, &event, 1), 0);
    cr_assert_eq(reads, 0, "%u reads from idle links", reads);
    cr_assert_leq(looks, POLLS / 50, "%u looks in %d polls", looks, POLLS);
    cr_assert_geq(looks, POLLS / 100, "nobody looks");
    for (int i = 0; i < LINKS; i += 40) {
        cr_assert_eq(sl_link_tcp.send(links[i][CONNECTING], (const uint8_t *)"x", 1), SEALANE_OK);
        cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_BYTES).link, links[i][ACCEPTING]);
    }
    pair_down(&pair);
}

/* More active links than are read from on a mere guess: whose turn it is must not be found out late, nor by asking each. */
Test(link_tcp, finds_the_active_among_many_links_at_once)
{
    enum {
        LINKS = 40,
        ROUNDS = 30
    };
    struct sl_link *links[LINKS][2];
    struct sl_link_event event;
    struct link_pair pair;
    unsigned polls = 0;

    ports_open(&pair, &ipv4_world);
    for (int i = 0; i < LINKS; i++)
        connect_more(&pair, links[i]);
    reads = 0;
    for (int n = 0; n < ROUNDS * LINKS; n++) {
        struct sl_link **link = links[n * 7 % LINKS];

        cr_assert_eq(sl_link_tcp.send(link[CONNECTING], (const uint8_t *)"x", 1), SEALANE_OK);
        do
            polls++;
        while (sl_link_tcp.poll(pair.sides[ACCEPTING].port, &event, 1) == 0);
        cr_assert_eq(event.link, link[ACCEPTING]);
    }
    cr_assert_leq(polls, 2 * ROUNDS * LINKS, "%u polls for %d events", polls, ROUNDS * LINKS);
    cr_assert_leq(reads, 4 * ROUNDS * LINKS, "%u reads for %d events", reads, ROUNDS * LINKS);
    pair_down(&pair);
}

/* ---- addresses ---- */

Test(link_tcp, handles_numeric_addresses_and_no_others)
{
    static const char *const good[] = {"0.0.0.0:0", "1.2.3.4:65535",      "[::]:1",
                                       "[::1]:70",  "[::ffff:1.2.3.4]:7", "[fe80::1%lo]:7000"};
    static const char *const others[] = {"localhost:80", "1.2.3.4.example.org:80",
                                         "unix:/a.b:70", "dns:1.2.3.4:5",
                                         ":80",          "80",
                                         "1.2.3.4x:80",  "::1:80"};

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_assert(sl_link_tcp.handles(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        cr_assert_not(sl_link_tcp.handles(others[i]), "%s", others[i]);
}

/* Listens at an address with port 0 and connects to what it is told. */
static void bound_round_trip(const char *address, const char *begins)
{
    struct sl_port *port;
    struct sl_link *link;
    struct sl_link_event event;
    char bound[SL_ADDRESS_BYTES];

    cr_assert_eq(sl_link_tcp.open(NULL, &port), SEALANE_OK);
    cr_assert_eq(sl_link_tcp.listen(port, address, bound), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(strncmp(bound, begins, strlen(begins)), 0, "bound to %s", bound);
    cr_assert_gt(atoi(bound + strlen(begins)), 0, "bound to %s", bound);
    cr_assert_eq(sl_link_tcp.connect(port, bound, &link), SEALANE_OK);
    for (int connected = 0, accepted = 0; !connected || !accepted;) {
        cr_assert(event_next(&sl_link_tcp, port, &event, EVENT_LIMIT_MS));
        connected += event.kind == SL_LINK_CONNECTED;
        accepted += event.kind == SL_LINK_ACCEPTED;
        cr_assert_neq(event.kind, SL_LINK_GONE, "%s", event.why);
    }
    sl_link_tcp.close(port);
}

Test(link_tcp, tells_the_port_that_the_system_chose)
{
    bound_round_trip("127.0.0.1:0", "127.0.0.1:");
    bound_round_trip("0.0.0.0:0", "0.0.0.0:");
}

Test(link_tcp_ipv6, tells_the_port_that_the_system_chose)
{
    ipv6_skip_without();
    bound_round_trip("[::1]:0", "[::1]:");
    bound_round_trip("[::]:0", "[::]:");
    bound_round_trip("[0:0:0:0:0:0:0:1%lo]:0", "[::1]:");
}

/* What connecting to this host's `host` at the port of `bound` brings. */
static enum sl_link_event_kind connect_outcome(struct sl_port *port, const char *host,
                                               const char *bound)
{
    struct sl_link_event event;
    struct sl_link *link;
    char address[SL_ADDRESS_BYTES];

    (void)snprintf(address, sizeof(address), "%s%s", host, strrchr(bound, ':'));
    cr_assert_eq(sl_link_tcp.connect(port, address, &link), SEALANE_OK);
    do
        cr_assert(event_next(&sl_link_tcp, port, &event, EVENT_LIMIT_MS));
    while (event.link != link);
    sl_link_tcp.drop(link);
    return event.kind;
}

Test(link_tcp_ipv6, takes_ipv4_in_where_it_listens_at_every_address)
{
    struct sl_port *port;
    char bound[SL_ADDRESS_BYTES];

    ipv6_skip_without();
    cr_assert_eq(sl_link_tcp.open(NULL, &port), SEALANE_OK);
    cr_assert_eq(sl_link_tcp.listen(port, "[::]:0", bound), SEALANE_OK);
    cr_assert_eq(connect_outcome(port, "127.0.0.1", bound), SL_LINK_CONNECTED);
    cr_assert_eq(connect_outcome(port, "[::1]", bound), SL_LINK_CONNECTED);
    cr_assert_eq(sl_link_tcp.listen(port, "0.0.0.0:0", bound), SEALANE_OK);
    cr_assert_eq(connect_outcome(port, "127.0.0.1", bound), SL_LINK_CONNECTED);
    cr_assert_eq(connect_outcome(port, "[::1]", bound), SL_LINK_GONE);
    sl_link_tcp.close(port);
}

Test(link_tcp, says_where_and_why_it_could_not_connect)
{
    static const char *const nowhere[] = {"255.255.255.255:7000", NULL};
    struct sl_port *port;
    struct sl_link *link;
    struct sl_link_event event;
    char address[128];

    cr_assert_eq(sl_link_tcp.open(NULL, &port), SEALANE_OK);
    raw_address(address, sizeof(address), "nobody");
    cr_assert_eq(sl_link_tcp.connect(port, address, &link), SEALANE_OK);
    cr_assert(event_next(&sl_link_tcp, port, &event, EVENT_LIMIT_MS));
    cr_assert_neq(strstr(event.why, address), NULL, "%s", event.why);
    cr_assert_neq(strstr(event.why, "refused"), NULL, "%s", event.why);
    for (size_t i = 0; nowhere[i]; i++) {
        cr_assert_eq(sl_link_tcp.connect(port, nowhere[i], &link), SEALANE_OK);
        cr_assert(event_next(&sl_link_tcp, port, &event, EVENT_LIMIT_MS));
        cr_assert_eq(event.kind, SL_LINK_GONE);
        cr_assert_neq(strstr(event.why, nowhere[i]), NULL, "%s", event.why);
    }
    cr_assert_neq(sl_link_tcp.listen(port, "203.0.113.7:7000", NULL), SEALANE_OK);
    cr_assert_neq(strstr(sealane_last_error()->message, "203.0.113.7:7000"), NULL);
    sl_link_tcp.close(port);
}

/* The side that closes first keeps the connection for a minute; that must not keep a new server out. */
Test(link_tcp, listens_again_at_once_after_a_restart)
{
    struct link_pair pair;

    pair_connect(&pair, &ipv4_world);
    side_close(&pair, ACCEPTING);
    (void)event_expect(&pair, CONNECTING, SL_LINK_GONE);
    cr_assert_eq(sl_link_tcp.listen(pair.sides[CONNECTING].port, pair.address, NULL), SEALANE_OK,
                 "%s", sealane_last_error()->message);
    pair_down(&pair);
}

/* ---- fairness and limits ---- */

Test(link_tcp, gives_every_link_its_turn)
{
    enum {
        MAX = 16
    };
    struct sl_link_event events[MAX];
    struct link_pair pair;
    struct sl_link *quiet[2];
    bool bytes = false;

    pair_up(&pair, &ipv4_world);
    connect_more(&pair, quiet);
    cr_assert_eq(sl_link_tcp.send(quiet[CONNECTING], (const uint8_t *)"me too", 6), SEALANE_OK);
    for (int round = 0; round < 100 && !bytes; round++) {
        int count;

        for (uint32_t i = 0; i < 4 * MAX; i++)
            (void)write_to(&pair, CONNECTING, SL_RING_MESSAGE, i % SLOTS, i);
        count = sl_link_tcp.poll(pair.sides[ACCEPTING].port, events, MAX);
        for (int i = 0; i < count; i++)
            bytes |= events[i].link == quiet[ACCEPTING] && events[i].kind == SL_LINK_BYTES;
    }
    cr_assert(bytes, "100 polls brought nothing but the loud one");
    pair_down(&pair);
}

/* Peers that cannot be taken in are turned away: left in the backlog they would keep an armed port awake for ever. */
Test(link_tcp, turns_peers_away_when_descriptors_run_out)
{
    struct link_pair pair;
    struct sl_link *links[2];
    struct sl_link_event event;
    struct rlimit limit, none;
    int next, gone = 0;

    ports_open(&pair, &ipv4_world);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(sl_link_tcp.connect(pair.sides[CONNECTING].port, pair.address, &links[0]),
                     SEALANE_OK);
        (void)event_expect(&pair, CONNECTING, SL_LINK_CONNECTED);
    }
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    next = dup(0);
    (void)close(next);
    none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = limit.rlim_max};
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    for (int i = 0; i < 200; i++)
        cr_assert_eq(sl_link_tcp.poll(pair.sides[ACCEPTING].port, &event, 1), 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (event_next(&sl_link_tcp, pair.sides[CONNECTING].port, &event, 20))
        gone += event.kind == SL_LINK_GONE;
    cr_assert_eq(gone, 3);
    event_expect_none(&pair, ACCEPTING);
    connect_more(&pair, links);
    pair_down(&pair);
}

/* Every descriptor of this process that is a socket. */
Test(link_tcp, has_sockets_that_end_at_exec_and_notice_a_host_that_vanished)
{
    struct link_pair pair;
    int sockets = 0, value, kind;
    socklen_t bytes = sizeof(int);

    pair_connect(&pair, &ipv4_world);
    for (int fd = 3; fd < 100; fd++) {
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &kind, &bytes) != 0 || kind != AF_INET)
            continue;
        sockets++;
        cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        cr_assert(fcntl(fd, F_GETFL) & O_NONBLOCK);
    }
    cr_assert_eq(sockets, 3);
    for (int side = 0; side < 2; side++) {
        int fd = sl_tcp_of(pair.sides[side].link)->fd;

        cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &bytes), 0);
        cr_assert_neq(value, 0);
        cr_assert_eq(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, &bytes), 0);
        cr_assert_neq(value, 0);
        cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &bytes), 0);
        cr_assert(value > 0 && value <= 120000);
    }
    pair_down(&pair);
}

/* ---- other processes ---- */

LINK_CONTRACT_TEST(link_tcp, &ipv4_world, ends_a_dropped_link_although_a_child_holds_its_socket)

/* The child writes until it is killed; what its last bytes are a part of is not told. */
Test(link_tcp, tells_gone_after_the_arrivals_when_the_peer_is_killed_while_it_writes)
{
    uint8_t bytes[SL_TCP_HEADER_BYTES + STRIDE];
    struct sl_link_event event;
    struct raw raw;
    uint32_t arrived = 0;
    pid_t child;

    raw_up(&raw);
    child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (uint32_t i = 0;; i++) {
            if (send(raw.fd, bytes, raw_write(bytes, 0, i % SLOTS, i), MSG_NOSIGNAL) < 0)
                _exit(2);
        }
    }
    raw_hang_up(&raw);
    do {
        cr_assert(event_next(raw_ops, raw.port, &event, EVENT_LIMIT_MS));
        if (event.kind == SL_LINK_ARRIVED)
            cr_assert_eq(event.immediate, arrived++);
        if (arrived == 2000 && event.kind == SL_LINK_ARRIVED)
            cr_assert_eq(kill(child, SIGKILL), 0);
    } while (event.kind != SL_LINK_GONE);
    cr_assert_geq(arrived, 2000);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_assert_not(event_next(raw_ops, raw.port, &event, 20));
    raw_close(&raw);
}
