/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_inside.h - what the files that make up link_verbs share: link_verbs.c (ports, life, polling), link_verbs_connect.c
 * (listening, connecting, what the connection manager says), link_verbs_device.c (devices, what a device says),
 * link_verbs_register.c (memory that a device may touch), link_verbs_pair.c (the queue pair of a link), link_verbs_out.c (what goes) and link_verbs_in.c (what comes).
 *
 * One reliable queue pair per link, in a protection domain of its own. Whatever comes takes one posted receive, in order:
 *
 *   SEND WITH IMMEDIATE, 1 to 1024 bytes   a piece of the handshake
 *   SEND WITH IMMEDIATE, no bytes          credit for pieces, or the end
 *   WRITE WITH IMMEDIATE                   a write; the immediate is the lane's
 *
 * The immediate of a SEND: bits 24-31 kind ('B' bytes, 'C' credit, 'E' the last word), bits 0-23 how many pieces of the other
 * direction were taken and given a new receive. A peer may have PIECES pieces on their way, and 2 credits, as one goes for every
 * PIECES / 2 pieces; so many receives are there from the start. grant posts one more for each slot of the ring, and a write's
 * receive is posted anew when it is told, before its slot can be credited: a receive is never missing. As any receive may get a
 * piece, each has PIECE_BYTES behind it.
 *
 * The 'E' travels behind everything that was written before a drop; the peer hears of the end by it, in order.
 */
#ifndef SL_LINK_VERBS_INSIDE_H
#define SL_LINK_VERBS_INSIDE_H

#include "transport/address.h"
#include "transport/carrier.h"

#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum {
    SL_VERBS_MAGIC = 0xe2,
    SL_VERBS_VERSION = 1,
    SL_VERBS_PIECE_BYTES = 1024,
    SL_VERBS_PIECES = 16, /* of each direction, on their way or waiting to be taken */
    SL_VERBS_CREDITS = 4, /* credit messages that this side has in the send queue at most */
    SL_VERBS_SENDS = SL_VERBS_PIECES + SL_VERBS_CREDITS + 1, /* not writes; one is the last word */
    SL_VERBS_RECEIVES =
        SL_VERBS_PIECES + 4,   /* before any grant: pieces, credits, the last word, one to spare */
    SL_VERBS_WORK_MAX = 256,   /* of the send queue */
    SL_VERBS_SLOTS_MAX = 1024, /* of both rings of a link: receives for them */
    SL_VERBS_NO_RECEIVE = UINT16_MAX,
    SL_VERBS_MANAGER_TAG = -1, /* in the epoll; devices have others */
    SL_VERBS_RETRY_TAG = -2,
    SL_VERBS_PLACE_BYTES = SL_RDMA_DEVICE_BYTES + 16, /* "mlx5_0 port 1" */
    SL_VERBS_GID_BYTES = 46,                          /* INET6_ADDRSTRLEN */
    SL_VERBS_WHY_BYTES = sizeof(((struct sl_link_event *)0)->why)
};

enum sl_verbs_word {
    SL_VERBS_BYTES = 'B',
    SL_VERBS_CREDIT = 'C',
    SL_VERBS_END = 'E',
    SL_VERBS_WRITE = 'W' /* never in an immediate */
};

/* What a work request's id says beside which link it is of. */
enum sl_verbs_work {
    SL_VERBS_WORK_RECEIVE,
    SL_VERBS_WORK_WRITE,
    SL_VERBS_WORK_PIECE,
    SL_VERBS_WORK_CREDIT,
    SL_VERBS_WORK_END
};

/* Our ring, open to the peer. */
struct sl_verbs_mine {
    struct ibv_mr *mr; /* NULL before the grant */
};

/* The peer's ring. */
struct sl_verbs_theirs {
    uint64_t address;
    uint32_t key;
    size_t bytes, stride, slots; /* slots is 0 before attach */
};

/* Memory that writes leave from. Small ones are inline and need no registration: it is made for the first that is not. */
struct sl_verbs_source {
    const uint8_t *base; /* NULL: none */
    size_t bytes;
    struct ibv_mr *mr; /* NULL: not registered yet */
};

/* A posted receive, or one that came and waits to be told or posted again. */
struct sl_verbs_receive {
    uint32_t immediate;
    uint16_t bytes;
    uint16_t next;
    uint8_t word; /* enum sl_verbs_word */
};

struct sl_verbs_queue {
    uint16_t first, last; /* indices of receives */
};

