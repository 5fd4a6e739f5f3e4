/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_inside.h - what the files that make up link_tcp share: link_tcp.c (ports, links, polling),
 * link_tcp_connect.c (listening, accepting, connecting), link_tcp_out.c (sends and writes) and link_tcp_in.c (what comes).
 *
 * One connection per link, one stream of frames each way: a header of 16 bytes, little-endian, and that many bytes.
 *   0 u8 0xe1, 1 u8 version 1, 2 u8 kind ('B' handshake bytes, 'W' write), 3 u8 ring, 4 u32 bytes, 8 u32 slot, 12 u32 immediate
 * Ring, slot and immediate of handshake bytes are zero. The end of the connection is the peer's end.
 */
#ifndef SL_LINK_TCP_INSIDE_H
#define SL_LINK_TCP_INSIDE_H

#include "transport/address.h"
#include "transport/carrier.h"

enum {
    SL_TCP_MAGIC = 0xe1, /* begins neither a text protocol nor TLS */
    SL_TCP_VERSION = 1,
    SL_TCP_HEADER_BYTES = 16,
    SL_TCP_COPY_MAX = 4096,     /* of a write; more is sent from where it lies */
    SL_TCP_STAGE_BYTES = 65536, /* copied bytes and headers that wait for the kernel */
    SL_TCP_PIECES = 128,
    SL_TCP_IN_BYTES = 16384,
    SL_TCP_WHY_BYTES = sizeof(((struct sl_link_event *)0)->why)
};

enum sl_tcp_kind {
    SL_TCP_NONE = 0, /* a header is next */
    SL_TCP_BYTES = 'B',
    SL_TCP_WRITE = 'W'
};

struct sl_tcp_header {
    uint8_t kind, ring;
    uint32_t bytes, slot, immediate;
};

struct sl_tcp_ring {
    uint8_t *base;               /* mine only */
    size_t bytes, stride, slots; /* slots is 0 before the grant */
};

/* What comes: bytes that were read and not judged yet, and the frame that they belong to. */
struct sl_tcp_in {
    enum sl_tcp_kind kind;
    uint32_t immediate;
    size_t rest; /* of the frame's bytes, still to come */
    uint8_t *to; /* WRITE: where the next of them goes, in a ring of ours */
    size_t at, end;
    uint8_t bytes[SL_TCP_IN_BYTES];
};

struct sl_tcp_piece {
    const uint8_t *from;
    size_t bytes;
    uint64_t
        released; /* what the link's counter becomes once these bytes are gone; 0: a piece of the stage */
};

/* What goes: pieces in order, of the stage or of the owner's memory. All of it starts anew whenever all is gone. */
struct sl_tcp_out {
    size_t first, count; /* pieces [first, count) wait */
    size_t last_lent;    /* the last one of the owner's memory, when `lent` are waiting */
    size_t lent;
    size_t staged;
    struct sl_tcp_piece pieces[SL_TCP_PIECES];
    uint8_t stage[SL_TCP_STAGE_BYTES];
};

enum sl_tcp_list {
    SL_TCP_ALL,
    SL_TCP_READY,  /* something is to be told or read, or was a moment ago */
    SL_TCP_UNSENT, /* something waits to be sent and the kernel may take it */
    SL_TCP_LISTS
};

struct sl_tcp {
    struct sl_link link; /* first */
    struct sl_port *port;
    int fd;
    struct sl_knot at[SL_TCP_LISTS];
    bool connecting;
    bool blocked;                                      /* the kernel took less than was offered */
    bool watches_room;                                 /* the epoll tells of room to send */
    bool wants_writable;                               /* send answered SL_AGAIN */
    bool tell_accepted, tell_connected, tell_writable; /* by the next poll */
    bool unread;    /* the kernel has bytes, as far as is known */
    bool mute;      /* nothing can be sent any more; what came before is still heard */
    bool over;      /* GONE is to be told, and nothing else */
    bool ended;     /* GONE was told */
    unsigned tries; /* reads that brought nothing, in a row */
    struct sl_tcp_ring mine[SL_RING_COUNT], theirs[SL_RING_COUNT];
    char peer[SL_ADDRESS_BYTES];
    char why[SL_TCP_WHY_BYTES];
    struct sl_tcp_in in;
    struct sl_tcp_out out;
};

