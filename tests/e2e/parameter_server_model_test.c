/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_server_model_test.c - the mathematics: gradients against differences, the update rule, and how wholes are shared out. */
#include "examples/parameter_server/dataset.h"
#include "examples/parameter_server/dense.h"
#include "examples/parameter_server/model.h"
#include "examples/parameter_server/sgd.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 7, /* no multiple of four: the loops' ends count too */
    INPUTS = 13,
    CLASSES = 5
};

struct bench {
    struct model model;
    size_t parameters;
    float *weights, *gradient;
    float x[ROWS * INPUTS];
    uint8_t labels[ROWS];
    struct batch batch; /* of these */
    struct activations *activations;
};

static void bench_begin(struct bench *b, size_t hidden)
{
    *b = (struct bench){.model = {INPUTS, hidden, CLASSES}};
    b->parameters = model_parameters(&b->model);
    b->weights = malloc(b->parameters * sizeof(float));
    b->gradient = malloc(b->parameters * sizeof(float));
    b->activations = activations_new(&b->model, ROWS);
    cr_assert(b->weights && b->gradient && b->activations);
    for (size_t i = 0; i < b->parameters; i++)
        b->weights[i] = model_initial(&b->model, 3, i) + 0.01f * (float)(i % 7);
    for (size_t i = 0; i < ROWS * INPUTS; i++)
        b->x[i] = (float)(i * 37 % 101) / 100.0f;
    b->batch = (struct batch){b->x, b->labels, ROWS};
    for (size_t r = 0; r < ROWS; r++)
        b->labels[r] = (uint8_t)(r % CLASSES);
}

static void bench_end(struct bench *b)
{
    free(b->weights);
    free(b->gradient);
    activations_free(b->activations);
}

static double loss_with(struct bench *b, size_t index, float value)
{
    float kept = b->weights[index];
    float *scratch = malloc(b->parameters * sizeof(float));
    double loss;

    cr_assert_not_null(scratch);
    b->weights[index] = value;
    loss = model_gradient(&b->model, b->weights, &b->batch, b->activations, scratch);
    b->weights[index] = kept;
    free(scratch);
    return loss;
}

static void check_gradient(size_t hidden)
{
    const float step = 1e-3f;
    struct bench b;

    bench_begin(&b, hidden);
    (void)model_gradient(&b.model, b.weights, &b.batch, b.activations, b.gradient);
    for (size_t i = 0; i < b.parameters; i++) {
        float up = b.weights[i] + step, down = b.weights[i] - step;
        double slope =
            (loss_with(&b, i, up) - loss_with(&b, i, down)) / ((double)up - (double)down);

        cr_assert(fabs(slope - (double)b.gradient[i]) < 2e-2 * (1 + fabs(slope)),
                  "hidden %zu, parameter %zu: gradient %g, slope %g", hidden, i,
                  (double)b.gradient[i], slope);
    }
    bench_end(&b);
}

Test(parameter_server_model, gradient_of_softmax_regression_is_the_slope_of_the_loss)
{
    check_gradient(0);
}

Test(parameter_server_model, gradient_of_the_mlp_is_the_slope_of_the_loss)
{
    check_gradient(6);
}

Test(parameter_server_model, loss_of_equal_scores_is_the_logarithm_of_the_classes)
{
    struct bench b;
    double loss;

    bench_begin(&b, 6);
    memset(b.weights, 0, b.parameters * sizeof(float));
    loss = model_gradient(&b.model, b.weights, &b.batch, b.activations, b.gradient);
    cr_assert_float_eq(loss / ROWS, log(CLASSES), 1e-6);
    bench_end(&b);
}

Test(parameter_server_model, huge_scores_do_not_overflow)
{
    struct bench b;
    double loss;

    bench_begin(&b, 0);
    for (size_t i = 0; i < b.parameters; i++)
        b.weights[i] *= 1e4f;
    loss = model_gradient(&b.model, b.weights, &b.batch, b.activations, b.gradient);
    cr_assert(isfinite(loss) && loss > 0);
    for (size_t i = 0; i < b.parameters; i++)
        cr_assert(isfinite(b.gradient[i]));
    bench_end(&b);
}

