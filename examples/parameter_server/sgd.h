/* SPDX-License-Identifier: Apache-2.0 */
/* sgd.h - who owns which parameters, which examples, and how gradients become new weights. Servers, and a run in one process,
 * use the same functions on the same order of gradients: their weights are the same, bit for bit. */
#ifndef PARAMETER_SERVER_SGD_H
#define PARAMETER_SERVER_SGD_H

#include <stddef.h>
#include <stdint.h>

/* A run of neighbours out of a whole. */
struct range {
    size_t first, count;
};

/* Part `part` of `parts` nearly equal ones of `whole`: parameters over shards, a batch over workers. */
struct range range_of(size_t whole, size_t part, size_t parts);

/* Stochastic gradient descent with momentum; the rate falls in a straight line to 0 at the end of the run, which takes the
 * noise of small batches out of the last weights. */
struct sgd {
    float rate;
    float momentum;
    uint64_t steps; /* of the whole run */
    size_t batch;   /* examples of one step, of all workers together */
};

/* What a step changes: parameters that belong together. */
struct sgd_state {
    float *velocity, *weights;
    size_t count;
};

/* What it is made of: all[0..count), each the sum over a worker's examples, of which there are `examples` together. */
struct gradients {
    const float *const *all;
    size_t count;
    uint64_t examples;
};

/* The gradients are added in their order; then velocity = momentum * velocity + mean gradient and weights -= rate * velocity. */
void sgd_step(const struct sgd *sgd, uint64_t step, const struct gradients *gradients,
              const struct sgd_state *state);

#endif