struct sl_tcp_listener;

struct sl_port {
    int epoll;
    int spare_fd; /* given up for a moment to refuse a peer when descriptors run out */
    struct sl_list lists[SL_TCP_LISTS];
    struct sl_tcp_listener *listeners;
    unsigned effort;  /* polls and reads since the last look at all sockets */
    unsigned crowded; /* polls for which no link is read from unless the epoll says so */
    unsigned waiting; /* links that wait for room to send, or for their connection */
    bool look;        /* the next poll looks at all sockets */
};

/* ---- link_tcp.c ---- */

static inline struct sl_tcp *sl_tcp_of(struct sl_link *link)
{
    return (struct sl_tcp *)(void *)link;
}

/* Into a list at its end, unless it is in there; out of it, if it is. */
void sl_tcp_list(struct sl_tcp *tcp, enum sl_tcp_list list);
void sl_tcp_unlist(struct sl_tcp *tcp, enum sl_tcp_list list);

/* Makes a link of a nonblocking socket, which becomes the link's even on failure. */
SEALANE_RESULT sl_tcp_new(struct sl_port *port, int fd, const struct sockaddr *peer,
                          struct sl_tcp **tcp_p);

/* Decides that a link is over: GONE with this reason, or with the one that was known before. */
SEALANE_PRINTF(2, 3)
void sl_tcp_over(struct sl_tcp *tcp, const char *format, ...);

/* Nothing can be sent any more, for this errno. */
void sl_tcp_silence(struct sl_tcp *tcp, int error);

/* Has the epoll tell of what the link waits for. */
void sl_tcp_watch(struct sl_tcp *tcp);

/* ---- link_tcp_connect.c ---- */

SEALANE_RESULT sl_tcp_listen(struct sl_port *port, const char *address,
                             char bound[SL_ADDRESS_BYTES]);
SEALANE_RESULT sl_tcp_connect(struct sl_port *port, const char *address, struct sl_link **link_p);

/* A connection that was being made is there, or failed. */
void sl_tcp_connected(struct sl_tcp *tcp);

/* Takes in a bounded number of peers from all listeners. */
void sl_tcp_accept(struct sl_port *port);
void sl_tcp_unlisten(struct sl_port *port);

/* ---- link_tcp_out.c ---- */

SEALANE_RESULT sl_tcp_attach(struct sl_link *link, enum sl_ring_id id,
                             const uint8_t descriptor[SL_GRANT_BYTES], size_t bytes, size_t stride);
SEALANE_RESULT sl_tcp_sources(struct sl_link *link, const void *base, size_t bytes);
void sl_tcp_forget(struct sl_link *link, const void *base);
SEALANE_RESULT sl_tcp_send(struct sl_link *link, const uint8_t *bytes, size_t count);
SEALANE_RESULT sl_tcp_write_imm(struct sl_link *link, const struct sl_link_write *write);

/* Offers what waits to the kernel, once. */
void sl_tcp_flush(struct sl_tcp *tcp);

/* Gives up what waits. */
void sl_tcp_discard(struct sl_tcp *tcp);

/* ---- link_tcp_in.c ---- */

SEALANE_RESULT sl_tcp_grant(struct sl_link *link, enum sl_ring_id id,
                            const struct sl_ring_memory *memory, size_t stride,
                            uint8_t descriptor[SL_GRANT_BYTES]);

/* Reads a bounded number of bytes and tells what they are. */
int sl_tcp_take(struct sl_tcp *tcp, struct sl_link_event *events, int max);

/* True when bytes that were read are still to be judged. */
bool sl_tcp_has_more(const struct sl_tcp *tcp);

#endif
