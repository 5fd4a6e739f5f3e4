/* SPDX-License-Identifier: Apache-2.0 */
/* pool_test.c - which blocks are kept, for how long, and how many. */
#include "rpc/pool.h"

#include <criterion/criterion.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static struct sl_pool pool;

/* As a gate does it. */
static void *lend(size_t bytes)
{
    void *at = sl_pool_take(&pool, bytes);

    if (!at)
        at = sl_pool_map(bytes);
    cr_assert_not_null(at);
    return at;
}

static void empty(void)
{
    sl_pool_unmap(sl_pool_trim(&pool, 0, 0));
    cr_expect_eq(pool.kept, 0);
    cr_expect_eq(pool.lent, 0);
}

TestSuite(pool, .fini = empty);

static size_t trimmed(uint64_t most, uint64_t since_ns)
{
    struct sl_spare *chain = sl_pool_trim(&pool, most, since_ns);
    size_t blocks = 0;

    for (const struct sl_spare *spare = chain; spare; spare = spare->next)
        blocks++;
    sl_pool_unmap(chain);
    return blocks;
}

Test(pool, hands_out_again_what_has_exactly_the_size_latest_first)
{
    void *a = lend(MIB), *b = lend(MIB), *c = lend(2 * MIB);

    sl_pool_keep(&pool, a, MIB, 1);
    sl_pool_keep(&pool, b, MIB, 2);
    sl_pool_keep(&pool, c, 2 * MIB, 3);
    cr_expect_eq(pool.kept, 4 * MIB);
    cr_expect_null(sl_pool_take(&pool, 4096));
    sl_pool_forget(&pool, 4096);
    cr_expect_eq(lend(MIB), b);
    cr_expect_eq(lend(MIB), a);
    cr_expect_eq(lend(2 * MIB), c);
    cr_expect_eq(pool.kept, 0);
    sl_pool_keep(&pool, a, MIB, 4);
    sl_pool_keep(&pool, b, MIB, 4);
    sl_pool_keep(&pool, c, 2 * MIB, 4);
}

Test(pool, takes_out_the_oldest_until_no_more_than_asked_for_is_kept)
{
    void *blocks[4];

    for (size_t i = 0; i < 4; i++)
        blocks[i] = lend(MIB);
    for (size_t i = 0; i < 4; i++)
        sl_pool_keep(&pool, blocks[i], MIB, i);
    cr_expect_eq(trimmed(4 * MIB, 0), 0);
    cr_expect_eq(trimmed(3 * MIB + 1, 0), 1);
    cr_expect_eq(trimmed(2 * MIB - 1, 0), 2);
    cr_expect_eq(lend(MIB), blocks[3]);
    sl_pool_keep(&pool, blocks[3], MIB, 9);
}

Test(pool, takes_out_what_nobody_wanted_for_long)
{
    void *blocks[3];

    for (size_t i = 0; i < 3; i++)
        blocks[i] = lend(MIB);
    for (size_t i = 0; i < 3; i++)
        sl_pool_keep(&pool, blocks[i], MIB, 10 + i);
    cr_expect_eq(trimmed(UINT64_MAX, 10), 0);
    cr_expect_eq(trimmed(UINT64_MAX, 12), 2);
    cr_expect_eq(pool.kept, MIB);
}

/* Of what was kept too long 256 MiB at a time go, so that giving it back never holds a node up for long. */
Test(pool, gives_much_old_memory_back_in_steps)
{
    void *a = lend(256 * MIB), *b = lend(256 * MIB);

    sl_pool_keep(&pool, a, 256 * MIB, 1);
    sl_pool_keep(&pool, b, 256 * MIB, 2);
    cr_expect_eq(trimmed(UINT64_MAX, 10), 1);
    cr_expect_eq(trimmed(UINT64_MAX, 10), 1);
}

/* Ever new sizes: each is kept for a while, and all together never pass what traffic needed at a time by more than 256 MiB. */
Test(pool, keeps_no_more_than_lately_was_in_use_and_a_little)
{
    for (size_t i = 1; i <= 64; i++) {
        size_t bytes = 16 * MIB + i * 4096;

        sl_pool_keep(&pool, lend(bytes), bytes, i);
        (void)trimmed(UINT64_MAX, 0);
        cr_assert_leq(pool.kept, (256 + 17) * MIB);
    }
    cr_expect_gt(pool.kept, 200 * MIB);
}

Test(pool, forgets_a_peak_after_two_ticks)
{
    void *a = lend(512 * MIB);

    sl_pool_keep(&pool, a, 512 * MIB, 1);
    sl_pool_tick(&pool);
    cr_expect_eq(trimmed(UINT64_MAX, 0), 0, "what was in use before the last tick counts");
    sl_pool_tick(&pool);
    cr_expect_eq(trimmed(UINT64_MAX, 0), 1);
}

Test(pool, rounds_to_whole_pages_and_refuses_what_has_no_size)
{
    cr_expect_eq(sl_pool_bytes(1), 4096);
    cr_expect_eq(sl_pool_bytes(4096), 4096);
    cr_expect_eq(sl_pool_bytes(4097), 8192);
    cr_expect_eq(sl_pool_bytes(SIZE_MAX), 0);
}
