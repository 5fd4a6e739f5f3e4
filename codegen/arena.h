/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory and text for one run of the generator.
 *
 * A run reads one request, writes one response and ends, so all it makes lives in one arena and is freed at once. When memory
 * ends the run ends: there is nobody to tell but stderr, and exit status 1 makes protoc report the plug-in.
 */
#ifndef SL_ARENA_H
#define SL_ARENA_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct sl_arena_block;

struct sl_arena {
    struct sl_arena_block *blocks;
    ProtobufCAllocator allocator; /* for protobuf_c_message_unpack; its free does nothing */
};

void sl_arena_init(struct sl_arena *arena);
void sl_arena_free(struct sl_arena *arena);

/* Zeroed, aligned for anything, never NULL. */
void *sl_arena_alloc(struct sl_arena *arena, size_t bytes);
void *sl_arena_array(struct sl_arena *arena, size_t count, size_t bytes);
__attribute__((format(printf, 2, 3))) char *sl_arena_print(struct sl_arena *arena,
                                                           const char *format, ...);

/* A string that grows. `data` is NUL-terminated once anything was added; sl_text_string never answers NULL. */
struct sl_text {
    struct sl_arena *arena;
    char *data;
    size_t length;
    size_t capacity;
};

void sl_text_add(struct sl_text *text, const char *string);
void sl_text_add_bytes(struct sl_text *text, const char *bytes, size_t count);
/* Room for `count` more bytes, which the caller writes and then adds to length. */
char *sl_text_room(struct sl_text *text, size_t count);
__attribute__((format(printf, 2, 3))) void sl_text_print(struct sl_text *text, const char *format,
                                                         ...);
char *sl_text_string(struct sl_text *text);

#endif
