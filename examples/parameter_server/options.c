/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the table of options and what reads it. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEAD_AFTER_MS = 20000 /* at least */
};

enum kind {
    KIND_TEXT,
    KIND_LIST,
    KIND_COUNT,
    KIND_REAL,
    KIND_FLAG
};

struct row {
    const char *name, *value; /* value: what --help calls it; NULL for a flag */
    enum kind kind;
    unsigned programs;
    size_t at; /* in struct options */
    double least, most;
    const char *help;
};

#define AT(member) offsetof(struct options, member)

#define S PROGRAM_SERVER
#define W PROGRAM_WORKER
#define T PROGRAM_TRAIN

static const struct row rows[] = {
    {"--shards", "N", KIND_COUNT, T, AT(shards), 1, OPTIONS_LIST_MAX, "server processes (2)"},
    {"--workers", "N", KIND_COUNT, S | W | T, AT(workers), 1, 1024, "worker processes (4)"},
    {"--shard", "I", KIND_COUNT, S, AT(shard), 0, OPTIONS_LIST_MAX - 1,
     "which shard this is, from 0"},
    {"--of-shards", "N", KIND_COUNT, S, AT(shards), 1, OPTIONS_LIST_MAX, "of how many (1)"},
    {"--listen", "ADDRESS", KIND_TEXT, S, AT(listen), 0, 0,
     "host:port (port 0: a free one), unix:/path or unix-abstract:name"},
    {"--address-file", "FILE", KIND_TEXT, S, AT(address_file), 0, 0,
     "write there where it listens, with the real port"},
    {"--server", "ADDRESS", KIND_LIST, W, AT(servers), 0, 0,
     "a shard's address, or @FILE that says it; once for each, in order"},
    {"--address", "HOST:PORT", KIND_TEXT, T, AT(address), 0, 0,
     "servers listen there, each at the next port, or at free ones if 0 (unix sockets; tcp: 127.0.0.1:0)"},
    {"--link", "local|verbs|tcp", KIND_TEXT, S | W | T, AT(link), 0, 0,
     "carry everything over this link (the best)"},
    {"--rdma-device", "NAME[:PORT]", KIND_TEXT, S | W | T, AT(rdma_device), 0, 0,
     "the RDMA device that link verbs uses (any); sealane-info lists them"},
    {"--rank", "I", KIND_COUNT, W, AT(rank), 0, 1023,
     "which worker this is, from 0; worker 0 reports"},
    {"--certs", "DIR", KIND_TEXT, S | W | T, AT(certs), 0, 0,
     "ca.pem, server.pem .key, client.pem .key (worker-I.pem .key if there), as tools/make-certs.sh makes them"},
    {"--ca", "FILE", KIND_TEXT, S | W, AT(ca), 0, 0, "the authority, if not DIR/ca.pem"},
    {"--cert", "FILE", KIND_TEXT, S | W, AT(cert), 0, 0, "own certificate, if not of DIR"},
    {"--key", "FILE", KIND_TEXT, S | W, AT(key), 0, 0, "its key"},
    {"--server-name", "NAME", KIND_TEXT, W | T, AT(server_name), 0, 0,
     "what the servers' certificates must say (dns:localhost)"},
    {"--allow", "NAME", KIND_LIST, S | T, AT(allow), 0, 0,
     "accept only workers whose certificate says so, e.g. uri:spiffe://sealane.test/worker; repeatable"},
    {"--timeout-s", "N", KIND_COUNT, S | W | T, AT(timeout_s), 1, 86400,
     "seconds that workers may be apart, at the start and in a step, and all be gone (60)"},
    {"--mode", "sync|async", KIND_TEXT, S | W | T, AT(mode), 0, 0,
     "steps of all workers together, or of each when it likes (sync)"},
    {"--max-staleness", "N", KIND_COUNT, S | T, AT(max_staleness), 0, 1e9,
     "async: refuse gradients whose weights are more than N steps old (32)"},
    {"--restart", "N", KIND_COUNT, T, AT(restart), 0, 1e9,
     "start a worker that died again, up to N times each (0)"},
    {"--shape", "accuracy|throughput", KIND_TEXT, W | T, AT(shape), 0, 0,
     "throughput: tensors of 64 MiB for each shard, 10 steps, an example for each worker (accuracy)"},
    {"--data", "DIR", KIND_TEXT, W | T, AT(data), 0, 0,
     "folder of the four IDX files of a set like MNIST (/usr/share/datasets/fashion-mnist)"},
    {"--train-images", "FILE", KIND_TEXT, W | T, AT(idx[0]), 0, 0,
     "or the four files by name, gzipped or not"},
    {"--train-labels", "FILE", KIND_TEXT, W | T, AT(idx[1]), 0, 0, ""},
    {"--test-images", "FILE", KIND_TEXT, W | T, AT(idx[2]), 0, 0, ""},
    {"--test-labels", "FILE", KIND_TEXT, W | T, AT(idx[3]), 0, 0, ""},
    {"--synthetic", NULL, KIND_FLAG, W | T, AT(synthetic), 0, 0, "or a small built-in set"},
    {"--model", "mlp|softmax", KIND_TEXT, W | T, AT(model), 0, 0, "what is trained (mlp)"},
    {"--hidden", "N", KIND_COUNT, W | T, AT(hidden), 1, 1 << 22,
     "width of the mlp's hidden layer (128)"},
    {"--epochs", "N", KIND_COUNT, W | T, AT(epochs), 1, 1000000,
     "passes over the training set (8)"},
    {"--steps", "N", KIND_COUNT, W | T, AT(steps), 1, 1e15,
     "stop after N steps, whatever --epochs says"},
    {"--batch", "N", KIND_COUNT, W | T, AT(batch), 1, 1 << 20,
     "examples of a step, of all workers together (128)"},
    {"--lr", "X", KIND_REAL, W | T, AT(rate), 1e-12, 1e6,
     "learning rate at the start; falls to 0 (0.05)"},
    {"--momentum", "X", KIND_REAL, W | T, AT(momentum), 0, 0.9999, "of the gradients (0.9)"},
    {"--seed", "N", KIND_COUNT, W | T, AT(seed), 0, 9e15, "of weights and order (1)"},
    {"--test", "N", KIND_COUNT, W | T, AT(test), 1, 1e9, "judge by the first N test images only"},
    {"--csv", "FILE", KIND_TEXT, W | T, AT(csv), 0, 0, "write the learning curve there"},
    {"--weights", "FILE", KIND_TEXT, W | T, AT(weights), 0, 0,
     "write the final weights there: f32, in the CPU's byte order"},
    {"--verbose", NULL, KIND_FLAG, S | T, AT(verbose), 0, 0,
     "servers tell what protects each lane, as workers do anyway"},
    {"--alone", NULL, KIND_FLAG, T, AT(alone), 0, 0,
     "the same training in this one process, without servers: its weights are the reference"},
};

