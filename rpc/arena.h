/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that lives as long as a call: chained blocks, the first one part of the call, so that a small call costs one
 * allocation. One user at a time. Under AddressSanitizer what was not handed out is poisoned. */
#ifndef SL_ARENA_H
#define SL_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SL_ARENA_FIRST = 2048,
    SL_ARENA_KEEP = 256 * 1024 /* bytes of blocks that go from one call to the next */
};

struct sl_block;

struct sl_call_arena {
    ProtobufCAllocator
        allocator; /* draws from here, on the peer's account; its free does nothing */
    size_t peer_limit;
    size_t peer_left;  /* what the peer's bytes may still make us allocate */
    bool peer_refused; /* and they wanted more */
    struct sl_block *blocks;
    struct sl_block *spares; /* of the call whose memory this was */
    uint8_t *at;
    size_t left;
    size_t total; /* bytes of all blocks */
    _Alignas(64) uint8_t first[SL_ARENA_FIRST];
};

/* Begins an arena in memory that holds none. `peer_limit` bounds what the allocator gives, not sl_call_arena_alloc. */
void sl_call_arena_init(struct sl_call_arena *arena, size_t peer_limit);

/* Begins it anew; keeps some of its blocks to hand them out again. */
void sl_call_arena_renew(struct sl_call_arena *arena);

void sl_call_arena_clear(struct sl_call_arena *arena);

/* 16-byte aligned; 64-byte aligned from 64 bytes on. NULL without memory. */
void *sl_call_arena_alloc(struct sl_call_arena *arena, size_t bytes);

#endif
