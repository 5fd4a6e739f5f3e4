/* SPDX-License-Identifier: Apache-2.0 */
/* arena_test.c - memory of a call. */
#include "rpc/arena.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct sl_call_arena *arena_new(size_t peer_limit)
{
    struct sl_call_arena *arena = aligned_alloc(64, (sizeof(*arena) + 63) / 64 * 64);

    sl_call_arena_init(arena, peer_limit);
    return arena;
}

static void arena_free(struct sl_call_arena *arena)
{
    sl_call_arena_clear(arena);
    free(arena);
}

Test(arena, aligns_to_16_and_from_64_bytes_on_to_64)
{
    struct sl_call_arena *arena = arena_new(0);

    for (size_t bytes = 1; bytes < 5000; bytes += 37) {
        uintptr_t at = (uintptr_t)sl_call_arena_alloc(arena, bytes);

        cr_assert_neq(at, 0);
        cr_assert_eq(at % (bytes >= 64 ? 64 : 16), 0, "%zu bytes at %#zx", bytes, (size_t)at);
        memset((void *)at, 0xa5, bytes);
    }
    arena_free(arena);
}

Test(arena, serves_small_calls_from_its_first_block)
{
    struct sl_call_arena *arena = arena_new(0);

    for (int i = 0; i < SL_ARENA_FIRST / 64; i++)
        cr_assert_not_null(sl_call_arena_alloc(arena, 64));
    cr_assert_eq(arena->total, 0);
    cr_assert_not_null(sl_call_arena_alloc(arena, 1));
    cr_assert_gt(arena->total, 0);
    arena_free(arena);
}

Test(arena, hands_out_pieces_that_do_not_overlap)
{
    struct sl_call_arena *arena = arena_new(0);
    uint8_t *piece[500];
    size_t bytes[500];

    for (int i = 0; i < 500; i++) {
        bytes[i] = (size_t)(i * 7919 % 3000 + 1);
        piece[i] = sl_call_arena_alloc(arena, bytes[i]);
        memset(piece[i], i & 0xff, bytes[i]);
    }
    for (int i = 0; i < 500; i++) {
        for (size_t b = 0; b < bytes[i]; b++)
            cr_assert_eq(piece[i][b], i & 0xff, "piece %d", i);
    }
    arena_free(arena);
}

Test(arena, takes_one_large_piece_in_one_block_of_its_own)
{
    struct sl_call_arena *arena = arena_new(0);
    uint8_t *piece = sl_call_arena_alloc(arena, 10 << 20);

    cr_assert_not_null(piece);
    piece[0] = piece[(10 << 20) - 1] = 1;
    cr_assert_leq(arena->total, (10 << 20) + 64);
    arena_free(arena);
}

Test(arena, answers_null_for_sizes_that_no_machine_has)
{
    struct sl_call_arena *arena = arena_new(SIZE_MAX);

    cr_assert_null(sl_call_arena_alloc(arena, SIZE_MAX));
    cr_assert_null(sl_call_arena_alloc(arena, SIZE_MAX - 63));
    cr_assert_null(sl_call_arena_alloc(arena, SIZE_MAX / 2 + 1));
    cr_assert_null(arena->allocator.alloc(arena, SIZE_MAX));
    cr_assert_null(arena->allocator.alloc(arena, SIZE_MAX - 8));
    arena_free(arena);
}

Test(arena, invariant_9_bounds_what_the_peer_makes_it_allocate)
{
    struct sl_call_arena *arena = arena_new(1000);
    size_t given = 0;

    while (arena->allocator.alloc(arena->allocator.allocator_data, 100))
        given += 100;
    cr_assert_geq(given, 700);
    cr_assert_leq(given, 1000);
    cr_assert(arena->peer_refused);
    cr_assert_not_null(sl_call_arena_alloc(arena, 100000), "our own memory does not count");
    arena_free(arena);
}

Test(arena, gives_the_unpacker_memory_even_for_nothing)
{
    struct sl_call_arena *arena = arena_new(1000);

    cr_assert_not_null(arena->allocator.alloc(arena, 0), "NULL would read as no memory");
    arena_free(arena);
}

Test(arena, renewed_hands_its_blocks_out_again_up_to_a_limit)
{
    struct sl_call_arena *arena = arena_new(1000);
    void *small, *large;

    small = sl_call_arena_alloc(arena, 20000);
    large = sl_call_arena_alloc(arena, SL_ARENA_KEEP + 1);
    cr_assert_not_null(arena->allocator.alloc(arena, 900));
    cr_assert_null(arena->allocator.alloc(arena, 900));
    memset(small, 1, 20000);
    memset(large, 1, SL_ARENA_KEEP + 1);
    for (int round = 0; round < 3; round++) {
        sl_call_arena_renew(arena);
        cr_assert_eq(arena->total, 0);
        cr_assert_not(arena->peer_refused);
        cr_assert_eq((uint8_t *)sl_call_arena_alloc(arena, 64), arena->first);
        cr_assert_eq(sl_call_arena_alloc(arena, 20000), small, "round %d", round);
        cr_assert_not_null(arena->allocator.alloc(arena, 900), "the peer's account is new too");
        cr_assert_not_null(sl_call_arena_alloc(arena, SL_ARENA_KEEP + 1));
    }
    arena_free(arena);
}

Test(arena, renewed_keeps_blocks_that_one_call_did_not_need_for_the_next)
{
    struct sl_call_arena *arena = arena_new(0);
    void *piece = sl_call_arena_alloc(arena, 20000);

    for (int round = 0; round < 3; round++)
        sl_call_arena_renew(arena); /* small calls */
    cr_assert_eq(sl_call_arena_alloc(arena, 20000), piece);
    arena_free(arena);
}
