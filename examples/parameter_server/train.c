/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - parameter-train: a whole training on this machine, as processes that trust each other by certificates only. */
#include "alone.h"
#include "children.h"
#include "dataset.h"
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the shards listen: at --address, or at sockets in a folder that only this user can enter. The folder also holds the files in which
 * servers say which port is theirs. */
struct street {
    char folder[64];
    char listens[OPTIONS_LIST_MAX][128]; /* as servers are told … */
    char servers[OPTIONS_LIST_MAX][128]; /* … and as workers are */
    char files[OPTIONS_LIST_MAX][96];    /* in the folder */
    size_t count;
};

static void name_house(struct street *street, size_t i, const char *address)
{
    const char *colon = address ? strrchr(address, ':') : NULL;
    long port = colon ? strtol(colon + 1, NULL, 10) : 0;

    (void)snprintf(street->files[i], sizeof(street->files[i]), "%s/shard-%zu", street->folder, i);
    if (!address) {
        (void)snprintf(street->listens[i], 128, "unix:%s", street->files[i]);
        (void)snprintf(street->servers[i], 128, "%s", street->listens[i]);
        return;
    }
    (void)snprintf(street->listens[i], 128, "%.*s:%ld", (int)(colon - address), address,
                   port ? port + (long)i : 0);
    (void)snprintf(street->servers[i], 128, "@%s", street->files[i]);
}

static bool street_new(struct street *street, const struct options *options)
{
    *street = (struct street){.folder = "/tmp/parameter-train-XXXXXX", .count = options->shards};
    if (!mkdtemp(street->folder)) {
        (void)fprintf(stderr, "cannot make %s: %s\n", street->folder, strerror(errno));
        return false;
    }
    for (size_t i = 0; i < street->count; i++)
        name_house(street, i, options->address);
    return true;
}

static void street_free(const struct street *street)
{
    for (size_t i = 0; i < street->count; i++)
        (void)unlink(street->files[i]);
    if (rmdir(street->folder) != 0)
        (void)fprintf(stderr, "cannot remove %s: %s\n", street->folder, strerror(errno));
}

struct training {
    const struct options *options;
    const struct street *street;
    struct children children; /* servers first */
    uint64_t *restarts;       /* of each worker */
};

static bool start_server(struct training *training, size_t shard)
{
    const struct options *options = training->options;
    const char *arguments[OPTIONS_ARGUMENTS_MAX] = {NULL};
    char name[32], of[24];
    size_t count = options_forward(options, PROGRAM_SERVER, arguments, 0);

    (void)snprintf(name, sizeof(name), "shard %zu", shard);
    (void)snprintf(of, sizeof(of), "%llu", (unsigned long long)options->shards);
    arguments[count++] = "--listen";
    arguments[count++] = training->street->listens[shard];
    if (options->address) {
        arguments[count++] = "--address-file";
        arguments[count++] = training->street->files[shard];
    }
    arguments[count++] = "--of-shards";
    arguments[count++] = of;
    arguments[count++] = "--shard";
    arguments[count++] = name + strlen("shard ");
    return children_start(&training->children, name, "parameter-server", arguments) != NULL;
}

static bool start_worker(struct training *training, size_t rank)
{
    const char *arguments[OPTIONS_ARGUMENTS_MAX] = {NULL};
    char name[32];
    size_t count = options_forward(training->options, PROGRAM_WORKER, arguments, 0);
    struct child *child;

    (void)snprintf(name, sizeof(name), "worker %zu", rank);
    arguments[count++] = "--rank";
    arguments[count++] = name + strlen("worker ");
    for (size_t i = 0; i < training->street->count; i++) {
        arguments[count++] = "--server";
        arguments[count++] = training->street->servers[i];
    }
    child = children_start(&training->children, name, "parameter-worker", arguments);
    if (child)
        child->expendable = true;
    return child != NULL;
}

/* Somebody still works, or has seen the end. */
static bool is_carried_on(const struct children *children)
{
    for (size_t i = 0; i < children->count; i++)
        if (children->all[i].expendable && (children->all[i].pid > 0 || children->all[i].succeeded))
            return true;
    return false;
}

static bool worker_lost(void *user, const struct child *child)
{
    struct training *training = user;
    size_t rank = (size_t)(child - training->children.all) - training->options->shards;

    if (training->restarts[rank] < training->options->restart) {
        training->restarts[rank]++;
        (void)fprintf(stderr, "%s is started again (%llu of %llu)\n", child->name,
                      (unsigned long long)training->restarts[rank],
                      (unsigned long long)training->options->restart);
        return start_worker(training, rank);
    }
    if (!is_carried_on(&training->children)) {
        (void)fprintf(stderr, "no worker is left\n");
        return false;
    }
    (void)fprintf(stderr, "the training goes on without %s\n", child->name);
    return true;
}

static int train(const struct options *options, const struct street *street)
{
    struct training training = {.options = options, .street = street};
    int status = 1;
    bool good = children_new(options->shards + options->workers, &training.children);

    training.restarts = calloc(options->workers, sizeof(*training.restarts));
    good = good && training.restarts;
    for (size_t i = 0; good && i < options->shards; i++)
        good = start_server(&training, i);
    for (size_t r = 0; good && r < options->workers; r++)
        good = start_worker(&training, r);
    if (good)
        status = children_wait(&training.children, worker_lost, &training);
    children_free(&training.children);
    free(training.restarts);
    return status;
}

/* Told once and at once, not by every worker. */
static bool data_is_there(const struct options *options)
{
    char error[512];

    if (options->synthetic || dataset_is_there(options->data, options->idx, error))
        return true;
    (void)fprintf(
        stderr,
        "parameter-train: no data: %s (apt-get install dataset-fashion-mnist, or --data DIR, or --synthetic)\n",
        error);
    return false;
}

int main(int argc, char **argv)
{
    struct options options;
    struct street street;
    int status;

    options_parse(&options, PROGRAM_TRAIN, argc, argv);
    if (!data_is_there(&options))
        return 1;
    if (options.alone)
        return train_alone(&options);
    if (!street_new(&street, &options))
        return 1;
    status = train(&options, &street);
    street_free(&street);
    return status;
}
