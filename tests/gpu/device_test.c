/* SPDX-License-Identifier: Apache-2.0 */
/* device_test.c - the GPU's AEAD on a GPU, against the CPU's. A plain program, for it runs where the rest of the tests does not:
 *
 *   test.gpu.device [--small] [--aead NUMBER] [TEST …]    --small: what compute-sanitizer has patience for, 16 MiB at most
 *
 * Exit status 77 without a GPU. The vectors are read from $SEALANE_VECTORS where the source tree is not at hand. */
#include "gpu/aead_inside.h"
#include "tests/gpu/writer.h"
#include "tests/support/vector_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SKIPPED = 77,
    GUARD = 64,
    GUARD_BYTE = 0xA5,
    SLOTS = 512,
    JOBS_MAX = 1 << 17,
    BATCH = 2048, /* sizes around which kernels change their ways */
    KIB = 1024,
    MIB = 1024 * 1024
};

static const enum sl_aead aeads[] = {SL_AEAD_CHACHA20_POLY1305, SL_AEAD_AES_256_GCM,
                                     SL_AEAD_AES_128_GCM};

static bool small;
static enum sl_aead aead;
static struct sl_gpu_aead *gpu;
static cudaStream_t stream;
static struct sl_gpu_job *jobs; /* mapped */
static uint32_t *verdicts;      /* mapped */
static uint8_t keys[SLOTS][SL_AEAD_KEY_MAX];
static uint64_t seed = 88172645463325252u;

#define EXPECT(condition, ...)                                              \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                   \
            fprintf(stderr, "\n");                                          \
            exit(1);                                                        \
        }                                                                   \
    } while (0)
#define CUDA(call)                                                     \
    do {                                                               \
        cudaError_t cuda_ = (call);                                    \
        EXPECT(cuda_ == cudaSuccess, "%s", cudaGetErrorString(cuda_)); \
    } while (0)
#define OK(call) EXPECT((call) == SEALANE_OK, "%s", sealane_last_error()->message)

