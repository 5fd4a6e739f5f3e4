/* SPDX-License-Identifier: Apache-2.0 */
/* driver.c - processes, rounds, medians and tables of bench/. */
#include "driver.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ROUNDS_MAX = 64
};

/* A program stands beside the driver; none: the driver's own, with this suffix. */
struct contender {
    const char *name, *program, *suffix, *link;
};

static const struct contender contenders[BENCH_CONTENDERS] = {
    [BENCH_LOCAL] = {"sealane local", NULL, "", "local"},
    [BENCH_LOCAL_UNSEALED] = {"  unsealed", NULL, "-unsealed", "local"},
    [BENCH_TCP] = {"sealane tcp", NULL, "", "tcp"},
    [BENCH_TCP_UNSEALED] = {"  unsealed", NULL, "-unsealed", "tcp"},
    [BENCH_VERBS] = {"sealane verbs", NULL, "", "verbs"},
    [BENCH_VERBS_UNSEALED] = {"  unsealed", NULL, "-unsealed", "verbs"},
    [BENCH_GRPC] = {"gRPC TLS 1.3 mutual", "grpc-peer", "", "tcp"},
    [BENCH_RAW_TCP] = {"raw TCP", "raw-peer", "", "tcp"},
    [BENCH_RAW_UNIX] = {"raw UNIX", "raw-peer", "", "local"},
    [BENCH_RAW_VERBS] = {"raw verbs", "verbs-peer", "", "verbs"},
    [BENCH_PERFTEST] = {"perftest", "perftest-peer", "", "verbs"},
};

static void program_path(const struct contender *who, const char *own, char *path, size_t size)
{
    const char *slash = strrchr(own, '/');
    int folder = slash ? (int)(slash - own) + 1 : 0;

    if (who->program)
        (void)snprintf(path, size, "%.*s%s", folder, own, who->program);
    else
        (void)snprintf(path, size, "%s%s", own, who->suffix);
}

static bool over_verbs(const char *link)
{
    return link && strcmp(link, "verbs") == 0;
}

/* perftest polls: its latency is one where both ends do. */
static bool takes_part(const struct contender *who, const struct bench_options *options)
{
    char path[600];

    if ((who->program && options->alone) || over_verbs(options->link) != over_verbs(who->link))
        return false;
    if (!who->program && options->link && strcmp(options->link, who->link) != 0)
        return false;
    if (who == &contenders[BENCH_PERFTEST] && strcmp(options->shape, "unary") == 0 &&
        (options->regime != BENCH_POLL || options->outstanding != 1))
        return false;
    program_path(who, options->program, path, sizeof(path));
    return access(path, X_OK) == 0;
}

/* ---- processes ---- */

/* What one end is told. */
struct order {
    const struct contender *who;
    const char *role, *address;
    pid_t server;
};

static bool is_elsewhere(const struct bench_options *options, const char *role)
{
    return options->server_by && strcmp(role, "server") == 0;
}

static _Noreturn void become(const struct bench_options *options, const struct order *order,
                             int out)
{
    char program[600], bytes[32], outstanding[32], seconds[32], server[32];
    int regime = options->regime;
    const char *arguments[] = {options->server_by,
                               program,
                               "--role",
                               order->role,
                               "--shape",
                               options->shape,
                               "--certs",
                               options->certs,
                               "--link",
                               order->who->link,
                               "--address",
                               order->address,
                               "--regime",
                               "",
                               "--bytes",
                               bytes,
                               "--outstanding",
                               outstanding,
                               "--seconds",
                               seconds,
                               "--server",
                               server,
                               NULL};
    const char **command = arguments + !is_elsewhere(options, order->role);

    if (order->who == &contenders[BENCH_GRPC] && regime == BENCH_POLL)
        regime = BENCH_FREE;
    arguments[13] = bench_regime_names[regime];
    program_path(order->who, options->program, program, sizeof(program));
    (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)options->bytes);
    (void)snprintf(outstanding, sizeof(outstanding), "%u", options->outstanding);
    (void)snprintf(seconds, sizeof(seconds), "%g", options->seconds);
    (void)snprintf(server, sizeof(server), "%d", (int)order->server);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(out, STDOUT_FILENO);
    (void)execv(*command, (char **)command);
    (void)fprintf(stderr, "bench: cannot run %s: %s\n", *command, strerror(errno));
    _exit(127);
}

/* Starts one end and waits for the line that it prints. */
static pid_t spawn(const struct bench_options *options, const struct order *order, char line[256])
{
    int out[2];
    FILE *file;
    pid_t pid;

    if (pipe(out) != 0)
        bench_die("pipe", strerror(errno));
    pid = fork();
    if (pid == 0)
        become(options, order, out[1]);
    (void)close(out[1]);
    file = fdopen(out[0], "r");
    if (pid < 0 || !file || !fgets(line, 256, file))
        bench_die(order->who->name, "an end stopped without a word");
    (void)fclose(file);
    line[strcspn(line, "\n")] = '\0';
    return pid;
}

