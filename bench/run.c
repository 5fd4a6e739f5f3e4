/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - options, placement and clocks of one end of a measurement. */
#include "run.h"

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SAMPLES_MAX = 4000000,
    SOURCE_BYTES = 256 << 20
};

const char *const bench_regime_names[BENCH_REGIMES] = {"free", "pin", "poll"};

void bench_die(const char *what, const char *why)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, why);
    exit(1);
}

static void usage(const char *program)
{
    (void)fprintf(
        stderr,
        "usage: %s --certs DIR [--link local|tcp|verbs] [--regime free|pin|poll] [--alone] [--bytes N] [--outstanding N]\n"
        "          [--seconds S] [--rounds N] [--address A] [--server-by PROGRAM]\n"
        "DIR holds ca.pem server.pem server.key client.pem client.key (tools/bench.sh makes them).\n"
        "Without --link local and tcp, without --regime all, without --bytes the program's own points; --alone leaves out gRPC and "
        "raw peers.\n"
        "--link verbs needs --address, the numeric address of an RDMA device's interface. PROGRAM starts servers elsewhere: it is run "
        "with\na server's command line, and what it prints is the server's. CPU is the client's alone then.\n",
        program);
    exit(2);
}

static int regime_of(const char *name)
{
    for (int i = 0; i < BENCH_REGIMES; i++) {
        if (strcmp(name, bench_regime_names[i]) == 0)
            return i;
    }
    return BENCH_REGIMES;
}

static const struct option known[] = {
    {"role", required_argument, NULL, 'r'},      {"shape", required_argument, NULL, 'h'},
    {"certs", required_argument, NULL, 'c'},     {"link", required_argument, NULL, 'l'},
    {"address", required_argument, NULL, 'a'},   {"regime", required_argument, NULL, 'g'},
    {"alone", no_argument, NULL, 'x'},           {"bytes", required_argument, NULL, 'b'},
    {"seconds", required_argument, NULL, 's'},   {"outstanding", required_argument, NULL, 'o'},
    {"rounds", required_argument, NULL, 'n'},    {"server", required_argument, NULL, 'p'},
    {"server-by", required_argument, NULL, 'y'}, {NULL, 0, NULL, 0},
};

static bool option_take(struct bench_options *options, int option)
{
    switch (option) {
    case 'r':
        options->role = optarg;
        return true;
    case 'h':
        options->shape = optarg;
        return true;
    case 'c':
        options->certs = optarg;
        return true;
    case 'l':
        options->link = optarg;
        return strcmp(optarg, "local") == 0 || strcmp(optarg, "tcp") == 0 ||
               strcmp(optarg, "verbs") == 0;
    case 'a':
        options->address = optarg;
        return true;
    case 'g':
        options->regime = regime_of(optarg);
        return options->regime < BENCH_REGIMES;
    case 'x':
        options->alone = true;
        return true;
    case 'b':
        options->bytes = strtoull(optarg, NULL, 0);
        return options->bytes > 0;
    case 'o':
        options->outstanding = (uint32_t)strtoul(optarg, NULL, 0);
        return options->outstanding > 0;
    case 's':
        options->seconds = strtod(optarg, NULL);
        return options->seconds > 0;
    case 'n':
        options->rounds = atoi(optarg);
        return options->rounds > 0;
    case 'p':
        options->server = (pid_t)atoi(optarg);
        return true;
    case 'y':
        options->server_by = optarg;
        return true;
    default:
        return false;
    }
}

void bench_options_parse(struct bench_options *options, int argc, char **argv)
{
    int option;

    *options = (struct bench_options){
        .program = argv[0], .regime = -1, .seconds = 0.25, .rounds = 5, .shape = "unary"};
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (!option_take(options, option))
            usage(argv[0]);
    }
    if (!options->certs || optind < argc)
        usage(argv[0]);
    if (options->role && (!options->address || options->regime < 0 || !options->link ||
                          options->bytes == 0 || options->outstanding == 0))
        usage(argv[0]);
    if (options->link && strcmp(options->link, "verbs") == 0 && !options->address)
        usage(argv[0]);
}