static const char usual_data[] = "/usr/share/datasets/fashion-mnist";

static const char *program_name(enum program program)
{
    return program == S   ? "parameter-server"
           : program == W ? "parameter-worker"
                          : "parameter-train";
}

static const char *program_purpose(enum program program)
{
    return program == S   ? "holds one shard of the weights for one training, then ends"
           : program == W ? "computes the gradient of its part of each batch"
                          : "runs servers and workers on this machine and trains a classifier";
}

static _Noreturn void help(enum program program)
{
    (void)printf("%s - %s\n\n", program_name(program), program_purpose(program));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char left[64];

        if (!(rows[i].programs & program))
            continue;
        (void)snprintf(left, sizeof(left), "%s %s", rows[i].name,
                       rows[i].value ? rows[i].value : "");
        (void)printf("  %-28s %s\n", left, rows[i].help);
    }
    exit(0);
}

__attribute__((format(printf, 2, 3))) static _Noreturn void wrong(enum program program,
                                                                  const char *format, ...)
{
    va_list args;

    (void)fprintf(stderr, "%s: ", program_name(program));
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, " (--help lists the options)\n");
    exit(2);
}

static const struct row *find(enum program program, const char *argument)
{
    size_t length = strcspn(argument, "=");

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if ((rows[i].programs & program) && strlen(rows[i].name) == length &&
            strncmp(argument, rows[i].name, length) == 0)
            return &rows[i];
    wrong(program, "there is no option %.*s", (int)length, argument);
}

