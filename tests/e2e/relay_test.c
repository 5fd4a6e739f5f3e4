/* SPDX-License-Identifier: Apache-2.0 */
/* relay_test.c - somebody on the way, after the handshake: a relay passes a client's lane on to the server until keys exist and a call
 * went through, then it sends bytes of its own in the client's name. Each time that lane ends, and it alone; nothing that was never
 * called is ever handled. SEALANE_RELAY_ROUNDS sets how many random and how many structured streams there are. */
#include "kitchen.sealane.h"
#include "tests/support/certs.h"
#include "transport/bytes.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADER = 16, /* of link_tcp: docs/PROTOCOL.md, 1 */
    SENT_MAX = 1 << 16,
    HOSTILE_MAX = 8192,
    PATIENCE_MS = 10000
};

/* What is sent in the client's name. */
enum kind {
    RANDOM,
    WRONG_MAGIC,
    UNKNOWN_KIND,
    UNKNOWN_RING,
    SLOT_OUTSIDE,
    BYTES_OUTSIDE,
    GARBAGE_FRAME,
    GARBAGE_CHUNKS,
    WRONG_IMMEDIATE,
    HANDSHAKE_AGAIN,
    REPLAY,
    REPLAY_AT_THE_NEXT_SLOT,
    KINDS
};

/* A relay of one connection, run by a thread. */
struct relay {
    int listener, client, server;
    uint8_t sent[SENT_MAX]; /* by the client, its newest bytes */
    size_t sent_count;
    atomic_bool attack;
    const uint8_t *hostile;
    size_t hostile_count;
    atomic_bool refused; /* the server closed although we did not */
};

static struct sealane_credentials *server_credentials, *client_credentials;
static struct sealane_node *server_node, *client_node;
static struct sealane_server *server;
static struct sealane_channel *honest;
static char address[128];
static atomic_uint handled, ups, downs;
static uint64_t seed;

static uint32_t random_below(uint32_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % limit;
}

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the relay ---- */

static void pass_on(struct relay *relay, int from, int to, bool remember)
{
    static uint8_t bytes[SENT_MAX];
    ssize_t count = recv(from, bytes, sizeof(bytes), 0);

    if (count <= 0) {
        (void)shutdown(to, SHUT_WR);
        return;
    }
    if (send(to, bytes, (size_t)count, MSG_NOSIGNAL) != count)
        return; /* the other side is gone; its end shows in the next poll */
    if (!remember)
        return;
    relay->sent_count = (size_t)count; /* of one flush: it begins with a header */
    memcpy(relay->sent, bytes, (size_t)count);
}

/* The server's judgement: its end of the connection. */
static void attack_now(struct relay *relay)
{
    struct pollfd wait = {.fd = relay->server, .events = POLLIN};
    uint8_t bytes[4096];
    ssize_t count = 1;
    int64_t until = now_ms() + PATIENCE_MS;

    (void)send(relay->server, relay->hostile, relay->hostile_count, MSG_NOSIGNAL);
    while (count > 0 && now_ms() < until && poll(&wait, 1, 100) >= 0) {
        if (wait.revents)
            count = recv(relay->server, bytes, sizeof(bytes), 0);
    }
    atomic_store(&relay->refused, count <= 0);
}

static void *relay_run(void *context)
{
    struct relay *relay = context;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct pollfd ends[2];

    to.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    relay->client = accept(relay->listener, NULL, NULL);
    relay->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(relay->server, (const struct sockaddr *)&to, sizeof(to)) != 0)
        return NULL;
    ends[0] = (struct pollfd){.fd = relay->client, .events = POLLIN};
    ends[1] = (struct pollfd){.fd = relay->server, .events = POLLIN};
    while (!atomic_load(&relay->attack)) {
        if (poll(ends, 2, 2) <= 0)
            continue;
        if (ends[0].revents)
            pass_on(relay, relay->client, relay->server, true);
        if (ends[1].revents)
            pass_on(relay, relay->server, relay->client, false);
    }
    attack_now(relay);
    (void)close(relay->client);
    (void)close(relay->server);
    return NULL;
}