/* Layers wider than a tile, against the definition. */
Test(parameter_server_model, wide_layers_are_what_the_definition_says)
{
    const struct dense layer = {9, 600};
    float *p = malloc(dense_parameters(layer) * sizeof(float));
    float *y = malloc(3 * layer.outputs * sizeof(float));
    float x[27];

    cr_assert(p && y);
    for (size_t i = 0; i < dense_parameters(layer); i++)
        p[i] = (float)(i % 19) - 9.0f;
    for (size_t i = 0; i < 27; i++)
        x[i] = i % 3 ? (float)i / 8.0f : 0.0f;
    dense_forward(layer, p, x, 3, y);
    for (size_t r = 0; r < 3; r++) {
        for (size_t j = 0; j < layer.outputs; j++) {
            double sum = p[layer.inputs * layer.outputs + j];

            for (size_t k = 0; k < layer.inputs; k++)
                sum += (double)x[r * layer.inputs + k] * (double)p[k * layer.outputs + j];
            cr_assert_float_eq(y[r * layer.outputs + j], sum, 1e-3);
        }
    }
    free(p);
    free(y);
}

Test(parameter_server_model, initial_weights_are_bounded_and_differ_by_seed)
{
    const struct model model = {100, 50, 10};
    double sum = 0;
    size_t same = 0;

    cr_assert_eq(model_parameters(&model), 101 * 50 + 51 * 10);
    for (size_t i = 0; i < 5000; i++) {
        float w = model_initial(&model, 1, i);

        cr_assert(fabsf(w) <= sqrtf(6.0f / 100.0f));
        sum += (double)w;
        same += w == model_initial(&model, 2, i);
    }
    cr_assert_lt(fabs(sum / 5000), 0.01);
    cr_assert_lt(same, 5);
    for (size_t i = 5000; i < 5050; i++)
        cr_assert_eq(model_initial(&model, 1, i), 0.0f, "a bias");
}

Test(parameter_server_sgd, ranges_cover_the_whole_in_order_and_nearly_equal)
{
    for (size_t whole = 0; whole < 40; whole++) {
        for (size_t parts = 1; parts < 9; parts++) {
            size_t next = 0;

            for (size_t p = 0; p < parts; p++) {
                struct range range = range_of(whole, p, parts);

                cr_assert_eq(range.first, next);
                cr_assert(range.count == whole / parts || range.count == whole / parts + 1);
                next += range.count;
            }
            cr_assert_eq(next, whole);
        }
    }
}

Test(parameter_server_sgd, a_step_adds_in_rank_order_and_slows_down_to_the_end)
{
    const struct sgd sgd = {.rate = 0.5f, .momentum = 0.5f, .steps = 4, .batch = 2};
    /* 1e8 + 1 - 1e8 in float is 0 in this order, 1 in others */
    const float a[2] = {1e8f, 2}, b[2] = {1, 2}, c[2] = {-1e8f, 4};
    const struct gradients sum = {(const float *const[]){a, b, c}, 3, 2};
    float velocity[2] = {0, 2}, weights[2] = {10, 10};
    const struct sgd_state state = {velocity, weights, 2};

    sgd_step(&sgd, 0, &sum, &state);
    cr_assert(weights[0] == 10.0f && velocity[0] == 0.0f);
    cr_assert_float_eq(velocity[1], 0.5 * 2 + 8.0 / 2, 1e-6);
    cr_assert_float_eq(weights[1], 10 - 0.5 * 5, 1e-6);
    sgd_step(&sgd, 3, &sum, &state);
    cr_assert_float_eq(weights[1], 7.5 - 0.5 * 0.25 * 6.5, 1e-5);
}

/* Shards are a matter of where, not of what: a cut anywhere gives the same bits. */
Test(parameter_server_sgd, shards_give_the_bits_of_the_whole)
{
    const struct sgd sgd = {.rate = 0.1f, .momentum = 0.9f, .steps = 9, .batch = 32};
    float gradients[2][37], velocity[2][37] = {{0}}, weights[2][37] = {{0}};

    for (size_t i = 0; i < 37; i++)
        for (size_t r = 0; r < 2; r++)
            gradients[r][i] = (float)(i * 13 % 17) / (float)(r + 3);
    sgd_step(&sgd, 2,
             &(struct gradients){(const float *const[]){gradients[0], gradients[1]}, 2, 32},
             &(struct sgd_state){velocity[0], weights[0], 37});
    for (size_t part = 0; part < 3; part++) {
        struct range range = range_of(37, part, 3);
        const float *parts[2] = {gradients[0] + range.first, gradients[1] + range.first};

        sgd_step(&sgd, 2, &(struct gradients){parts, 2, 32},
                 &(struct sgd_state){velocity[1] + range.first, weights[1] + range.first,
                                     range.count});
    }
    cr_assert_eq(memcmp(weights[0], weights[1], sizeof(weights[0])), 0);
    cr_assert_neq(weights[0][5], 0.0f);
}