/* Memory behind receives [first, first + count). The pieces that go lie behind those of the first block. */
struct sl_verbs_block {
    uint8_t *base;
    size_t bytes;
    struct ibv_mr *mr;
    uint32_t first, count;
};

enum sl_verbs_list {
    SL_VERBS_ALL,
    SL_VERBS_READY,  /* something is to be told */
    SL_VERBS_UNSENT, /* something waits to be posted */
    SL_VERBS_LENT,   /* handshake bytes were told and are the holder's until the next poll */
    SL_VERBS_HALF,   /* asked for by a peer, not told yet; oldest first */
    SL_VERBS_LINGER, /* dropped; what was written is on its way; oldest first */
    SL_VERBS_LISTS
};

struct sl_verbs_device;

struct sl_verbs {
    struct sl_link link; /* first */
    struct sl_port *port;
    struct sl_verbs_device *device; /* NULL: not known yet */
    struct rdma_cm_id *id;          /* NULL: there is no RDMA device at all */
    struct ibv_pd *pd;
    struct ibv_qp *qp;
    uint32_t index;    /* in the device's table */
    uint32_t reserved; /* entries of the completion queue */
    struct sl_knot at[SL_VERBS_LISTS];
    bool connecting;
    bool up;                                           /* both may post */
    bool tell_accepted, tell_connected, tell_writable; /* by the next poll */
    bool wants_writable;                               /* send answered SL_AGAIN */
    bool mute;                                         /* nothing is posted any more */
    bool over;         /* GONE is to be told, after what came before it */
    bool ended;        /* GONE was told */
    bool finished;     /* lingers no longer */
    int64_t linger_us; /* until when, if it lingers */
    char peer[SL_ADDRESS_BYTES];
    char why[SL_VERBS_WHY_BYTES];

    /* link_verbs_in.c */
    struct sl_verbs_mine mine[SL_RING_COUNT];
    struct sl_verbs_block blocks[1 + SL_RING_COUNT];
    struct sl_verbs_receive *receives;
    uint32_t receive_count, receive_max;
    struct sl_verbs_queue came, lent;
    uint32_t taken, taken_told; /* pieces of the peer that have a new receive */

    /* link_verbs_out.c */
    struct sl_verbs_theirs theirs[SL_RING_COUNT];
    struct sl_verbs_source sources[SL_LINK_SOURCES]; /* front filled first */
    struct ibv_send_wr *writes; /* [SL_VERBS_WORK_MAX] by number; NULL before attach */
    struct ibv_sge *places;     /* the same */
    uint32_t writes_max, inline_max, write_bytes_max;
    uint64_t written;                            /* writes given to the queue pair */
    uint64_t completed;                          /* writes that left it */
    uint64_t signalled;                          /* the last one that asked for a completion */
    uint32_t pieces, pieces_posted, pieces_done; /* that go */
    uint32_t allowed;                            /* pieces that may have been sent, ever */
    uint32_t credits_posted;
    uint16_t piece_bytes[SL_VERBS_PIECES];
};

/* A slot of a device's table: a completion names its link by index and generation, as it may be older than the link. */
struct sl_verbs_entry {
    struct sl_verbs *link;
    uint32_t generation;
};

/* An RDMA device as one port uses it: a context of its own, so that no other thread takes its events. */
struct sl_verbs_device {
    struct sl_verbs_device *next;
    struct ibv_context *verbs;
    struct ibv_device_attr limits;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    uint32_t number;   /* in the port's epoll */
    uint32_t reserved; /* entries of the completion queue that links may need */
    uint32_t links;
    unsigned unacked; /* completion events */
    bool armed;
    bool dead;
    struct sl_verbs_entry *entries;
    uint32_t entry_count;
};

struct sl_verbs_listener;

struct sl_port {
    struct sl_link_settings wish; /* which device */
    int epoll;
    struct rdma_event_channel *channel; /* NULL: not needed yet */
    bool deaf;                          /* the channel tells nothing any more */
    struct sl_verbs_device *devices;
    uint32_t device_count; /* ever opened */
    struct sl_list lists[SL_VERBS_LISTS];
    struct sl_verbs_listener *listeners;
    int retry; /* a clock that ticks while a listener has lost its device; -1: never needed */
    int64_t devices_us; /* when it was looked last whether the devices are still there */
    unsigned effort;    /* polls since the last look at the epoll */
    unsigned waiting;   /* links that are being connected */
    bool look;          /* the next poll looks at the epoll */
};

static inline struct sl_verbs *sl_verbs_of(struct sl_link *link)
{
    return (struct sl_verbs *)(void *)link;
}

/* ---- link_verbs.c ---- */

