/* SPDX-License-Identifier: Apache-2.0 */
/* memory_contract.h - what memory.h means, as tests of any kind. A kind names its world and instantiates all of them with one
 * line: MEMORY_CONTRACT(memory_host, &host_world). Everything is checked through struct sl_memory_ops only. */
#ifndef MEMORY_CONTRACT_H
#define MEMORY_CONTRACT_H

#include "transport/memory.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct memory_world {
    enum sealane_status (*make)(struct sl_memory **memory_p);
    /* Copies between the host's memory and the kind's, rings included. */
    void (*put)(struct sl_memory *memory, void *to, const void *from, size_t bytes);
    void (*get)(struct sl_memory *memory, void *to, const void *from, size_t bytes);
};

enum {
    RECORDS = 36, /* each size with each AEAD */
    RECORD_MAX = 65536,
    RECORD_AT = 128, /* the ciphertext in its slot, as in a bulk ring */
    SLOT_STRIDE = RECORD_MAX + RECORD_AT,
    POLLS_MAX = 1000000
};

static const size_t record_bytes[] = {0,    1,    15,   16,    17,    64,
                                      1000, 4096, 8191, 16384, 65535, RECORD_MAX};

/* One record: the host knows all of it; its plaintext also has a place in the kind's memory, its slot is in a ring. */
struct record {
    struct sl_aead_key *key;
    uint8_t nonce[SL_NONCE_BYTES];
    uint8_t aad[16];
    size_t aad_bytes;
    size_t bytes;
    uint8_t *plaintext, *ciphertext;
    uint8_t tag[SL_TAG_BYTES];
    uint8_t *slot;
    uint8_t *place;
};

struct bench_of_records {
    const struct memory_world *world;
    const struct sl_memory_ops *ops;
    struct sl_memory *memory;
    struct sl_aead_key *keys[3];
    struct sl_ring_memory ring;
    struct record records[RECORDS];
    struct sl_job jobs[RECORDS];
};

/* ---- doing ---- */

static void record_make(struct bench_of_records *bench, size_t i)
{
    struct record *record = &bench->records[i];
    struct sl_aead_io io;
    void *place;

    *record = (struct record){.key = bench->keys[i % 3], .bytes = record_bytes[i / 3]};
    record->nonce[0] = (uint8_t)i;
    record->aad[0] = (uint8_t)(i + 1);
    record->aad_bytes = i % 2 ? sizeof(record->aad) : 0;
    record->plaintext = malloc(record->bytes + 1);
    record->ciphertext = malloc(record->bytes + 1);
    cr_assert(record->plaintext && record->ciphertext);
    for (size_t b = 0; b < record->bytes; b++)
        record->plaintext[b] = (uint8_t)(b * 7 + (b >> 8) + i);
    io = (struct sl_aead_io){.nonce = record->nonce,
                             .aad = record->aad,
                             .aad_bytes = record->aad_bytes,
                             .in = record->plaintext,
                             .out = record->ciphertext,
                             .bytes = record->bytes};
    sl_aead_seal(record->key, &io, record->tag);
    record->slot = bench->ring.base + i * SLOT_STRIDE;
    cr_assert_eq(bench->ops->alloc(bench->memory, record->bytes, &place), SEALANE_OK);
    record->place = place;
}

static struct bench_of_records *bench_new(const struct memory_world *world)
{
    static const uint8_t key[SL_AEAD_KEY_MAX] = "one key for each of the ciphers";
    struct bench_of_records *bench = calloc(1, sizeof(*bench));

    cr_assert_not_null(bench);
    bench->world = world;
    cr_assert_eq(world->make(&bench->memory), SEALANE_OK);
    bench->ops = sl_memory_ops(bench->memory);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(sl_aead_key_new(sl_aead_supported[i % sl_aead_supported_count], key,
                                     &bench->keys[i]),
                     SEALANE_OK);
    cr_assert_eq(bench->ops->ring_alloc(bench->memory, SL_PLACE_DEVICE, RECORDS * SLOT_STRIDE,
                                        &bench->ring),
                 SEALANE_OK);
    for (size_t i = 0; i < RECORDS; i++)
        record_make(bench, i);
    return bench;
}

