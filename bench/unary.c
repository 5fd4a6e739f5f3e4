/* SPDX-License-Identifier: Apache-2.0 */
/* unary.c - latency and rate of small unary calls. */
#include "measure.h"

#include <stdlib.h>

static void landed(struct sealane_call *call, enum sealane_status status,
                   const Bench__V1__Blob *reply, void *user)
{
    struct bench_flight *flight = user;

    (void)call;
    bench_landed(flight, status == SEALANE_OK && reply->data.len == flight->all->options->bytes);
}

static enum sealane_status start(struct bench_flight *flight)
{
    return bench_v1_bench_echo__start(flight->all->channel, flight->all->user, NULL, landed, flight,
                                      NULL);
}

static int client(const struct bench_options *options)
{
    Bench__V1__Blob request = BENCH__V1__BLOB__INIT;
    struct bench_flights flights = {.options = options, .start = start, .user = &request};

    request.data.len = options->bytes;
    request.data.data = calloc(1, options->bytes);
    if (!request.data.data)
        return 1;
    bench_fly(&flights);
    free(request.data.data);
    return 0;
}

static void judge(const struct bench_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct bench_figure *f = table->figures[i];

        if (table->points[i].bytes == 64 && table->points[i].outstanding == 1) {
            if (table->regime == BENCH_POLL)
                bench_asked_most("64 B p50 us, local", f[BENCH_LOCAL].p50_us, 3);
            bench_asked_most("64 B p50, tcp / raw TCP",
                             f[BENCH_TCP].p50_us / f[BENCH_RAW_TCP].p50_us, 1.8);
        }
        if (table->points[i].bytes == 64 && table->points[i].outstanding == 64) {
            bench_asked_least("64 B x 64 calls/s, local / gRPC TLS",
                              f[BENCH_LOCAL].calls_per_s / f[BENCH_GRPC].calls_per_s, 5);
            bench_asked_least("64 B x 64 calls/s, tcp / gRPC TLS",
                              f[BENCH_TCP].calls_per_s / f[BENCH_GRPC].calls_per_s, 5);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct bench_point points[] = {{64, 1}, {64, 64}};
    static const struct bench_program program = {.shape = "unary",
                                                 .points = points,
                                                 .count = sizeof(points) / sizeof(points[0]),
                                                 .outstanding = 1,
                                                 .judge = judge};

    return bench_main(&program, client, argc, argv);
}
