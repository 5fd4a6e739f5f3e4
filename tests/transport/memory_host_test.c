/* SPDX-License-Identifier: Apache-2.0 */
/* memory_host_test.c - the host's memory kind: the contract, every bit of a chunk, and a peer that writes while we open.
 * Linked with --wrap=sl_aead_open, to see what the AEAD is given and to be the peer in the worst moment. */
#include "tests/transport/memory_contract.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static void put(struct sl_memory *memory, void *to, const void *from, size_t bytes)
{
    (void)memory;
    if (bytes > 0)
        memcpy(to, from, bytes);
}

static const struct memory_world world = {sl_memory_host_new, put, put};

MEMORY_CONTRACT(memory_host, &world)

Test(memory_host, owns_everything)
{
    struct sl_memory *memory;

    cr_assert_eq(sl_memory_host_new(&memory), SEALANE_OK);
    cr_assert(sl_memory_ops(memory)->owns(memory, &memory, sizeof(memory)));
    sl_memory_ops(memory)->close(memory);
}

Test(memory_host, lays_rings_where_large_pages_can_lie)
{
    static const size_t sizes[] = {1, 2 << 20, (4 << 20) + 8192};
    struct sl_memory *memory;

    cr_assert_eq(sl_memory_host_new(&memory), SEALANE_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct sl_ring_memory ring;

        cr_assert_eq(sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_HOST, sizes[i], &ring), SEALANE_OK);
        cr_assert_eq((uintptr_t)ring.base % (2 << 20), 0);
        memset(ring.base, 1, ring.bytes);
        sl_memory_ops(memory)->ring_free(memory, &ring);
    }
    sl_memory_ops(memory)->close(memory);
}

Test(memory_host, finishes_jobs_before_it_returns)
{
    struct bench_of_records *bench = bench_new(&world);

    for (size_t i = 0; i < RECORDS; i++)
        open_prepare(bench, i);
    bench->ops->open(bench->memory, bench->jobs, RECORDS);
    cr_assert_eq(jobs_pending(bench), 0);
    cr_assert_eq(bench->ops->poll(bench->memory), 0);
    bench_free(bench);
}

/* ---- every bit of a chunk ---- */