static struct bench_figure run(const struct bench_options *options, const struct contender *who)
{
    struct bench_figure f;
    struct order order = {.who = who, .role = "server", .address = options->address};
    char name[64], ready[256], line[256];
    pid_t server, client;
    int status;

    (void)snprintf(name, sizeof(name), "%ssealane-bench-%d",
                   who->program ? "" : "unix-abstract:", (int)getpid());
    if (strcmp(who->link, "local") == 0)
        order.address = name;
    else if (!order.address)
        order.address = "127.0.0.1:0";
    server = spawn(options, &order, ready);
    if (strncmp(ready, "ready ", 6) != 0)
        bench_die(who->name, ready);
    order.server = is_elsewhere(options, order.role) ? 0 : server;
    order.role = "client";
    order.address = ready + 6;
    client = spawn(options, &order, line);
    (void)waitpid(client, &status, 0);
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    if (status != 0 || sscanf(line, "figure %lf %lf %lf %lf %lf %lf", &f.p50_us, &f.p99_us,
                              &f.calls_per_s, &f.gb_per_s, &f.cpu_s, &f.others_cpus) != 6)
        bench_die(who->name, line);
    return f;
}

/* ---- rounds ---- */

static int compare_others(const void *a, const void *b)
{
    double x = ((const struct bench_figure *)a)->others_cpus;
    double y = ((const struct bench_figure *)b)->others_cpus;
    return (x > y) - (x < y);
}

/* Of the quieter half of the rounds, chosen by what others did alone. Sorts. */
static struct bench_figure median(struct bench_figure *figures, int rounds)
{
    enum {
        FIELDS = sizeof(struct bench_figure) / sizeof(double)
    };
    double values[ROUNDS_MAX], fields[FIELDS];
    struct bench_figure middle;
    int n = (rounds + 1) / 2;

    qsort(figures, (size_t)rounds, sizeof(*figures), compare_others);
    for (size_t field = 0; field < FIELDS; field++) {
        for (int i = 0; i < n; i++)
            memcpy(&values[i], (const char *)&figures[i] + field * sizeof(double), sizeof(double));
        fields[field] = bench_percentile(values, (size_t)n, 0.5);
    }
    memcpy(&middle, fields, sizeof(middle));
    return middle;
}

static void measure(const struct bench_options *options,
                    struct bench_figure medians[BENCH_CONTENDERS])
{
    static struct bench_figure figures[BENCH_CONTENDERS][ROUNDS_MAX];
    int rounds = options->rounds < ROUNDS_MAX ? options->rounds : ROUNDS_MAX;

    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < BENCH_CONTENDERS; i++) {
            if (takes_part(&contenders[i], options))
                figures[i][round] = run(options, &contenders[i]);
        }
    }
    for (int i = 0; i < BENCH_CONTENDERS; i++) {
        medians[i] = (struct bench_figure){.calls_per_s = 0};
        if (takes_part(&contenders[i], options))
            medians[i] = median(figures[i], rounds);
    }
}

/* ---- tables ---- */

static const char *machine(void)
{
    static char model[200] = "unknown processor";
    FILE *cpuinfo = fopen("/proc/cpuinfo", "r");
    char line[256];

    while (cpuinfo && fgets(line, sizeof(line), cpuinfo)) {
        if (sscanf(line, "model name : %199[^\n]", model) == 1)
            break;
    }
    if (cpuinfo)
        (void)fclose(cpuinfo);
    return model;
}

static void header(const struct bench_options *options, int argc, char **argv)
{
    struct utsname system;

    if (uname(&system) != 0)
        bench_die("uname", strerror(errno));
    (void)printf("# %s, %ld CPUs, %s %s\n#", machine(), sysconf(_SC_NPROCESSORS_ONLN),
                 system.sysname, system.release);
    for (int i = 0; i < argc; i++)
        (void)printf(" %s", argv[i]);
    (void)printf(
        "\n# Medians of the quieter half of %d rounds of %g s; in each everybody in turn, with fresh processes. GB/s and CPU s/GB count the payload\n"
        "# once; CPU: both ends; others: CPUs that the rest of the machine used meanwhile. / raw: the share of the\n"
        "# plain peer's rate over the same carrier, or the multiple of its p50.\n"
        "# free: ends sleep, the scheduler places them. pin: ends sleep, all on one CPU. poll: ends never sleep, a CPU each (gRPC\n"
        "# cannot: it runs free).\n",
        options->rounds, options->seconds);
}

