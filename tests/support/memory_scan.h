/* SPDX-License-Identifier: Apache-2.0 */
/* memory_scan.h - looks for bytes in all the memory that this process can write: heap (what was freed and not handed out again
 * included), stacks of every thread, data, shared pages. */
#ifndef MEMORY_SCAN_H
#define MEMORY_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NEEDLE_MAX = 64,
    NEEDLES_MAX = 256
};

/* What is looked for. It is kept inverted, so that a search does not find what it looks for in the needle. */
struct needle {
    uint8_t inverted[NEEDLE_MAX];
    size_t bytes;
    bool found; /* by the last scan */
};

/* 8 to NEEDLE_MAX bytes. The caller wipes its own copy. */
struct needle needle_of(const uint8_t *bytes, size_t count);

/* Tells in each needle whether it stands in writable memory; `only`, unless NULL, is part of the names of the mappings to look at,
 * as /proc/self/maps has them. Returns how many bytes were looked at. */
size_t memory_scan(struct needle *needles, size_t count, const char *only);

#endif
