/* SPDX-License-Identifier: Apache-2.0 */
/* alone.c - each step computes every worker's gradient in turn and applies what servers would. */
#include "alone.h"

#include "progress.h"
#include "stop.h"
#include "trainer.h"

#include <stdlib.h>

struct alone {
    struct trainer trainer;
    float *velocity;
    float **gradients; /* one for each worker */
};

static bool alone_new(const struct options *options, struct alone *alone)
{
    bool good;

    *alone = (struct alone){0};
    if (!trainer_new(options, &alone->trainer))
        return false;
    alone->velocity = calloc(alone->trainer.parameters, sizeof(float));
    alone->gradients = calloc(options->workers, sizeof(float *));
    good = alone->velocity && alone->gradients;
    for (size_t r = 0; good && r < options->workers; r++) {
        alone->gradients[r] = malloc(alone->trainer.parameters * sizeof(float));
        good = alone->gradients[r] != NULL;
    }
    if (!good)
        (void)fprintf(stderr, "no memory for the gradients of %llu workers\n",
                      (unsigned long long)options->workers);
    return good;
}

static void alone_free(struct alone *alone)
{
    for (size_t r = 0; alone->gradients && r < alone->trainer.options->workers; r++)
        free(alone->gradients[r]);
    free(alone->gradients);
    free(alone->velocity);
    trainer_free(&alone->trainer);
}

static double step(struct alone *alone)
{
    struct trainer *t = &alone->trainer;
    const size_t workers = t->options->workers;
    double loss = 0;

    for (size_t r = 0; r < workers; r++) {
        float *filled = t->gradient;

        loss += trainer_gradient(t, t->step, r);
        t->gradient = alone->gradients[r];
        alone->gradients[r] = filled;
    }
    sgd_step(&t->sgd, t->step,
             &(struct gradients){(const float *const *)alone->gradients, workers, t->sgd.batch},
             &(struct sgd_state){alone->velocity, t->weights, t->parameters});
    return loss / (double)t->sgd.batch;
}

static int course(struct alone *alone)
{
    static const struct carriage none = {.aead = "nothing", .link = "nothing"};
    struct trainer *t = &alone->trainer;
    struct progress progress;
    bool good;

    trainer_start(t, 0);
    if (!progress_open(&progress, t, true))
        return 1;
    progress_introduce(t);
    while (trainer_more(t) && !stop_signal())
        if (trainer_goes_on(t, t->step + 1, step(alone)))
            progress_epoch(&progress, t, &none);
    good = progress_end(&progress, t, &none, stop_signal() != 0);
    if (!trainer_save(t) || !good)
        return 1;
    return stop_signal() ? 128 + stop_signal() : 0;
}

int train_alone(const struct options *options)
{
    struct alone alone;
    int status = 1;

    stop_watch();
    if (alone_new(options, &alone))
        status = course(&alone);
    alone_free(&alone);
    return status;
}