static void relay_listen(struct relay *relay, char target[32])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(at);

    relay->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(relay->listener, (const struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(listen(relay->listener, 1), 0);
    cr_assert_eq(getsockname(relay->listener, (struct sockaddr *)&at, &bytes), 0);
    (void)snprintf(target, 32, "127.0.0.1:%d", ntohs(at.sin_port));
}

/* ---- server and clients ---- */

static void serve_echo(struct sealane_call *call, const Kitchen__V1__Dish *request, void *user)
{
    (void)user;
    atomic_fetch_add(&handled, 1);
    if (kitchen_v1_kitchen_echo__reply(call, request) != SEALANE_OK)
        (void)fprintf(stderr, "reply: %s\n", sealane_last_error()->message);
}

static void lane_told(void *user, const struct sealane_security *security, bool up, const char *why)
{
    (void)user;
    (void)security;
    (void)why;
    atomic_fetch_add(up ? &ups : &downs, 1);
}

static struct sealane_channel *channel_to(const char *target)
{
    const struct sealane_channel_options options = {.credentials = client_credentials,
                                                    .link = "tcp",
                                                    .small_rings = true};
    struct sealane_channel *channel;

    cr_assert_eq(sealane_channel_new(client_node, target, &options, &channel), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    return channel;
}

static void begin(void)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    struct sealane_server_options options = {.link = "tcp", .small_rings = true};

    server_credentials = certs_load("root-p256", "good/server-p256", NULL);
    client_credentials = certs_load("root-p256", "good/client-p256", NULL);
    options.credentials = server_credentials;
    cr_assert_eq(sealane_node_new(NULL, &server_node), SEALANE_OK);
    cr_assert_eq(sealane_node_new(NULL, &client_node), SEALANE_OK);
    cr_assert_eq(sealane_server_new(server_node, &options, &server), SEALANE_OK);
    sealane_server_on_lane(server, lane_told, NULL);
    cr_assert_eq(kitchen_v1_kitchen__register(server, &handlers, NULL), SEALANE_OK);
    cr_assert_eq(sealane_server_listen(server, "127.0.0.1:0"), SEALANE_OK);
    cr_assert_eq(sealane_server_address(server, 0, address, sizeof(address)), SEALANE_OK);
    honest = channel_to(address);
}

static void end(void)
{
    sealane_node_free(client_node);
    sealane_node_free(server_node);
    sealane_credentials_free(client_credentials);
    sealane_credentials_free(server_credentials);
}

TestSuite(relay, .init = begin, .fini = end, .timeout = 240);

static enum sealane_status echo(struct sealane_channel *channel, uint32_t timeout_ms)
{
    const struct sealane_call_options options = {.timeout_ms = timeout_ms};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    char name[] = "across the relay";
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;
    enum sealane_status status;

    request.name = name;
    status = kitchen_v1_kitchen_echo(channel, &request, &options, &reply, &call);
    sealane_call_free(call);
    return status;
}

/* ---- hostile bytes ---- */

static size_t header_put(uint8_t *at, uint8_t kind, uint8_t ring, uint32_t bytes)
{
    memset(at, 0, HEADER);
    at[0] = 0xe1;
    at[1] = 1;
    at[2] = kind;
    at[3] = ring;
    sl_put32(at + 4, bytes);
    return HEADER;
}

static size_t garbage_put(uint8_t *at, size_t count)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (uint8_t)random_below(256);
    return count;
}

static size_t write_put(uint8_t *at, uint8_t ring, uint32_t slot, uint32_t bytes)
{
    (void)header_put(at, 'W', ring, bytes);
    sl_put32(at + 8, slot);
    sl_put32(at + 12, ring | 1u << 1); /* one slot of it */
    return HEADER + garbage_put(at + HEADER, bytes < 4096 ? bytes : 4096);
}

/* What the client itself said last, again: at the same slots, or each at the slot after. */
static size_t replay_put(uint8_t *at, const struct relay *relay, uint32_t further)
{
    size_t count = 0;

    while (count + HEADER <= relay->sent_count && count + HEADER <= HOSTILE_MAX) {
        size_t bytes = HEADER + sl_get32(relay->sent + count + 4);

        if (count + bytes > relay->sent_count || count + bytes > HOSTILE_MAX)
            break;
        memcpy(at + count, relay->sent + count, bytes);
        sl_put32(at + count + 8, (sl_get32(at + count + 8) + further) % 16);
        count += bytes;
    }
    return count;
}

