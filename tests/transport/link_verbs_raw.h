/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_raw.h - a peer of link_verbs that does what it likes, by plain verbs: for tests of what it can do to us. */
#ifndef LINK_VERBS_RAW_H
#define LINK_VERBS_RAW_H

#include "transport/link.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum {
    RAW_BYTES = 8192,
    RAW_DEPTH = 64 /* work requests each way */
};

struct raw {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    struct ibv_pd *pd;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    struct sl_port *victim; /* turned while the peer waits */
    struct sl_link *link;   /* the victim's end; NULL before it is accepted */
    int arrived;            /* of that link, so far */
    char gone[120];         /* of that link; empty: not yet */
    uint8_t bytes[RAW_BYTES];
};

/* Skips the test on a host where no RDMA device has an address. */
void raw_skip_without_device(void);

/* An address of the device and a port that is this process's. */
void raw_address(char *to, size_t bytes, const char *name);

/* Connects to a listening port and has it accept; the queue pair may read, too, as far as it can help it. */
void raw_connect(struct raw *raw, struct sl_port *victim, const char *address);

/* Asks for a connection with that private data and does not go on: the event that answers, RDMA_CM_EVENT_CONNECT_REQUEST after
 * `limit_ms` without any. */
enum rdma_cm_event_type raw_ask(struct raw *raw, const void *hello, uint8_t hello_bytes,
                                int limit_ms);

/* As raw_connect, but for the connection. */
void raw_begin(struct raw *raw, struct sl_port *victim, const char *address);

/* Posts one work request of `count` bytes to `to` of the memory `key`, and waits for what becomes of it. */
enum ibv_wc_status raw_do(struct raw *raw, enum ibv_wr_opcode opcode, size_t count, uint64_t to,
                          uint32_t key, uint32_t immediate);

/* Posts and waits for nothing; false: the queue is full. */
bool raw_post(struct raw *raw, enum ibv_wr_opcode opcode, size_t count, uint64_t to, uint32_t key,
              uint32_t immediate);

/* Takes completions of what was posted; how many. */
int raw_reap(struct raw *raw);

/* Turns the victim once; false: it told nothing in that time. Events of other links fail the test. */
bool raw_turn(struct raw *raw, int limit_ms);

/* Until the victim says that this peer is gone. */
void raw_expect_gone(struct raw *raw);

void raw_close(struct raw *raw);

#endif
