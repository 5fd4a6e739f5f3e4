/* SPDX-License-Identifier: Apache-2.0 */
/* lanes.h - two polled nodes in one thread and a lane between them, over the fake link or a real one, with real TLS; and a record of
 * what each end was told. End 0 is the server, end 1 the client. */
#ifndef LANES_H
#define LANES_H

#include "tests/support/link_fake.h"
#include "transport/lane_inside.h"

enum {
    LANES_TEXT = 512
};

/* What an end was told, and how it answers. */
struct lanes_end {
    struct sl_lane *lane; /* NULL before READY and after CLOSED */
    int ready, closed, sent, statuses, cancels, messages;
    enum sealane_status close_status;
    char close_text[LANES_TEXT];
    enum sealane_status last_status;
    char last_text[LANES_TEXT];
    uint8_t last_flags;
    uint64_t last_call;
    uint8_t *bytes; /* of all MESSAGE events, in order */
    size_t byte_count, byte_size;
    uint64_t filled, placed;
    uint8_t *place;             /* where parts go; NULL: skip them */
    bool keep_quiet;            /* do not allow parts that exceed the eager window */
    enum sealane_status answer; /* what the event function returns for MESSAGE */
    uint64_t allowed;           /* calls that were allowed */
};

struct lanes {
    struct link_fake_world *world; /* NULL over others */
    struct sealane_credentials *credentials[2];
    struct sealane_node *nodes[2];
    struct sl_listener *listener;
    struct sl_lane *connecting;
    struct lanes_end end[2];
    char address[SL_ADDRESS_BYTES];
    struct sl_lane_options options[2];
    struct sl_memory *(*memory)(void);      /* NULL: host memory */
    const struct sl_link_ops *const *links; /* NULL: the fake, or the built-in ones */
};

/* Makes nodes and listens, over the fake or link_local. Set options[].*, memory, links and address ("127.0.0.1:0": over link_tcp) between
 * _init and _listen for other than defaults. */
void lanes_init(struct lanes *lanes, bool fake);
void lanes_listen(struct lanes *lanes);

/* In the place of lanes_init: over link_verbs. Skips the test where there is no RDMA device. */
void lanes_over_verbs(struct lanes *lanes);

/* Both ends seal with this only. Between _init and _listen. */
void lanes_use_aead(struct lanes *lanes, enum sealane_aead aead);

/* Connects and turns until both ends are READY (asserted), or just connects. Ends' records are cleared first. */
void lanes_connect(struct lanes *lanes);
void lanes_begin(struct lanes *lanes);

/* Both nodes turn `times` times; until `done` says so, at most 5 s (false then). */
void lanes_turn(struct lanes *lanes, int times);
bool lanes_until(struct lanes *lanes, bool (*done)(struct lanes *lanes));
bool lanes_both_closed(struct lanes *lanes);
bool lanes_both_ready(struct lanes *lanes);

/* Closes the client's lane and waits for both ends. */
void lanes_disconnect(struct lanes *lanes);
void lanes_free(struct lanes *lanes);

#endif
