/* SPDX-License-Identifier: Apache-2.0 */
/* raw-peer.c - the floor under bench/: the same payloads over one plain socket, TCP or AF_UNIX (--link local), in frames of a
 * 16-byte head and the payload. No message is decoded, nothing is dispatched or sealed; what is ready leaves in one call. */
#include "run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    HEAD = 16,
    BUFFER = 256 << 10,
    UNARY_FRAMES = 256 /* laid out one after the other, so that many leave in one call */
};

static _Noreturn void fail(const char *what)
{
    bench_die(what, strerror(errno));
}

static bool would_wait(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* ---- addresses: "127.0.0.1:PORT", or the name of an abstract AF_UNIX socket ---- */

union address {
    struct sockaddr any;
    struct sockaddr_in tcp;
    struct sockaddr_un local;
};

static socklen_t address_of(const struct bench_options *options, union address *to)
{
    const char *colon = strrchr(options->address, ':');

    memset(to, 0, sizeof(*to));
    if (strcmp(options->link, "local") == 0) {
        to->local.sun_family = AF_UNIX;
        (void)snprintf(to->local.sun_path + 1, sizeof(to->local.sun_path) - 1, "%s",
                       options->address);
        return sizeof(to->local);
    }
    to->tcp.sin_family = AF_INET;
    to->tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to->tcp.sin_port = htons((uint16_t)(colon ? atoi(colon + 1) : 0));
    return sizeof(to->tcp);
}

/* As link_tcp does it over loopback: at once, and without an algorithm that paces. */
static void socket_tune(const struct bench_options *options, int fd)
{
    int on = 1;

    if (strcmp(options->link, "tcp") != 0)
        return;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        fail("TCP_NODELAY");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", strlen("reno"));
}

static int accept_one(const struct bench_options *options)
{
    union address address;
    socklen_t size = address_of(options, &address);
    int fd, listener = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char text[64];

    if (listener < 0 || bind(listener, &address.any, size) != 0 || listen(listener, 1) != 0)
        fail("listen");
    (void)snprintf(text, sizeof(text), "%s", options->address);
    if (strcmp(options->link, "tcp") == 0) {
        if (getsockname(listener, &address.any, &size) != 0)
            fail("getsockname");
        (void)snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(address.tcp.sin_port));
    }
    bench_ready(text);
    fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("accept");
    socket_tune(options, fd);
    return fd;
}

static int connect_one(const struct bench_options *options)
{
    union address address;
    socklen_t size = address_of(options, &address);
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || connect(fd, &address.any, size) != 0)
        fail("connect");
    socket_tune(options, fd);
    return fd;
}

/* ---- server ---- */

static void send_all(int fd, const uint8_t *bytes, size_t count)
{
    while (count > 0) {
        ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR)
            exit(0); /* the client has its figures */
        if (n > 0) {
            bytes += n;
            count -= (size_t)n;
        }
    }
}

/* Answers all requests that are wholly there with their own bytes. */
static void serve_echo(const struct bench_options *options, int fd)
{
    size_t frame = HEAD + options->bytes, size = frame > BUFFER ? frame : BUFFER, have = 0;
    int flags = options->regime == BENCH_POLL ? MSG_DONTWAIT : 0;
    uint8_t *buffer = malloc(size);

    if (!buffer)
        fail("malloc");
    for (;;) {
        ssize_t n = recv(fd, buffer + have, size - have, flags);
        size_t whole;

        if (would_wait(n))
            continue;
        if (n <= 0)
            exit(0);
        have += (size_t)n;
        whole = have / frame * frame;
        if (whole == 0)
            continue;
        send_all(fd, buffer, whole);
        memmove(buffer, buffer + whole, have - whole);
        have -= whole;
    }
}

/* Takes each payload into the same memory; the rest of one and the next one's head come in one call. */
static void serve_sink(const struct bench_options *options, int fd)
{
    size_t frame = HEAD + options->bytes, have = 0; /* of a head and its payload */
    int flags = options->regime == BENCH_POLL ? MSG_DONTWAIT : 0;
    uint8_t *payload = malloc(options->bytes), head[2 * HEAD] = {0};

    if (!payload)
        fail("malloc");
    for (;;) {
        size_t body = have > HEAD ? have - HEAD : 0;
        struct iovec into[3] = {{head, have < HEAD ? HEAD - have : 0},
                                {payload + body, options->bytes - body},
                                {head + HEAD, HEAD}};
        struct msghdr message = {.msg_iov = into, .msg_iovlen = 3};
        ssize_t n = recvmsg(fd, &message, flags);

        if (would_wait(n))
            continue;
        if (n <= 0)
            exit(0);
        have += (size_t)n;
        if (have < frame)
            continue;
        have -= frame;
        send_all(fd, head, HEAD);
    }
}

