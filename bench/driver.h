/* SPDX-License-Identifier: Apache-2.0 */
/* driver.h - runs every contender in turn, several rounds, each with a fresh server and client process, and prints the medians and
 * what is asked of them. */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include "run.h"

/* Who is measured; the tables keep this order. */
enum bench_contender {
    BENCH_LOCAL,          /* Sealane over link_local */
    BENCH_LOCAL_UNSEALED, /* the same with a copy in the AEAD's place */
    BENCH_TCP,
    BENCH_TCP_UNSEALED,
    BENCH_VERBS,
    BENCH_VERBS_UNSEALED,
    BENCH_GRPC, /* TLS 1.3, mutual certificates; never polls: in regime poll it runs free */
    BENCH_RAW_TCP,
    BENCH_RAW_UNIX,
    BENCH_RAW_VERBS,
    BENCH_PERFTEST, /* ib_write_bw and, where regime poll means something, ib_write_lat */
    BENCH_CONTENDERS
};

enum {
    BENCH_POINTS_MAX = 8
};

struct bench_point {
    uint64_t bytes;
    uint32_t outstanding;
};

/* Medians of one regime; calls_per_s is 0 for who did not run. */
struct bench_table {
    int regime;
    const struct bench_point *points;
    size_t count;
    struct bench_figure figures[BENCH_POINTS_MAX][BENCH_CONTENDERS];
};

struct bench_program {
    const char *shape; /* "unary" or "tensor" */
    const struct bench_point *points;
    size_t count;
    uint32_t outstanding; /* when --bytes is given and --outstanding is not */
    void (*judge)(const struct bench_table *table); /* prints what is asked, after each regime */
};

void bench_drive(const struct bench_program *program, const struct bench_options *options, int argc,
                 char **argv);

/* One line: what is asked, what was seen. Nothing when one of the figures is missing (0). */
void bench_asked_most(const char *what, double seen, double most);
void bench_asked_least(const char *what, double seen, double least);

#endif
