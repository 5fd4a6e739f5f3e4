/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h - Sealane's two ends of a measurement: a server for both shapes, and a client that keeps calls of one shape in flight.
 *
 * A bench program is linked twice: with the product library and, under the same name with "-unsealed", with the separate bench
 * library that copies where the product seals, so that each figure stands beside its plaintext twin of the same minute.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench.sealane.h"
#include "driver.h"

/* Calls that are kept in flight. A program starts one with its own stub and, when it is answered, says so. */
struct bench_flights;
struct bench_flight {
    struct bench_flights *all;
    double begun_s;
};
struct bench_flights {
    const struct bench_options *options;
    struct sealane_credentials *credentials;
    struct sealane_node *node;
    struct sealane_channel *channel;
    enum sealane_status (*start)(struct bench_flight *flight);
    void *user; /* the program's */
    uint64_t launched;
    uint32_t flying;
    struct bench_window window;
};

/* A call was answered: another starts until the window has closed. Not good: the program ends. */
void bench_landed(struct bench_flight *flight, bool good);

/* A client's whole run: connects, keeps calls in flight, prints its figure. */
void bench_fly(struct bench_flights *flights);

/* The whole program: a server's or client's process, or the driver. */
int bench_main(const struct bench_program *program,
               int (*client)(const struct bench_options *options), int argc, char **argv);

#endif
