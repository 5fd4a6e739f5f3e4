/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c - what sealing and opening costs on a GPU and on this machine's CPU.
 *
 *   seal [--aead NUMBER] [--cpu | --gpu]
 *
 * A figure of the GPU is device time of one launch in a full queue (median of several), in GB/s of plaintext, 1 GB = 10^9 bytes. */
#include "gpu/aead_inside.h"
#include "tests/support/second_opinion.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 64,
    ROUNDS = 5,
    LATENCY_ROUNDS = 300,
    THREADS_MAX = 256,
    KIB = 1024,
    MIB = 1024 * 1024
};

static const size_t TOTAL = (size_t)1 << 30;
static const enum sl_aead aeads[] = {SL_AEAD_CHACHA20_POLY1305, SL_AEAD_AES_256_GCM,
                                     SL_AEAD_AES_128_GCM};

static cudaStream_t stream;
static uint8_t *plain, *sealed, *tags; /* device */
static struct sl_gpu_job *jobs;
static uint32_t *verdicts;

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "seal: %s: %s, %s\n", what, cudaGetErrorString(cudaGetLastError()),
                sealane_last_error()->message);
        exit(1);
    }
}
#define CUDA(call) check((call) == cudaSuccess, #call)
#define OK(call)   check((call) == SEALANE_OK, #call)

static double now_s(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *of, size_t count)
{
    qsort(of, count, sizeof(*of), by_size);
    return of[count / 2];
}

/* ---- the GPU ---- */

static void memory_begin(void)
{
    uint64_t *host = malloc(64 * MIB), word = 88172645463325252u;

    check(host != NULL, "malloc");
    for (size_t i = 0; i < 64 * MIB / 8; i++) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        host[i] = word;
    }
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaMalloc((void **)&plain, TOTAL));
    CUDA(cudaMalloc((void **)&sealed, TOTAL));
    CUDA(cudaMalloc((void **)&tags, TOTAL / (4 * KIB) * SL_TAG_BYTES));
    CUDA(cudaHostAlloc((void **)&jobs, TOTAL / (4 * KIB) * sizeof(*jobs), cudaHostAllocMapped));
    CUDA(cudaHostAlloc((void **)&verdicts, TOTAL / (4 * KIB) * sizeof(*verdicts),
                       cudaHostAllocMapped));
    for (size_t at = 0; at < TOTAL; at += 64 * MIB)
        CUDA(cudaMemcpy(plain + at, host, 64 * MIB, cudaMemcpyHostToDevice));
    free(host);
}

static struct sl_gpu_aead *gpu_begin(enum sl_aead aead, uint32_t sms)
{
    uint8_t key[SL_AEAD_KEY_MAX];
    struct sl_gpu_aead *gpu;

    OK(sl_gpu_aead_new(aead, SLOTS, sms, &gpu));
    for (uint32_t i = 0; i < SLOTS; i++) {
        memset(key, (int)i + 1, sizeof(key));
        OK(sl_gpu_aead_key_set(gpu, i, key, stream));
    }
    return gpu;
}

static size_t jobs_set(bool opens, size_t total, size_t chunk, uint32_t keys)
{
    size_t count = total / chunk;

    for (size_t i = 0; i < count; i++) {
        jobs[i] = (struct sl_gpu_job){.in = (opens ? sealed : plain) + i * chunk,
                                      .out = (opens ? plain : sealed) + i * chunk,
                                      .tag = tags + i * SL_TAG_BYTES,
                                      .bytes = chunk,
                                      .key = (uint32_t)(i % keys)};
        memcpy(jobs[i].nonce, &i, sizeof(i));
    }
    return count;
}

static void launch(struct sl_gpu_aead *gpu, bool opens, size_t count)
{
    OK((opens ? sl_gpu_open : sl_gpu_seal)(gpu, jobs, verdicts, count, stream));
}

