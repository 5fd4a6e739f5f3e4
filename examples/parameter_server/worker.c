/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - parameter-worker: one worker of a training. The lowest rank that takes part reports. */
#include "exchange.h"
#include "progress.h"
#include "stop.h"
#include "trainer.h"

struct worker {
    const struct options *options;
    struct trainer trainer;
    struct exchange exchange;
    struct progress progress;
    uint64_t batch; /* the next one to compute; asynchronous */
};

static bool reports(const struct worker *worker)
{
    return worker->exchange.reporter == worker->options->rank;
}

/* A worker whose reporter died takes its file over. */
static bool open_progress(struct worker *worker, bool fresh)
{
    return worker->progress.open || progress_open(&worker->progress, &worker->trainer, fresh);
}

static bool report(struct worker *worker)
{
    struct carriage carriage;

    if (!reports(worker))
        return true;
    if (!open_progress(worker, false))
        return false;
    exchange_carriage(&worker->exchange, &carriage);
    progress_epoch(&worker->progress, &worker->trainer, &carriage);
    /* judging took its time, in which the others went on */
    return !worker->options->asynchronous || exchange_pull(&worker->exchange);
}

static bool step(struct worker *worker)
{
    struct trainer *trainer = &worker->trainer;
    struct exchange *exchange = &worker->exchange;
    uint64_t batch = worker->options->asynchronous ? worker->batch++ : trainer->step;
    double loss = trainer_gradient(trainer, batch, worker->options->rank);

    if (!exchange_push(exchange, trainer) || !exchange_settle(exchange, trainer, loss) ||
        !exchange_pull(exchange))
        return false;
    if (trainer_goes_on(trainer, exchange_step(exchange), exchange->loss))
        return report(worker);
    return true;
}

/* The result, also of a training that was interrupted. */
static bool end(struct worker *worker)
{
    struct carriage carriage;

    exchange_carriage(&worker->exchange, &carriage);
    if (!reports(worker)) {
        if (worker->options->throughput)
            progress_speed(worker->exchange.who, &carriage);
        return true;
    }
    if (!open_progress(worker, false) ||
        !progress_end(&worker->progress, &worker->trainer, &carriage, stop_signal() != 0))
        return false;
    return trainer_save(&worker->trainer);
}

/* Main's status when the servers failed, or a signal came. */
static int given_up(struct worker *worker)
{
    exchange_explain(&worker->exchange);
    return stop_signal() ? 128 + stop_signal() : 1;
}

static bool begin(struct worker *worker)
{
    struct trainer *trainer = &worker->trainer;
    uint64_t step;

    if (worker->options->rank == 0)
        progress_introduce(trainer);
    if (!exchange_join(&worker->exchange, trainer))
        return false;
    step = exchange_step(&worker->exchange);
    worker->batch = step / worker->options->workers;
    trainer_start(trainer, step);
    return !reports(worker) || open_progress(worker, step == 0);
}

static int train(struct worker *worker)
{
    struct trainer *trainer = &worker->trainer;
    int status = 0;

    if (!begin(worker))
        return given_up(worker);
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
