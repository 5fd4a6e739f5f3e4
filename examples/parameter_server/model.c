/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - forward and backward through one or two layers. */
#include "model.h"

#include "dense.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>

struct activations {
    float *hidden;   /* rows * hidden, after ReLU */
    float *d_hidden; /* the loss's derivative by it */
    float *scores;   /* rows * classes; softmax and derivative happen in place */
};

/* The layer that reads the images, which is the only one of softmax regression, and the layer that gives the scores. */
static struct dense first_layer(const struct model *model)
{
    return (struct dense){model->inputs, model->hidden ? model->hidden : model->classes};
}

static struct dense last_layer(const struct model *model)
{
    return (struct dense){model->hidden ? model->hidden : model->inputs, model->classes};
}

size_t model_parameters(const struct model *model)
{
    size_t first = dense_parameters(first_layer(model));

    return model->hidden ? first + dense_parameters(last_layer(model)) : first;
}

float model_initial(const struct model *model, uint64_t seed, size_t index)
{
    struct dense layer = first_layer(model);
    size_t at = index;

    if (index >= dense_parameters(layer)) {
        at = index - dense_parameters(layer);
        layer = last_layer(model);
    }
    if (at >= layer.inputs * layer.outputs)
        return 0.0f;
    return random_sign(seed, index) * sqrtf(6.0f / (float)layer.inputs);
}

struct activations *activations_new(const struct model *model, size_t rows)
{
    struct activations *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->scores = calloc(rows, model->classes * sizeof(float));
    a->hidden = calloc(rows, (model->hidden + 1) * sizeof(float));
    a->d_hidden = calloc(rows, (model->hidden + 1) * sizeof(float));
    if (a->scores && a->hidden && a->d_hidden)
        return a;
    activations_free(a);
    return NULL;
}

void activations_free(struct activations *activations)
{
    if (!activations)
        return;
    free(activations->scores);
    free(activations->hidden);
    free(activations->d_hidden);
    free(activations);
}

static void relu(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = values[i] > 0 ? values[i] : 0;
}

static void forward(const struct model *model, const float *parameters, const struct batch *batch,
                    struct activations *a)
{
    const size_t rows = batch->rows;
    struct dense first = first_layer(model);

    if (model->hidden == 0) {
        dense_forward(first, parameters, batch->x, rows, a->scores);
        return;
    }
    dense_forward(first, parameters, batch->x, rows, a->hidden);
    relu(a->hidden, rows * model->hidden);
    dense_forward(last_layer(model), parameters + dense_parameters(first), a->hidden, rows,
                  a->scores);
}

/* scores of one example → the loss's derivative by them: softmax minus one at the label. Returns the loss. */
static double softmax_loss(float *scores, size_t classes, uint8_t label)
{
    float greatest = scores[0], sum = 0;
    double loss;

    for (size_t c = 1; c < classes; c++)
        greatest = scores[c] > greatest ? scores[c] : greatest;
    loss = greatest - scores[label];
    for (size_t c = 0; c < classes; c++) {
        scores[c] = expf(scores[c] - greatest);
        sum += scores[c];
    }
    for (size_t c = 0; c < classes; c++)
        scores[c] /= sum;
    scores[label] -= 1.0f;
    return loss + log((double)sum);
}

double model_gradient(const struct model *model, const float *parameters, const struct batch *batch,
                      struct activations *a, float *gradient)
{
    struct dense first = first_layer(model), last = last_layer(model);
    size_t at = dense_parameters(first);
    double loss = 0;

    forward(model, parameters, batch, a);
    for (size_t r = 0; r < batch->rows; r++)
        loss += softmax_loss(a->scores + r * model->classes, model->classes, batch->labels[r]);
    if (model->hidden == 0) {
        dense_gradient(first, batch->x, a->scores, batch->rows, gradient);
        return loss;
    }
    dense_gradient(last, a->hidden, a->scores, batch->rows, gradient + at);
    dense_backward(last, parameters + at, a->scores, batch->rows, a->d_hidden);
    for (size_t i = 0; i < batch->rows * model->hidden; i++)
        a->d_hidden[i] = a->hidden[i] > 0 ? a->d_hidden[i] : 0;
    dense_gradient(first, batch->x, a->d_hidden, batch->rows, gradient);
    return loss;
}

size_t model_correct(const struct model *model, const float *parameters, const struct batch *batch,
                     struct activations *a)
{
    size_t correct = 0;

    forward(model, parameters, batch, a);
    for (size_t r = 0; r < batch->rows; r++) {
        const float *scores = a->scores + r * model->classes;
        size_t best = 0;

        for (size_t c = 1; c < model->classes; c++)
            best = scores[c] > scores[best] ? c : best;
        correct += best == batch->labels[r];
    }
    return correct;
}