/* Into a list at its end, unless it is in there; out of it, if it is. */
void sl_verbs_list(struct sl_verbs *verbs, enum sl_verbs_list list);
void sl_verbs_unlist(struct sl_verbs *verbs, enum sl_verbs_list list);

/* A link that has memory for small sends and nothing else yet. The id becomes the link's on success. */
SEALANE_RESULT sl_verbs_new(struct sl_port *port, struct rdma_cm_id *id, struct sl_verbs **verbs_p);

/* Ends a link that nobody knows any more, at once. */
void sl_verbs_free(struct sl_verbs *verbs);

/* Decides that a link is over: GONE with this reason, after what came before. */
SEALANE_PRINTF(2, 3)
void sl_verbs_over(struct sl_verbs *verbs, const char *format, ...);

/* ---- link_verbs_connect.c ---- */

SEALANE_RESULT sl_verbs_listen(struct sl_port *port, const char *address,
                               char bound[SL_ADDRESS_BYTES]);
SEALANE_RESULT sl_verbs_connect(struct sl_port *port, const char *address, struct sl_link **link_p);
void sl_verbs_unlisten(struct sl_port *port);

/* Lets go of devices that were removed; listens again where one is back. */
void sl_verbs_listeners_check(struct sl_port *port);
void sl_verbs_listen_again(struct sl_port *port);

/* Takes a bounded number of events of the connection manager. True: there may be more. */
bool sl_verbs_manager_take(struct sl_port *port);

/* The peer is there: by the connection manager's word, or by something that came through the queue pair. */
void sl_verbs_established(struct sl_verbs *verbs);

/* ---- link_verbs_gid.c ---- */

/* GIDs of all ports of a device. `at` is malloced. */
struct sl_verbs_gids {
    struct ibv_gid_entry *at;
    size_t count;
};

/* True when an id, bound to a device, is on the one asked for; and the name of that, "mlx5_0 port 1". */
bool sl_verbs_is_wished(const struct sl_link_settings *wish, const struct rdma_cm_id *id);
void sl_verbs_wish_write(const struct sl_link_settings *wish, char to[SL_VERBS_PLACE_BYTES]);

/* The device asked for. NOT_FOUND names those that are there. */
SEALANE_RESULT sl_verbs_wished(struct sl_port *port, struct sl_verbs_device **device_p);

/* Whether a device can do what lanes need; the error says what it lacks. */
SEALANE_RESULT sl_verbs_device_check(const struct ibv_device *device,
                                     const struct ibv_device_attr *limits);

SEALANE_RESULT sl_verbs_gids_read(struct ibv_context *verbs, unsigned ports,
                                  struct sl_verbs_gids *gids_p);

/* Whether an address of this host is that of a GID; on InfiniBand, of its port. */
bool sl_verbs_gid_has(const struct ibv_device *device, const struct ibv_gid_entry *gid,
                      const struct ifaddrs *at);

/* The address of the device asked for to leave from to a peer. NOT_FOUND when it has none of the kind. */
SEALANE_RESULT sl_verbs_source(struct sl_port *port, const struct sockaddr *peer,
                               struct sockaddr_storage *source_p);

const char *sl_verbs_gid_type(uint32_t type);
void sl_verbs_gid_write(const union ibv_gid *gid, char to[SL_VERBS_GID_BYTES]);

/* Logs which GID a link leaves by. FAILED_PRECONDITION for RoCE v1. */
SEALANE_RESULT sl_verbs_gid_check(const struct sl_verbs *verbs, const struct ibv_ah_attr *way);

/* ---- link_verbs_device.c ---- */

/* The port's own context of a device, opened when new. */
SEALANE_RESULT sl_verbs_device_get(struct sl_port *port, struct ibv_device *like,
                                   struct sl_verbs_device **device_p);
void sl_verbs_device_close(struct sl_verbs_device *device);

/* A link's place in the table, and room in the completion queue for `more` of its work. */
SEALANE_RESULT sl_verbs_enter(struct sl_verbs *verbs);
SEALANE_RESULT sl_verbs_reserve(struct sl_verbs *verbs, uint32_t more);
void sl_verbs_leave(struct sl_verbs *verbs);

/* "rxe0" */
const char *sl_verbs_device_name(const struct sl_verbs_device *device);

/* What the device says by itself. */
void sl_verbs_async_take(struct sl_port *port, struct sl_verbs_device *device);

/* Some kernels let nobody know that a device is to go, and keep it until all let go of it: whether it is still there. */
void sl_verbs_devices_check(struct sl_port *port);

