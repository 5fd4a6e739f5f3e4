/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.c - batches, parts of batches, and judging. */
#include "trainer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    JUDGED_AT_ONCE = 128,
    THROUGHPUT_FLOATS = 16 << 20 /* of each shard: 64 MiB */
};

double clock_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool load(const struct options *options, struct dataset *dataset)
{
    char error[512];
    bool good;

    if (options->synthetic)
        good = dataset_synthetic(error, dataset);
    else if (options->idx[0])
        good = dataset_read_files(options->idx, error, dataset);
    else
        good = dataset_read(options->data, error, dataset);
    if (!good)
        (void)fprintf(
            stderr, "cannot use the data: %s%s\n", error,
            options->synthetic || options->idx[0]
                ? ""
                : " (apt-get install dataset-fashion-mnist, or --data DIR, or --synthetic)");
    return good;
}

static size_t hidden_of(const struct options *o, size_t inputs, size_t classes)
{
    size_t each = inputs + 1 + classes; /* parameters of one hidden unit */

    if (strcmp(o->model, "softmax") == 0)
        return 0;
    return o->throughput ? (THROUGHPUT_FLOATS * o->shards + each - 1) / each : o->hidden;
}

static bool plan(struct trainer *t)
{
    const struct options *o = t->options;
    const struct examples *train = &t->dataset.train;
    uint64_t gradients = o->asynchronous ? o->workers : 1; /* steps of one batch */
    uint64_t batches;

    t->model = (struct model){.inputs = train->pixels,
                              .hidden = hidden_of(o, train->pixels, train->classes),
                              .classes = train->classes};
    t->parameters = model_parameters(&t->model);
    t->batches_per_epoch = train->count / o->batch; /* the rest of an epoch sits out */
    t->steps_per_epoch = t->batches_per_epoch * gradients;
    if (t->batches_per_epoch == 0) {
        (void)fprintf(stderr, "--batch %llu is more than the %zu training images\n",
                      (unsigned long long)o->batch, train->count);
        return false;
    }
    batches = o->epochs * t->batches_per_epoch;
    if (o->steps > 0 && o->steps < batches)
        batches = o->steps;
    t->sgd = (struct sgd){.rate = (float)o->rate,
                          .momentum = (float)o->momentum,
                          .steps = batches * gradients,
                          .batch = o->batch};
    t->order_epoch = UINT64_MAX;
    return true;
}

static bool allocate(struct trainer *t)
{
    size_t part = t->sgd.batch / t->options->workers + 1; /* a worker's, at most */
    size_t rows = part > JUDGED_AT_ONCE ? part : JUDGED_AT_ONCE;
    size_t images = t->dataset.train.count > t->dataset.test.count ? t->dataset.train.count
                                                                   : t->dataset.test.count;

    t->weights = malloc(t->parameters * sizeof(float));
    t->gradient = malloc(t->parameters * sizeof(float));
    t->activations = activations_new(&t->model, rows);
    t->x = malloc(rows * t->model.inputs * sizeof(float));
    t->labels = malloc(rows);
    t->order = malloc(images * sizeof(uint32_t));
    if (t->weights && t->gradient && t->activations && t->x && t->labels && t->order)
        return true;
    (void)fprintf(stderr, "no memory for a model of %zu parameters\n", t->parameters);
    return false;
}

bool trainer_new(const struct options *options, struct trainer *trainer_p)
{
    struct trainer t = {.options = options};

    if (!load(options, &t.dataset))
        return false;
    if (!plan(&t) || !allocate(&t)) {
        trainer_free(&t);
        return false;
    }
    for (size_t i = 0; i < t.parameters; i++)
        t.weights[i] = model_initial(&t.model, options->seed, i);
    *trainer_p = t;
    return true;
}

void trainer_free(struct trainer *trainer)
{
    dataset_free(&trainer->dataset);
    free(trainer->weights);
    free(trainer->gradient);
    activations_free(trainer->activations);
    free(trainer->x);
    free(trainer->labels);
    free(trainer->order);
    *trainer = (struct trainer){0};
}

void trainer_start(struct trainer *trainer, uint64_t step)
{
    trainer->step = step;
    trainer->began_s = clock_s();
}

bool trainer_more(const struct trainer *trainer)
{
    return trainer->step < trainer->sgd.steps;
}

size_t trainer_examples(const struct trainer *t, size_t rank)
{
    return range_of(t->sgd.batch, rank, t->options->workers).count;
}

double trainer_gradient(struct trainer *t, uint64_t index, size_t rank)
{
    uint64_t epoch = index / t->batches_per_epoch;
    size_t batch_first = index % t->batches_per_epoch * t->sgd.batch;
    struct batch batch;
    struct range part = range_of(t->sgd.batch, rank, t->options->workers);

    if (t->order_epoch != epoch) {
        examples_shuffle(t->options->seed, epoch, t->dataset.train.count, t->order);
        t->order_epoch = epoch;
    }
    examples_gather(&t->dataset.train, t->order + batch_first + part.first, part.count, t->x,
                    t->labels);
    batch = (struct batch){t->x, t->labels, part.count};
    return model_gradient(&t->model, t->weights, &batch, t->activations, t->gradient);
}

bool trainer_goes_on(struct trainer *t, uint64_t step, double loss)
{
    bool crossed = step / t->steps_per_epoch != t->step / t->steps_per_epoch;

    t->loss_sum += loss;
    t->loss_steps++;
    t->loss = t->loss_sum / (double)t->loss_steps;
    t->step = step;
    if (!crossed && step < t->sgd.steps)
        return false;
    t->loss_sum = 0;
    t->loss_steps = 0;
    return true;
}

double trainer_accuracy(struct trainer *t)
{
    size_t count = t->dataset.test.count, correct = 0;

    if (t->options->test > 0 && t->options->test < count)
        count = t->options->test;
    for (size_t i = 0; i < count; i++)
        t->order[i] = (uint32_t)i;
    t->order_epoch = UINT64_MAX; /* the order was overwritten */
    for (size_t at = 0; at < count; at += JUDGED_AT_ONCE) {
        struct batch batch;
        size_t rows = count - at < JUDGED_AT_ONCE ? count - at : JUDGED_AT_ONCE;

        examples_gather(&t->dataset.test, t->order + at, rows, t->x, t->labels);
        batch = (struct batch){t->x, t->labels, rows};
        correct += model_correct(&t->model, t->weights, &batch, t->activations);
    }
    return (double)correct / (double)count;
}

bool trainer_save(const struct trainer *t)
{
    const char *path = t->options->weights;
    size_t written;
    FILE *file;

    if (!path)
        return true;
    file = fopen(path, "wb");
    written = file ? fwrite(t->weights, sizeof(float), t->parameters, file) : 0;
    if (file && fclose(file) == 0 && written == t->parameters)
        return true;
    (void)fprintf(stderr, "cannot write the weights to %s: %s\n", path, strerror(errno));
    return false;
}