/* Seconds of one launch. A copy in front of them keeps the device busy until the host has queued them all. */
static double launch_s(struct sl_gpu_aead *gpu, bool opens, size_t count)
{
    cudaEvent_t marks[ROUNDS + 1];
    double took[ROUNDS];
    float ms;

    for (size_t i = 0; i <= ROUNDS; i++)
        CUDA(cudaEventCreate(&marks[i]));
    for (int i = 0; i < 4; i++) /* what is being sealed stays as it is */
        CUDA(cudaMemcpyAsync(opens ? plain : sealed, opens ? sealed : plain, TOTAL,
                             cudaMemcpyDeviceToDevice, stream));
    launch(gpu, opens, count); /* warm */
    CUDA(cudaEventRecord(marks[0], stream));
    for (size_t i = 0; i < ROUNDS; i++) {
        launch(gpu, opens, count);
        CUDA(cudaEventRecord(marks[i + 1], stream));
    }
    CUDA(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < ROUNDS; i++) {
        CUDA(cudaEventElapsedTime(&ms, marks[i], marks[i + 1]));
        took[i] = ms / 1e3;
    }
    for (size_t i = 0; i <= ROUNDS; i++)
        CUDA(cudaEventDestroy(marks[i]));
    for (size_t i = 0; i < count; i++)
        check(verdicts[i] == SL_GPU_DONE, "a verdict");
    return median(took, ROUNDS);
}

/* GB/s of sealing and of opening what was sealed. */
static void rate(struct sl_gpu_aead *gpu, size_t total, size_t chunk, uint32_t keys, double gb_s[2])
{
    for (int opens = 0; opens < 2; opens++) {
        size_t count = jobs_set(opens, total, chunk, keys);

        gb_s[opens] = (double)total / launch_s(gpu, opens, count) / 1e9;
    }
}

static double copy_rate(void)
{
    cudaEvent_t begin, end;
    double took[ROUNDS];
    float ms;

    CUDA(cudaEventCreate(&begin));
    CUDA(cudaEventCreate(&end));
    for (size_t i = 0; i < ROUNDS; i++) {
        CUDA(cudaEventRecord(begin, stream));
        CUDA(cudaMemcpyAsync(sealed, plain, TOTAL, cudaMemcpyDeviceToDevice, stream));
        CUDA(cudaEventRecord(end, stream));
        CUDA(cudaEventSynchronize(end));
        CUDA(cudaEventElapsedTime(&ms, begin, end));
        took[i] = ms / 1e3;
    }
    CUDA(cudaEventDestroy(begin));
    CUDA(cudaEventDestroy(end));
    return (double)TOTAL / median(took, ROUNDS) / 1e9;
}

static void by_chunk(struct sl_gpu_aead *gpu)
{
    static const size_t chunks[] = {4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1 * MIB};

    printf("1 GiB a launch      seal    open  GB/s; 64 keys: seal    open\n");
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        double one[2], many[2];

        rate(gpu, TOTAL, chunks[i], 1, one);
        rate(gpu, TOTAL, chunks[i], SLOTS, many);
        printf("  chunks %5zu KiB %7.1f %7.1f              %7.1f %7.1f\n", chunks[i] / KIB, one[0],
               one[1], many[0], many[1]);
    }
}

static void by_total(struct sl_gpu_aead *gpu)
{
    static const size_t totals[] = {256 * KIB, 1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB};

    printf("chunks of 64 KiB    seal    open  GB/s\n");
    for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++) {
        double gb_s[2];

        rate(gpu, totals[i], 64 * KIB, 1, gb_s);
        printf("  total %6zu KiB %7.1f %7.1f\n", totals[i] / KIB, gb_s[0], gb_s[1]);
    }
}

