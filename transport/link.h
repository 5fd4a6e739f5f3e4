/* SPDX-License-Identifier: Apache-2.0 */
/* link.h - seam 1: who carries the bytes.
 *
 * A provider (link_local, link_tcp, link_verbs; the fake of the tests) opens a port on a node and makes links:
 * connected pairs as it sees them. Nothing here is trusted above: a link may carry anything from anybody, and
 * what it says about arrivals is a hint that the lane bounds. No entry blocks, none calls up, none is NULL; outcomes
 * come out of poll. All calls come from the node's one thread. tests/transport/link_contract.h is run on every
 * provider and is the precise meaning of this page.
 *
 * Life of a link: connect, or an ACCEPTED event at the listener -> CONNECTED (connecting side only) -> small two-sided
 * sends both ways (the TLS handshake) -> both sides grant rings and attach the peer's, the accepting side granting first
 * (before that it takes nothing but bytes from a stranger) -> write_imm. GONE is the last event of a link; the holder
 * then (or at any other moment) calls drop, after which the link says nothing any more.
 *
 * What was written to one ring arrives in the order posted, and the peer's ARRIVED comes after its bytes are there. A write may
 * stay at this side until the next poll or arm of its port, so that all writes of one turn leave together.
 */
#ifndef SL_LINK_H
#define SL_LINK_H

#include "transport/memory.h"

struct sl_port; /* the provider's; opaque here */

enum {
    SL_GRANT_BYTES = 32,       /* a ring's descriptor; travels inside TLS only */
    SL_LINK_SEND_BYTES = 4096, /* most bytes of one two-sided send */
    SL_LINK_SOURCES = 8,       /* places at a time that a link takes writes from, at least */
    SL_ADDRESS_BYTES = 128,    /* an address, its end included */
    SL_RDMA_DEVICE_BYTES = 64  /* a device's name, its end included: IB_DEVICE_NAME_MAX of Linux' rdma/ib_user_verbs.h */
};

/* What a node's options say to its carriers. */
struct sl_link_settings {
    char rdma_device[SL_RDMA_DEVICE_BYTES]; /* "mlx5_0"; "": any */
    unsigned rdma_port;                     /* of it, from 1; 0: any */
};

/* From "mlx5_0" or "mlx5_0:1"; NULL or "" is any. INVALID_ARGUMENT for a text of another form, UNIMPLEMENTED for a device where this
 * build has no RDMA links. Whether the device is there is seen where it is used. */
SEALANE_RESULT sl_link_settings_read(const char *rdma_device, struct sl_link_settings *settings_p);

enum sl_ring_id {
    SL_RING_MESSAGE = 0,
    SL_RING_BULK = 1,
    SL_RING_COUNT = 2
};

/* The head of every provider's link. The counters only rise, in posting order, during write_imm or poll. */
struct sl_link {
    const struct sl_link_ops *ops;
    void *owner;     /* the lane; the provider never touches it */
    uint64_t posted; /* writes accepted by write_imm */
    uint64_t
        placed; /* of those, how many can no longer be overtaken by a later write to another ring */
    uint64_t released; /* of those, how many no longer need their source memory */
    const char *
        device_ring; /* after a grant of a device's memory: how the peer's writes get there ("dma-buf") */
};

struct sl_link_write {
    enum sl_ring_id ring;
    uint32_t slot;       /* first slot of the peer's ring */
    const uint8_t *from; /* borrowed until `released` counts this write; never modified meanwhile */
    size_t bytes;        /* slot * stride + bytes never passes the ring's end */
    uint32_t immediate;
};

enum sl_link_event_kind {
    SL_LINK_ACCEPTED, /* a new link came in at a listener; owner is NULL. It is the only event of its
                          link in this poll, so the link may be dropped at once */
    SL_LINK_CONNECTED, /* connect succeeded */
    SL_LINK_BYTES,     /* two-sided bytes came; valid until the next poll of this port */
    SL_LINK_ARRIVED,   /* the peer says a write arrived: its immediate */
    SL_LINK_WRITABLE,  /* send answered SL_AGAIN before and may work now */
    SL_LINK_GONE       /* peer closed or died, connect failed, or the carrier broke; says why */
};

struct sl_link_event {
    enum sl_link_event_kind kind;
    struct sl_link *link;
    const uint8_t *bytes; /* BYTES */
    size_t count;         /* BYTES: how many */
    uint32_t immediate;   /* ARRIVED */
    char why[120];        /* GONE: one line, no newline */
};

struct sl_link_ops {
    const char *name; /* "local" */

