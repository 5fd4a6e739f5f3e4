/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - one shard of a training: who takes part, whose gradient is in, and the weights.
 *
 *   GATHERING --all joined--> TRAINING --last step--> DONE
 *        \______________________/ a worker left, was late, or the server is stopped --> BROKEN
 *
 * Calls are kept until they can be answered: a Join to the end, a Pull until all joined, a Push until the step's last one. Runs on
 * a polled node: no locks. A lost worker is seen by its Join, which is over before the training is.
 */
#ifndef PARAMETER_SERVER_SHARD_H
#define PARAMETER_SERVER_SHARD_H

#include "options.h"
#include "parameter_server.sealane.h"
#include "sgd.h"

enum phase {
    PHASE_GATHERING,
    PHASE_TRAINING,
    PHASE_DONE,
    PHASE_BROKEN
};

struct seat { /* a worker's, by rank */
    struct sealane_call *join, *pull, *push;
    const float *gradient; /* the push's */
    double loss;
    char peer[256];
};

struct shard {
    const struct options *options; /* borrowed: shard, shards, workers, timeout_s */
    enum phase phase;
    struct seat *seats;
    size_t joined, pushed;
    struct sgd sgd;
    uint64_t parameters; /* of the whole model; 0 until the first worker said so */
    size_t count;        /* of this shard */
    float *weights, *velocity;
    const float **gradients; /* scratch of a step, one for each worker */
    uint64_t step;
    double late_s;              /* when to give the missing workers up; 0: nobody waits */
    enum sealane_status status; /* BROKEN: what callers are told */
    char why[400];
};

/* False when memory is short. */
bool shard_new(const struct options *options, struct shard *shard);
void shard_free(struct shard *shard);

/* The service's handlers; `user` is the shard. */
extern const struct parameter_server_v1_parameter_server__handlers shard_handlers;

/* To be called often: notices workers that left or are late. */
void shard_tick(struct shard *shard);

/* Ends the training; every kept call is answered so. */
__attribute__((format(printf, 3, 4))) void shard_break(struct shard *shard,
                                                       enum sealane_status status,
                                                       const char *format, ...);

#endif