static bool all_zero(const uint8_t *at, size_t bytes)
{
    return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

/* Opens record i once for each bit of its slot's `bytes` at `at`, flipped. Returns how many were refused and wiped. */
static size_t refused_flips(struct bench_of_records *bench, size_t i, uint8_t *at, size_t bytes)
{
    const struct record *record = &bench->records[i];
    struct sl_job *job = &bench->jobs[i];
    size_t refused = 0;

    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        at[bit / 8] ^= (uint8_t)(1u << bit % 8);
        job->state = SL_JOB_PENDING;
        bench->ops->open(bench->memory, job, 1);
        refused += job->state == SL_JOB_BAD_TAG && all_zero(record->place, record->bytes);
        at[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    return refused;
}

/* A 64 KiB chunk of the i-th AEAD; it is opened unharmed before and after. */
static void expect_every_flip_refused(size_t aead)
{
    struct bench_of_records *bench = bench_new(&world);
    size_t i = RECORDS - 3 + aead, refused;
    const struct record *record = &bench->records[i];

    cr_assert_eq(record->bytes, 65536);
    open_prepare(bench, i);
    bench->ops->open(bench->memory, &bench->jobs[i], 1);
    expect_opened(bench, i);
    refused = refused_flips(bench, i, record->slot, SL_TAG_BYTES);
    refused += refused_flips(bench, i, record->slot + RECORD_AT, record->bytes);
    fprintf(stderr,
            "flips: %s: %zu bits of a 64 KiB chunk and its tag flipped, all refused, all wiped\n",
            sl_aead_name(sl_aead_supported[aead]), refused);
    cr_assert_eq(refused, 524416);
    bench->ops->open(bench->memory, &bench->jobs[i], 1);
    expect_opened(bench, i);
    bench_free(bench);
}

Test(memory_host, refuses_each_flipped_bit_of_a_chunk_and_wipes_aes_256)
{
    expect_every_flip_refused(0);
}

Test(memory_host, refuses_each_flipped_bit_of_a_chunk_and_wipes_chacha20)
{
    expect_every_flip_refused(1);
}

Test(memory_host, refuses_each_flipped_bit_of_a_chunk_and_wipes_aes_128)
{
    expect_every_flip_refused(2);
}

/* ---- invariant 13: each open attempt reads each ring byte once ---- */

/* While set, the peer: it writes over the whole ring as soon as an AEAD is about to look at anything. */
static struct sl_ring_memory *attacked;
static unsigned attacks;

bool __real_sl_aead_open(struct sl_aead_key *key, const struct sl_aead_io *io,
                         const uint8_t tag[SL_TAG_BYTES]);
bool __wrap_sl_aead_open(struct sl_aead_key *key, const struct sl_aead_io *io,
                         const uint8_t tag[SL_TAG_BYTES]);

static bool in_ring(const uint8_t *at)
{
    return (uintptr_t)at - (uintptr_t)attacked->base < attacked->bytes;
}

bool __wrap_sl_aead_open(struct sl_aead_key *key, const struct sl_aead_io *io,
                         const uint8_t tag[SL_TAG_BYTES])
{
    if (attacked) {
        cr_assert_not(in_ring(io->in) || in_ring(io->out) || in_ring(tag),
                      "an AEAD was handed memory that the peer can write");
        memset(attacked->base, 0x5A, attacked->bytes);
        attacks++;
    }
    return __real_sl_aead_open(key, io, tag);
}

Test(memory_host, invariant_13_nothing_is_read_from_the_ring_once_the_aead_began)
{
    struct bench_of_records *bench = bench_new(&world);

    attacked = &bench->ring;
    for (size_t i = 0; i < RECORDS; i++) {
        open_prepare(bench, i);
        bench->ops->open(bench->memory, &bench->jobs[i], 1);
        expect_opened(bench, i);
    }
    cr_assert_eq(attacks, RECORDS);
    attacked = NULL;
    bench_free(bench);
}

enum {
    RACES = 20000,
    RACE_BYTES = 4096
};

struct attacker {
    volatile uint8_t *ciphertext;
    atomic_bool stop;
    atomic_ulong flips;
};

/* Flips a bit and flips it back: half of the time the chunk is whole, so that opens are accepted, too. */
static void *attacker_run(void *context)
{
    struct attacker *attacker = context;

    while (!atomic_load(&attacker->stop)) {
        attacker->ciphertext[RACE_BYTES / 2] ^= 0x40;
        atomic_fetch_add(&attacker->flips, 1);
    }
    return NULL;
}

Test(memory_host, invariant_13_a_peer_that_writes_while_we_open_is_never_believed)
{
    struct bench_of_records *bench = bench_new(&world);
    size_t i =
        7 * 3 +
        1; /* ChaCha20-Poly1305: ipsec-mb reads its ciphertext twice, so that the race can be lost */
    const struct record *record = &bench->records[i];
    struct attacker attacker = {.ciphertext = record->slot + RECORD_AT};
    unsigned accepted = 0, refused = 0, wrong = 0;
    pthread_t thread;

    cr_assert_eq(record->bytes, RACE_BYTES);
    open_prepare(bench, i);
    cr_assert_eq(pthread_create(&thread, NULL, attacker_run, &attacker), 0);
    while (atomic_load(&attacker.flips) == 0)
        continue;
    while (accepted + refused < RACES || accepted == 0 || refused == 0) {
        bench->jobs[i].state = SL_JOB_PENDING;
        bench->ops->open(bench->memory, &bench->jobs[i], 1);
        if (bench->jobs[i].state == SL_JOB_DONE) {
            accepted++;
            wrong += memcmp(record->place, record->plaintext, record->bytes) != 0;
        } else {
            refused++;
            wrong += !all_zero(record->place, record->bytes);
        }
    }
    atomic_store(&attacker.stop, true);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    fprintf(stderr, "race: %u opens accepted, %u refused, %u wrong, the peer wrote %lu times\n",
            accepted, refused, wrong, atomic_load(&attacker.flips));
    cr_assert_eq(wrong, 0);
    bench_free(bench);
}
