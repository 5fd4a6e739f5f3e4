/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the command lines of parameter-server, parameter-worker and parameter-train. One table names every option, who takes
 * it and what it is without being given; --help prints it. */
#ifndef PARAMETER_SERVER_OPTIONS_H
#define PARAMETER_SERVER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum program {
    PROGRAM_SERVER = 1,
    PROGRAM_WORKER = 2,
    PROGRAM_TRAIN = 4
};

enum {
    OPTIONS_LIST_MAX = 64, /* shards, or allowed peers */
    OPTIONS_GIVEN_MAX = 256,
    OPTIONS_ARGUMENTS_MAX = 1024 /* what a child may be given: all of that and its own */
};

struct text_list {
    const char *texts[OPTIONS_LIST_MAX];
    size_t count;
};

struct options {
    enum program program;

    const char *certs, *ca, *cert, *key;
    const char *server_name;
    struct text_list allow; /* peers that a server accepts; none: any of the CA */

    const char *link;        /* NULL: the best */
    const char *rdma_device; /* NULL: any */
    const char *listen, *address_file;
    const char *address;      /* parameter-train: where its servers listen; NULL: unix sockets */
    struct text_list servers; /* in the order of shards */
    uint64_t shard, shards;
    uint64_t rank, workers;
    uint64_t timeout_s;
    uint32_t dead_after_ms; /* of lanes: a worker that computes does not poll, and is not dead */
    const char *mode;
    bool asynchronous; /* what mode says */
    uint64_t max_staleness;
    uint64_t restart;

    const char *data;
    const char *idx[4]; /* train images, train labels, test images, test labels */
    bool synthetic;
    const char *shape;
    bool throughput; /* what shape says */
    const char *model;
    uint64_t hidden, epochs, steps, batch, seed, test;
    double rate, momentum;

    const char *csv, *weights;
    bool alone;
    bool verbose; /* servers name their lanes, too */

    struct given { /* as they stood on the command line, for options_forward */
        const void *row;
        const char *value;
    } given[OPTIONS_GIVEN_MAX];
    size_t given_count;
};

/* Reads the command line. Prints and exits: 0 for --help, 2 for what is wrong. Texts are argv's. */
void options_parse(struct options *options, enum program program, int argc, char **argv);

/* Appends to arguments[count] what was given here and `program` takes too; returns the new count, at most
 * 2 * OPTIONS_GIVEN_MAX more. Texts are argv's. */
size_t options_forward(const struct options *options, enum program program,
                       const char *arguments[OPTIONS_ARGUMENTS_MAX], size_t count);

#endif
