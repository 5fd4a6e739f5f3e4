/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c - processes, clocks and medians for bench/. */
#include "measure.h"

#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void die(const char *what)
{
    (void)fprintf(stderr, "bench: %s: %s\n", what, sealane_last_error()->message);
    exit(1);
}

static void usage(const char *program)
{
    (void)fprintf(
        stderr,
        "usage: %s --certs DIR [--bytes N] [--outstanding N] [--seconds S] [--rounds N] [--sleep]\n"
        "DIR holds ca.pem server.pem server.key client.pem client.key (tools/bench.sh makes them)\n",
        program);
    exit(2);
}

static void options_parse(struct bench_options *options, int argc, char **argv)
{
    static const struct option known[] = {
        {"role", required_argument, NULL, 'r'},
        {"certs", required_argument, NULL, 'c'},
        {"address", required_argument, NULL, 'a'},
        {"bytes", required_argument, NULL, 'b'},
        {"outstanding", required_argument, NULL, 'o'},
        {"seconds", required_argument, NULL, 's'},
        {"rounds", required_argument, NULL, 'n'},
        {"sleep", no_argument, NULL, 'w'},
        {NULL, 0, NULL, 0},
    };
    int option;

    *options =
        (struct bench_options){.program = argv[0], .outstanding = 0, .seconds = 1, .rounds = 5};
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'r':
            options->role = optarg;
            break;
        case 'c':
            options->certs = optarg;
            break;
        case 'a':
            options->address = optarg;
            break;
        case 'b':
            options->bytes = strtoull(optarg, NULL, 0);
            break;
        case 'o':
            options->outstanding = (uint32_t)strtoul(optarg, NULL, 0);
            if (options->outstanding < 1)
                usage(argv[0]);
            break;
        case 's':
            options->seconds = strtod(optarg, NULL);
            break;
        case 'n':
            options->rounds = atoi(optarg);
            break;
        case 'w':
            options->sleep = true;
            break;
        default:
            usage(argv[0]);
        }
    }
    if (!options->certs || options->rounds < 1 || options->seconds <= 0)
        usage(argv[0]);
}

double bench_now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double cpu_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(double *samples, size_t n, double p)
{
    size_t at = (size_t)((double)n * p);

    qsort(samples, n, sizeof(*samples), compare_doubles);
    return samples[at < n ? at : n - 1];
}

static void pin(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
    (void)sched_setaffinity(0, sizeof(set), &set); /* a refusal only makes the figures noisier */
}

static struct sealane_credentials *credentials_of(const struct bench_options *options,
                                                  const char *who)
{
    char ca[512], certificate[512], key[512];
    struct sealane_credentials_options files = {.ca_file = ca,
                                                .certificate_file = certificate,
                                                .key_file = key};
    struct sealane_credentials *credentials;

    (void)snprintf(ca, sizeof(ca), "%s/ca.pem", options->certs);
    (void)snprintf(certificate, sizeof(certificate), "%s/%s.pem", options->certs, who);
    (void)snprintf(key, sizeof(key), "%s/%s.key", options->certs, who);
    if (sealane_credentials_new(&files, &credentials) != SEALANE_OK)
        die("credentials");
    return credentials;
}

static void turn(struct sealane_node *node, bool sleep)
{
    if (sealane_node_poll(node, sleep ? 100 : 0) != SEALANE_OK)
        die("poll");
}

/* ---- server ---- */

static void serve_echo(struct sealane_call *call, const Bench__V1__Blob *request, void *user)
{
    (void)user;
    if (bench_v1_bench_echo__reply(call, request) != SEALANE_OK)
        die("echo");
}

static void serve_put(struct sealane_call *call, const Bench__V1__Load *request, void *user)
{
    Bench__V1__Ack ack = BENCH__V1__ACK__INIT;

    (void)user;
    ack.bytes = request->tensor ? request->tensor->data.len : 0;
    if (bench_v1_bench_put__reply(call, &ack) != SEALANE_OK)
        die("put");
}

static void serve_usage(struct sealane_call *call, const Bench__V1__UsageRequest *request,
                        void *user)
{
    Bench__V1__Usage usage_so_far = BENCH__V1__USAGE__INIT;

    (void)request;
    (void)user;
    usage_so_far.cpu_seconds = cpu_s();
    if (bench_v1_bench_get_usage__reply(call, &usage_so_far) != SEALANE_OK)
        die("usage");
}

/* Until killed. */
static _Noreturn void serve(const struct bench_options *options)
{
    static const struct bench_v1_bench__handlers handlers = {.echo = serve_echo,
                                                             .put = serve_put,
                                                             .get_usage = serve_usage};
    struct sealane_server_options server_options = {
        .credentials = credentials_of(options, "server"), .max_message_bytes = 256u << 20};
    struct sealane_node_options node_options = {.polled = true};
    struct sealane_node *node;
    struct sealane_server *server;

    pin(0);
    if (sealane_node_new(&node_options, &node) != SEALANE_OK ||
        sealane_server_new(node, &server_options, &server) != SEALANE_OK ||
        bench_v1_bench__register(server, &handlers, NULL) != SEALANE_OK ||
        sealane_server_listen(server, options->address) != SEALANE_OK)
        die("server");
    (void)printf("ready\n");
    (void)fflush(stdout);
    for (;;)
        turn(node, options->sleep);
}

