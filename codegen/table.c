/* SPDX-License-Identifier: Apache-2.0 */
/* table.c - open addressing over FNV-1a, at most half full. Nothing is ever removed. */
#include "codegen/table.h"

#include <stdint.h>
#include <string.h>

static uint64_t hash(const char *key)
{
    uint64_t value = 14695981039346656037u;
    for (; *key; key++)
        value = (value ^ (unsigned char)*key) * 1099511628211u;
    return value;
}

/* The entry that holds the key, or the empty one where it would go. */
static struct sl_table_entry *find(struct sl_table_entry *entries, size_t capacity, const char *key)
{
    size_t i = (size_t)hash(key) & (capacity - 1);
    while (entries[i].key && strcmp(entries[i].key, key) != 0)
        i = (i + 1) & (capacity - 1);
    return &entries[i];
}

const void *sl_table_get(const struct sl_table *table, const char *key)
{
    return table->capacity ? find(table->entries, table->capacity, key)->value : NULL;
}

static void grow(struct sl_table *table)
{
    size_t capacity = table->capacity ? table->capacity * 2 : 64;
    struct sl_table_entry *entries = sl_arena_array(table->arena, capacity, sizeof *entries);
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->entries[i].key)
            *find(entries, capacity, table->entries[i].key) = table->entries[i];
    }
    table->entries = entries;
    table->capacity = capacity;
}

const void *sl_table_add(struct sl_table *table, const char *key, const void *value)
{
    if (table->count >= table->capacity / 2)
        grow(table);
    struct sl_table_entry *entry = find(table->entries, table->capacity, key);
    if (entry->key)
        return entry->value;
    *entry = (struct sl_table_entry){key, value};
    table->count++;
    return NULL;
}