static size_t structured_put(uint8_t *at, const struct relay *relay, enum kind kind)
{
    size_t count;

    switch (kind) {
    case WRONG_MAGIC:
        count = write_put(at, 0, random_below(16), 64);
        at[random_below(2)] ^= (uint8_t)(1 + random_below(255));
        return count;
    case UNKNOWN_KIND:
        count = write_put(at, 0, 0, 64);
        at[2] = (uint8_t)random_below(0x42);
        return count;
    case UNKNOWN_RING:
        return write_put(at, (uint8_t)(2 + random_below(254)), 0, 64);
    case SLOT_OUTSIDE:
        return write_put(at, (uint8_t)random_below(2), 16 + random_below(UINT32_MAX - 16), 64);
    case BYTES_OUTSIDE:
        return write_put(at, (uint8_t)random_below(2), random_below(16),
                         16 * 65536 + random_below(0x70000000));
    case GARBAGE_FRAME:
        return write_put(at, 0, random_below(16), 16 + random_below(2048));
    case GARBAGE_CHUNKS: /* bulk bytes alone are judged when a record speaks of them */
        count = write_put(at, 1, random_below(16), 4096);
        return count + write_put(at + count, 0, random_below(16), 64);
    case WRONG_IMMEDIATE:
        count = write_put(at, 0, random_below(16), 64);
        sl_put32(at + 12, 0xfffffffe - 2 * random_below(1 << 20));
        return count;
    case HANDSHAKE_AGAIN:
        count = header_put(at, 'B', 0, 1 + random_below(4096));
        return count + garbage_put(at + count, sl_get32(at + 4));
    case REPLAY:
        return replay_put(at, relay, 0);
    case REPLAY_AT_THE_NEXT_SLOT:
        return replay_put(at, relay, 1);
    default:
        return garbage_put(at, HEADER + random_below(HOSTILE_MAX - HEADER));
    }
}

/* ---- rounds ---- */

static void wait_for_downs(unsigned count)
{
    int64_t until = now_ms() + PATIENCE_MS;

    while (atomic_load(&downs) < count && now_ms() < until)
        (void)usleep(200);
    cr_assert_eq(atomic_load(&downs), count, "%u lanes ended", atomic_load(&downs));
}

static void round_run(enum kind kind, unsigned number)
{
    static uint8_t hostile[2 * HOSTILE_MAX];
    struct relay relay = {.client = -1, .server = -1};
    unsigned handled_before, downs_before = atomic_load(&downs);
    struct sealane_channel *channel;
    enum sealane_status status;
    char target[32];
    pthread_t thread;

    seed = number * 2654435761u + (unsigned)kind;
    relay_listen(&relay, target);
    cr_assert_eq(pthread_create(&thread, NULL, relay_run, &relay), 0);
    channel = channel_to(target);
    cr_assert_eq(echo(channel, PATIENCE_MS), SEALANE_OK, "round %u: %s", number,
                 sealane_last_error()->message);
    (void)usleep(random_below(300));
    handled_before = atomic_load(&handled);
    relay.hostile = hostile;
    relay.hostile_count = structured_put(hostile, &relay, kind);
    atomic_store(&relay.attack, true);
    (void)pthread_join(thread, NULL);
    cr_assert(atomic_load(&relay.refused), "round %u, kind %d: the server took %zu hostile bytes",
              number, (int)kind, relay.hostile_count);
    wait_for_downs(downs_before + 1);
    cr_assert_eq(atomic_load(&handled), handled_before, "a call that nobody made was handled");
    (void)close(relay.listener);
    status = echo(channel, PATIENCE_MS);
    cr_assert_eq(status, SEALANE_UNAVAILABLE, "%s", sealane_status_name(status));
    sealane_channel_free(channel);
    if (number % 10 == 0)
        cr_assert_eq(echo(honest, PATIENCE_MS), SEALANE_OK, "another lane was harmed: %s",
                     sealane_last_error()->message);
}

static unsigned rounds(void)
{
    const char *text = getenv("SEALANE_RELAY_ROUNDS");

    return text ? (unsigned)atoi(text) : 200;
}

Test(relay, random_bytes_after_the_handshake_end_one_lane)
{
    for (unsigned i = 0; i < rounds(); i++)
        round_run(RANDOM, i);
}

Test(relay, structured_bytes_after_the_handshake_end_one_lane)
{
    for (unsigned i = 0; i < rounds(); i++)
        round_run((enum kind)(1 + i % (KINDS - 1)), i);
}