/* ---- client ---- */

static void client_open(struct bench_client *client, const struct bench_options *options)
{
    struct sealane_node_options node_options = {.polled = true};
    struct sealane_channel_options channel_options = {.server_name = "dns:server.test",
                                                      .max_message_bytes = 256u << 20};

    pin(1);
    client->credentials = credentials_of(options, "client");
    channel_options.credentials = client->credentials;
    if (sealane_node_new(&node_options, &client->node) != SEALANE_OK ||
        sealane_channel_new(client->node, options->address, &channel_options, &client->channel) !=
            SEALANE_OK ||
        sealane_channel_connect(client->channel, 10000) != SEALANE_OK)
        die("client");
}

static void client_close(struct bench_client *client)
{
    sealane_channel_free(client->channel);
    sealane_node_free(client->node);
    sealane_credentials_free(client->credentials);
}

static double server_cpu_s(struct bench_client *client)
{
    Bench__V1__UsageRequest request = BENCH__V1__USAGE_REQUEST__INIT;
    const Bench__V1__Usage *usage_so_far;
    struct sealane_call *call;
    double seconds;

    if (bench_v1_bench_get_usage(client->channel, &request, NULL, &usage_so_far, &call) !=
        SEALANE_OK)
        die("usage");
    seconds = usage_so_far->cpu_seconds;
    sealane_call_free(call);
    return seconds;
}

enum {
    SAMPLES_MAX = 4000000
};

static void launch(struct bench_flight *flight)
{
    struct bench_flights *all = flight->all;

    flight->begun = bench_now_s();
    if (all->start(flight) != SEALANE_OK)
        all->failed = true;
    else
        all->flying++;
}

void bench_landed(struct bench_flight *flight, bool good)
{
    struct bench_flights *all = flight->all;
    double now = bench_now_s();

    all->flying--;
    if (!good) {
        all->failed = true;
        return;
    }
    if (all->calls < SAMPLES_MAX)
        all->samples[all->calls] = now - flight->begun;
    all->calls++;
    if (now < all->until)
        launch(flight);
}

static void keep_flying(struct bench_flights *all, double seconds)
{
    struct bench_flight *flights = calloc(all->options->outstanding, sizeof(*flights));

    if (!flights)
        die("memory");
    all->calls = 0;
    all->until = bench_now_s() + seconds;
    for (uint32_t i = 0; i < all->options->outstanding; i++) {
        flights[i].all = all;
        launch(&flights[i]);
    }
    while (all->flying > 0 && !all->failed)
        turn(all->client.node, all->options->sleep);
    free(flights);
    if (all->failed)
        die("a call failed");
}

static void figure_print(struct bench_flights *all, double elapsed, double cpu)
{
    double gb = (double)all->calls * (double)all->options->bytes * 1e-9;
    size_t samples = all->calls < SAMPLES_MAX ? all->calls : SAMPLES_MAX;

    (void)printf("figure %.17g %.17g %.17g %.17g %.17g\n",
                 percentile(all->samples, samples, 0.5) * 1e6,
                 percentile(all->samples, samples, 0.99) * 1e6, (double)all->calls / elapsed,
                 gb / elapsed, gb > 0 ? cpu / gb : 0);
}

int bench_fly(struct bench_flights *all)
{
    double begun, cpu, elapsed;

    all->samples = malloc(SAMPLES_MAX * sizeof(*all->samples));
    if (!all->samples)
        die("memory");
    client_open(&all->client, all->options);
    keep_flying(all, 0.2); /* warm up */
    cpu = cpu_s() + server_cpu_s(&all->client);
    begun = bench_now_s();
    keep_flying(all, all->options->seconds);
    elapsed = bench_now_s() - begun;
    figure_print(all, elapsed, cpu_s() + server_cpu_s(&all->client) - cpu);
    client_close(&all->client);
    free(all->samples);
    return 0;
}

/* ---- driver ---- */

static pid_t spawn(const struct bench_options *options, const char *variant, const char *role,
                   int out)
{
    char program[600], bytes[32], outstanding[32], seconds[32];
    char *arguments[] = {program,
                         "--role",
                         (char *)role,
                         "--certs",
                         (char *)options->certs,
                         "--address",
                         (char *)options->address,
                         "--bytes",
                         bytes,
                         "--outstanding",
                         outstanding,
                         "--seconds",
                         seconds,
                         options->sleep ? "--sleep" : NULL,
                         NULL};
    pid_t pid;

    (void)snprintf(program, sizeof(program), "%s%s", options->program, variant);
    (void)snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)options->bytes);
    (void)snprintf(outstanding, sizeof(outstanding), "%u", options->outstanding);
    (void)snprintf(seconds, sizeof(seconds), "%g", options->seconds);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(out, STDOUT_FILENO);
        (void)execv(program, arguments);
        (void)fprintf(stderr, "bench: cannot run %s: %s\n", program, strerror(errno));
        _exit(127);
    }
    if (pid < 0) {
        (void)fprintf(stderr, "bench: fork: %s\n", strerror(errno));
        exit(1);
    }
    return pid;
}

