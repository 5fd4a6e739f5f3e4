/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_fuzz.c - any bytes as the stream of a TCP peer. The first byte says whether rings are granted (bit 0) and how the rest
 * is cut (the other bits). The verdict may not depend on the cuts, and nothing but the rings is written. */
#include "transport/link_tcp_inside.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SLOTS = 8,
    STRIDE = 512,
    AROUND = 4096,
    RING_BYTES = SLOTS * STRIDE,
    STREAM_MAX = 32768 /* what a socket holds for sure */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t memory[SL_RING_COUNT][2 * AROUND + RING_BYTES];

struct verdict {
    uint64_t bytes, arrivals, digest;
    char why[SL_TCP_WHY_BYTES];
};

static void must(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static void grant(struct sl_link *link)
{
    uint8_t descriptor[SL_GRANT_BYTES];

    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        struct sl_ring_memory granted = {.base = memory[ring] + AROUND,
                                         .bytes = RING_BYTES,
                                         .fd = -1};

        must(sl_link_tcp.grant(link, (enum sl_ring_id)ring, &granted, STRIDE, descriptor) ==
                 SEALANE_OK,
             "a good grant is refused");
    }
}

static void event_take(const struct sl_link_event *event, struct verdict *verdict, bool granted)
{
    must(event->kind != SL_LINK_ARRIVED || granted, "a write before the grant");
    if (event->kind == SL_LINK_GONE)
        memcpy(verdict->why, event->why, sizeof(verdict->why));
    if (event->kind == SL_LINK_BYTES)
        verdict->bytes += event->count;
    if (event->kind == SL_LINK_ARRIVED)
        verdict->digest = verdict->digest * 31 + event->immediate + ++verdict->arrivals;
}

/* Everything that came so far. True: GONE was among it. */
static bool events_take(struct sl_port *port, struct verdict *verdict, bool granted)
{
    struct sl_link_event events[3];
    bool gone = false;
    int count;

    while ((count = sl_link_tcp.poll(port, events, 3)) > 0 || sl_link_tcp.arm(port) < 0) {
        for (int i = 0; i < count; i++) {
            must(!gone, "an event after GONE");
            gone = events[i].kind == SL_LINK_GONE;
            event_take(&events[i], verdict, granted);
        }
    }
    return gone;
}

static void canaries_check(void)
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        for (size_t i = 0; i < AROUND; i++)
            must(memory[ring][i] == 0xc5 && memory[ring][AROUND + RING_BYTES + i] == 0xc5,
                 "written past a ring");
    }
}

/* A stream socket of any family will do. */
static struct verdict stream_judge(const uint8_t *data, size_t bytes, size_t cut, bool granted)
{
    const struct sockaddr_in nobody = {.sin_family = AF_INET};
    struct verdict verdict = {0};
    struct sl_port *port;
    struct sl_tcp *tcp;
    int ends[2];
    bool gone = false;

    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0 &&
             sl_link_tcp.open(NULL, &port) == SEALANE_OK &&
             sl_tcp_new(port, ends[0], (const struct sockaddr *)&nobody, &tcp) == SEALANE_OK,
         "no link");
    if (granted)
        grant(&tcp->link);
    for (size_t sent = 0; sent < bytes && !gone;) {
        size_t part = cut < bytes - sent ? cut : bytes - sent;

        must(send(ends[1], data + sent, part, MSG_NOSIGNAL) == (ssize_t)part, "not sent");
        sent += part;
        gone = events_take(port, &verdict, granted);
    }
    (void)shutdown(ends[1], SHUT_WR);
    must(gone || events_take(port, &verdict, granted), "the end is not told");
    sl_link_tcp.close(port);
    (void)close(ends[1]);
    canaries_check();
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct verdict whole, cut;

    if (bytes < 2 || bytes > STREAM_MAX)
        return 0;
    memset(memory, 0xc5, sizeof(memory));
    whole = stream_judge(data + 1, bytes - 1, STREAM_MAX, data[0] & 1);
    cut = stream_judge(data + 1, bytes - 1, 1 + (data[0] >> 1), data[0] & 1);
    must(memcmp(&whole, &cut, sizeof(whole)) == 0, "cuts change the verdict");
    return 0;
}
