/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - one shard of a training: who takes part, what they brought, and the weights.
 *
 *   GATHERING --all have joined--> TRAINING --last step--> DONE
 *        \______________________/ nobody is there or comes back in time, or the server is stopped --> BROKEN
 *
 * shard.c is about people: joining, leaving, coming back. shard_steps.c is about numbers: Push, Commit, Pull, in both modes.
 *
 * Calls are kept until they can be answered: a Join to the end, an Enter or Commit until shard 0 has decided, a Pull until the training
 * begins. An Enter or Pull may overtake its Join, whose weights take longer. Runs on a polled node: no locks. That a worker is gone is seen by its Join, which is over before the training is; the Join
 * tells ranks apart even where several workers show the same certificate.
 */
#ifndef PARAMETER_SERVER_SHARD_H
#define PARAMETER_SERVER_SHARD_H

#include "edition.h"
#include "options.h"
#include "parameter_server.sealane.h"
#include "sgd.h"

enum phase {
    PHASE_GATHERING,
    PHASE_TRAINING,
    PHASE_DONE,
    PHASE_BROKEN
};

struct seat {                                          /* a worker's, by rank */
    struct sealane_call *join, *pull, *enter, *commit; /* kept */
    const ParameterServer__V1__Turn *pull_turn;        /* the kept Pull's */
    char peer[256];                                    /* of the last Join */
    bool was_here;                                     /* joined before */

    /* Synchronous. What a worker laid down outlives it: if it said Commit, it counts. */
    float *gradient;        /* `count` numbers; NULL until the first Push */
    uint64_t gradient_step; /* that it is for … */
    uint64_t examples;      /* … and the sum over so many; 0: there is none */
    bool pushed;            /* in this step, since its Join */
    bool committed;         /* shard 0: in this step */
    double loss;            /* that came with Commit */

    double push_speed, pull_speed; /* measured by the worker */
    uint64_t applied;              /* gradients, since the beginning */
};

/* How old asynchronous gradients were. */
struct staleness {
    uint64_t sum, most, refused;
};

struct shard {
    const struct options
        *options; /* borrowed: shard, shards, workers, timeout_s, mode, max_staleness */
    enum phase phase;
    struct seat *seats;
    size_t joined;
    struct sgd sgd;
    uint64_t parameters;     /* of the whole model; 0 until the first worker said so */
    size_t count;            /* of this shard */
    struct edition *weights; /* NULL until rank 0 brought them */
    float *velocity;
    uint64_t step;
    uint32_t *members; /* whose gradients made the last step … */
    size_t member_count;
    double loss;             /* … and with which mean loss; shard 0 */
    uint32_t reporter;       /* lowest rank that takes part */
    const float **gradients; /* scratch of a step, one for each worker */
    struct staleness staleness;
    double late_s;              /* when to give the missing workers up; 0: nobody waits */
    enum sealane_status status; /* BROKEN: what callers are told */
    char why[400];
};

/* False when memory is short. */
bool shard_new(const struct options *options, struct shard *shard);

/* Replies may still be read: the server must be gone. */
void shard_free(struct shard *shard);

/* The service's handlers; `user` is the shard. */
extern const struct parameter_server_v1_parameter_server__handlers shard_handlers;

/* To be called often: notices workers that left or are late. */
void shard_tick(struct shard *shard);

/* Ends the training; every kept call is answered so. */
__attribute__((format(printf, 3, 4))) void shard_break(struct shard *shard,
                                                       enum sealane_status status,
                                                       const char *format, ...);

/* One line to stdout: whose gradients made the weights, and how stale they were. */
void shard_report(const struct shard *shard);

#endif