static void bytes_text(uint64_t bytes, char text[32])
{
    if (bytes >= 1 << 20 && bytes % (1 << 20) == 0)
        (void)snprintf(text, 32, "%llu MiB", (unsigned long long)bytes >> 20);
    else if (bytes >= 1 << 10 && bytes % (1 << 10) == 0)
        (void)snprintf(text, 32, "%llu KiB", (unsigned long long)bytes >> 10);
    else
        (void)snprintf(text, 32, "%llu B", (unsigned long long)bytes);
}

/* The plain peer over the same carrier. */
static const struct bench_figure *raw_of(const struct contender *who,
                                         const struct bench_figure figures[BENCH_CONTENDERS])
{
    if (over_verbs(who->link))
        return &figures[BENCH_RAW_VERBS];
    return &figures[strcmp(who->link, "tcp") == 0 ? BENCH_RAW_TCP : BENCH_RAW_UNIX];
}

/* Latency where that is all there is to see, else what is done in a second. */
static void ratio_print(const struct bench_options *options, const struct bench_figure *f,
                        const struct bench_figure *raw)
{
    double ratio = strcmp(options->shape, "unary") == 0 && options->outstanding == 1
                       ? f->p50_us / raw->p50_us
                       : f->calls_per_s / raw->calls_per_s;

    if (isfinite(ratio) && ratio > 0)
        (void)printf(" %7.2f\n", ratio);
    else
        (void)printf(" %7s\n", "-");
}

static void row_print(const struct contender *who, const struct bench_figure *f)
{
    (void)printf("  %-20s %10.2f %10.2f %11.0f %8.3f %10.2f %8.3f %7.2f", who->name, f->p50_us,
                 f->p99_us, f->calls_per_s, f->gb_per_s, f->cpu_s * 1e6,
                 f->cpu_s * f->calls_per_s / f->gb_per_s, f->others_cpus);
}

static void point_print(const struct bench_options *options,
                        const struct bench_figure figures[BENCH_CONTENDERS])
{
    char size[32];

    bytes_text(options->bytes, size);
    (void)printf("\n%s %s x %u, %s", options->shape, size, options->outstanding,
                 bench_regime_names[options->regime]);
    if (strcmp(options->shape, "tensor") == 0)
        (void)printf(", %u source buffers in turn", bench_sources(options->bytes));
    (void)printf("\n  %-20s %10s %10s %11s %8s %10s %8s %7s %7s\n", "", "p50 us", "p99 us",
                 "calls/s", "GB/s", "CPU us", "CPU s/GB", "others", "/ raw");
    for (int i = 0; i < BENCH_CONTENDERS; i++) {
        if (figures[i].calls_per_s == 0)
            continue;
        row_print(&contenders[i], &figures[i]);
        ratio_print(options, &figures[i], raw_of(&contenders[i], figures));
    }
    (void)fflush(stdout);
}

static void asked(const char *what, double seen, const char *bar, bool met)
{
    if (isfinite(seen) && seen > 0)
        (void)printf("  asked: %-62s %8.2f   %s: %s\n", what, seen, bar, met ? "met" : "MISSED");
}

void bench_asked_most(const char *what, double seen, double most)
{
    char bar[40];

    (void)snprintf(bar, sizeof(bar), "at most %g", most);
    asked(what, seen, bar, seen <= most);
}

void bench_asked_least(const char *what, double seen, double least)
{
    char bar[40];

    (void)snprintf(bar, sizeof(bar), "at least %g", least);
    asked(what, seen, bar, seen >= least);
}

/* ---- all of it ---- */

static void drive_regime(const struct bench_program *program, struct bench_options *options)
{
    static struct bench_table table;

    table.regime = options->regime;
    table.points = program->points;
    table.count = program->count;
    for (size_t i = 0; i < program->count; i++) {
        options->bytes = program->points[i].bytes;
        options->outstanding = program->points[i].outstanding;
        measure(options, table.figures[i]);
        point_print(options, table.figures[i]);
    }
    (void)printf("\n");
    program->judge(&table);
    (void)fflush(stdout);
}

void bench_drive(const struct bench_program *program, const struct bench_options *options, int argc,
                 char **argv)
{
    struct bench_program own = *program;
    struct bench_point point = {options->bytes, options->outstanding};
    struct bench_options one = *options;

    one.shape = program->shape;
    if (point.outstanding == 0)
        point.outstanding = program->outstanding;
    if (options->bytes > 0) {
        own.points = &point;
        own.count = 1;
    }
    header(options, argc, argv);
    for (int regime = 0; regime < BENCH_REGIMES; regime++) {
        one.regime = regime;
        if (options->regime < 0 || options->regime == regime)
            drive_regime(&own, &one);
    }
}