static void bench_free(struct bench_of_records *bench)
{
    for (size_t i = 0; i < RECORDS; i++) {
        bench->ops->free(bench->memory, bench->records[i].place, bench->records[i].bytes);
        free(bench->records[i].plaintext);
        free(bench->records[i].ciphertext);
    }
    for (size_t i = 0; i < 3; i++)
        sl_aead_key_free(bench->keys[i]);
    bench->ops->ring_free(bench->memory, &bench->ring);
    bench->ops->close(bench->memory);
    free(bench);
}

static struct sl_job job_of(const struct record *record)
{
    struct sl_job job = {.key = record->key,
                         .aad = record->aad_bytes > 0 ? record->aad : NULL,
                         .aad_bytes = record->aad_bytes,
                         .bytes = record->bytes,
                         .tag = record->slot,
                         .state = SL_JOB_PENDING};

    memcpy(job.nonce, record->nonce, sizeof(job.nonce));
    return job;
}

/* A job that seals the record from its place into its slot. */
static void seal_prepare(struct bench_of_records *bench, size_t i)
{
    const struct record *record = &bench->records[i];

    bench->world->put(bench->memory, record->place, record->plaintext, record->bytes);
    bench->jobs[i] = job_of(record);
    bench->jobs[i].in = record->place;
    bench->jobs[i].out = record->slot + RECORD_AT;
}

/* The record lies in its slot; a job that opens it into its place. */
static void open_prepare(struct bench_of_records *bench, size_t i)
{
    const struct record *record = &bench->records[i];

    bench->world->put(bench->memory, record->slot, record->tag, sizeof(record->tag));
    bench->world->put(bench->memory, record->slot + RECORD_AT, record->ciphertext, record->bytes);
    bench->jobs[i] = job_of(record);
    bench->jobs[i].in = record->slot + RECORD_AT;
    bench->jobs[i].out = record->place;
}

static size_t jobs_pending(const struct bench_of_records *bench)
{
    size_t pending = 0;

    for (size_t i = 0; i < RECORDS; i++)
        pending += bench->jobs[i].state == SL_JOB_PENDING;
    return pending;
}

/* Polls until nothing is pending; each poll must tell what it finished. */
static void finish_all(struct bench_of_records *bench)
{
    size_t pending = jobs_pending(bench);

    for (int polls = 0; pending > 0; polls++) {
        size_t finished = bench->ops->poll(bench->memory);

        cr_assert_eq(jobs_pending(bench), pending - finished, "poll told %zu of %zu", finished,
                     pending - jobs_pending(bench));
        pending -= finished;
        cr_assert_lt(polls, POLLS_MAX, "%zu jobs never finish", pending);
    }
    cr_assert_eq(bench->ops->poll(bench->memory), 0);
}

static void expect_bytes(struct bench_of_records *bench, const void *at, const uint8_t *wanted,
                         size_t bytes)
{
    uint8_t *seen = malloc(bytes + 1);

    cr_assert_not_null(seen);
    bench->world->get(bench->memory, seen, at, bytes);
    cr_assert_arr_eq(seen, wanted, bytes);
    free(seen);
}

static void expect_opened(struct bench_of_records *bench, size_t i)
{
    const struct record *record = &bench->records[i];

    cr_assert_eq(bench->jobs[i].state, SL_JOB_DONE, "record %zu of %zu bytes", i, record->bytes);
    expect_bytes(bench, record->place, record->plaintext, record->bytes);
}

static void expect_refused(struct bench_of_records *bench, size_t i)
{
    const struct record *record = &bench->records[i];
    uint8_t *zeros = calloc(1, record->bytes + 1);

    cr_assert_not_null(zeros);
    cr_assert_eq(bench->jobs[i].state, SL_JOB_BAD_TAG, "record %zu of %zu bytes", i, record->bytes);
    expect_bytes(bench, record->place, zeros, record->bytes);
    free(zeros);
}