static void by_sms(enum sl_aead aead)
{
    static const uint32_t sms[] = {1, 2, 4, 5, 6, 8, 11, 12, 14, 16, 32, 64, 0};

    printf("256 MiB           64 KiB: seal    open  GB/s; 16 KiB: seal    open\n");
    for (size_t i = 0; i < sizeof(sms) / sizeof(sms[0]); i++) {
        struct sl_gpu_aead *gpu = gpu_begin(aead, sms[i]);
        double large[2], middle[2];

        rate(gpu, 256 * MIB, 64 * KIB, 1, large);
        rate(gpu, 256 * MIB, 16 * KIB, 1, middle);
        printf("  %3u multiprocessors %7.1f %7.1f             %7.1f %7.1f\n", gpu->sms, large[0],
               large[1], middle[0], middle[1]);
        CUDA(cudaDeviceSynchronize());
        sl_gpu_aead_free(gpu);
    }
}

static void latency(struct sl_gpu_aead *gpu, size_t total, size_t chunk)
{
    double took[LATENCY_ROUNDS], middle[2], late[2];

    for (int opens = 0; opens < 2; opens++) {
        size_t count = jobs_set(opens, total, chunk, 1);

        for (size_t i = 0; i < LATENCY_ROUNDS; i++) {
            double begun = now_s();

            launch(gpu, opens, count);
            CUDA(cudaStreamSynchronize(stream));
            took[i] = now_s() - begun;
        }
        middle[opens] = median(took, LATENCY_ROUNDS);
        late[opens] = took[LATENCY_ROUNDS * 99 / 100];
    }
    printf(
        "  %5zu KiB in chunks of %5zu KiB: seal %5.1f us (p99 %5.1f), open %5.1f us (p99 %5.1f)\n",
        total / KIB, chunk / KIB, middle[0] * 1e6, late[0] * 1e6, middle[1] * 1e6, late[1] * 1e6);
}

static double gpu_measure(enum sl_aead aead)
{
    struct sl_gpu_aead *gpu = gpu_begin(aead, 0);
    double best[2];

    by_chunk(gpu);
    by_total(gpu);
    by_sms(aead);
    printf("latency, launch and wait\n");
    latency(gpu, 4 * KIB, 4 * KIB);
    latency(gpu, 64 * KIB, 64 * KIB);
    latency(gpu, 64 * KIB, 16 * KIB);
    latency(gpu, 1 * MIB, 1 * MIB);
    latency(gpu, 1 * MIB, 64 * KIB);
    latency(gpu, 1 * MIB, 16 * KIB);
    rate(gpu, TOTAL, 64 * KIB, 1, best);
    CUDA(cudaDeviceSynchronize());
    sl_gpu_aead_free(gpu);
    return best[0];
}

/* ---- the CPU ---- */

struct cpu_run {
    const struct seal_backend *backend;
    enum sl_aead aead;
    uint8_t *in, *out;
    size_t bytes, chunk;
    bool in_cache; /* one chunk again and again */
    pthread_barrier_t *begin;
};

static void *cpu_work(void *argument)
{
    const struct cpu_run *run = argument;
    uint8_t secret[SL_AEAD_KEY_MAX] = {1}, tag[SL_TAG_BYTES], nonce[SL_NONCE_BYTES] = {0};
    struct sl_aead_key *key;

    OK(run->backend->key_new(run->aead, secret, &key));
    (void)pthread_barrier_wait(run->begin);
    for (size_t at = 0; at < run->bytes; at += run->chunk) {
        size_t place = run->in_cache ? 0 : at;
        struct sl_aead_io io = {nonce, NULL, 0, run->in + place, run->out + place, run->chunk};

        memcpy(nonce, &at, sizeof(at));
        run->backend->seal(key, &io, tag);
    }
    run->backend->key_free(key);
    return NULL;
}

/* GB/s of `threads` together, each on its part of 1 GiB. */
static double cpu_rate(const struct seal_backend *backend, enum sl_aead aead, uint8_t *in,
                       uint8_t *out, size_t threads, bool in_cache)
{
    struct cpu_run runs[THREADS_MAX];
    pthread_t workers[THREADS_MAX];
    pthread_barrier_t begin;
    size_t part = TOTAL / threads / (64 * KIB) * (64 * KIB);
    double begun;

    check(pthread_barrier_init(&begin, NULL, (unsigned)threads + 1) == 0, "barrier");
    for (size_t i = 0; i < threads; i++) {
        runs[i] = (struct cpu_run){backend, aead,     in + i * part, out + i * part,
                                   part,    64 * KIB, in_cache,      &begin};
        check(pthread_create(&workers[i], NULL, cpu_work, &runs[i]) == 0, "thread");
    }
    (void)pthread_barrier_wait(&begin);
    begun = now_s();
    for (size_t i = 0; i < threads; i++)
        (void)pthread_join(workers[i], NULL);
    (void)pthread_barrier_destroy(&begin);
    return (double)(part * threads) / (now_s() - begun) / 1e9;
}

