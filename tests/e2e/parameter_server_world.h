/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_server_world.h - two shards and their workers on one polled node, moved by nobody but the test, which so decides what
 * happens before what. */
#ifndef PARAMETER_SERVER_WORLD_H
#define PARAMETER_SERVER_WORLD_H

#include "examples/parameter_server/shard.h"
#include "examples/parameter_server/trainer.h"

enum {
    SHARDS = 2,
    WORKERS = 3,
    COUNT = 11, /* parameters, if w.count does not say otherwise: 6 and 5 */
    COUNT_MAX = 1 << 21,
    STEPS = 6,
    BATCH = 6
};

struct heard { /* by a worker from shard 0, or from a Join */
    bool done;
    enum sealane_status status;
    uint64_t step;
    uint32_t members[WORKERS];
    size_t count;
    double loss;
    char why[300];
};

struct world {
    struct options options[SHARDS];
    struct shard shards[SHARDS];
    struct sealane_credentials *server_credentials, *client_credentials;
    struct sealane_node *node;
    struct sealane_server *servers[SHARDS];
    struct sealane_channel *channels[WORKERS][SHARDS];
    struct heard enters[WORKERS], commits[WORKERS], joins[WORKERS][SHARDS];
    size_t count;                                  /* of parameters; to be set before open_world */
    float velocity[COUNT_MAX], weights[COUNT_MAX]; /* of one process */
    struct sgd sgd;
};
extern struct world w;

void open_world(const struct options *common);
void close_world(void);

/* Moves everything once. */
void turn_once(void);

/* Until *flag is true; the test fails after some seconds. */
void wait_until(const bool *flag);

/* Time for what must not happen: whatever is on its way arrives. */
void let_it_settle(void);

void connect_worker(size_t worker);

/* As if by kill -9: both shards see the lanes end. */
void kill_worker(size_t worker);

/* ---- what workers say. Those that are answered later land in w. ---- */

void join(size_t worker);
void enter(size_t worker);
void commit(size_t worker, uint64_t step);

/* The worker's gradient for the step, over worker + 1 examples, to one shard, or to all, who must take it. */
enum sealane_status push(size_t worker, size_t shard, uint64_t step);
void push_everywhere(size_t worker, uint64_t step);

/* Asks one shard, by what shard 0 told; the weights land in `weights` at the shard's place. */
enum sealane_status pull(size_t worker, size_t shard, const struct heard *turn, float *weights);

/* ---- one process, which sees only who counts ---- */

void step_alone(uint64_t step, const size_t *members, size_t count);

/* What one gradient of `worker`, made for step `made_for`, does as step `step` of asynchronous training. */
void apply_alone(size_t worker, uint64_t made_for, uint64_t step);

/* Both shards' weights, as `worker` pulls them by `turn`, are those of one process. */
void check_weights(size_t worker, const struct heard *turn);

#endif