/* ---- client ---- */

struct client {
    int fd;
    bool poll;
    uint64_t frame, answer; /* bytes of a request and of its answer */
    uint64_t region;        /* bytes of all frames, which are sent round and round */
    uint8_t *frames, *buffer;
    uint32_t outstanding;
    uint64_t pushed, pulled; /* bytes */
    uint64_t answered;
    double *begun_s; /* [outstanding] */
    bool over;       /* nothing new is begun */
    struct bench_window window;
};

static uint64_t push_limit(const struct client *client)
{
    if (client->over)
        return (client->pushed + client->frame - 1) / client->frame * client->frame;
    return (client->answered + client->outstanding) * client->frame;
}

/* False: the socket takes no more now, or enough is in flight. */
static bool push(struct client *client)
{
    uint64_t limit = push_limit(client), at = client->pushed % client->region;
    uint64_t count = limit - client->pushed;
    ssize_t n;

    if (count == 0)
        return false;
    if (count > client->region - at)
        count = client->region - at;
    n = send(client->fd, client->frames + at, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (would_wait(n))
        return false;
    if (n <= 0)
        fail("send");
    for (uint64_t i = (client->pushed + client->frame - 1) / client->frame;
         i * client->frame < client->pushed + (uint64_t)n; i++)
        client->begun_s[i % client->outstanding] = client->window.now_s;
    client->pushed += (uint64_t)n;
    return true;
}

static void pull(struct client *client, int flags)
{
    ssize_t n = recv(client->fd, client->buffer, BUFFER, flags);

    if (would_wait(n))
        return;
    if (n <= 0)
        fail("recv");
    client->pulled += (uint64_t)n;
    while ((client->answered + 1) * client->answer <= client->pulled) {
        double begun_s = client->begun_s[client->answered++ % client->outstanding];

        client->over |= !bench_answered(&client->window, begun_s);
    }
}

static void fly(struct client *client)
{
    while (!client->over || client->answered * client->frame < client->pushed) {
        struct pollfd both = {.fd = client->fd, .events = POLLIN | POLLOUT};
        int flags = MSG_DONTWAIT;

        while (push(client)) {
        }
        if (!client->poll && client->pushed == push_limit(client))
            flags = 0; /* only an answer can move this on */
        else if (!client->poll && poll(&both, 1, -1) < 0 && errno != EINTR)
            fail("poll");
        pull(client, flags);
    }
}

static void client_run(const struct bench_options *options, int fd)
{
    bool tensor = strcmp(options->shape, "tensor") == 0;
    struct client client = {.fd = fd,
                            .poll = options->regime == BENCH_POLL,
                            .frame = HEAD + options->bytes,
                            .answer = tensor ? HEAD : HEAD + options->bytes,
                            .outstanding = options->outstanding};

    client.region = client.frame * (tensor ? bench_sources(options->bytes) : UNARY_FRAMES);
    client.frames = malloc(client.region);
    client.buffer = malloc(BUFFER);
    client.begun_s = calloc(options->outstanding, sizeof(double));
    if (!client.frames || !client.buffer || !client.begun_s)
        fail("malloc");
    memset(client.frames, 0x5a, client.region);
    bench_window_begin(&client.window, options);
    fly(&client);
    bench_window_end(&client.window);
}

int main(int argc, char **argv)
{
    struct bench_options options;

    bench_options_parse(&options, argc, argv);
    if (!options.role)
        bench_die("raw-peer", "it is run by bench/unary and bench/tensor");
    bench_place(&options);
    if (strcmp(options.role, "client") == 0)
        client_run(&options, connect_one(&options));
    else if (strcmp(options.shape, "tensor") == 0)
        serve_sink(&options, accept_one(&options));
    else
        serve_echo(&options, accept_one(&options));
    return 0;
}
