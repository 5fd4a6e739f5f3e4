/* SPDX-License-Identifier: Apache-2.0 */
/* sgd.c - the update rule, and how a whole is shared out. */
#include "sgd.h"

struct range range_of(size_t whole, size_t part, size_t parts)
{
    size_t each = whole / parts, more = whole % parts; /* the first `more` parts have one more */
    size_t first = part * each + (part < more ? part : more);

    return (struct range){first, each + (part < more)};
}

void sgd_step(const struct sgd *sgd, uint64_t step, const struct gradients *gradients,
              const struct sgd_state *state)
{
    float *velocity = state->velocity, *weights = state->weights;
    float rate = sgd->rate * (1.0f - (float)step / (float)sgd->steps);
    float share = 1.0f / (float)gradients->examples;

    for (size_t i = 0; i < state->count; i++) {
        float sum = gradients->all[0][i];

        for (size_t g = 1; g < gradients->count; g++)
            sum += gradients->all[g][i];
        velocity[i] = sgd->momentum * velocity[i] + share * sum;
        weights[i] -= rate * velocity[i];
    }
}