static double number(enum program program, const struct row *row, const char *value)
{
    char *end;
    double x;

    errno = 0;
    x = strtod(value, &end);
    if (errno || end == value || *end || !isfinite(x) || (row->kind == KIND_COUNT && x != floor(x)))
        wrong(program, "%s \"%s\" is no %s", row->name, value,
              row->kind == KIND_COUNT ? "whole number" : "number");
    if (x < row->least || x > row->most)
        wrong(program, "%s %s is not within %g and %g", row->name, value, row->least, row->most);
    return x;
}

static void set(struct options *options, const struct row *row, const char *value)
{
    void *at = (char *)options + row->at;
    struct text_list *list = at;

    switch (row->kind) {
    case KIND_TEXT:
        *(const char **)at = value;
        return;
    case KIND_LIST:
        if (list->count == OPTIONS_LIST_MAX)
            wrong(options->program, "%s is given more than %d times", row->name, OPTIONS_LIST_MAX);
        list->texts[list->count++] = value;
        return;
    case KIND_COUNT:
        *(uint64_t *)at = (uint64_t)number(options->program, row, value);
        return;
    case KIND_REAL:
        *(double *)at = number(options->program, row, value);
        return;
    case KIND_FLAG:
        *(bool *)at = true;
        return;
    }
}

static void need(const struct options *options, const char *name, const void *value)
{
    if (!value)
        wrong(options->program, "--%s is missing", name);
}

static bool is_given(const struct options *options, const void *at)
{
    for (size_t i = 0; i < options->given_count; i++) {
        const struct row *row = options->given[i].row;

        if ((const char *)options + row->at == at)
            return true;
    }
    return false;
}

/* "a|b": true for b */
static bool choose(const struct options *options, const char *name, const char *value,
                   const char *const words[2])
{
    if (strcmp(value, words[0]) != 0 && strcmp(value, words[1]) != 0)
        wrong(options->program, "%s %s is neither %s nor %s", name, value, words[0], words[1]);
    return strcmp(value, words[1]) == 0;
}

/* Loopback has no RDMA device: where to listen is not ours to choose then. */
static void complete_link(struct options *options)
{
    const char *link = options->link;
    bool verbs = strcmp(link, "verbs") == 0, tcp = strcmp(link, "tcp") == 0;

    if (!verbs && !tcp && strcmp(link, "local") != 0)
        wrong(options->program, "--link %s is none of local, verbs and tcp", link);
    if (verbs && options->program == T && !options->alone && !options->address)
        wrong(options->program, "--link verbs needs --address HOST:PORT, of an RDMA device");
    if (tcp && !options->address)
        options->address = "127.0.0.1:0";
}

/* What follows from others, and what the shape decides unless it was given. */
static void complete(struct options *options)
{
    options->asynchronous =
        choose(options, "--mode", options->mode, (const char *const[]){"sync", "async"});
    options->throughput =
        choose(options, "--shape", options->shape, (const char *const[]){"accuracy", "throughput"});
    (void)choose(options, "--model", options->model, (const char *const[]){"softmax", "mlp"});
    if (options->link)
        complete_link(options);
    options->dead_after_ms = options->timeout_s * 1000 > DEAD_AFTER_MS
                                 ? (uint32_t)options->timeout_s * 1000
                                 : DEAD_AFTER_MS;
    if (options->program == W)
        options->shards = options->servers.count;
    if (!options->throughput)
        return;
    if (strcmp(options->model, "mlp") != 0 || is_given(options, &options->hidden))
        wrong(options->program, "--shape throughput decides on --model and --hidden itself");
    if (!is_given(options, &options->steps))
        options->steps = 10;
    if (!is_given(options, &options->batch))
        options->batch = options->workers;
    if (!is_given(options, &options->rate))
        options->rate = 1e-5; /* so wide a layer overshoots with more */
    if (!is_given(options, &options->test))
        options->test = 100;
    if (!is_given(options, &options->data) && !is_given(options, &options->idx[0]))
        options->synthetic = true;
}

