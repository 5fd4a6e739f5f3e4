/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - one end of one measurement, whoever's it is: what the driver tells it, where it runs, and the figure that a client prints.
 * C and C++; knows nothing of what is measured.
 *
 * A server prints "ready ADDRESS" once it can be reached and serves until it is killed. A client keeps calls in flight, tells the
 * window of each answer, and stops when the window has closed; bench_window_end then prints one line for the driver.
 */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
#define BENCH_NORETURN [[noreturn]]
extern "C" {
#else
#define BENCH_NORETURN _Noreturn
#endif

enum bench_regime {
    BENCH_FREE, /* ends sleep; the scheduler places them */
    BENCH_PIN,  /* ends sleep; all threads of both on one CPU, so that no idle CPU has to wake up */
    BENCH_POLL, /* ends never sleep; a CPU each */
    BENCH_REGIMES
};
extern const char *const bench_regime_names[BENCH_REGIMES];

struct bench_options {
    const char *program; /* argv[0] */
    const char *role;    /* "server" or "client"; NULL: driver */
    const char *shape;   /* of peers: "unary" (an echo) or "tensor" (one way, a small answer) */
    const char *certs;   /* folder: ca.pem server.pem server.key client.pem client.key */
    const char *link;    /* "local", "tcp" or "verbs"; driver: NULL for the first two */
    const char *address; /* where to listen or whom to call; driver: where servers shall listen */
    int regime;          /* driver: -1 for all */
    bool alone;          /* driver: without gRPC and raw sockets */
    uint64_t bytes;      /* payload of a call; driver: 0 for the program's points */
    uint32_t outstanding;
    double seconds; /* of one measurement */
    int rounds;
    pid_t server;          /* whose CPU time a client adds to its own; 0: nobody's */
    const char *server_by; /* driver: a program that starts servers elsewhere */
};

/* Ends the program with a usage text when they make no sense. */
void bench_options_parse(struct bench_options *options, int argc, char **argv);

/* One measurement's outcome, as a client prints and the driver reads it. All double. */
struct bench_figure {
    double p50_us, p99_us;
    double calls_per_s;
    double gb_per_s;    /* payload counted once */
    double cpu_s;       /* of both ends, per call */
    double others_cpus; /* what the rest of the machine used meanwhile */
};

double bench_now_s(void);
double bench_percentile(double *samples, size_t n, double p); /* sorts */

/* Puts this process where its regime says. */
void bench_place(const struct bench_options *options);

/* How many distinct buffers a client of tensors sends in turn: 256 MiB in all, more than any cache, at least two. */
uint32_t bench_sources(uint64_t bytes);

void bench_ready(const char *address);
BENCH_NORETURN void bench_die(const char *what, const char *why);

/* A stretch of steady traffic: it opens after a warm-up, in which all memory was in use before, at an answer, and closes at a later one. */
struct bench_window {
    const struct bench_options *options;
    double now_s; /* of the last answer: when the call that replaces it begins */
    double warm_s, begun_s, until_s, ended_s;
    double cpu_s, busy_s;
    double *samples;
    size_t warm_calls, calls;
};
void bench_window_begin(struct bench_window *window, const struct bench_options *options);

/* A call was answered that began at `begun_s`. True: another may begin, at window->now_s. */
bool bench_answered(struct bench_window *window, double begun_s);

/* Prints the figure. */
void bench_window_end(struct bench_window *window);

#ifdef __cplusplus
}
#endif

#endif
