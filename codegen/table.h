/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - names to pointers: which names are taken, and by whom. */
#ifndef SL_TABLE_H
#define SL_TABLE_H

#include "codegen/arena.h"

struct sl_table_entry {
    const char *key;
    const void *value;
};

/* Zero it and set the arena. Keys and values are borrowed. */
struct sl_table {
    struct sl_arena *arena;
    struct sl_table_entry *entries;
    size_t count;
    size_t capacity; /* 0 or a power of two */
};

/* NULL when the key is not there. */
const void *sl_table_get(const struct sl_table *table, const char *key);

/* Adds the key unless it is there. Returns the value that the key had before, or NULL when it is new. `value` is never NULL. */
const void *sl_table_add(struct sl_table *table, const char *key, const void *value);

#endif