    /* True when this provider handles addresses of this form ("unix:/path", "unix-abstract:name", ...) and this host has what it
     * takes. */
    bool (*handles)(const char *address);

    /* Settings are copied; NULL: none. */
    SEALANE_RESULT (*open)(const struct sl_link_settings *settings, struct sl_port **port_p);

    /* Drops every link, ends every listener, frees the port. */
    void (*close)(struct sl_port *port);

    /* Starts accepting. INVALID_ARGUMENT for a malformed address, ALREADY_EXISTS when somebody listens there,
     * PERMISSION_DENIED and so on as the system says. `bound`, unless NULL, gets the address to connect to: the same, with
     * the port that the system chose in place of port 0. */
    SEALANE_RESULT(*listen)
    (struct sl_port *port, const char *address, char bound[SL_ADDRESS_BYTES]);

    /* Starts connecting; CONNECTED or GONE follows. A server that is not there, refuses or is too busy is told by GONE;
     * errors are INVALID_ARGUMENT and what keeps this side from trying. */
    SEALANE_RESULT (*connect)(struct sl_port *port, const char *address, struct sl_link **link_p);

    /* Ends a link and frees it: no event of it comes any more, its mappings of the peer's rings are gone. What was sent or written
     * before still reaches a living peer, as far as the carrier has room for it at once; so sources that were not released may be
     * unmapped from now on, but not be written. */
    void (*drop)(struct sl_link *link);

    /* Opens a ring of this side to the peer's writes. `stride` is the distance of slots. Writes the descriptor that
     * the peer hands to attach. The memory stays the caller's; it must outlive the link. UNIMPLEMENTED, with nothing done, for memory
     * of a device that this carrier cannot write to here; the message says what was tried. */
    SEALANE_RESULT(*grant)
    (struct sl_link *link, enum sl_ring_id ring, const struct sl_ring_memory *memory, size_t stride,
     uint8_t descriptor[SL_GRANT_BYTES]);

    /* Takes the peer's grant. The descriptor came through TLS; bytes and stride are what HELLO says, and are checked
     * against what the carrier can see (a memfd's size and seals). DATA_LOSS when they do not fit. */
    SEALANE_RESULT(*attach)
    (struct sl_link *link, enum sl_ring_id ring, const uint8_t descriptor[SL_GRANT_BYTES],
     size_t bytes, size_t stride);

    /* Tells of memory that write_imm will take bytes from, before the first write from it: some carriers register it first. SL_LINK_SOURCES such places at a time.
     * Borrowed until forget or drop. RESOURCE_EXHAUSTED says which limit to raise. */
    SEALANE_RESULT (*sources)(struct sl_link *link, const void *base, size_t bytes);

    /* Ends what sources told of the memory at `base`. All writes from it were released. */
    void (*forget)(struct sl_link *link, const void *base);

    /* Sends at most SL_LINK_SEND_BYTES two-sided, all or SL_AGAIN. The bytes are copied. UNAVAILABLE once the peer is known to be
     * gone. */
    SEALANE_RESULT (*send)(struct sl_link *link, const uint8_t *bytes, size_t count);

    /* Writes into an attached ring of the peer and tells it the immediate. SL_AGAIN when the carrier is full: try again
     * later, no event tells. INVALID_ARGUMENT past the ring's end, and from memory that no sources told of, as far as the carrier
     * minds; RESOURCE_EXHAUSTED when that cannot be registered. To a peer that just went it may still be OK. */
    SEALANE_RESULT (*write_imm)(struct sl_link *link, const struct sl_link_write *write);

    /* Collects at most `max` events; returns how many. With max 0 `events` may be NULL: what was written leaves, nothing else is done.
     * Never sleeps. */
    int (*poll)(struct sl_port *port, struct sl_link_event *events, int max);

    /* Prepares to sleep: returns a descriptor that polls readable when something comes from now on, or -1 when
     * something is there already (poll again instead). The descriptor is the port's. */
    int (*arm)(struct sl_port *port);
};

/* Same host: memfd rings, wake-ups over AF_UNIX. Addresses "unix:/path" and "unix-abstract:name". */
extern const struct sl_link_ops sl_link_local;

/* Anywhere: frames over one TCP connection. Addresses are numeric: "1.2.3.4:7000", "[::1]:7000", "[fe80::1%eth0]:7000". */
extern const struct sl_link_ops sl_link_tcp;

/* Anywhere that an RDMA device reaches: one reliable queue pair. Addresses as tcp's. In builds with SEALANE_VERBS only. */
extern const struct sl_link_ops sl_link_verbs;

#endif
