/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - a list of blocks, the newest in front; large pieces get a block of their own. */
#include "codegen/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 << 10)

struct sl_arena_block {
    struct sl_arena_block *next;
    size_t used;
    size_t capacity;
    _Alignas(max_align_t) char bytes[];
};

static _Noreturn void out_of_memory(void)
{
    fputs("protoc-gen-sealane: out of memory\n", stderr);
    exit(EXIT_FAILURE);
}

static void *allocator_alloc(void *arena, size_t bytes)
{
    return sl_arena_alloc(arena, bytes);
}

static void allocator_free(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

void sl_arena_init(struct sl_arena *arena)
{
    *arena = (struct sl_arena){
        .allocator = {.alloc = allocator_alloc, .free = allocator_free, .allocator_data = arena}};
}

void sl_arena_free(struct sl_arena *arena)
{
    while (arena->blocks) {
        struct sl_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

static struct sl_arena_block *add_block(struct sl_arena *arena, size_t bytes)
{
    size_t capacity = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
    struct sl_arena_block *block = calloc(1, sizeof *block + capacity);
    if (!block)
        out_of_memory();
    block->capacity = capacity;
    /* A block made for one large piece is full: it goes behind the one that still has room. */
    if (capacity == bytes && arena->blocks) {
        block->next = arena->blocks->next;
        arena->blocks->next = block;
    } else {
        block->next = arena->blocks;
        arena->blocks = block;
    }
    return block;
}

void *sl_arena_alloc(struct sl_arena *arena, size_t bytes)
{
    const size_t align = _Alignof(max_align_t);
    if (bytes > SIZE_MAX / 2)
        out_of_memory();
    bytes = (bytes + align) / align * align; /* at least one: pieces have different addresses */
    struct sl_arena_block *block = arena->blocks;
    if (!block || block->capacity - block->used < bytes)
        block = add_block(arena, bytes);
    void *piece = block->bytes + block->used;
    block->used += bytes;
    return piece;
}

void *sl_arena_array(struct sl_arena *arena, size_t count, size_t bytes)
{
    if (count > SIZE_MAX / 2 / bytes)
        out_of_memory();
    return sl_arena_alloc(arena, count * bytes);
}

__attribute__((format(printf, 2, 0))) static void add_list(struct sl_text *text, const char *format,
                                                           va_list list)
{
    va_list again;
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0)
        out_of_memory(); /* the only way these formats can fail */
    vsnprintf(sl_text_room(text, (size_t)length), (size_t)length + 1, format, list);
    text->length += (size_t)length;
}

char *sl_arena_print(struct sl_arena *arena, const char *format, ...)
{
    struct sl_text text = {.arena = arena};
    va_list list;
    va_start(list, format);
    add_list(&text, format, list);
    va_end(list);
    return text.data;
}

char *sl_text_room(struct sl_text *text, size_t count)
{
    if (count > SIZE_MAX / 4 - text->length)
        out_of_memory();
    size_t needed = text->length + count + 1;
    if (needed > text->capacity) {
        size_t capacity = text->capacity ? needed * 2 : needed;
        char *data = sl_arena_alloc(text->arena, capacity);
        if (text->length)
            memcpy(data, text->data, text->length);
        text->data = data;
        text->capacity = capacity;
    }
    text->data[needed - 1] = '\0';
    return text->data + text->length;
}

void sl_text_add_bytes(struct sl_text *text, const char *bytes, size_t count)
{
    memcpy(sl_text_room(text, count), bytes, count);
    text->length += count;
}

void sl_text_add(struct sl_text *text, const char *string)
{
    sl_text_add_bytes(text, string, strlen(string));
}

void sl_text_print(struct sl_text *text, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    add_list(text, format, list);
    va_end(list);
}

char *sl_text_string(struct sl_text *text)
{
    sl_text_room(text, 0);
    return text->data;
}