/* Completion events are taken back, so that the channel is silent until it is armed again. */
void sl_verbs_wakes_take(struct sl_verbs_device *device);

/* Judges at most `budget` completions. Returns how many there were. */
int sl_verbs_completions(struct sl_verbs_device *device, int budget);

/* Asks to be woken by the next completion. */
void sl_verbs_device_arm(struct sl_port *port, struct sl_verbs_device *device);

/* The device is gone or broken: so are its links. */
SEALANE_PRINTF(3, 4)
void sl_verbs_device_over(struct sl_port *port, struct sl_verbs_device *device, const char *format,
                          ...);

/* ---- link_verbs_register.c ---- */

/* Whether this process may lock what the smallest lane takes. RESOURCE_EXHAUSTED names the limit and how to raise it. */
SEALANE_RESULT sl_verbs_locked_check(void);

/* Opens host memory to the device, for what it sends and takes itself. */
SEALANE_RESULT sl_verbs_register(struct sl_verbs *verbs, const void *base, size_t bytes,
                                 struct ibv_mr **mr_p);

/* Opens a ring to the peer's writes; for the peer its addresses begin at 0. UNIMPLEMENTED for memory of a device that this RDMA device
 * cannot write to. */
SEALANE_RESULT sl_verbs_register_ring(struct sl_verbs *verbs, const struct sl_ring_memory *ring,
                                      struct ibv_mr **mr_p);

/* ---- link_verbs_pair.c ---- */

uint64_t sl_verbs_work_id(const struct sl_verbs *verbs, enum sl_verbs_work work, uint16_t number);

/* Domain, queue pair, first receives: all that a link has before its peer proved who it is. */
SEALANE_RESULT sl_verbs_pair_make(struct sl_verbs *verbs);

/* Ready to receive and to send. */
SEALANE_RESULT sl_verbs_pair_ready(struct sl_verbs *verbs);

/* Has the queue pair give up its work. */
void sl_verbs_pair_stop(struct sl_verbs *verbs);

/* Closes our rings to the peer. */
void sl_verbs_pair_close_rings(struct sl_verbs *verbs);
void sl_verbs_pair_free(struct sl_verbs *verbs);

/* ---- link_verbs_out.c ---- */

SEALANE_RESULT sl_verbs_attach(struct sl_link *link, enum sl_ring_id id,
                               const uint8_t descriptor[SL_GRANT_BYTES], size_t bytes,
                               size_t stride);
SEALANE_RESULT sl_verbs_sources(struct sl_link *link, const void *base, size_t bytes);
void sl_verbs_forget(struct sl_link *link, const void *base);
SEALANE_RESULT sl_verbs_send(struct sl_link *link, const uint8_t *bytes, size_t count);
SEALANE_RESULT sl_verbs_write_imm(struct sl_link *link, const struct sl_link_write *write);

/* Posts what waits. */
void sl_verbs_flush(struct sl_verbs *verbs);

/* Posts the last word. False: nothing can be posted any more. */
bool sl_verbs_say_end(struct sl_verbs *verbs);

/* Tells the peer of receives that were posted for its pieces, when it is time to. */
void sl_verbs_give_credit(struct sl_verbs *verbs);

/* Work left the send queue, well or not. */
void sl_verbs_work_done(struct sl_verbs *verbs, enum sl_verbs_work work, uint16_t number);

/* The peer took pieces. False: it cannot have. */
bool sl_verbs_credited(struct sl_verbs *verbs, uint32_t taken);

/* ---- link_verbs_in.c ---- */

SEALANE_RESULT sl_verbs_grant(struct sl_link *link, enum sl_ring_id id,
                              const struct sl_ring_memory *memory, size_t stride,
                              uint8_t descriptor[SL_GRANT_BYTES]);

/* Memory behind the first receives and behind the pieces that go; then registered, and the receives posted. */
SEALANE_RESULT sl_verbs_memory_make(struct sl_verbs *verbs);
SEALANE_RESULT sl_verbs_receives_post(struct sl_verbs *verbs);

/* Something came. */
void sl_verbs_came(struct sl_verbs *verbs, const struct ibv_wc *wc, uint16_t number);

/* Tells what came. */
int sl_verbs_take(struct sl_verbs *verbs, struct sl_link_event *events, int max);

/* True when something is there to be told. */
static inline bool sl_verbs_has_come(const struct sl_verbs *verbs)
{
    return verbs->came.first != SL_VERBS_NO_RECEIVE;
}

/* Handshake bytes that were told are taken back: their receives are posted again. */
void sl_verbs_lent_return(struct sl_verbs *verbs);

#endif