static uint64_t random_number(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static void random_fill(void *at, size_t bytes)
{
    uint8_t *to = at;

    for (; bytes >= 8; bytes -= 8, to += 8) {
        uint64_t word = random_number();

        memcpy(to, &word, 8);
    }
    while (bytes-- > 0)
        *to++ = (uint8_t)(random_number() >> 11);
}

static double now_s(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static bool all(const uint8_t *at, size_t bytes, uint8_t value)
{
    return bytes == 0 || (at[0] == value && memcmp(at, at + 1, bytes - 1) == 0);
}

/* ---- memory at both ends ---- */

struct twin { /* memory of the device, and the host's copy of it */
    uint8_t *host, *device;
    size_t bytes;
};

static struct twin twin_new(size_t bytes)
{
    struct twin twin = {NULL, NULL, bytes};

    twin.host = malloc(bytes);
    EXPECT(twin.host, "no memory");
    memset(twin.host, GUARD_BYTE, bytes);
    CUDA(cudaMalloc((void **)&twin.device, bytes));
    return twin;
}

static void twin_free(struct twin *twin)
{
    free(twin->host);
    CUDA(cudaFree(twin->device));
}

static void put(const struct twin *twin)
{
    CUDA(cudaMemcpyAsync(twin->device, twin->host, twin->bytes, cudaMemcpyHostToDevice, stream));
}

static void get(const struct twin *twin)
{
    CUDA(cudaMemcpyAsync(twin->host, twin->device, twin->bytes, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
}

/* ---- the AEAD at both ends ---- */

static void gpu_begin(uint32_t slots, uint32_t sms)
{
    OK(sl_gpu_aead_new(aead, slots, sms, &gpu));
}

static void gpu_end(void)
{
    CUDA(cudaDeviceSynchronize());
    sl_gpu_aead_free(gpu);
    gpu = NULL;
}

static void keys_set(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        random_fill(keys[i], sizeof(keys[i]));
        OK(sl_gpu_aead_key_set(gpu, i, keys[i], stream));
    }
}

static void run(bool opens, size_t count)
{
    memset(verdicts, 0xff, count * sizeof(*verdicts));
    OK((opens ? sl_gpu_open : sl_gpu_seal)(gpu, jobs, verdicts, count, stream));
    CUDA(cudaStreamSynchronize(stream));
}

/* A chunk: its operands and where its parts lie in the twins. */
struct chunk {
    size_t in, out, tag; /* offsets */
    size_t bytes;
    uint32_t key, aad_bytes;
    uint8_t aad[SL_GPU_AAD_MAX], nonce[SL_NONCE_BYTES];
};

static void job_set(size_t i, const struct chunk *chunk, const struct twin *in,
                    const struct twin *out, const struct twin *tags)
{
    jobs[i] = (struct sl_gpu_job){.in = in->device + chunk->in,
                                  .out = out->device + chunk->out,
                                  .tag = tags->device + chunk->tag,
                                  .bytes = chunk->bytes,
                                  .key = chunk->key,
                                  .aad_bytes = chunk->aad_bytes};
    memcpy(jobs[i].aad, chunk->aad, sizeof(chunk->aad));
    memcpy(jobs[i].nonce, chunk->nonce, sizeof(chunk->nonce));
}

static struct sl_aead_key *cpu_key(const uint8_t *key)
{
    struct sl_aead_key *made;

    OK(sl_aead_key_new(aead, key, &made));
    return made;
}

static void cpu_seal(const struct chunk *chunk, const uint8_t *in, uint8_t *out, uint8_t *tag)
{
    struct sl_aead_key *key = cpu_key(keys[chunk->key]);
    const struct sl_aead_io io = {chunk->nonce, chunk->aad, chunk->aad_bytes,
                                  in,           out,        chunk->bytes};

    sl_aead_seal(key, &io, tag);
    sl_aead_key_free(key);
}

/* ---- chunks of many kinds in one launch ---- */

struct batch {
    struct chunk *chunks;
    size_t count;
    struct twin in, out, tags;
};

/* Places a batch's chunks behind each other, each `in` and `out` and tag so far off 16 bytes as `skew` says, with guards between. */
static struct batch batch_new(const size_t *sizes, size_t count, uint32_t key_count, bool skew)
{
    struct batch batch = {calloc(count, sizeof(struct chunk)), count, {0}, {0}, {0}};
    size_t in = GUARD, out = GUARD, tag = GUARD;

    EXPECT(batch.chunks, "no memory");
    for (size_t i = 0; i < count; i++) {
        struct chunk *chunk = &batch.chunks[i];

        chunk->in = in + (skew ? random_number() % 16 : 0);
        chunk->out = out + (skew ? random_number() % 16 : 0);
        chunk->tag = tag + (skew ? random_number() % 16 : 0);
        chunk->bytes = sizes[i];
        chunk->key = (uint32_t)(random_number() % key_count);
        chunk->aad_bytes =
            (uint32_t)(random_number() % 4 ? random_number() % (SL_GPU_AAD_MAX + 1) : 0);
        random_fill(chunk->aad, sizeof(chunk->aad)); /* what is behind aad_bytes must not count */
        random_fill(chunk->nonce, sizeof(chunk->nonce));
        in += (sizes[i] + 15) / 16 * 16 + GUARD;
        out += (sizes[i] + 15) / 16 * 16 + GUARD;
        tag += 16 + GUARD;
    }
    batch.in = twin_new(in);
    batch.out = twin_new(out);
    batch.tags = twin_new(tag);
    for (size_t i = 0; i < count; i++)
        random_fill(batch.in.host + batch.chunks[i].in, sizes[i]);
    put(&batch.in);
    put(&batch.out);
    put(&batch.tags);
    return batch;
}

static void batch_free(struct batch *batch)
{
    twin_free(&batch->in);
    twin_free(&batch->out);
    twin_free(&batch->tags);
    free(batch->chunks);
}

static void batch_run(const struct batch *batch, bool opens, const struct twin *in,
                      const struct twin *out)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct chunk chunk = batch->chunks[i];

        if (in == &batch->out)
            chunk.in = chunk.out;
        if (out == &batch->in)
            chunk.out = batch->chunks[i].in;
        job_set(i, &chunk, in, out, &batch->tags);
    }
    run(opens, batch->count);
}

/* Nothing but the chunks' own bytes was written. */
static void expect_guards(const struct twin *twin, const struct batch *batch, bool of_in)
{
    size_t at = 0;

    for (size_t i = 0; i < batch->count; i++) {
        size_t begin = of_in ? batch->chunks[i].in : batch->chunks[i].out;

        EXPECT(all(twin->host + at, begin - at, GUARD_BYTE),
               "%s: something in front of chunk %zu of %zu bytes", sl_aead_name(aead), i,
               batch->chunks[i].bytes);
        at = begin + batch->chunks[i].bytes;
    }
    EXPECT(all(twin->host + at, twin->bytes - at, GUARD_BYTE), "something behind the last chunk");
}

static void expect_verdicts(const struct batch *batch, uint32_t verdict)
{
    for (size_t i = 0; i < batch->count; i++)
        EXPECT(verdicts[i] == verdict, "%s: chunk %zu of %zu bytes: verdict %u instead of %u",
               sl_aead_name(aead), i, batch->chunks[i].bytes, verdicts[i], verdict);
}

/* The GPU seals as the CPU does; the GPU opens what the CPU sealed; in place, too. */
static void expect_both_ways(const size_t *sizes, size_t count, uint32_t key_count, bool skew)
{
    struct batch batch = batch_new(sizes, count, key_count, skew);
    struct twin plain = twin_new(batch.in.bytes);

    memcpy(plain.host, batch.in.host, batch.in.bytes);
    batch_run(&batch, false, &batch.in, &batch.out);
    expect_verdicts(&batch, SL_GPU_DONE);
    get(&batch.out);
    get(&batch.tags);
    expect_guards(&batch.out, &batch, false);
    for (size_t i = 0; i < count; i++) {
        const struct chunk *chunk = &batch.chunks[i];
        uint8_t *wanted = malloc(chunk->bytes + 1), tag[SL_TAG_BYTES];

        EXPECT(wanted, "no memory");
        cpu_seal(chunk, plain.host + chunk->in, wanted, tag);
        EXPECT(memcmp(wanted, batch.out.host + chunk->out, chunk->bytes) == 0,
               "%s: chunk %zu of %zu bytes: other ciphertext", sl_aead_name(aead), i, chunk->bytes);
        EXPECT(memcmp(tag, batch.tags.host + chunk->tag, SL_TAG_BYTES) == 0,
               "%s: chunk %zu of %zu bytes, %u of AAD: other tag", sl_aead_name(aead), i,
               chunk->bytes, chunk->aad_bytes);
        free(wanted);
    }
    /* What was compared bit for bit with the CPU's is opened; the place of the plaintext is dirty before. */
    memset(batch.in.host, GUARD_BYTE, batch.in.bytes);
    put(&batch.in);
    batch_run(&batch, true, &batch.out, &batch.in);
    expect_verdicts(&batch, SL_GPU_DONE);
    get(&batch.in);
    expect_guards(&batch.in, &batch, true);
    EXPECT(memcmp(batch.in.host, plain.host, plain.bytes) == 0, "%s: opened, and other plaintext",
           sl_aead_name(aead));
    batch_run(&batch, false, &batch.in, &batch.in); /* in place */
    get(&batch.in);
    expect_guards(&batch.in, &batch, true);
    for (size_t i = 0; i < count; i++)
        EXPECT(memcmp(batch.in.host + batch.chunks[i].in, batch.out.host + batch.chunks[i].out,
                      batch.chunks[i].bytes) == 0,
               "%s: chunk %zu of %zu bytes: other ciphertext in place", sl_aead_name(aead), i,
               batch.chunks[i].bytes);
    twin_free(&plain);
    batch_free(&batch);
}

static size_t sizes_list(size_t *sizes)
{
    static const size_t around[] = {BATCH, 1 * KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB};
    static const size_t tiny[] = {0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 1023, 2033, 2047};
    size_t count = 0;

    for (size_t i = 0; i < sizeof(tiny) / sizeof(tiny[0]); i++)
        sizes[count++] = tiny[i];
    for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++) {
        sizes[count++] = around[i] - 1;
        sizes[count++] = around[i];
        sizes[count++] = around[i] + 1;
        sizes[count++] = 2 * around[i];
    }
    return count;
}