static void check(const struct options *options)
{
    const enum program program = options->program;
    bool files = options->idx[0] || options->idx[1] || options->idx[2] || options->idx[3];

    if (!options->alone && !(options->ca && options->cert && options->key))
        need(options, program == T ? "certs" : "certs (or --ca, --cert and --key)", options->certs);
    if (options->address && !strrchr(options->address, ':'))
        wrong(program, "--address %s has no port", options->address);
    if (program == S)
        need(options, "listen", options->listen);
    if (program == S && options->shard >= options->shards)
        wrong(program, "--shard %llu is not below --of-shards %llu",
              (unsigned long long)options->shard, (unsigned long long)options->shards);
    if (program == W && options->servers.count == 0)
        wrong(program, "--server is missing");
    if (program == W && options->rank >= options->workers)
        wrong(program, "--rank %llu is not below --workers %llu", (unsigned long long)options->rank,
              (unsigned long long)options->workers);
    if (files && !(options->idx[0] && options->idx[1] && options->idx[2] && options->idx[3]))
        wrong(program,
              "--train-images, --train-labels, --test-images and --test-labels go together");
    if (options->synthetic && (files || options->data != usual_data))
        wrong(program, "--synthetic and data files exclude each other");
    if (options->alone && options->asynchronous)
        wrong(program, "--alone makes synchronous steps only");
    if (options->batch < options->workers)
        wrong(program, "--batch %llu leaves some of %llu workers without an example",
              (unsigned long long)options->batch, (unsigned long long)options->workers);
}

void options_parse(struct options *options, enum program program, int argc, char **argv)
{
    *options = (struct options){.program = program,
                                .server_name = "dns:localhost",
                                .shards = program == T ? 2 : 1,
                                .workers = 4,
                                .timeout_s = 60,
                                .mode = "sync",
                                .max_staleness = 32,
                                .shape = "accuracy",
                                .data = usual_data,
                                .model = "mlp",
                                .hidden = 128,
                                .epochs = 8,
                                .batch = 128,
                                .seed = 1,
                                .rate = 0.05,
                                .momentum = 0.9};
    for (int i = 1; i < argc; i++) {
        const struct row *row;
        const char *value;

        if (strcmp(argv[i], "--help") == 0)
            help(program);
        row = find(program, argv[i]);
        value = strchr(argv[i], '=');
        if (value && row->kind == KIND_FLAG)
            wrong(program, "%s takes no value", row->name);
        if (value)
            value++;
        else if (row->kind != KIND_FLAG && i + 1 < argc)
            value = argv[++i];
        else if (row->kind != KIND_FLAG)
            wrong(program, "%s needs a value: %s", row->name, row->value);
        if (options->given_count == OPTIONS_GIVEN_MAX)
            wrong(program, "more than %d options", OPTIONS_GIVEN_MAX);
        options->given[options->given_count++] = (struct given){row, value};
        set(options, row, value);
    }
    complete(options);
    check(options);
}

size_t options_forward(const struct options *options, enum program program,
                       const char *arguments[OPTIONS_ARGUMENTS_MAX], size_t count)
{
    for (size_t i = 0; i < options->given_count; i++) {
        const struct row *row = options->given[i].row;

        if (!(row->programs & program))
            continue;
        arguments[count++] = row->name;
        if (options->given[i].value)
            arguments[count++] = options->given[i].value;
    }
    return count;
}