static void flip(struct bench_of_records *bench, uint8_t *at)
{
    uint8_t byte;

    bench->world->get(bench->memory, &byte, at, 1);
    byte ^= 0x10;
    bench->world->put(bench->memory, at, &byte, 1);
}

/* ---- the tests ---- */

static inline void invariant_11_has_every_entry(const struct memory_world *world)
{
    const struct sl_memory_ops *ops;
    struct sl_memory *memory;

    cr_assert_eq(world->make(&memory), SEALANE_OK);
    ops = sl_memory_ops(memory);
    cr_assert(ops->name && ops->owns && ops->alloc && ops->free && ops->ring_alloc &&
              ops->ring_free && ops->seal && ops->open && ops->poll && ops->wipe && ops->close);
    ops->close(memory);
}

static inline void gives_aligned_memory_that_it_owns(const struct memory_world *world)
{
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 4095, 4096, 4097, 1 << 20, (4 << 20) - 1, 4 << 20, (4 << 20) + 1};
    const struct sl_memory_ops *ops;
    struct sl_memory *memory;
    uint8_t first = 0xF1, last = 0xA5, seen;

    cr_assert_eq(world->make(&memory), SEALANE_OK);
    ops = sl_memory_ops(memory);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *bytes;
        void *at;

        cr_assert_eq(ops->alloc(memory, sizes[i], &at), SEALANE_OK);
        bytes = at;
        cr_assert_eq((uintptr_t)at % 64, 0);
        cr_assert(ops->owns(memory, at, sizes[i]));
        if (sizes[i] > 1) {
            world->put(memory, bytes, &first, 1);
            world->put(memory, bytes + sizes[i] - 1, &last, 1);
            world->get(memory, &seen, bytes, 1);
            cr_assert_eq(seen, first);
            world->get(memory, &seen, bytes + sizes[i] - 1, 1);
            cr_assert_eq(seen, last);
        }
        ops->free(memory, at, sizes[i]);
    }
    ops->close(memory);
}

static inline void uses_freed_memory_again(const struct memory_world *world)
{
    struct sl_memory *memory;
    void *at;

    cr_assert_eq(world->make(&memory), SEALANE_OK);
    for (int round = 0; round < 2000; round++) {
        cr_assert_eq(sl_memory_ops(memory)->alloc(memory, 4 << 20, &at), SEALANE_OK);
        sl_memory_ops(memory)->free(memory, at, 4 << 20);
    }
    sl_memory_ops(memory)->close(memory);
}

static inline void refuses_more_memory_than_there_is(const struct memory_world *world)
{
    struct sl_ring_memory ring = {.fd = -7};
    struct sl_memory *memory;
    void *at = &memory;

    cr_assert_eq(world->make(&memory), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(memory)->alloc(memory, SIZE_MAX / 2, &at),
                 SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_eq(at, &memory, "outputs are set on success only");
    cr_assert_neq(sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_HOST, SIZE_MAX / 4, &ring),
                  SEALANE_OK);
    cr_assert_neq(sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_HOST, SIZE_MAX, &ring),
                  SEALANE_OK);
    cr_assert_eq(ring.fd, -7);
    sl_memory_ops(memory)->close(memory);
}

static inline void gives_rings_of_whole_zeroed_pages(const struct memory_world *world)
{
    static const size_t sizes[] = {1, 4096, 4097, 300000};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct sl_memory *memory;

    cr_assert_eq(world->make(&memory), SEALANE_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct sl_ring_memory ring;
        uint8_t *seen;

        cr_assert_eq(sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_DEVICE, sizes[i], &ring),
                     SEALANE_OK);
        cr_assert_eq(ring.bytes, (sizes[i] + page - 1) / page * page);
        cr_assert_eq((uintptr_t)ring.base % page, 0);
        seen = malloc(ring.bytes);
        cr_assert_not_null(seen);
        world->get(memory, seen, ring.base, ring.bytes);
        cr_assert(seen[0] == 0 && memcmp(seen, seen + 1, ring.bytes - 1) == 0);
        free(seen);
        sl_memory_ops(memory)->ring_free(memory, &ring);
    }
    sl_memory_ops(memory)->close(memory);
}