static double cpu_measure(enum sl_aead aead)
{
    static const struct seal_backend *const backends[] = {&linked_seal, &second_opinion};
    size_t cores = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
    uint8_t *in = malloc(TOTAL), *out = malloc(TOTAL);
    double best = 0;

    check(in && out, "malloc");
    memset(in, 7, TOTAL);
    memset(out, 9, TOTAL);
    if (cores > THREADS_MAX)
        cores = THREADS_MAX;
    printf("CPU, 1 GiB from memory, chunks of 64 KiB, seal (in cache beside it), GB/s\n");
    for (size_t i = 0; i < 2; i++) {
        double one = cpu_rate(backends[i], aead, in, out, 1, false),
               all = cpu_rate(backends[i], aead, in, out, cores, false);

        printf("  %-16s one core %6.2f (%6.2f), %zu cores %6.1f (%6.1f)\n",
               i == 0 ? "the linked AEAD" : "libcrypto", one,
               cpu_rate(backends[i], aead, in, out, 1, true), cores, all,
               cpu_rate(backends[i], aead, in, out, cores, true));
        best = one > best ? one : best;
    }
    free(in);
    free(out);
    return best;
}

/* ---- all ---- */

static void machine_print(int argc, char **argv, bool gpu)
{
    char line[256];
    FILE *cpu = fopen("/proc/cpuinfo", "r");
    struct cudaDeviceProp of;

    printf("command:");
    for (int i = 0; i < argc; i++)
        printf(" %s", argv[i]);
    printf("\n");
    while (cpu && fgets(line, sizeof(line), cpu)) {
        if (strncmp(line, "model name", 10) == 0) {
            printf("%ld x %s", sysconf(_SC_NPROCESSORS_ONLN), line);
            break;
        }
    }
    if (cpu)
        (void)fclose(cpu);
    if (gpu) {
        CUDA(cudaGetDeviceProperties(&of, 0));
        printf("%s, %d multiprocessors\n", of.name, of.multiProcessorCount);
        memory_begin();
        printf("HBM copy %.0f GB/s one way\n", copy_rate());
    }
}

int main(int argc, char **argv)
{
    bool cpu = true, gpu = true;
    struct sl_gpu_shape shape;
    int only = 0, devices = 0;

    for (int i = 1; i < argc; i++) {
        gpu = gpu && strcmp(argv[i], "--cpu") != 0;
        cpu = cpu && strcmp(argv[i], "--gpu") != 0;
        if (strcmp(argv[i], "--aead") == 0 && i + 1 < argc)
            only = atoi(argv[i + 1]);
    }
    if (gpu && (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)) {
        printf("no GPU: only the CPU is measured\n");
        gpu = false;
    }
    machine_print(argc, argv, gpu);
    for (size_t i = 0; i < sizeof(aeads) / sizeof(aeads[0]); i++) {
        double on_gpu = 0, on_core = 0;

        if (only != 0 && only != (int)aeads[i])
            continue;
        printf("\n== %s\n", sl_aead_name(aeads[i]));
        if (gpu && sl_gpu_kind_shape(aeads[i], &shape))
            on_gpu = gpu_measure(aeads[i]);
        if (cpu)
            on_core = cpu_measure(aeads[i]);
        if (on_gpu > 0 && on_core > 0)
            printf("GPU over the better of one core: %.0f times\n", on_gpu / on_core);
        fflush(stdout);
    }
    return 0;
}
