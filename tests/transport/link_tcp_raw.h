/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_raw.h - a peer of link_tcp made of system calls, for tests: it connects to a port of ours and sends whatever bytes it
 * likes, cut as it likes. Our end has rings in the middle of memory whose rest tells when somebody wrote past them. */
#ifndef LINK_TCP_RAW_H
#define LINK_TCP_RAW_H

#include "tests/transport/link_pair.h"
#include "transport/bytes.h"
#include "transport/link_tcp_inside.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RAW_CANARY = 0xc5,
    RAW_AROUND = 65536, /* bytes of canary before and behind a ring */
    RAW_RING_BYTES = SLOTS * STRIDE
};

static const struct sl_link_ops *const raw_ops = &sl_link_tcp;

struct raw {
    int fd;               /* the peer's socket; -1 once it is closed */
    struct sl_port *port; /* ours, listening */
    char address[SL_ADDRESS_BYTES];
    struct sl_link *link; /* ours, accepted */
    uint8_t *memory[SL_RING_COUNT];
};

/* Each process has an address of its own in 127/8, so that no other test is in the way. */
static inline void raw_address(char *to, size_t bytes, const char *name)
{
    unsigned pid = (unsigned)getpid();

    (void)snprintf(to, bytes, "127.%u.%u.%u:%d", 1 + pid / 62500 % 250, pid / 250 % 250,
                   1 + pid % 250, name[0] ? 7000 + name[0] : 0);
}

/* ---- frames ---- */

static inline void raw_header(uint8_t to[SL_TCP_HEADER_BYTES], const struct sl_tcp_header *header)
{
    to[0] = 0xe1;
    to[1] = 1;
    to[2] = header->kind;
    to[3] = header->ring;
    sl_put32(to + 4, header->bytes);
    sl_put32(to + 8, header->slot);
    sl_put32(to + 12, header->immediate);
}

/* A write of a whole slot, filled with the lowest byte of the immediate. Returns its bytes. */
static inline size_t raw_write(uint8_t *to, uint8_t ring, uint32_t slot, uint32_t immediate)
{
    raw_header(
        to, &(struct sl_tcp_header){
                .kind = 'W', .ring = ring, .bytes = STRIDE, .slot = slot, .immediate = immediate});
    memset(to + SL_TCP_HEADER_BYTES, (int)(immediate & 0xff), STRIDE);
    return SL_TCP_HEADER_BYTES + STRIDE;
}

/* ---- rings with canaries ---- */

static inline uint8_t *raw_ring(const struct raw *raw, int ring)
{
    return raw->memory[ring] + RAW_AROUND;
}

static inline void raw_rings_make(struct raw *raw)
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        raw->memory[ring] = malloc(2 * RAW_AROUND + RAW_RING_BYTES);
        cr_assert_neq(raw->memory[ring], NULL);
        memset(raw->memory[ring], RAW_CANARY, 2 * RAW_AROUND + RAW_RING_BYTES);
        memset(raw_ring(raw, ring), 0, RAW_RING_BYTES);
    }
}

static inline void raw_grant(struct raw *raw)
{
    uint8_t descriptor[SL_GRANT_BYTES];

    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        struct sl_ring_memory memory = {.base = raw_ring(raw, ring),
                                        .bytes = RAW_RING_BYTES,
                                        .fd = -1};

        cr_assert_eq(raw_ops->grant(raw->link, (enum sl_ring_id)ring, &memory, STRIDE, descriptor),
                     SEALANE_OK);
    }
}

static inline void raw_canaries_expect(const struct raw *raw)
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        cr_assert(is_filled(raw->memory[ring], RAW_AROUND, RAW_CANARY), "written before a ring");
        cr_assert(is_filled(raw_ring(raw, ring) + RAW_RING_BYTES, RAW_AROUND, RAW_CANARY),
                  "written behind a ring");
    }
}

/* ---- life ---- */

/* A port that listens at an address of this process only. */
static inline void raw_open(struct raw *raw)
{
    char wanted[64];

    *raw = (struct raw){.fd = -1};
    raw_address(wanted, sizeof(wanted), "");
    cr_assert_eq(raw_ops->open(NULL, &raw->port), SEALANE_OK);
    cr_assert_eq(raw_ops->listen(raw->port, wanted, raw->address), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    raw_rings_make(raw);
}

static inline int raw_socket(const char *address)
{
    struct sockaddr_storage at;
    socklen_t bytes;
    int fd, one = 1;

    cr_assert_eq(sl_address_parse(address, &at, &bytes), SEALANE_OK);
    fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&at, bytes), 0, "errno %d", errno);
    cr_assert_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
    return fd;
}

static inline struct sl_link_event raw_expect(const struct raw *raw, enum sl_link_event_kind kind)
{
    struct sl_link_event event = {0};

    cr_assert(event_next(raw_ops, raw->port, &event, EVENT_LIMIT_MS), "no event of kind %d came",
              (int)kind);
    cr_assert_eq(event.kind, kind, "an event of kind %d came, expected %d: %s", (int)event.kind,
                 (int)kind, event.kind == SL_LINK_GONE ? event.why : "");
    return event;
}

static inline void raw_connect(struct raw *raw)
{
    raw->fd = raw_socket(raw->address);
    raw->link = raw_expect(raw, SL_LINK_ACCEPTED).link;
}

static inline void raw_up(struct raw *raw)
{
    raw_open(raw);
    raw_connect(raw);
    raw_grant(raw);
}

/* Sends what our end's buffer surely holds. A link that is over may have reset the connection. */
static inline void raw_send(const struct raw *raw, const void *bytes, size_t count)
{
    ssize_t sent = send(raw->fd, bytes, count, MSG_NOSIGNAL);

    cr_assert(sent == (ssize_t)count || (sent < 0 && (errno == EPIPE || errno == ECONNRESET)),
              "errno %d", errno);
}

static inline void raw_hang_up(struct raw *raw)
{
    if (raw->fd >= 0)
        (void)close(raw->fd);
    raw->fd = -1;
}

static inline void raw_close(struct raw *raw)
{
    raw_hang_up(raw);
    raw_ops->close(raw->port);
    raw_canaries_expect(raw);
    for (int ring = 0; ring < SL_RING_COUNT; ring++)
        free(raw->memory[ring]);
}

#endif