/* A peer is given this descriptor: it must not be able to cut the memory from under us. */
static inline void seals_the_file_behind_a_ring(const struct memory_world *world)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct sl_ring_memory ring;
    struct sl_memory *memory;
    struct stat file;
    int fd;

    cr_assert_eq(world->make(&memory), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_HOST, 10000, &ring),
                 SEALANE_OK);
    fd = ring.fd;
    if (fd >= 0) {
        cr_assert_eq(fcntl(fd, F_GET_SEALS) & seals, seals);
        cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        cr_assert_eq(fstat(fd, &file), 0);
        cr_assert_eq((size_t)file.st_size, ring.bytes);
        cr_assert_neq(ftruncate(fd, 0), 0);
        cr_assert_neq(ftruncate(fd, (off_t)(2 * ring.bytes)), 0);
    }
    sl_memory_ops(memory)->ring_free(memory, &ring);
    cr_assert(fd < 0 || fcntl(fd, F_GETFD) == -1, "the descriptor is still open");
    sl_memory_ops(memory)->close(memory);
}

static inline void seals_the_same_records_as_the_cpu(const struct memory_world *world)
{
    struct bench_of_records *bench = bench_new(world);

    for (size_t i = 0; i < RECORDS; i++)
        seal_prepare(bench, i);
    bench->ops->seal(bench->memory, bench->jobs, RECORDS);
    finish_all(bench);
    for (size_t i = 0; i < RECORDS; i++) {
        const struct record *record = &bench->records[i];

        cr_assert_eq(bench->jobs[i].state, SL_JOB_DONE);
        expect_bytes(bench, record->slot, record->tag, sizeof(record->tag));
        expect_bytes(bench, record->slot + RECORD_AT, record->ciphertext, record->bytes);
        expect_bytes(bench, record->place, record->plaintext, record->bytes);
    }
    bench_free(bench);
}

static inline void opens_what_the_cpu_sealed(const struct memory_world *world)
{
    struct bench_of_records *bench = bench_new(world);

    for (size_t i = 0; i < RECORDS; i++)
        open_prepare(bench, i);
    bench->ops->open(bench->memory, bench->jobs, RECORDS);
    finish_all(bench);
    for (size_t i = 0; i < RECORDS; i++)
        expect_opened(bench, i);
    bench_free(bench);
}

/* Every third record is damaged: its tag, its associated data or nonce, or its ciphertext. */
static inline void refuses_one_bad_tag_and_no_other_job(const struct memory_world *world)
{
    struct bench_of_records *bench = bench_new(world);

    for (size_t i = 0; i < RECORDS; i++) {
        open_prepare(bench, i);
        if (i % 3 == 1 && i % 2 == 1)
            bench->jobs[i].aad_bytes--;
        else if (i % 3 == 1 && i % 4 == 0 && bench->records[i].bytes > 0)
            flip(bench, bench->records[i].slot + RECORD_AT + bench->records[i].bytes - 1);
        else if (i % 3 == 1)
            flip(bench, bench->records[i].slot + i % SL_TAG_BYTES);
    }
    bench->ops->open(bench->memory, bench->jobs, RECORDS);
    finish_all(bench);
    for (size_t i = 0; i < RECORDS; i++) {
        if (i % 3 == 1)
            expect_refused(bench, i);
        else
            expect_opened(bench, i);
    }
    bench_free(bench);
}

