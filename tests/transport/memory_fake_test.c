/* SPDX-License-Identifier: Apache-2.0 */
/* memory_fake_test.c - the fake kind keeps memory.h's contract, and is as unlike the host's as it promises. */
#include "tests/support/memory_fake.h"
#include "tests/transport/memory_contract.h"

#include <signal.h>

static enum sealane_status make(struct sl_memory **memory_p)
{
    return memory_fake_new(64 << 20, memory_p);
}

static enum sealane_status make_slow_and_shuffled(struct sl_memory **memory_p)
{
    enum sealane_status status = make(memory_p);

    if (status == SEALANE_OK) {
        memory_fake_pace(*memory_p, 1);
        memory_fake_order(*memory_p, MEMORY_FAKE_SHUFFLED);
    }
    return status;
}

static enum sealane_status make_with_device_rings(struct sl_memory **memory_p)
{
    enum sealane_status status = make(memory_p);

    if (status == SEALANE_OK)
        memory_fake_device_rings(*memory_p, 8192);
    return status;
}

static const struct memory_world world = {make, memory_fake_put, memory_fake_get};
static const struct memory_world slow = {make_slow_and_shuffled, memory_fake_put, memory_fake_get};
static const struct memory_world device = {make_with_device_rings, memory_fake_put,
                                           memory_fake_get};

MEMORY_CONTRACT(memory_fake, &world)
MEMORY_CONTRACT(memory_fake_slow_and_shuffled, &slow)
MEMORY_CONTRACT(memory_fake_with_device_rings, &device)

/* ---- what only the fake does ---- */

static void *one_page(struct sl_memory **memory_p)
{
    void *at;

    cr_assert_eq(make(memory_p), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(*memory_p)->alloc(*memory_p, 100, &at), SEALANE_OK);
    return at;
}

Test(memory_fake, invariant_12_faults_when_the_host_reads_its_memory, .signal = SIGSEGV)
{
    struct sl_memory *memory;
    volatile uint8_t *at;

    (void)signal(SIGSEGV, SIG_DFL); /* no sanitizer's report: this is wanted */
    at = one_page(&memory);
    (void)*at;
}

Test(memory_fake, invariant_12_faults_when_the_host_writes_its_memory, .signal = SIGSEGV)
{
    struct sl_memory *memory;
    volatile uint8_t *at;

    (void)signal(SIGSEGV, SIG_DFL);
    at = one_page(&memory);
    *at = 1;
}

Test(memory_fake, invariant_12_faults_when_the_host_reads_a_ring_of_the_device, .signal = SIGSEGV)
{
    struct sl_memory *memory;
    struct sl_ring_memory ring;

    (void)signal(SIGSEGV, SIG_DFL);
    cr_assert_eq(make_with_device_rings(&memory), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_DEVICE, 4096, &ring),
                 SEALANE_OK);
    (void)*(volatile uint8_t *)ring.base;
}

Test(memory_fake, owns_its_own_memory_and_nothing_else)
{
    struct sl_memory *memory;
    uint8_t *at = one_page(&memory);
    const struct sl_memory_ops *ops = sl_memory_ops(memory);

    cr_assert(ops->owns(memory, at + 50, 50));
    cr_assert_not(ops->owns(memory, &memory, 1));
    cr_assert_not(ops->owns(memory, at + 50, 1 << 20), "longer than the allocation");
    ops->free(memory, at, 100);
    cr_assert_not(ops->owns(memory, at, 1), "freed");
    cr_assert_eq(memory_fake_used(memory), 0);
    ops->close(memory);
}

Test(memory_fake, finishes_nothing_before_poll_and_no_more_than_its_pace)
{
    struct bench_of_records *bench = bench_new(&world);

    for (size_t i = 0; i < RECORDS; i++)
        seal_prepare(bench, i);
    memory_fake_pace(bench->memory, 0);
    bench->ops->seal(bench->memory, bench->jobs, RECORDS);
    cr_assert_eq(jobs_pending(bench), RECORDS);
    cr_assert_eq(bench->ops->poll(bench->memory), 0);
    cr_assert_eq(memory_fake_pending(bench->memory), RECORDS);
    memory_fake_pace(bench->memory, 5);
    cr_assert_eq(bench->ops->poll(bench->memory), 5);
    cr_assert_eq(memory_fake_pending(bench->memory), RECORDS - 5);
    cr_assert_eq(bench->jobs[4].state, SL_JOB_DONE);
    cr_assert_eq(bench->jobs[5].state, SL_JOB_PENDING);
    memory_fake_order(bench->memory, MEMORY_FAKE_LAST_FIRST);
    cr_assert_eq(bench->ops->poll(bench->memory), 5);
    cr_assert_eq(bench->jobs[RECORDS - 5].state, SL_JOB_DONE);
    cr_assert_eq(bench->jobs[RECORDS - 6].state, SL_JOB_PENDING);
    finish_all(bench);
    bench_free(bench);
}

Test(memory_fake, a_shuffled_order_is_neither_of_the_others)
{
    struct bench_of_records *bench = bench_new(&slow);

    for (size_t i = 0; i < RECORDS; i++)
        seal_prepare(bench, i);
    bench->ops->seal(bench->memory, bench->jobs, RECORDS);
    memory_fake_pace(bench->memory, RECORDS / 2);
    (void)bench->ops->poll(bench->memory);
    for (size_t half = 0; half < RECORDS; half += RECORDS / 2) {
        size_t done = 0;

        for (size_t i = half; i < half + RECORDS / 2; i++)
            done += bench->jobs[i].state == SL_JOB_DONE;
        cr_assert(done > 0 && done < RECORDS / 2);
    }
    finish_all(bench);
    bench_free(bench);
}

/* Misuse ends the process. */

Test(memory_fake, sealing_from_host_memory_is_misuse, .signal = SIGABRT)
{
    struct bench_of_records *bench = bench_new(&world);

    seal_prepare(bench, RECORDS - 1);
    bench->jobs[RECORDS - 1].in = bench->records[RECORDS - 1].plaintext;
    bench->ops->seal(bench->memory, &bench->jobs[RECORDS - 1], 1);
    finish_all(bench);
}

Test(memory_fake, opening_past_the_end_of_an_allocation_is_misuse, .signal = SIGABRT)
{
    struct bench_of_records *bench = bench_new(&world);

    open_prepare(bench, RECORDS - 1);
    bench->jobs[RECORDS - 1].out += 8192;
    bench->ops->open(bench->memory, &bench->jobs[RECORDS - 1], 1);
    finish_all(bench);
}

Test(memory_fake, freeing_what_a_job_needs_is_misuse, .signal = SIGABRT)
{
    struct bench_of_records *bench = bench_new(&world);
    const struct record *record = &bench->records[RECORDS - 1];

    open_prepare(bench, RECORDS - 1);
    bench->ops->open(bench->memory, &bench->jobs[RECORDS - 1], 1);
    bench->ops->free(bench->memory, record->place, record->bytes);
}

Test(memory_fake, freeing_with_another_length_is_misuse, .signal = SIGABRT)
{
    struct sl_memory *memory;
    void *at = one_page(&memory);

    sl_memory_ops(memory)->free(memory, at, 5000);
}

Test(memory_fake, closing_under_a_job_is_misuse, .signal = SIGABRT)
{
    struct bench_of_records *bench = bench_new(&world);

    open_prepare(bench, 0);
    bench->ops->open(bench->memory, &bench->jobs[0], 1);
    bench->ops->close(bench->memory);
}
