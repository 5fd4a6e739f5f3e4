/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - the lines that a training prints. Figures first, words after, one line an epoch. */
#include "progress.h"

#include <errno.h>
#include <string.h>

static void print_bytes(const char *before, uint64_t bytes, const char *after)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;

    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    (void)printf("%s%.*f %s%s", before, unit ? 1 : 0, value, units[unit], after);
}

/* What worker 0 moved so far, on all its lanes. */
static void print_carriage(const struct carriage *carriage)
{
    if (carriage->shards > 0) {
        print_bytes("  sealed ", carriage->sealed_bytes, "");
        print_bytes("  opened ", carriage->opened_bytes, "");
        (void)printf("  %s over %s", carriage->aead, carriage->link);
    }
    (void)printf("\n");
}

bool progress_open(struct progress *progress, const struct trainer *t, bool fresh)
{
    const char *path = t->options->csv;

    *progress =
        (struct progress){.open = true, .last_s = clock_s(), .last_step = t->step, .accuracy = -1};
    if (path && !(progress->csv = fopen(path, fresh ? "w" : "a"))) {
        (void)fprintf(stderr, "cannot write the learning curve to %s: %s\n", path, strerror(errno));
        return false;
    }
    if (progress->csv && ftell(progress->csv) == 0)
        (void)fprintf(progress->csv,
                      "epoch,step,loss,test_accuracy,seconds,steps_per_s,sealed_bytes,"
                      "opened_bytes,aead,link\n");
    return true;
}

void progress_introduce(const struct trainer *t)
{
    (void)printf("training %s on %s: %zu images of %zu pixels, %zu classes; ",
                 t->model.hidden ? "an mlp" : "softmax regression", t->dataset.name,
                 t->dataset.train.count, t->model.inputs, t->model.classes);
    (void)printf("%zu parameters, %llu %s of %zu images\n", t->parameters,
                 (unsigned long long)t->sgd.steps,
                 t->options->asynchronous ? "steps, each by one worker's part" : "steps",
                 t->sgd.batch);
    (void)fflush(stdout);
}

void progress_epoch(struct progress *progress, struct trainer *t, const struct carriage *carriage)
{
    double now = clock_s();
    double rate = (double)(t->step - progress->last_step) / (now - progress->last_s);
    double epoch = (double)t->step / (double)t->steps_per_epoch;

    progress->accuracy = trainer_accuracy(t);
    (void)printf("epoch %-5.4g loss %.4f  test accuracy %.4f  %7.1f steps/s  %5.1f s", epoch,
                 t->loss, progress->accuracy, rate, now - t->began_s);
    print_carriage(carriage);
    (void)fflush(stdout);
    if (progress->csv) {
        (void)fprintf(progress->csv, "%.6g,%llu,%.6f,%.4f,%.3f,%.1f,%llu,%llu,%s,%s\n", epoch,
                      (unsigned long long)t->step, t->loss, progress->accuracy, now - t->began_s,
                      rate, (unsigned long long)carriage->sealed_bytes,
                      (unsigned long long)carriage->opened_bytes, carriage->aead, carriage->link);
        (void)fflush(progress->csv);
    }
    progress->last_s = clock_s();
    progress->last_step = t->step;
}

static bool close_csv(struct progress *progress, const char *path)
{
    bool good;

    if (!progress->csv)
        return true;
    good = !ferror(progress->csv);
    good = fclose(progress->csv) == 0 && good;
    progress->csv = NULL;
    if (!good)
        (void)fprintf(stderr, "the learning curve in %s is not whole: %s\n", path, strerror(errno));
    return good;
}

void progress_speed(const char *who, const struct carriage *carriage)
{
    (void)printf("%s: pushed ", who);
    print_bytes("", carriage->pushed_bytes, "");
    (void)printf(" at %.2f GB/s, pulled ", carriage->push_speed / 1e9);
    print_bytes("", carriage->pulled_bytes, "");
    (void)printf(" at %.2f GB/s, sealed with %s over %s\n", carriage->pull_speed / 1e9,
                 carriage->aead, carriage->link);
    (void)fflush(stdout);
}

static void print_throughput(const struct trainer *t, const struct carriage *carriage)
{
    char who[32];

    if (carriage->pushed_bytes == 0)
        return;
    (void)snprintf(who, sizeof(who), "worker %llu", (unsigned long long)t->options->rank);
    progress_speed(who, carriage);
    print_bytes("throughput: tensors of ", t->parameters * sizeof(float) / carriage->shards, "");
    (void)printf(", all workers together: pushes %.2f GB/s, pulls %.2f GB/s\n",
                 carriage->all_push_speed / 1e9, carriage->all_pull_speed / 1e9);
}

bool progress_end(struct progress *progress, struct trainer *t, const struct carriage *carriage,
                  bool interrupted)
{
    if (progress->last_step != t->step || progress->accuracy < 0)
        progress_epoch(progress, t, carriage);
    print_throughput(t, carriage);
    if (interrupted)
        (void)printf("interrupted at step %llu of %llu: ", (unsigned long long)t->step,
                     (unsigned long long)t->sgd.steps);
    else
        (void)printf("result: ");
    (void)printf("test accuracy %.4f, ", progress->accuracy);
    if (carriage->shards > 0)
        (void)printf("%zu shard%s, %llu worker%s, sealed with %s over %s\n", carriage->shards,
                     carriage->shards == 1 ? "" : "s", (unsigned long long)t->options->workers,
                     t->options->workers == 1 ? "" : "s", carriage->aead, carriage->link);
    else
        (void)printf("in one process: nothing travelled\n");
    (void)fflush(stdout);
    return close_csv(progress, t->options->csv);
}
