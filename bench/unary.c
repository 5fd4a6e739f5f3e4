/* SPDX-License-Identifier: Apache-2.0 */
/* unary.c - latency and rate of small unary calls, sealed and unsealed. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void landed(struct sealane_call *call, enum sealane_status status,
                   const Bench__V1__Blob *reply, void *user)
{
    struct bench_flight *flight = user;

    (void)call;
    bench_landed(flight, status == SEALANE_OK && reply->data.len == flight->all->options->bytes);
}

static enum sealane_status start(struct bench_flight *flight)
{
    return bench_v1_bench_echo__start(flight->all->client.channel, flight->all->request, NULL,
                                      landed, flight, NULL);
}

static int client(const struct bench_options *options)
{
    Bench__V1__Blob request = BENCH__V1__BLOB__INIT;
    struct bench_flights flights = {.options = options, .start = start, .request = &request};
    int status;

    request.data.len = options->bytes;
    request.data.data = calloc(1, options->bytes + 1);
    status = request.data.data ? bench_fly(&flights) : 1;
    free(request.data.data);
    return status;
}

static void row(const struct bench_options *options)
{
    struct bench_figure s, u;

    bench_compare(options, &s, &u);
    (void)printf(
        "%8llu B x%-3u sealed p50 %7.2f us p99 %7.2f us %9.0f calls/s %7.2f CPU s/GB | unsealed p50 %7.2f us p99 %7.2f us "
        "%9.0f calls/s %7.2f CPU s/GB | sealed/unsealed rate %.3f\n",
        (unsigned long long)options->bytes, options->outstanding, s.p50_us, s.p99_us, s.calls_per_s,
        s.cpu_s_per_gb, u.p50_us, u.p99_us, u.calls_per_s, u.cpu_s_per_gb,
        s.calls_per_s / u.calls_per_s);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct bench_point series[] = {{64, 1},  {4096, 1},  {65536, 1},
                                                {64, 64}, {4096, 64}, {65536, 64}};
    static const struct bench_program program = {.series = series,
                                                 .points = sizeof(series) / sizeof(series[0]),
                                                 .outstanding = 1,
                                                 .row = row,
                                                 .client = client};

    return bench_main(&program, argc, argv);
}
