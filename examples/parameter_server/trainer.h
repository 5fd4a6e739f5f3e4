/* SPDX-License-Identifier: Apache-2.0 */
/* trainer.h - the course of a training: which examples come when, this process's part of a gradient, and how good the weights are.
 *
 *   while (trainer_more(t)) {
 *       loss = trainer_gradient(t, batch, rank);  fills t->gradient
 *       ... exchange: t->weights become those for a later step ...
 *       if (trainer_goes_on(t, step, mean loss)) report      an epoch, or the training, ended
 *   }
 *
 * A step is what changes the weights once: a whole batch, or in asynchronous training one worker's part of one.
 */
#ifndef PARAMETER_SERVER_TRAINER_H
#define PARAMETER_SERVER_TRAINER_H

#include "dataset.h"
#include "model.h"
#include "options.h"
#include "sgd.h"

struct trainer {
    const struct options *options; /* borrowed */
    struct dataset dataset;
    struct model model;
    struct sgd sgd;
    size_t parameters;
    float *weights, *gradient; /* `parameters` each */

    uint64_t step; /* done so far */
    uint64_t steps_per_epoch, batches_per_epoch;
    double loss;    /* mean of the steps since the last report */
    double began_s; /* when training began; trainer_start */

    struct activations *activations;
    float *x;
    uint8_t *labels;
    uint32_t *order;
    uint64_t order_epoch; /* whose order that is */
    double loss_sum;
    uint64_t loss_steps; /* in it */
};

/* Reads the data, makes the weights. Prints why and returns false when it cannot; then nothing is to be freed. */
bool trainer_new(const struct options *options, struct trainer *trainer_p);
void trainer_free(struct trainer *trainer);

/* The clock starts; t->weights are those for `step`. */
void trainer_start(struct trainer *trainer, uint64_t step);
bool trainer_more(const struct trainer *trainer);

/* How many examples of each batch are worker `rank`'s. */
size_t trainer_examples(const struct trainer *trainer, size_t rank);

/* The gradient of worker `rank`'s part of batch `index`, counted from the first of the first epoch. Returns the sum of its losses. */
double trainer_gradient(struct trainer *trainer, uint64_t index, size_t rank);

/* t->weights are those for `step`; `loss` is a mean over examples. True when an epoch or the training ended on the way there:
 * trainer->loss is then the mean since the last time. */
bool trainer_goes_on(struct trainer *trainer, uint64_t step, double loss);

/* Share of the test images that the weights classify right. */
double trainer_accuracy(struct trainer *trainer);

/* Writes the weights where --weights says, if it does. Prints why and returns false when it cannot. */
bool trainer_save(const struct trainer *trainer);

/* Seconds of a clock that never jumps. */
double clock_s(void);

#endif