/* The first line that a child prints. */
static void line_from(int fd, char *line, size_t size)
{
    FILE *file = fdopen(dup(fd), "r");

    if (!file || !fgets(line, (int)size, file)) {
        (void)fprintf(stderr, "bench: a child ended without a word\n");
        exit(1);
    }
    (void)fclose(file);
}

static struct bench_figure run(const struct bench_options *options, const char *variant)
{
    struct bench_options one = *options;
    struct bench_figure f;
    char address[64], line[256];
    int server_out[2], client_out[2], status;
    pid_t server, client;

    (void)snprintf(address, sizeof(address), "unix-abstract:sealane-bench-%d", (int)getpid());
    one.address = address;
    if (pipe(server_out) != 0 || pipe(client_out) != 0)
        exit(1);
    server = spawn(&one, variant, "server", server_out[1]);
    (void)close(server_out[1]);
    line_from(server_out[0], line, sizeof(line));
    client = spawn(&one, variant, "client", client_out[1]);
    (void)close(client_out[1]);
    line_from(client_out[0], line, sizeof(line));
    (void)waitpid(client, &status, 0);
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    (void)close(server_out[0]);
    (void)close(client_out[0]);
    if (status != 0 || sscanf(line, "figure %lf %lf %lf %lf %lf", &f.p50_us, &f.p99_us,
                              &f.calls_per_s, &f.gb_per_s, &f.cpu_s_per_gb) != 5) {
        (void)fprintf(stderr, "bench: the client%s failed: %s\n", variant, line);
        exit(1);
    }
    return f;
}

static double median_of(const struct bench_figure *figures, int n, size_t field)
{
    double values[64];

    for (int i = 0; i < n; i++)
        memcpy(&values[i], (const char *)&figures[i] + field, sizeof(double));
    return percentile(values, (size_t)n, 0.5);
}

static struct bench_figure median(const struct bench_figure *figures, int n)
{
    return (struct bench_figure){
        .p50_us = median_of(figures, n, offsetof(struct bench_figure, p50_us)),
        .p99_us = median_of(figures, n, offsetof(struct bench_figure, p99_us)),
        .calls_per_s = median_of(figures, n, offsetof(struct bench_figure, calls_per_s)),
        .gb_per_s = median_of(figures, n, offsetof(struct bench_figure, gb_per_s)),
        .cpu_s_per_gb = median_of(figures, n, offsetof(struct bench_figure, cpu_s_per_gb)),
    };
}

void bench_compare(const struct bench_options *options, struct bench_figure *sealed,
                   struct bench_figure *unsealed)
{
    struct bench_figure figures[2][64];
    int rounds = options->rounds < 64 ? options->rounds : 64;

    for (int round = 0; round < rounds; round++) {
        figures[0][round] = run(options, "");
        figures[1][round] = run(options, "-unsealed");
    }
    *sealed = median(figures[0], rounds);
    *unsealed = median(figures[1], rounds);
}

static void header(const struct bench_options *options, int argc, char **argv)
{
    char line[256] = "", model[200] = "unknown processor";
    FILE *cpuinfo = fopen("/proc/cpuinfo", "r");

    while (cpuinfo && fgets(line, sizeof(line), cpuinfo)) {
        if (sscanf(line, "model name : %199[^\n]", model) == 1)
            break;
    }
    if (cpuinfo)
        (void)fclose(cpuinfo);
    (void)printf(
        "# machine: %s, %ld CPUs; link local, two processes pinned to CPU 0 and 1, both %s\n# command:",
        model, sysconf(_SC_NPROCESSORS_ONLN),
        options->sleep ? "sleeping on descriptors" : "polling");
    for (int i = 0; i < argc; i++)
        (void)printf(" %s", argv[i]);
    (void)printf(
        "\n# medians of %d rounds of %g s, sealed and unsealed in turn; GB/s and CPU s/GB count the payload once\n",
        options->rounds, options->seconds);
}

static void drive(const struct bench_program *program, struct bench_options *options)
{
    if (options->bytes > 0) {
        program->row(options);
        return;
    }
    for (size_t i = 0; i < program->points; i++) {
        options->bytes = program->series[i].bytes;
        if (program->series[i].outstanding > 0)
            options->outstanding = program->series[i].outstanding;
        program->row(options);
    }
}

int bench_main(const struct bench_program *program, int argc, char **argv)
{
    struct bench_options options;

    options_parse(&options, argc, argv);
    if (options.outstanding == 0)
        options.outstanding = program->outstanding;
    if (options.role && strcmp(options.role, "server") == 0)
        serve(&options);
    if (options.role)
        return program->client(&options);
    header(&options, argc, argv);
    drive(program, &options);
    return 0;
}
