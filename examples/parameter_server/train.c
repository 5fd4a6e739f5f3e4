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

/* Addresses of the shards: sockets in a folder that only this user can enter. */
struct street {
    char folder[64];
    char addresses[OPTIONS_LIST_MAX][96];
    size_t count;
};

static bool street_new(struct street *street, size_t shards)
{
    *street = (struct street){.folder = "/tmp/parameter-train-XXXXXX", .count = shards};
    if (!mkdtemp(street->folder)) {
        (void)fprintf(stderr, "cannot make %s: %s\n", street->folder, strerror(errno));
        return false;
    }
    for (size_t i = 0; i < shards; i++)
        (void)snprintf(street->addresses[i], sizeof(street->addresses[i]), "unix:%s/shard-%zu",
                       street->folder, i);
    return true;
}

static void street_free(const struct street *street)
{
    for (size_t i = 0; i < street->count; i++)
        (void)unlink(street->addresses[i] + strlen("unix:"));
    if (rmdir(street->folder) != 0)
        (void)fprintf(stderr, "cannot remove %s: %s\n", street->folder, strerror(errno));
}

static bool start_server(const struct options *options, const struct street *street, size_t shard,
                         struct children *children)
{
    const char *arguments[OPTIONS_ARGUMENTS_MAX] = {NULL};
    char name[32], of[24];
    size_t count = options_forward(options, PROGRAM_SERVER, arguments, 0);

    (void)snprintf(name, sizeof(name), "shard %zu", shard);
    (void)snprintf(of, sizeof(of), "%llu", (unsigned long long)options->shards);
    arguments[count++] = "--listen";
    arguments[count++] = street->addresses[shard];
    arguments[count++] = "--of-shards";
    arguments[count++] = of;
    arguments[count++] = "--shard";
    arguments[count++] = name + strlen("shard ");
    return children_start(children, name, "parameter-server", arguments);
}

static bool start_worker(const struct options *options, const struct street *street, size_t rank,
                         struct children *children)
{
    const char *arguments[OPTIONS_ARGUMENTS_MAX] = {NULL};
    char name[32];
    size_t count = options_forward(options, PROGRAM_WORKER, arguments, 0);

    (void)snprintf(name, sizeof(name), "worker %zu", rank);
    arguments[count++] = "--rank";
    arguments[count++] = name + strlen("worker ");
    for (size_t i = 0; i < street->count; i++) {
        arguments[count++] = "--server";
        arguments[count++] = street->addresses[i];
    }
    return children_start(children, name, "parameter-worker", arguments);
}

static int train(const struct options *options, const struct street *street)
{
    struct children children;
    int status = 1;
    bool good = children_new(options->shards + options->workers, &children);

    for (size_t i = 0; good && i < options->shards; i++)
        good = start_server(options, street, i, &children);
    for (size_t r = 0; good && r < options->workers; r++)
        good = start_worker(options, street, r, &children);
    if (good)
        status = children_wait(&children);
    children_free(&children);
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
    if (!street_new(&street, options.shards))
        return 1;
    status = train(&options, &street);
    street_free(&street);
    return status;
}