static void pin(long cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        bench_die("sched_setaffinity", "this CPU is not to be had");
}

void bench_place(const struct bench_options *options)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);

    if (options->regime == BENCH_PIN)
        pin(cpus - 1);
    else if (options->regime == BENCH_POLL)
        pin(strcmp(options->role, "server") == 0 ? 0 : cpus - 1);
}

uint32_t bench_sources(uint64_t bytes)
{
    uint64_t count = SOURCE_BYTES / bytes;

    return count > 2 ? (uint32_t)count : 2;
}

void bench_ready(const char *address)
{
    (void)printf("ready %s\n", address);
    (void)fflush(stdout);
}

/* ---- clocks ---- */

static double seconds_of(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) != 0)
        bench_die("clock_gettime", "the other end is gone");
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double bench_now_s(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

/* A server elsewhere (0) has its own clock. */
static double cpu_of_both_s(pid_t server)
{
    clockid_t clock;

    if (server == 0)
        return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (clock_getcpuclockid(server, &clock) != 0)
        bench_die("clock_getcpuclockid", "no such server");
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID) + seconds_of(clock);
}

/* CPU time that the whole machine used since it started, in steps of 10 ms. */
static double busy_s(void)
{
    unsigned long long user, nice, kernel, idle, wait, hard, soft, steal;
    FILE *file = fopen("/proc/stat", "r");
    int fields = 0;

    if (file) {
        fields = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &kernel,
                        &idle, &wait, &hard, &soft, &steal);
        (void)fclose(file);
    }
    if (fields != 8)
        return 0;
    return (double)(user + nice + kernel + hard + soft + steal) / (double)sysconf(_SC_CLK_TCK);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_percentile(double *samples, size_t n, double p)
{
    size_t at = (size_t)((double)n * p);

    qsort(samples, n, sizeof(*samples), compare_doubles);
    return samples[at < n ? at : n - 1];
}

/* ---- window ---- */

void bench_window_begin(struct bench_window *window, const struct bench_options *options)
{
    *window = (struct bench_window){.options = options, .now_s = bench_now_s()};
    window->warm_s = window->now_s + options->seconds / 2;
    window->samples = (double *)malloc(SAMPLES_MAX * sizeof(*window->samples));
    if (!window->samples)
        bench_die("malloc", "no memory");
}

static void window_open(struct bench_window *window)
{
    window->cpu_s = cpu_of_both_s(window->options->server);
    window->busy_s = busy_s();
    window->begun_s = window->now_s = bench_now_s();
    window->until_s = window->begun_s + window->options->seconds;
}

static void window_close(struct bench_window *window)
{
    window->ended_s = window->now_s;
    window->cpu_s = cpu_of_both_s(window->options->server) - window->cpu_s;
    window->busy_s = busy_s() - window->busy_s;
}

bool bench_answered(struct bench_window *window, double begun_s)
{
    window->now_s = bench_now_s();
    if (window->ended_s > 0)
        return false;
    if (window->begun_s == 0) {
        if (++window->warm_calls >= 3 * window->options->outstanding &&
            window->now_s >= window->warm_s)
            window_open(window);
        return true;
    }
    if (window->calls < SAMPLES_MAX)
        window->samples[window->calls] = window->now_s - begun_s;
    window->calls++;
    if (window->now_s >= window->until_s && window->calls >= 2 * window->options->outstanding)
        window_close(window);
    return window->ended_s == 0;
}

void bench_window_end(struct bench_window *window)
{
    double elapsed = window->ended_s - window->begun_s, calls = (double)window->calls;
    size_t samples = window->calls < SAMPLES_MAX ? window->calls : SAMPLES_MAX;

    (void)printf("figure %.17g %.17g %.17g %.17g %.17g %.17g\n",
                 bench_percentile(window->samples, samples, 0.5) * 1e6,
                 bench_percentile(window->samples, samples, 0.99) * 1e6, calls / elapsed,
                 calls * (double)window->options->bytes / elapsed * 1e-9, window->cpu_s / calls,
                 (window->busy_s - window->cpu_s) / elapsed);
    free(window->samples);
}