static inline void takes_further_batches_before_the_first_is_done(const struct memory_world *world)
{
    struct bench_of_records *bench = bench_new(world);

    for (size_t i = 0; i < RECORDS; i++) {
        if (i < RECORDS / 2)
            open_prepare(bench, i);
        else
            seal_prepare(bench, i);
    }
    for (size_t i = 0; i < RECORDS; i += 3) {
        if (i < RECORDS / 2)
            bench->ops->open(bench->memory, &bench->jobs[i], 3);
        else
            bench->ops->seal(bench->memory, &bench->jobs[i], 3);
    }
    finish_all(bench);
    for (size_t i = 0; i < RECORDS / 2; i++)
        expect_opened(bench, i);
    for (size_t i = RECORDS / 2; i < RECORDS; i++)
        expect_bytes(bench, bench->records[i].slot, bench->records[i].tag, SL_TAG_BYTES);
    bench_free(bench);
}

static inline void takes_an_empty_batch(const struct memory_world *world)
{
    struct bench_of_records *bench = bench_new(world);

    bench->ops->seal(bench->memory, bench->jobs, 0);
    bench->ops->open(bench->memory, bench->jobs, 0);
    cr_assert_eq(bench->ops->poll(bench->memory), 0);
    bench_free(bench);
}

/* Once an open is told, nothing that the peer writes into the ring changes what was opened. */
static inline void keeps_what_it_opened_when_the_ring_changes(const struct memory_world *world)
{
    struct bench_of_records *bench = bench_new(world);

    for (size_t i = 0; i < RECORDS; i++)
        open_prepare(bench, i);
    bench->ops->open(bench->memory, bench->jobs, RECORDS);
    finish_all(bench);
    for (size_t i = 0; i < RECORDS; i++) {
        flip(bench, bench->records[i].slot);
        flip(bench, bench->records[i].slot + RECORD_AT);
        expect_opened(bench, i);
    }
    bench_free(bench);
}

static inline void wipes_what_it_is_told_to_and_no_more(const struct memory_world *world)
{
    static const uint8_t before[] = {1, 2, 3, 4, 5, 6, 7, 8}, after[] = {1, 2, 0, 0, 0, 6, 7, 8};
    struct bench_of_records *bench = bench_new(world);
    uint8_t *place = bench->records[RECORDS - 1].place;

    world->put(bench->memory, place, before, sizeof(before));
    bench->ops->wipe(bench->memory, place + 2, 3);
    expect_bytes(bench, place, after, sizeof(after));
    bench->ops->wipe(bench->memory, place, 0);
    expect_bytes(bench, place, after, sizeof(after));
    bench_free(bench);
}

#define MEMORY_CONTRACT_TEST(kind, world, name) \
    Test(kind, name)                            \
    {                                           \
        name(world);                            \
    }

#define MEMORY_CONTRACT(kind, world)                                                  \
    MEMORY_CONTRACT_TEST(kind, world, invariant_11_has_every_entry)                   \
    MEMORY_CONTRACT_TEST(kind, world, gives_aligned_memory_that_it_owns)              \
    MEMORY_CONTRACT_TEST(kind, world, uses_freed_memory_again)                        \
    MEMORY_CONTRACT_TEST(kind, world, refuses_more_memory_than_there_is)              \
    MEMORY_CONTRACT_TEST(kind, world, gives_rings_of_whole_zeroed_pages)              \
    MEMORY_CONTRACT_TEST(kind, world, seals_the_file_behind_a_ring)                   \
    MEMORY_CONTRACT_TEST(kind, world, seals_the_same_records_as_the_cpu)              \
    MEMORY_CONTRACT_TEST(kind, world, opens_what_the_cpu_sealed)                      \
    MEMORY_CONTRACT_TEST(kind, world, refuses_one_bad_tag_and_no_other_job)           \
    MEMORY_CONTRACT_TEST(kind, world, takes_further_batches_before_the_first_is_done) \
    MEMORY_CONTRACT_TEST(kind, world, takes_an_empty_batch)                           \
    MEMORY_CONTRACT_TEST(kind, world, keeps_what_it_opened_when_the_ring_changes)     \
    MEMORY_CONTRACT_TEST(kind, world, wipes_what_it_is_told_to_and_no_more)

#endif