static void test_sizes(void)
{
    static const uint32_t sms[] = {0, 1, 6};
    size_t sizes[4096], count = sizes_list(sizes);

    for (size_t s = 0; s < sizeof(sms) / sizeof(sms[0]); s++) {
        gpu_begin(SLOTS, sms[s]);
        keys_set(64);
        expect_both_ways(sizes, count, 64, false); /* many jobs: copied to the device */
        expect_both_ways(sizes, count, 64, true);
        expect_both_ways(sizes, SL_GPU_FEW_JOBS, 64, true); /* few: passed by value */
        for (size_t i = 0; i < count; i++)
            expect_both_ways(&sizes[i], 1, 64, i % 2);
        for (size_t i = count; i < 2000; i++) /* short ones, many to a group */
            sizes[i] = random_number() % (i % 10 ? 700 : 9000);
        expect_both_ways(sizes + count, small ? 300 : 2000 - count, 64, true);
        gpu_end();
    }
}

/* ---- vectors ---- */

static struct aead_vector *vectors;
static size_t vector_count;

static struct vector_bytes bytes_copy(const struct vector_bytes *bytes)
{
    struct vector_bytes copy = {malloc(bytes->count + 1), bytes->count};

    EXPECT(copy.at, "no memory");
    memcpy(copy.at, bytes->at, bytes->count);
    return copy;
}

static void vector_keep(const struct aead_vector *vector)
{
    struct aead_vector *kept;

    if (vector->aead != aead || vector->aad.count > SL_GPU_AAD_MAX)
        return;
    vectors = realloc(vectors, (vector_count + 1) * sizeof(*vectors));
    EXPECT(vectors, "no memory");
    kept = &vectors[vector_count++];
    *kept = *vector;
    kept->key = bytes_copy(&vector->key);
    kept->nonce = bytes_copy(&vector->nonce);
    kept->aad = bytes_copy(&vector->aad);
    kept->tag = bytes_copy(&vector->tag);
    if (vector->message.at)
        kept->message = bytes_copy(&vector->message);
    if (vector->ciphertext.at)
        kept->ciphertext = bytes_copy(&vector->ciphertext);
}

