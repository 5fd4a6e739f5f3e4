/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - parameter-worker: one worker of a synchronous training. Worker 0 reports. */
#include "exchange.h"
#include "progress.h"
#include "stop.h"
#include "trainer.h"

struct worker {
    const struct options *options;
    struct trainer trainer;
    struct exchange exchange;
    struct progress progress;
    bool reports;
};

static void report(struct worker *worker)
{
    struct carriage carriage;

    if (!worker->reports)
        return;
    exchange_carriage(&worker->exchange, &carriage);
    progress_epoch(&worker->progress, &worker->trainer, &carriage);
}

static bool step(struct worker *worker)
{
    struct trainer *trainer = &worker->trainer;
    double loss = trainer_gradient(trainer, worker->options->rank);

    if (!exchange_step(&worker->exchange, trainer, &loss))
        return false;
    if (trainer_stepped(trainer, loss))
        report(worker);
    return true;
}

/* The result, also of a training that was interrupted. */
static bool end(struct worker *worker)
{
    struct carriage carriage;

    if (!worker->reports)
        return true;
    exchange_carriage(&worker->exchange, &carriage);
    if (!progress_end(&worker->progress, &worker->trainer, &carriage, stop_signal() != 0))
        return false;
    return trainer_save(&worker->trainer);
}

/* Main's status when the servers failed, or a signal came. */
static int given_up(struct worker *worker)
{
    exchange_explain(&worker->exchange);
    return stop_signal() ? 128 + stop_signal() : 1;
}

static int train(struct worker *worker)
{
    struct trainer *trainer = &worker->trainer;
    int status = 0;

    if (worker->reports && !progress_begin(&worker->progress, trainer))
        return 1;
    if (!exchange_join(&worker->exchange, trainer))
        return given_up(worker);
    trainer_start(trainer);
    while (trainer_more(trainer) && step(worker)) {
    }
    if (trainer_more(trainer))
        status = given_up(worker);
    if (status == 1 || !end(worker))
        return 1;
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct worker worker = {.options = &options};
    int status;

    options_parse(&options, PROGRAM_WORKER, argc, argv);
    worker.reports = options.rank == 0;
    stop_watch();
    if (!trainer_new(&options, &worker.trainer))
        return 1;
    if (exchange_open(&options, &worker.exchange))
        status = train(&worker);
    else
        status = given_up(&worker);
    exchange_close(&worker.exchange);
    trainer_free(&worker.trainer);
    return status;
}
