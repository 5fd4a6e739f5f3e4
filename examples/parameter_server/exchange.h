/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - a worker's end of the parameter servers: one channel to each shard, and what is done with all of them at once.
 *
 * Calls to all shards are started together, then the node is polled until all are answered. Each function returns false when one failed, or after a stop
 * signal; exchange_explain then says why.
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
    const char *address;
    struct sealane_channel *channel;
    struct range range;        /* its part of the parameters */
    uint64_t shape;            /* range.count, as tensors want it */
    Sealane__Tensor tensor;    /* what is being sent to it */
    struct sealane_call *join; /* NULL once over */
};

struct exchange {
    const struct options *options; /* borrowed */
    char who[32];
    struct sealane_credentials *credentials;
    struct sealane_node *node;
    struct peer *peers;
    size_t peer_count;
    size_t waiting; /* answers of the current round */
    float *weights; /* where they land */
    double loss;    /* that shard 0 told */
    bool failed;
    char why[800]; /* naming shard and address */
};

/* Connects to every shard (for up to a few seconds, as they may be starting) and prints each lane's security. */
bool exchange_open(const struct options *options, struct exchange *exchange);

/* Joins, and fetches the weights to begin with, once all workers are there. */
bool exchange_join(struct exchange *exchange, struct trainer *trainer);

/* One step: gradient and loss out, new weights and everybody's loss in. */
bool exchange_step(struct exchange *exchange, struct trainer *trainer, double *loss);

/* Counters and names of all lanes together. */
void exchange_carriage(const struct exchange *exchange, struct carriage *carriage);

/* After a failure: waits a moment, then prints why, unless a stop signal came: who is told to stop while others already left has not
 * failed. In that moment the other shards find the cause themselves, for which leaving at once would be taken. */
void exchange_explain(struct exchange *exchange);

/* Also after a failed open. */
void exchange_close(struct exchange *exchange);

#endif
