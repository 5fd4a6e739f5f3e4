/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - what is trained: softmax regression, or a perceptron with one hidden layer of ReLU, under cross-entropy.
 *
 * All parameters lie in one flat array, which is what lets them be cut into shards anywhere.
 */
#ifndef PARAMETER_SERVER_MODEL_H
#define PARAMETER_SERVER_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model {
    size_t inputs;
    size_t hidden; /* 0: softmax regression */
    size_t classes;
};

size_t model_parameters(const struct model *model);

/* The parameter's value before training; follows from seed and index alone (uniform, He's scale; biases 0). */
float model_initial(const struct model *model, uint64_t seed, size_t index);

/* Memory for the activations of up to `rows` examples; NULL when there is none. */
struct activations;
struct activations *activations_new(const struct model *model, size_t rows);
void activations_free(struct activations *activations);

/* Examples beside each other: x[rows][inputs], labels[rows]. */
struct batch {
    const float *x;
    const uint8_t *labels;
    size_t rows;
};

/* gradient = the sum over the examples of d(loss)/d(parameters). Returns the sum of their losses. */
double model_gradient(const struct model *model, const float *parameters, const struct batch *batch,
                      struct activations *activations, float *gradient);

/* How many of the examples are classified right. */
size_t model_correct(const struct model *model, const float *parameters, const struct batch *batch,
                     struct activations *activations);

#endif
