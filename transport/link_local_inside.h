/* SPDX-License-Identifier: Apache-2.0 */
/* link_local_inside.h - what the files that make up link_local share: link_local.c (ports, links, polling), link_local_listen.c
 * (addresses, listening, accepting, connecting), link_local_packet.c (the socket) and link_local_ring.c (shared memory).
 *
 * One AF_UNIX SOCK_SEQPACKET socket per link. Its packets, by their first byte:
 *   'B' 1..4096 bytes of the handshake     'R' one ring id, with the ring's memfd
 *   'P' with the arrival page's memfd      'W' wake up
 * Its end is the peer's end. The rest goes through shared memory: rings, and one arrival page per direction.
 */
#ifndef SL_LINK_LOCAL_INSIDE_H
#define SL_LINK_LOCAL_INSIDE_H

#include "transport/carrier.h"
#include "transport/link.h"

#include <stdatomic.h>
#include <sys/types.h>

enum {
    SL_LOCAL_ENTRIES = 4096, /* arrivals under way per link; a power of two */
    SL_LOCAL_PACKET_BYTES = SL_LINK_SEND_BYTES + 1,
    SL_LOCAL_WHY_BYTES = sizeof(((struct sl_link_event *)0)->why)
};

/* The arrival page of a direction. It belongs to its receiver and both sides can write all of it, so whatever is read
 * from it is a hint: each side keeps its own counter privately and bounds the peer's against it. */
struct sl_local_page {
    _Atomic uint32_t tail; /* written by the writer: entries published */
    uint8_t pad0[60];
    _Atomic uint32_t head; /* written by the reader: entries taken */
    uint8_t pad1[60];
    _Atomic uint32_t sleeping; /* set by the reader, cleared by whoever wakes it */
    uint8_t pad2[60];
    _Atomic uint32_t entry[SL_LOCAL_ENTRIES]; /* immediates */
};

struct sl_local_ring {
    int fd;        /* passed by the peer, not attached yet; else -1 */
    uint8_t *base; /* the peer's ring, mapped by attach */
    size_t bytes, stride, slots;
};

struct sl_local {
    struct sl_link link;          /* first */
    struct sl_local *prev, *next; /* a circle: a poll may begin anywhere */
    struct sl_port *port;
    int fd;
    bool takes_fds; /* connected, or granted: no stranger puts descriptors in here */
    bool shaking;   /* the peer's arrival page is not attached yet */
    bool tell_accepted, tell_connected, tell_writable; /* by the next poll */
    bool wants_write;                                  /* send answered SL_AGAIN */
    bool over;                    /* GONE once the arrivals up to `last` are told */
    bool ended;                   /* GONE was told */
    unsigned granted;             /* one bit per ring */
    int page_fd;                  /* the peer's page: passed, not attached yet; else -1 */
    uint32_t read;                /* mine: entries taken */
    uint32_t last;                /* mine: what tail was when the link was over */
    uint32_t written;             /* theirs: entries published */
    uint32_t room_until;          /* theirs: entries may be published up to here */
    struct sl_local_page *mine;   /* made by the first grant */
    struct sl_local_page *theirs; /* mapped by the first attach */
    struct sl_local_ring rings[SL_RING_COUNT];
    char why[SL_LOCAL_WHY_BYTES];
};

struct sl_local_listener;

struct sl_port {
    int epoll;
    int spare_fd;           /* given up for a moment to refuse a peer when descriptors run out */
    struct sl_local *links; /* the one of the circle whose turn it is */
    struct sl_local_listener *listeners;
    unsigned polls;
    unsigned shaking; /* how many links are */
    bool news;        /* a link may have an outcome to tell */
    bool look;        /* the next poll looks at the sockets */
    bool asleep;      /* arm gave out its descriptor */
    uint8_t packet[SL_LOCAL_PACKET_BYTES];
};

/* ---- link_local.c ---- */

static inline struct sl_local *sl_local_of(struct sl_link *link)
{
    return (struct sl_local *)(void *)link;
}

/* Makes a link of a connected, nonblocking socket, which becomes the link's even on failure. */
SEALANE_RESULT sl_local_new(struct sl_port *port, int fd, struct sl_local **local_p);

/* Decides that a link is over: arrivals published before are still told, then GONE with this reason. */
void sl_local_over(struct sl_local *local, const char *why);

/* The handshake needs the sockets to be looked at often; this link's is done. */
void sl_local_shaken(struct sl_local *local);

SEALANE_RESULT sl_local_watch(struct sl_port *port, int fd, void *what);

/* Also waits for room to send, or no longer. */
void sl_local_watch_room(struct sl_local *local, bool wanted);

/* ---- link_local_listen.c ---- */

bool sl_local_handles(const char *address);
SEALANE_RESULT sl_local_listen(struct sl_port *port, const char *address,
                               char bound[SL_ADDRESS_BYTES]);
SEALANE_RESULT sl_local_connect(struct sl_port *port, const char *address, struct sl_link **link_p);

/* Takes in a bounded number of peers from all listeners. */
void sl_local_accept(struct sl_port *port);
void sl_local_unlisten(struct sl_port *port);

/* ---- link_local_packet.c ---- */

SEALANE_RESULT sl_local_send(struct sl_link *link, const uint8_t *bytes, size_t count);

/* Passes a descriptor; the link does not keep it. */
SEALANE_RESULT sl_local_pass(struct sl_local *local, char type, uint8_t ring, int fd);
void sl_local_wake(struct sl_local *local);

/* Reads a bounded number of packets; true: one was handshake bytes and `event` tells them. */
bool sl_local_packets(struct sl_local *local, struct sl_link_event *event);

/* ---- link_local_ring.c ---- */

SEALANE_RESULT sl_local_grant(struct sl_link *link, enum sl_ring_id ring,
                              const struct sl_ring_memory *memory, size_t stride,
                              uint8_t descriptor[SL_GRANT_BYTES]);
SEALANE_RESULT sl_local_attach(struct sl_link *link, enum sl_ring_id ring,
                               const uint8_t descriptor[SL_GRANT_BYTES], size_t bytes,
                               size_t stride);
SEALANE_RESULT sl_local_sources(struct sl_link *link, const void *base, size_t bytes);
void sl_local_forget(struct sl_link *link, const void *base);
SEALANE_RESULT sl_local_write_imm(struct sl_link *link, const struct sl_link_write *write);

/* True when arrivals may be there to be told. */
bool sl_local_has_arrivals(const struct sl_local *local);
int sl_local_arrivals(struct sl_local *local, struct sl_link_event *events, int max);

/* What the page counts now, as far as it can be true. */
uint32_t sl_local_page_end(const struct sl_local *local);
void sl_local_unmap(struct sl_local *local);

#endif
