/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h - what bench/unary and bench/tensor share: options, two processes pinned to two CPUs, the clock, medians.
 *
 * A bench program is linked twice: with the product library and, under the same name with "-unsealed", with the separate bench
 * library that copies where the product seals. The driver runs both in turn, several rounds, so that each figure stands beside its
 * plaintext twin of the same minute.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench.sealane.h"

#include <stdbool.h>
#include <stdint.h>

struct bench_options {
    const char *program; /* argv[0] */
    const char *role;    /* NULL: driver */
    const char *certs;   /* folder: ca.pem server.pem server.key client.pem client.key */
    const char *address;
    bool sleep;     /* both sides sleep on descriptors instead of polling */
    uint64_t bytes; /* payload of a call; 0: the program's series */
    uint32_t outstanding;
    double seconds; /* of one measurement */
    int rounds;
};

/* One measurement's outcome, as the client prints and the driver reads it. */
struct bench_figure {
    double p50_us, p99_us;
    double calls_per_s;
    double gb_per_s;     /* payload counted once */
    double cpu_s_per_gb; /* client and server together */
};

/* One row of a program's series. */
struct bench_point {
    uint64_t bytes;
    uint32_t outstanding; /* 0: as the option or the program says */
};

/* What is each program's own. */
struct bench_program {
    const struct bench_point *series;
    size_t points;
    uint32_t outstanding;                               /* when --outstanding is not given */
    void (*row)(const struct bench_options *options);   /* measures and prints one point */
    int (*client)(const struct bench_options *options); /* the client's process */
};

/* The whole program: a server's or client's process, or the driver, which measures one point (--bytes) or the series. */
int bench_main(const struct bench_program *program, int argc, char **argv);

struct bench_client {
    struct sealane_credentials *credentials;
    struct sealane_node *node;
    struct sealane_channel *channel;
};
double bench_now_s(void);
/* Calls that are kept in flight for a while. A program starts one with its own stub and, when it is answered, says so. */
struct bench_flights;
struct bench_flight {
    struct bench_flights *all;
    double begun;
};
struct bench_flights {
    struct bench_client client;
    const struct bench_options *options;
    enum sealane_status (*start)(struct bench_flight *flight);
    void *request; /* the program's */
    double *samples;
    size_t calls;
    uint32_t flying;
    double until;
    bool failed;
};

/* A call was answered: the next one starts until the time is up. */
void bench_landed(struct bench_flight *flight, bool good);

/* A client's whole run: connects, warms up, measures, prints its figure. Returns main's status. */
int bench_fly(struct bench_flights *flights);

/* Runs client and server of both variants, in turn. Median over rounds of each field, sealed and unsealed run in turn. */
void bench_compare(const struct bench_options *options, struct bench_figure *sealed,
                   struct bench_figure *unsealed);

#endif
