/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that lives as long as a call: chained blocks, the first one part of the call, so that a small call costs one
 * allocation. One user at a time. */
#ifndef SL_ARENA_H
#define SL_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SL_ARENA_FIRST = 2048
};

struct sl_block;

struct sl_arena {
    ProtobufCAllocator allocator; /* draws from here; its free does nothing */
    struct sl_block *blocks;
    uint8_t *at;
    size_t left;
    size_t total; /* bytes of all blocks */
    size_t limit; /* of total */
    _Alignas(64) uint8_t first[SL_ARENA_FIRST];
};

/* At most `limit` bytes of blocks. */
void sl_arena_init(struct sl_arena *arena, size_t limit);
void sl_arena_clear(struct sl_arena *arena);

/* 16-byte aligned; 64-byte aligned from 64 bytes on. NULL past the limit or without memory. */
void *sl_arena_alloc(struct sl_arena *arena, size_t bytes);

#endif