/* A vector that has only its ciphertext's hash: the CPU, which vectors_test judges, says it. */
static void vector_complete(struct aead_vector *vector)
{
    struct sl_aead_key *key;
    struct sl_aead_io io = {vector->nonce.at,   vector->aad.at, vector->aad.count,
                            vector->message.at, NULL,           vector->message.count};
    uint8_t tag[SL_TAG_BYTES];

    if (vector->ciphertext.at)
        return;
    vector->ciphertext = bytes_copy(&vector->message);
    io.out = vector->ciphertext.at;
    key = cpu_key(vector->key.at);
    sl_aead_seal(key, &io, tag);
    sl_aead_key_free(key);
    EXPECT(memcmp(tag, vector->tag.at, sizeof(tag)) == 0, "%s %ld: the CPU's tag", vector->file,
           vector->id);
}

static void vectors_judge(struct aead_vector *some, size_t count)
{
    size_t sizes[SLOTS];
    struct batch batch;

    for (size_t i = 0; i < count; i++) {
        vector_complete(&some[i]);
        sizes[i] = some[i].ciphertext.count;
        OK(sl_gpu_aead_key_set(gpu, (uint32_t)i, some[i].key.at, stream));
    }
    batch = batch_new(sizes, count, 1, true);
    for (size_t i = 0; i < count; i++) {
        struct chunk *chunk = &batch.chunks[i];

        chunk->key = (uint32_t)i;
        chunk->aad_bytes = (uint32_t)some[i].aad.count;
        memcpy(chunk->aad, some[i].aad.at, some[i].aad.count);
        memcpy(chunk->nonce, some[i].nonce.at, SL_NONCE_BYTES);
        memcpy(batch.in.host + chunk->in,
               some[i].valid ? some[i].message.at : some[i].ciphertext.at, sizes[i]);
    }
    put(&batch.in);
    batch_run(&batch, false, &batch.in, &batch.out);
    get(&batch.out);
    get(&batch.tags);
    for (size_t i = 0; i < count; i++) {
        struct chunk *chunk = &batch.chunks[i];

        EXPECT(!some[i].valid ||
                   memcmp(batch.out.host + chunk->out, some[i].ciphertext.at, sizes[i]) == 0,
               "%s %ld: other ciphertext", some[i].file, some[i].id);
        EXPECT(!some[i].valid ||
                   memcmp(batch.tags.host + chunk->tag, some[i].tag.at, SL_TAG_BYTES) == 0,
               "%s %ld: other tag", some[i].file, some[i].id);
        memcpy(batch.out.host + chunk->out, some[i].ciphertext.at, sizes[i]);
        memcpy(batch.tags.host + chunk->tag, some[i].tag.at, SL_TAG_BYTES);
    }
    put(&batch.out);
    put(&batch.tags);
    batch_run(&batch, true, &batch.out, &batch.in);
    get(&batch.in);
    for (size_t i = 0; i < count; i++) {
        uint8_t *out = batch.in.host + batch.chunks[i].in;

        EXPECT(verdicts[i] == (some[i].valid ? SL_GPU_DONE : SL_GPU_BAD_TAG), "%s %ld: verdict %u",
               some[i].file, some[i].id, verdicts[i]);
        EXPECT(some[i].valid ? memcmp(out, some[i].message.at, sizes[i]) == 0
                             : all(out, sizes[i], 0),
               "%s %ld: what open left", some[i].file, some[i].id);
    }
    batch_free(&batch);
}

static void test_vectors(void)
{
    static const char *const files[] = {"rfc8439.json",
                                        "wycheproof_chacha20_poly1305_test.json",
                                        "own_sizes_aead.json",
                                        "nist_gcmEncryptExtIV128.rsp",
                                        "nist_gcmEncryptExtIV256.rsp",
                                        "nist_gcmDecrypt128.rsp",
                                        "nist_gcmDecrypt256.rsp",
                                        "mcgrew_viega_gcm.json",
                                        "wycheproof_aes_gcm_test.json",
                                        "wycheproof_aes_gmac_test.json"};

    gpu_begin(SLOTS, 0);
    vector_count = 0;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        (void)vectors_each(files[i], vector_keep);
    EXPECT(vector_count > 100, "%zu vectors", vector_count);
    for (size_t at = 0; at < vector_count; at += SLOTS)
        vectors_judge(vectors + at, vector_count - at < SLOTS ? vector_count - at : SLOTS);
    printf("  %zu vectors\n", vector_count);
    gpu_end();
}

/* ---- 3 GiB ---- */

