/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c - throughput of host tensors, one way. */
#include "measure.h"

#include <stdlib.h>
#include <string.h>

/* What is sent in turn, as a training job sends its gradients: no source is in a cache when its turn comes. */
struct sources {
    Bench__V1__Load *requests;
    Sealane__Tensor *tensors;
    uint8_t *bytes;
    uint64_t shape;
    uint32_t count;
};

static void landed(struct sealane_call *call, enum sealane_status status,
                   const Bench__V1__Ack *reply, void *user)
{
    struct bench_flight *flight = user;

    (void)call;
    bench_landed(flight, status == SEALANE_OK && reply->bytes == flight->all->options->bytes);
}

static enum sealane_status start(struct bench_flight *flight)
{
    const struct sources *sources = flight->all->user;

    return bench_v1_bench_put__start(flight->all->channel,
                                     &sources->requests[flight->all->launched % sources->count],
                                     NULL, landed, flight, NULL);
}

static bool sources_make(struct sources *sources, uint64_t bytes)
{
    uint32_t count = bench_sources(bytes);

    *sources = (struct sources){.requests = calloc(count, sizeof(*sources->requests)),
                                .tensors = calloc(count, sizeof(*sources->tensors)),
                                .bytes = malloc(count * bytes),
                                .shape = bytes,
                                .count = count};
    if (!sources->requests || !sources->tensors || !sources->bytes)
        return false;
    memset(sources->bytes, 0x5a, count * bytes);
    for (uint32_t i = 0; i < count; i++) {
        Sealane__Tensor *tensor = &sources->tensors[i];

        sealane__tensor__init(tensor);
        tensor->dtype = SEALANE__DTYPE__DTYPE_U8;
        tensor->n_shape = 1;
        tensor->shape = &sources->shape;
        tensor->data = (ProtobufCBinaryData){bytes, sources->bytes + i * bytes};
        bench__v1__load__init(&sources->requests[i]);
        sources->requests[i].tensor = tensor;
    }
    return true;
}

static int client(const struct bench_options *options)
{
    struct sources sources;
    struct bench_flights flights = {.options = options, .start = start, .user = &sources};
    bool made = sources_make(&sources, options->bytes);

    if (made)
        bench_fly(&flights);
    free(sources.requests);
    free(sources.tensors);
    free(sources.bytes);
    return made ? 0 : 1;
}

/* Where both ends and the device have processors of their own; Soft-RoCE is none. */
static void judge_verbs(const struct bench_figure *f)
{
    double raw =
        f[BENCH_PERFTEST].gb_per_s > 0 ? f[BENCH_PERFTEST].gb_per_s : f[BENCH_RAW_VERBS].gb_per_s;

    bench_asked_least("1 MiB GB/s of the raw write's, verbs, unsealed",
                      f[BENCH_VERBS_UNSEALED].gb_per_s / raw, 0.9);
    bench_asked_least("1 MiB GB/s of the raw write's, verbs", f[BENCH_VERBS].gb_per_s / raw, 0.7);
}

/* The same bytes in flight, in large pieces and in small ones. */
static void judge_large(const struct bench_figure *small, const struct bench_figure *large)
{
    bench_asked_least("64 MiB x 2 GB/s / 1 MiB x 128, local",
                      large[BENCH_LOCAL].gb_per_s / small[BENCH_LOCAL].gb_per_s, 0.9);
    bench_asked_least("64 MiB x 2 GB/s / 1 MiB x 128, tcp",
                      large[BENCH_TCP].gb_per_s / small[BENCH_TCP].gb_per_s, 0.9);
}

static void judge(const struct bench_table *table)
{
    const struct bench_figure *small = NULL;

    for (size_t i = 0; i < table->count; i++) {
        const struct bench_point *point = &table->points[i];
        const struct bench_figure *f = table->figures[i];

        if (point->bytes == 1 << 20) {
            bench_asked_least("1 MiB GB/s, tcp / gRPC TLS",
                              f[BENCH_TCP].gb_per_s / f[BENCH_GRPC].gb_per_s, 3);
            bench_asked_least("1 MiB GB/s, local / gRPC TLS",
                              f[BENCH_LOCAL].gb_per_s / f[BENCH_GRPC].gb_per_s, 6);
            judge_verbs(f);
        }
        if (point->bytes == 1 << 20 && point->outstanding == 128)
            small = f;
        if (small && point->bytes == 64 << 20 && point->outstanding == 2)
            judge_large(small, f);
    }
}

int main(int argc, char **argv)
{
    static const struct bench_point points[] = {{1 << 20, 2}, {1 << 20, 128}, {64 << 20, 2}};
    static const struct bench_program program = {
        .shape = "tensor",
        .points = points,
        .count = sizeof(points) / sizeof(points[0]),
        .outstanding = 2, /* one in the wire while the other is answered */
        .judge = judge};

    return bench_main(&program, client, argc, argv);
}
