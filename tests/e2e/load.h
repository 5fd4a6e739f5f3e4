/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - what the tests of deaths, stops, cancels and aged lanes have in common: a kitchen that checks what it is sent and answers at
 * once, late or never, and a load of mixed calls whose ends are counted one by one. Used by tests and by load_process.c, hence
 * without Criterion: what cannot be is printed, and the process aborts.
 *
 * Every byte of every message and tensor is a slice of one pattern that all processes make alike: each end can tell whether
 * what came is what was sent.
 */
#ifndef LOAD_H
#define LOAD_H

#include "kitchen.sealane.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    LOAD_ADDRESS = 64,
    LOAD_WHY = 320,
    LOAD_PATTERN = 6 << 20,
    LOAD_HELD_MAX = 8192
};

uint64_t load_now_ms(void);
void load_rest_ms(long ms);

/* Where a server of this process, or of one it spawns, can listen over the link "local", "tcp" or "verbs". False: this host has no
 * RDMA device. */
bool load_address(const char *link, char address[LOAD_ADDRESS]);

/* Ends the process unless the status is OK. */
void load_must(enum sealane_status status, const char *what);

/* `who`: "server" or "client". */
struct sealane_credentials *load_credentials(const char *who);

/* Slices of the pattern begin at any offset below LOAD_PATTERN / 2. */
const uint8_t *load_pattern(void);

/* A request whose bytes and tensor are slices of the pattern at `offset`. */
struct load_dish {
    Kitchen__V1__Dish request;
    Sealane__Tensor tensor;
    uint64_t shape;
};
void load_dish_fill(struct load_dish *dish, uint64_t offset, size_t raw_bytes, size_t tensor_bytes);
bool load_dish_matches(const Kitchen__V1__Dish *sent, const Kitchen__V1__Dish *got);

/* ---- the kitchen: echoes; `sleep_ms` later, from another thread; `word` "burn": having computed for that long; `never`: when it closes ---- */

struct load_late;

struct load_server {
    struct sealane_credentials *credentials;
    struct sealane_node *node;
    struct sealane_server *server;
    atomic_int handled, ended; /* calls */
    atomic_int wrong;          /* requests that were not what their client packed */
    atomic_int strangers;      /* times that a handler ran on another thread than the first did */
    atomic_int ups, downs;     /* lanes */
    char down_why[LOAD_WHY];   /* of the last; under lock */

    pthread_mutex_t lock;
    pthread_cond_t more;
    struct load_late *late_first, *late_last;
    bool closing;
    pthread_t workers[2], handling;
    bool handled_once;
    struct sealane_call *held[LOAD_HELD_MAX]; /* calls that are never answered */
    atomic_int held_count;
};

/* Makes it on a node of its own; credentials and link are filled in, other options may be NULL. Does not listen yet. */
struct load_server *load_server_new(const char *link, const struct sealane_server_options *options);
void load_server_listen(struct load_server *kitchen, const char *address);
/* Answers what it holds with ABORTED. */
void load_server_let_go(struct load_server *kitchen);
/* Ends the server, then answers what handlers still owe, to nobody. False when a call did not end once. */
bool load_server_free(struct load_server *kitchen);

/* ---- a client ---- */

struct load_client {
    struct sealane_credentials *credentials;
    struct sealane_node *node;
    struct sealane_channel *channel;
};

/* On a node of its own; credentials, server_name and pauses of milliseconds are filled in. Does not connect yet. */
struct load_client load_client_open(const char *address,
                                    const struct sealane_channel_options *options, bool polled);
void load_client_close(struct load_client *client);

/* ---- the load ---- */

struct load_options {
    int threads;          /* 2 */
    unsigned seed;        /* of kinds, sizes and moments */
    bool steady;          /* no call may fail that was not asked to: nobody dies here */
    bool small;           /* no message of many frames, tensors of 64 KiB at most */
    bool channel_ends;    /* calls may end CANCELLED, as the channel is freed under them */
    bool raced;           /* all answers come late, and most are cancelled or too late */
    int most_outstanding; /* 48 for each thread */
};

struct load_call;

struct load {
    struct sealane_channel *channel;
    struct load_options options;
    atomic_bool stop;
    atomic_int started, ended;
    atomic_int ok, unavailable, cancelled, late, wrong;
    atomic_int slowest_ms; /* of calls that came back OK and were not asked to be late */
    atomic_int strangers;  /* times that a callback ran on another thread than the first did */
    pthread_t calling_back;
    bool called_back;
    pthread_mutex_t lock;
    char why[LOAD_WHY]; /* the first wrong one */
    struct load_call *calls;
    atomic_int running;
    bool joined;
    pthread_t threads[8];
};

struct load *load_begin(struct sealane_channel *channel, const struct load_options *options);
/* No new calls, and no thread of the load uses the channel any more; calls may be in flight. */
void load_stop(struct load *load);
/* Stops, and waits for every call's end for at most timeout_ms. False with a reason: a call hangs, ended twice, or ended as it may not. */
bool load_wait(struct load *load, long timeout_ms, char why[LOAD_WHY]);
/* After load_wait said true. */
void load_free(struct load *load);

#endif