static void large_run(size_t bytes, size_t chunk_bytes)
{
    struct twin plain = twin_new(bytes), sealed = twin_new(bytes),
                tags = twin_new(bytes / chunk_bytes * 16 + 16);
    size_t count = (bytes + chunk_bytes - 1) / chunk_bytes;
    struct chunk *chunks = calloc(count, sizeof(*chunks));
    uint8_t *wanted = malloc(chunk_bytes), tag[SL_TAG_BYTES];

    EXPECT(chunks && wanted && count <= JOBS_MAX, "no memory");
    random_fill(plain.host, bytes);
    put(&plain);
    for (size_t i = 0; i < count; i++) {
        chunks[i] = (struct chunk){.in = i * chunk_bytes,
                                   .out = i * chunk_bytes,
                                   .tag = i * 16,
                                   .bytes = i + 1 < count ? chunk_bytes : bytes - i * chunk_bytes,
                                   .key = (uint32_t)i % 64,
                                   .aad_bytes = (uint32_t)i % 17};
        memcpy(chunks[i].nonce, &i, sizeof(i));
        job_set(i, &chunks[i], &plain, &sealed, &tags);
    }
    run(false, count);
    get(&sealed);
    get(&tags);
    for (size_t i = 0; i < count; i++) {
        cpu_seal(&chunks[i], plain.host + chunks[i].in, wanted, tag);
        EXPECT(memcmp(wanted, sealed.host + chunks[i].out, chunks[i].bytes) == 0,
               "chunk %zu: other ciphertext", i);
        EXPECT(memcmp(tag, tags.host + chunks[i].tag, SL_TAG_BYTES) == 0, "chunk %zu: other tag",
               i);
    }
    CUDA(cudaMemsetAsync(plain.device, 0x5A, bytes, stream));
    for (size_t i = 0; i < count; i++)
        job_set(i, &chunks[i], &sealed, &plain, &tags);
    run(true, count);
    get(&sealed); /* unchanged, and a wait */
    CUDA(cudaMemcpy(sealed.host, plain.device, bytes, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(sealed.host, plain.host, bytes) == 0, "other plaintext");
    for (size_t i = 0; i < count; i++)
        EXPECT(verdicts[i] == SL_GPU_DONE, "chunk %zu: verdict %u", i, verdicts[i]);
    free(chunks);
    free(wanted);
    twin_free(&plain);
    twin_free(&sealed);
    twin_free(&tags);
}

static void test_large(void)
{
    size_t bytes = small ? 8 * MIB : (size_t)3 << 30;

    gpu_begin(SLOTS, 0);
    keys_set(64);
    large_run(bytes, 64 * KIB);
    large_run(small ? 3 * MIB + 5 : ((size_t)1 << 30) + 5,
              small ? 3 * MIB + 5 : ((size_t)1 << 30) + 5); /* one chunk */
    gpu_end();
}

/* ---- what must be refused ---- */

static void test_flips(void)
{
    enum {
        COUNT = 96
    };
    size_t sizes[COUNT];

    gpu_begin(SLOTS, 0);
    keys_set(64);
    for (int round = 0; round < (small ? 2 : 20); round++) {
        struct batch batch;
        bool flipped[COUNT];

        for (size_t i = 0; i < COUNT; i++)
            sizes[i] = random_number() % (i % 8 ? 5000 : 150000) + (i % 16 ? 1 : 0);
        batch = batch_new(sizes, COUNT, 64, round % 2);
        struct twin plain = twin_new(batch.in.bytes);

        memcpy(plain.host, batch.in.host, plain.bytes);
        batch_run(&batch, false, &batch.in, &batch.out);
        get(&batch.out);
        get(&batch.tags);
        for (size_t i = 0; i < COUNT; i++) {
            struct chunk *chunk = &batch.chunks[i];
            uint8_t bit = (uint8_t)(1u << random_number() % 8);
            uint64_t kind = random_number() % 8;

            flipped[i] = true;
            if (kind == 0 && chunk->bytes > 0)
                batch.out.host[chunk->out + random_number() % chunk->bytes] ^= bit;
            else if (kind == 1)
                batch.tags.host[chunk->tag + random_number() % SL_TAG_BYTES] ^= bit;
            else if (kind == 2 && chunk->aad_bytes > 0)
                chunk->aad[random_number() % chunk->aad_bytes] ^= bit;
            else if (kind == 3)
                chunk->nonce[random_number() % SL_NONCE_BYTES] ^= bit;
            else if (kind == 4 && chunk->bytes > 0)
                batch.out.host[chunk->out + chunk->bytes - 1] ^= bit;
            else
                flipped[i] = false;
        }
        put(&batch.out);
        put(&batch.tags);
        memset(batch.in.host, GUARD_BYTE, batch.in.bytes);
        put(&batch.in);
        batch_run(&batch, true, &batch.out, &batch.in);
        get(&batch.in);
        expect_guards(&batch.in, &batch, true);
        for (size_t i = 0; i < COUNT; i++) {
            const struct chunk *chunk = &batch.chunks[i];
            const uint8_t *out = batch.in.host + chunk->in;

            EXPECT(verdicts[i] == (flipped[i] ? SL_GPU_BAD_TAG : SL_GPU_DONE),
                   "chunk %zu of %zu bytes: verdict %u", i, chunk->bytes, verdicts[i]);
            EXPECT(flipped[i] ? all(out, chunk->bytes, 0)
                              : memcmp(out, plain.host + chunk->in, chunk->bytes) == 0,
                   "chunk %zu of %zu bytes: what open left", i, chunk->bytes);
        }
        twin_free(&plain);
        batch_free(&batch);
    }
    gpu_end();
}

/* A peer writes while we open: what is accepted is what was sealed. */
static void test_writer(void)
{
    enum {
        COUNT = 512,
        BYTES = 8192
    };
    size_t sizes[COUNT], accepted = 0, refused = 0, wanted = small ? 2048 : 100000;
    cudaStream_t peer;
    uint32_t *stop;
    struct batch batch;
    struct twin plain;

    gpu_begin(SLOTS, 0);
    keys_set(64);
    for (size_t i = 0; i < COUNT; i++)
        sizes[i] = BYTES;
    batch = batch_new(sizes, COUNT, 64, false);
    for (size_t i = 0; i < COUNT; i++) /* without guards: the writer knows chunks of one size */
        batch.chunks[i].in = batch.chunks[i].out = i * BYTES;
    random_fill(batch.in.host, batch.in.bytes);
    put(&batch.in);
    plain = twin_new(batch.in.bytes);
    memcpy(plain.host, batch.in.host, plain.bytes);
    batch_run(&batch, false, &batch.in, &batch.out);
    CUDA(cudaStreamCreateWithFlags(&peer, cudaStreamNonBlocking));
    CUDA(cudaHostAlloc((void **)&stop, sizeof(*stop), cudaHostAllocMapped));
    *stop = 0;
    CUDA(writer_start(batch.out.device, COUNT, BYTES, stop, peer));
    while (accepted + refused < wanted) {
        CUDA(cudaMemsetAsync(batch.in.device, 0x5A, batch.in.bytes, stream));
        batch_run(&batch, true, &batch.out, &batch.in);
        get(&batch.in);
        for (size_t i = 0; i < COUNT; i++) {
            const uint8_t *out = batch.in.host + i * BYTES;

            if (verdicts[i] == SL_GPU_DONE)
                EXPECT(memcmp(out, plain.host + i * BYTES, BYTES) == 0,
                       "accepted, and wrong: chunk %zu", i);
            else
                EXPECT(verdicts[i] == SL_GPU_BAD_TAG && all(out, BYTES, 0),
                       "refused, and something is left: chunk %zu", i);
            *(verdicts[i] == SL_GPU_DONE ? &accepted : &refused) += 1;
        }
    }
    *(volatile uint32_t *)stop = 1;
    CUDA(cudaStreamSynchronize(peer));
    printf("  %zu accepted, %zu refused, 0 accepted and wrong\n", accepted, refused);
    EXPECT(accepted > wanted / 100 && refused > wanted / 1000,
           "the writer was not in the way, or always");
    CUDA(cudaStreamDestroy(peer));
    CUDA(cudaFreeHost(stop));
    twin_free(&plain);
    batch_free(&batch);
    gpu_end();
}

static void test_arguments(void)
{
    struct sl_gpu_aead *none;

    gpu_begin(4, 0);
    jobs[0] = (struct sl_gpu_job){.bytes = UINT64_MAX};
    EXPECT(sl_gpu_seal(gpu, jobs, verdicts, 1, stream) == SEALANE_INVALID_ARGUMENT, "too long");
    jobs[0] = (struct sl_gpu_job){.key = 4};
    EXPECT(sl_gpu_seal(gpu, jobs, verdicts, 1, stream) == SEALANE_INVALID_ARGUMENT, "no such slot");
    jobs[0] = (struct sl_gpu_job){.aad_bytes = SL_GPU_AAD_MAX + 1};
    EXPECT(sl_gpu_open(gpu, jobs, verdicts, 1, stream) == SEALANE_INVALID_ARGUMENT, "too much AAD");
    EXPECT(sl_gpu_aead_key_wipe(gpu, 4, stream) == SEALANE_INVALID_ARGUMENT, "no such slot");
    OK(sl_gpu_seal(gpu, jobs, verdicts, 0, stream));
    EXPECT(sl_gpu_aead_new(SL_AEAD_PLAIN, 4, 0, &none) == SEALANE_UNIMPLEMENTED, "no such AEAD");
    EXPECT(sl_gpu_aead_new(aead, 0, 0, &none) == SEALANE_INVALID_ARGUMENT, "no slots");
    gpu_end();
}

/* ---- keys ---- */

static const void *watched;
static size_t watched_bytes;
static unsigned watched_freed;

/* Linked with --wrap=cudaFree: the table is looked at in the last moment. */
cudaError_t __real_cudaFree(void *at);
cudaError_t __wrap_cudaFree(void *at);
cudaError_t __wrap_cudaFree(void *at)
{
    if (at && at == watched) {
        uint8_t *copy = malloc(watched_bytes);

        EXPECT(copy, "no memory");
        CUDA(cudaMemcpy(copy, at, watched_bytes, cudaMemcpyDeviceToHost));
        EXPECT(all(copy, watched_bytes, 0), "a table is freed with keys in it");
        free(copy);
        watched_freed++;
    }
    return __real_cudaFree(at);
}

static bool slot_is_zero(uint32_t slot)
{
    size_t bytes = gpu->shape.slot_bytes;
    uint8_t *copy = malloc(bytes);
    bool zero;

    EXPECT(copy, "no memory");
    CUDA(cudaMemcpyAsync(copy, gpu->keys + slot * bytes, bytes, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    zero = all(copy, bytes, 0);
    free(copy);
    return zero;
}

static void test_keys(void)
{
    const size_t size = 3000;

    gpu_begin(70, 0);
    keys_set(70); /* more than are on their way at a time */
    CUDA(cudaStreamSynchronize(stream));
    EXPECT(all((const uint8_t *)gpu->staged, SL_GPU_STAGED * sizeof(*gpu->staged), 0),
           "a copy of a key is left on its way");
    EXPECT(!slot_is_zero(3) && !slot_is_zero(4), "no key there");
    OK(sl_gpu_aead_key_wipe(gpu, 3, stream));
    EXPECT(slot_is_zero(3) && !slot_is_zero(4), "one is wiped, its neighbour is not");
    expect_both_ways(&size, 1, 3, false);

    /* A new key in the order of the stream: launches in front of it have the old one. */
    {
        struct twin in = twin_new(4096), out = twin_new(3 * 4096), tags = twin_new(64);
        uint8_t wanted[4096], tag[SL_TAG_BYTES];

        put(&in);
        for (size_t i = 0; i < 3; i++) {
            struct chunk chunk = {.out = i * 4096, .tag = i * 16, .bytes = 4096};

            random_fill(keys[i], sizeof(keys[i]));
            OK(sl_gpu_aead_key_set(gpu, 0, keys[i], stream));
            job_set(i, &chunk, &in, &out, &tags);
            OK(sl_gpu_seal(gpu, &jobs[i], &verdicts[i], 1, stream));
        }
        get(&out);
        get(&tags);
        for (uint32_t i = 0; i < 3; i++) {
            struct chunk chunk = {.bytes = 4096, .key = i};

            cpu_seal(&chunk, in.host, wanted, tag);
            EXPECT(memcmp(wanted, out.host + (size_t)i * 4096, 4096) == 0, "key %u is out of order",
                   i);
        }
        twin_free(&in);
        twin_free(&out);
        twin_free(&tags);
    }
    watched = gpu->keys;
    watched_bytes = gpu->slots * gpu->shape.slot_bytes;
    gpu_end();
    EXPECT(watched_freed == 1, "the table was not freed");
    watched = NULL;
    watched_freed = 0;
}

/* ---- constant time ---- */

struct statistics { /* Welford */
    double count, mean, squares;
};

static void statistics_add(struct statistics *of, double value)
{
    double off = value - of->mean;

    of->count++;
    of->mean += off / of->count;
    of->squares += off * (value - of->mean);
}

static double welch(const struct statistics *a, const struct statistics *b)
{
    double of_a = a->squares / (a->count - 1) / a->count,
           of_b = b->squares / (b->count - 1) / b->count;

    return of_a + of_b > 0      ? (a->mean - b->mean) / sqrt(of_a + of_b)
           : a->mean == b->mean ? 0
                                : INFINITY;
}

enum {
    MANY =
        256 /* random keys or messages; number 0 is the fixed one. Their copies in use are always at the same places */
};

static void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

/* What may be chosen: messages, and for open what they became. */
static void messages_make(struct twin *in, struct twin *out, struct twin *tags, size_t bytes,
                          bool of_keys)
{
    random_fill(in->host, in->bytes);
    memset(in->host, 0, bytes);
    put(in);
    for (size_t i = 0; i <= MANY; i++) {
        struct chunk chunk = {.in = (of_keys ? 0 : i) * bytes,
                              .out = i * bytes,
                              .tag = i * SL_TAG_BYTES,
                              .bytes = bytes,
                              .key = of_keys ? (uint32_t)i : 0};

        job_set(i, &chunk, in, out, tags);
    }
    run(false, MANY + 1);
}

/* One block's cycles, where the one key (or message) or one of many is chosen at random each time. */
static void cycles_compare(bool opens, bool of_keys, size_t bytes, size_t runs)
{
    struct statistics fixed = {0}, varied = {0};
    struct twin in = twin_new((MANY + 2) * bytes), out = twin_new((MANY + 2) * bytes);
    struct twin tags = twin_new(SL_TAG_BYTES * (MANY + 2));
    size_t slot_bytes = gpu->shape.slot_bytes, last = MANY + 1;
    struct chunk chunk = {.in = last * bytes,
                          .out = last * bytes,
                          .tag = last * SL_TAG_BYTES,
                          .bytes = bytes,
                          .key = SLOTS - 1};
    double t;

    messages_make(&in, &out, &tags, bytes, of_keys);
    job_set(0, &chunk, opens ? &out : &in, opens ? &in : &out, &tags);
    for (size_t i = 0; i < 2 * runs + 1000; i++) {
        bool vary = random_number() >> 20 & 1;
        size_t which = vary ? 1 + random_number() % MANY : 0;

        copy(gpu->keys + (SLOTS - 1) * slot_bytes, gpu->keys + (of_keys ? which : 0) * slot_bytes,
             slot_bytes);
        if (opens) {
            copy(out.device + last * bytes, out.device + which * bytes, bytes);
            copy(tags.device + last * SL_TAG_BYTES, tags.device + which * SL_TAG_BYTES,
                 SL_TAG_BYTES);
        } else {
            copy(in.device + last * bytes, in.device + (of_keys ? 0 : which) * bytes, bytes);
        }
        OK((opens ? sl_gpu_open : sl_gpu_seal)(gpu, jobs, verdicts, 1, stream));
        CUDA(cudaStreamSynchronize(stream));
        EXPECT(verdicts[0] == SL_GPU_DONE, "verdict %u", verdicts[0]);
        if (i >= 1000) /* warm */
            statistics_add(vary ? &varied : &fixed, (double)*(volatile uint64_t *)gpu->cycles);
    }
    t = welch(&fixed, &varied);
    printf(
        "  %s, %s fixed against random, %zu bytes: %.0f and %.0f runs, %.1f and %.1f cycles, sd %.1f and %.1f, t = %.2f\n",
        opens ? "open" : "seal", of_keys ? "keys" : "data", bytes, fixed.count, varied.count,
        fixed.mean, varied.mean, sqrt(fixed.squares / fixed.count),
        sqrt(varied.squares / varied.count), t);
    EXPECT(fabs(t) < 4.5, "time depends on a secret");
    twin_free(&in);
    twin_free(&out);
    twin_free(&tags);
}

static void test_time(void)
{
    size_t runs = small ? 1000 : 100000;

    gpu_begin(SLOTS, 0);
    keys_set(SLOTS);
    CUDA(cudaHostAlloc((void **)&gpu->cycles, sizeof(*gpu->cycles), cudaHostAllocMapped));
    uint64_t *cycles = gpu->cycles;
    for (int i = 0; i < 4; i++)
        cycles_compare(i & 1, i & 2, 2048, runs);
    gpu_end();
    CUDA(cudaFreeHost(cycles));
}

/* ---- all ---- */

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {{"arguments", test_arguments}, {"vectors", test_vectors}, {"sizes", test_sizes},
             {"flips", test_flips},         {"keys", test_keys},       {"writer", test_writer},
             {"large", test_large},         {"time", test_time}};

static bool wanted(const char *name, int argc, char **argv)
{
    bool named = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--aead") == 0)
            i++;
        else if (strcmp(argv[i], "--small") != 0) {
            named = true;
            if (strcmp(argv[i], name) == 0)
                return true;
        }
    }
    return !named;
}

static void run_all(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        double begun = now_s();

        if (!wanted(tests[i].name, argc, argv))
            continue;
        tests[i].run();
        printf("%s: %s passed (%.1f s)\n", sl_aead_name(aead), tests[i].name, now_s() - begun);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    int devices = 0, only = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);
    struct sl_gpu_shape shape;

    if (error != cudaSuccess || devices == 0) {
        printf("skipped: no GPU (%s)\n", cudaGetErrorString(error));
        return SKIPPED;
    }
    for (int i = 1; i < argc; i++) {
        small = small || strcmp(argv[i], "--small") == 0;
        if (strcmp(argv[i], "--aead") == 0 && i + 1 < argc)
            only = atoi(argv[i + 1]);
    }
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaHostAlloc((void **)&jobs, JOBS_MAX * sizeof(*jobs), cudaHostAllocMapped));
    CUDA(cudaHostAlloc((void **)&verdicts, JOBS_MAX * sizeof(*verdicts), cudaHostAllocMapped));
    for (size_t i = 0; i < sizeof(aeads) / sizeof(aeads[0]); i++) {
        aead = aeads[i];
        if ((only == 0 || only == (int)aead) && sl_gpu_kind_shape(aead, &shape))
            run_all(argc, argv);
    }
    CUDA(cudaStreamDestroy(stream));
    CUDA(cudaFreeHost(jobs));
    CUDA(cudaFreeHost(verdicts));
    CUDA(cudaDeviceReset());
    return 0;
}
