/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c - throughput of host tensors from 64 KiB up, sealed and unsealed, with memcpy of the same bytes beside them. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void landed(struct sealane_call *call, enum sealane_status status,
                   const Bench__V1__Ack *reply, void *user)
{
    struct bench_flight *flight = user;

    (void)call;
    bench_landed(flight, status == SEALANE_OK && reply->bytes == flight->all->options->bytes);
}

static enum sealane_status start(struct bench_flight *flight)
{
    return bench_v1_bench_put__start(flight->all->client.channel, flight->all->request, NULL,
                                     landed, flight, NULL);
}

static int client(const struct bench_options *options)
{
    Bench__V1__Load request = BENCH__V1__LOAD__INIT;
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    struct bench_flights flights = {.options = options, .start = start, .request = &request};
    uint64_t shape = options->bytes;
    int status;

    tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    tensor.n_shape = 1;
    tensor.shape = &shape;
    tensor.data.len = options->bytes;
    tensor.data.data = malloc(options->bytes);
    if (!tensor.data.data)
        return 1;
    memset(tensor.data.data, 0x5a, options->bytes);
    request.tensor = &tensor;
    status = bench_fly(&flights);
    free(tensor.data.data);
    return status;
}

/* What one core copies of such a tensor, for scale. */
static double memcpy_gb_per_s(uint64_t bytes)
{
    char *from = malloc(bytes), *to = malloc(bytes);
    double begun, elapsed;
    uint64_t copied = 0;

    if (!from || !to)
        exit(1);
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    begun = bench_now_s();
    do {
        memcpy(to, from, bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
        copied += bytes;
        elapsed = bench_now_s() - begun;
    } while (elapsed < 0.2);
    free(from);
    free(to);
    return (double)copied / elapsed * 1e-9;
}

static void row(const struct bench_options *options)
{
    struct bench_figure s, u;

    bench_compare(options, &s, &u);
    (void)printf(
        "%10llu B x%-2u sealed %6.2f GB/s p50 %9.1f us p99 %9.1f us %6.3f CPU s/GB | unsealed %6.2f GB/s p50 %9.1f us %6.3f CPU "
        "s/GB | sealed/unsealed %.3f | memcpy %.1f GB/s\n",
        (unsigned long long)options->bytes, options->outstanding, s.gb_per_s, s.p50_us, s.p99_us,
        s.cpu_s_per_gb, u.gb_per_s, u.p50_us, u.cpu_s_per_gb, s.gb_per_s / u.gb_per_s,
        memcpy_gb_per_s(options->bytes));
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct bench_point series[] = {
        {65536, 0}, {1 << 20, 0}, {16 << 20, 0}, {64 << 20, 0}, {256 << 20, 0}};
    static const struct bench_program program = {
        .series = series,
        .points = sizeof(series) / sizeof(series[0]),
        .outstanding = 2, /* one in the wire while the other is answered */
        .row = row,
        .client = client};

    return bench_main(&program, argc, argv);
}
