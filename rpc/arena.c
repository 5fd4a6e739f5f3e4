/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - bump allocation in chained blocks. */
#include "rpc/arena.h"

#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1 /* as gcc says it */
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define HIDE(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#define SHOW(at, bytes) ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#else
#define HIDE(at, bytes) ((void)(at), (void)(bytes))
#define SHOW(at, bytes) ((void)(at), (void)(bytes))
#endif

enum {
    BLOCK_MIN = 8192,
    BLOCK_GROWTH_MAX = 1 << 20,
    LINE = 64
};

struct sl_block {
    struct sl_block *next;
    size_t size;
    _Alignas(LINE) uint8_t bytes[];
};

static void *allocate(void *user, size_t bytes)
{
    struct sl_call_arena *arena = user;

    if (bytes > arena->peer_left || arena->peer_left - bytes < 16) {
        arena->peer_refused = true;
        return NULL;
    }
    arena->peer_left -= bytes + 15 - (bytes + 15) % 16;
    return sl_call_arena_alloc(arena, bytes ? bytes : 1);
}

static void release(void *user, void *at)
{
    (void)user;
    (void)at;
}

static void begin(struct sl_call_arena *arena)
{
    arena->peer_left = arena->peer_limit;
    arena->peer_refused = false;
    arena->blocks = NULL;
    arena->at = arena->first;
    arena->left = sizeof(arena->first);
    arena->total = 0;
    HIDE(arena->first, sizeof(arena->first));
}

void sl_call_arena_init(struct sl_call_arena *arena, size_t peer_limit)
{
    arena->allocator =
        (ProtobufCAllocator){.alloc = allocate, .free = release, .allocator_data = arena};
    arena->peer_limit = peer_limit;
    arena->spares = NULL;
    begin(arena);
}

static void blocks_free(struct sl_block *block)
{
    while (block) {
        struct sl_block *next = block->next;
        free(block);
        block = next;
    }
}

/* Freed and allocated again, blocks of this size would go back to the system and come with fresh pages each time. */
void sl_call_arena_renew(struct sl_call_arena *arena)
{
    struct sl_block *block = arena->blocks, *next, *old = arena->spares;
    size_t kept = 0;

    arena->spares = NULL;
    for (; block || old; block = next) {
        if (!block) { /* those that were not needed this time come last */
            block = old;
            old = NULL;
        }
        next = block->next;
        if (block->size > SL_ARENA_KEEP - kept) {
            free(block);
            continue;
        }
        kept += block->size;
        block->next = arena->spares;
        arena->spares = block;
        HIDE(block->bytes, block->size);
    }
    begin(arena);
}

void sl_call_arena_clear(struct sl_call_arena *arena)
{
    blocks_free(arena->blocks);
    blocks_free(arena->spares);
    SHOW(arena->first, sizeof(arena->first));
}

static void *take(struct sl_call_arena *arena, size_t bytes)
{
    size_t alignment = bytes >= LINE ? LINE : 16;
    size_t skip = (alignment - (uintptr_t)arena->at % alignment) % alignment;
    void *at;

    if (arena->left < skip || arena->left - skip < bytes)
        return NULL;
    at = arena->at + skip;
    arena->at += skip + bytes;
    arena->left -= skip + bytes;
    SHOW(at, bytes);
    return at;
}

/* Blocks grow with the arena, so that a large message needs few; a large request gets its own. */
static size_t block_size(const struct sl_call_arena *arena, size_t bytes)
{
    size_t size = arena->total < BLOCK_GROWTH_MAX ? arena->total : BLOCK_GROWTH_MAX;

    size = size < BLOCK_MIN ? BLOCK_MIN : size;
    size = size < bytes ? bytes : size;
    return (size + LINE - 1) / LINE * LINE;
}

static struct sl_block *block_new(struct sl_call_arena *arena, size_t bytes)
{
    size_t size = block_size(arena, bytes);
    struct sl_block **at = &arena->spares, *block;

    while (*at && (*at)->size < bytes)
        at = &(*at)->next;
    block = *at;
    if (block) {
        *at = block->next;
        return block;
    }
    block = aligned_alloc(LINE, sizeof(*block) + size);
    if (block)
        block->size = size;
    return block;
}

void *sl_call_arena_alloc(struct sl_call_arena *arena, size_t bytes)
{
    void *at = take(arena, bytes);
    struct sl_block *block;

    if (at)
        return at;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    block = block_new(arena, bytes);
    if (!block)
        return NULL;
    block->next = arena->blocks;
    arena->blocks = block;
    arena->at = block->bytes;
    arena->left = block->size;
    arena->total += block->size;
    HIDE(block->bytes, block->size);
    return take(arena, bytes);
}
