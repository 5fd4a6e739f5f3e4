/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - a worker's end of the parameter servers: one channel to each shard, and what is done with all of them at once.
 *
 * Calls to all shards are started together, then the node is polled until all are answered. Each function returns false when one failed, or after a stop
 * signal; exchange_explain then says why. exchange.c connects, exchange_calls.c calls:
 *
 *   open, join, then push, settle, pull, push, …
 */
#ifndef PARAMETER_SERVER_EXCHANGE_H
#define PARAMETER_SERVER_EXCHANGE_H

#include "parameter_server.sealane.h"
#include "progress.h"
#include "trainer.h"

struct exchange;

struct peer { /* a shard, as the worker sees it */
    struct exchange *exchange;
    size_t index;
    char address[128];
    struct sealane_channel *channel;
    struct range range;        /* its part of the parameters */
    uint64_t shape;            /* range.count, as tensors want it */
    Sealane__Tensor tensor;    /* what is being sent to it */
    uint64_t step;             /* that its weights, as pulled last, are for */
    struct sealane_call *join; /* NULL once over */
};

/* Tensors of one direction so far. */
struct traffic {
    uint64_t bytes;
    double seconds;
};

struct exchange {
    const struct options *options; /* borrowed */
    char who[32];
    struct sealane_credentials *credentials;
    struct sealane_node *node;
    struct peer *peers;
    size_t peer_count;
    size_t waiting;    /* answers of the current round */
    float *weights;    /* where they land */
    uint32_t reporter; /* rank that tells of the training */

    /* what shard 0 decided last; synchronous */
    uint64_t turn_step;
    uint32_t *members;
    size_t member_count;
    double loss; /* mean over the members' examples */

    struct traffic pushed, pulled;
    double all_push, all_pull; /* bytes a second, of all workers */
    uint64_t stale;            /* gradients that a shard refused as too old */
    bool failed;
    char why[800]; /* naming shard and address */
};

/* Connects to every shard (for up to a few seconds, as they may be starting) and prints each lane's security. */
bool exchange_open(const struct options *options, struct exchange *exchange);

/* Joins, and fetches the weights to begin with, once all workers are there; or, in a training that has begun, its present ones. */
bool exchange_join(struct exchange *exchange, struct trainer *trainer);

/* The gradient, which the weights that were pulled last gave, to every shard. A
 * shard that finds it too stale goes without it. */
bool exchange_push(struct exchange *exchange, struct trainer *trainer);

/* Synchronous: waits until it is decided who takes part in the step; exchange->loss is theirs. `loss` is the sum over this worker's
 * examples. Asynchronous: nothing to settle. */
bool exchange_settle(struct exchange *exchange, const struct trainer *trainer, double loss);

/* New weights. */
bool exchange_pull(struct exchange *exchange);

/* The step that all shards have reached. */
uint64_t exchange_step(const struct exchange *exchange);

/* Counters and names of all lanes together. */
void exchange_carriage(const struct exchange *exchange, struct carriage *carriage);

/* After a failure: waits a moment, then prints why, unless a stop signal came: who is told to stop while others already left has not
 * failed. In that moment the other shards find the cause themselves, for which leaving at once would be taken. */
void exchange_explain(struct exchange *exchange);

/* Also after a failed open. */
void exchange_close(struct exchange *exchange);

#endif
