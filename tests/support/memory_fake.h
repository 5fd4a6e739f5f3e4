/* SPDX-License-Identifier: Apache-2.0 */
/* memory_fake.h - a memory kind that stands for a GPU's: the host faults when it touches what alloc gave, and jobs finish only
 * in poll, as many and in the order that a test says. It proves that code passes such pointers on and never looks through them.
 *
 * Rings are the host's, until memory_fake_device_rings. Misuse that a real kind would answer with silent damage (memory that is not its own, not whole inside one
 * allocation, freed while a job needs it, a kind closed under its jobs) ends the process with a line on stderr.
 */
#ifndef MEMORY_FAKE_H
#define MEMORY_FAKE_H

#include "transport/memory.h"

enum memory_fake_order {
    MEMORY_FAKE_FIRST_FIRST, /* the default */
    MEMORY_FAKE_LAST_FIRST,
    MEMORY_FAKE_SHUFFLED /* the same each time */
};

/* A kind with `bytes` of memory. One thread uses it. */
SEALANE_RESULT memory_fake_new(size_t bytes, struct sl_memory **memory_p);

/* How many jobs one poll may finish: SIZE_MAX, the default, is all; 0 holds them. */
void memory_fake_pace(struct sl_memory *memory, size_t jobs_per_poll);

/* The order among the jobs that are pending at a poll. */
void memory_fake_order(struct sl_memory *memory, enum memory_fake_order order);

/* From now on rings that are asked for in device memory are there, in a "dma-buf" (a memfd: what stands for a kernel that takes
 * dma-bufs may map it) that they begin `offset` bytes into; without one when offset is SIZE_MAX. */
void memory_fake_device_rings(struct sl_memory *memory, size_t offset);

/* The bytes of a ring in this kind's memory, for what stands for a driver; NULL for others. */
void *memory_fake_ring_bytes(const struct sl_memory *memory, const void *base);

size_t memory_fake_pending(const struct sl_memory *memory); /* jobs */
size_t memory_fake_used(const struct sl_memory *memory);    /* bytes in whole pages */

/* Copies between the host's memory and this kind's or a ring, at once. */
void memory_fake_put(struct sl_memory *memory, void *to, const void *from, size_t bytes);
void memory_fake_get(struct sl_memory *memory, void *to, const void *from, size_t bytes);

#endif
