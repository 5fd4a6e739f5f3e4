/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - bump allocation in chained blocks. */
#include "rpc/arena.h"

#include <stdlib.h>

enum {
    BLOCK_MIN = 8192,
    BLOCK_GROWTH_MAX = 1 << 20
};

struct sl_block {
    struct sl_block *next;
    _Alignas(64) uint8_t bytes[];
};

static void *allocate(void *user, size_t bytes)
{
    return sl_arena_alloc(user, bytes ? bytes : 1);
}

static void release(void *user, void *at)
{
    (void)user;
    (void)at;
}

void sl_arena_init(struct sl_arena *arena, size_t limit)
{
    arena->allocator =
        (ProtobufCAllocator){.alloc = allocate, .free = release, .allocator_data = arena};
    arena->blocks = NULL;
    arena->at = arena->first;
    arena->left = sizeof(arena->first);
    arena->total = 0;
    arena->limit = limit;
}

void sl_arena_clear(struct sl_arena *arena)
{
    while (arena->blocks) {
        struct sl_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

static void *take(struct sl_arena *arena, size_t bytes)
{
    size_t alignment = bytes >= 64 ? 64 : 16;
    size_t skip = (alignment - (uintptr_t)arena->at % alignment) % alignment;
    void *at;

    if (arena->left < skip || arena->left - skip < bytes)
        return NULL;
    at = arena->at + skip;
    arena->at += skip + bytes;
    arena->left -= skip + bytes;
    return at;
}

static size_t block_size(const struct sl_arena *arena, size_t bytes)
{
    size_t size = arena->total < BLOCK_GROWTH_MAX ? arena->total : BLOCK_GROWTH_MAX;

    size = size < BLOCK_MIN ? BLOCK_MIN : size;
    return size < bytes + 64 ? (bytes + 127) / 64 * 64 : size;
}

void *sl_arena_alloc(struct sl_arena *arena, size_t bytes)
{
    void *at = take(arena, bytes);
    struct sl_block *block;
    size_t size;

    if (at)
        return at;
    if (bytes > arena->limit || arena->total > arena->limit - bytes)
        return NULL;
    size = block_size(arena, bytes);
    block = aligned_alloc(64, sizeof(*block) + (size + 63) / 64 * 64);
    if (!block)
        return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    arena->at = block->bytes;
    arena->left = size;
    arena->total += size;
    return take(arena, bytes);
}
