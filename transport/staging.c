/* SPDX-License-Identifier: Apache-2.0 */
/* staging.c - slabs, the blocks cut from them, and who has them. */
#include "transport/staging.h"

#include "transport/log.h"

#include <linux/mman.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    FREE = 0,
    TAKEN = 1
};

/* ---- slabs ---- */

/* Large pages that the system keeps for this. A page that is promised may still be refused when it is touched, by a signal; so all
 * are touched by a call that says so instead. */
static void *map_huge(void)
{
    void *at = mmap(NULL, SL_SLAB_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);

    if (at != MAP_FAILED && madvise(at, SL_SLAB_BYTES, MADV_POPULATE_WRITE) == 0)
        return at;
    if (at != MAP_FAILED)
        (void)munmap(at, SL_SLAB_BYTES);
    return NULL;
}

/* Where a large page could lie, with the wish for one. */
static void *map_plain(void)
{
    uint8_t *at = mmap(NULL, 2 * (size_t)SL_SLAB_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (at == MAP_FAILED)
        return NULL;
    before = (SL_SLAB_BYTES - (uintptr_t)at % SL_SLAB_BYTES) % SL_SLAB_BYTES;
    if (before > 0)
        (void)munmap(at, before);
    (void)munmap(at + before + SL_SLAB_BYTES, SL_SLAB_BYTES - before);
    (void)madvise(at + before, SL_SLAB_BYTES, MADV_HUGEPAGE);
    return at + before;
}

static SEALANE_RESULT slab_map(uint8_t **base_p)
{
    void *base = map_huge();

    if (!base)
        base = map_plain();
    if (!base)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for %d bytes of staging",
                       SL_SLAB_BYTES);
    *base_p = base;
    return SEALANE_OK;
}

static uint64_t clock_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* One slab is what a node with lanes keeps. */
static bool has_surplus(const struct sl_staging_pool *pool)
{
    return pool->count > (pool->lanes ? 1 : 0);
}

static SEALANE_RESULT surplus_watch(struct sl_staging_pool *pool)
{
    if (!has_surplus(pool) || pool->timer.place != 0)
        return SEALANE_OK;
    return sl_timers_start(pool->timers, &pool->timer,
                           clock_ns() + (uint64_t)SL_STAGING_LOOK_MS * 1000000u);
}

/* Otherwise the slabs stay until another lane ends. */
static void surplus_look_later(struct sl_staging_pool *pool)
{
    if (surplus_watch(pool) != SEALANE_OK)
        SL_LOG(SL_LOG_WARN, "staging is not given back: %s", sealane_last_error()->message);
}

static SEALANE_RESULT slab_new(struct sl_staging_pool *pool, struct sl_slab **slab_p)
{
    struct sl_slab *slab = calloc(1, sizeof(*slab)), **at = &pool->slabs;
    enum sealane_status status;

    if (!slab)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a slab of staging");
    status = slab_map(&slab->base);
    if (status != SEALANE_OK) {
        free(slab);
        return status;
    }
    while (*at)
        at = &(*at)->next;
    *at = *slab_p = slab;
    pool->count++;
    return surplus_watch(pool);
}

static void forget(struct sl_staging *staging, size_t place)
{
    struct sl_slab *slab = staging->known[place];
    size_t last = place;

    while (last + 1 < SL_LINK_SOURCES && staging->known[last + 1])
        last++;
    staging->known[place] = staging->known[last];
    staging->known[last] = NULL;
    staging->link->ops->forget(staging->link, slab->base);
}

static void slab_free(struct sl_staging_pool *pool, struct sl_slab *slab)
{
    struct sl_slab **at = &pool->slabs;

    for (struct sl_staging *lane = pool->lanes; lane; lane = lane->next) {
        for (size_t i = 0; i < SL_LINK_SOURCES; i++) {
            if (lane->known[i] == slab)
                forget(lane, i);
        }
    }
    while (*at != slab)
        at = &(*at)->next;
    *at = slab->next;
    (void)munmap(slab->base, SL_SLAB_BYTES);
    free(slab);
}

static void slab_retire(struct sl_staging_pool *pool, struct sl_slab *slab)
{
    if (!slab->retired)
        pool->count--;
    slab->retired = true;
}

/* The first unit of the lowest run of free ones, or SL_SLAB_UNITS. */
static uint32_t run_find(const struct sl_slab *slab, uint32_t units)
{
    const uint8_t *at = slab->units, *end = at + SL_SLAB_UNITS, *taken;

    if (slab->retired || units > SL_SLAB_UNITS - slab->taken)
        return SL_SLAB_UNITS;
    while ((at = memchr(at, FREE, (size_t)(end - at))) != NULL && (size_t)(end - at) >= units) {
        taken = memchr(at, TAKEN, units);
        if (!taken)
            return (uint32_t)(at - slab->units);
        at = taken;
    }
    return SL_SLAB_UNITS;
}

/* ---- loans ---- */

static struct sl_loan *loan_at(const struct sl_loans *loans, uint64_t index)
{
    return &loans->at[index % loans->limit];
}

static void loan_end(struct sl_staging *staging, struct sl_loans *loans, const struct sl_loan *loan)
{
    struct sl_slab *slab = loan->slab;

    memset(slab->units + loan->unit, FREE, loan->units);
    slab->taken -= loan->units;
    staging->pool->taken -= loan->units;
    loans->pieces -= loan->pieces;
    staging->waits = false;
    if (slab->retired && slab->taken == 0)
        slab_free(staging->pool, slab);
}

static void settle(struct sl_staging *staging, struct sl_loans *loans)
{
    while (loans->freed < loans->written &&
           loan_at(loans, loans->freed)->write <= staging->link->released)
        loan_end(staging, loans, loan_at(loans, loans->freed++));
}

static void settle_both(struct sl_staging *staging)
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++)
        settle(staging, &staging->loans[ring]);
}

static bool has_loans(const struct sl_staging *staging)
{
    return staging->loans[SL_RING_MESSAGE].pieces > 0 || staging->loans[SL_RING_BULK].pieces > 0;
}

static bool has_loan_of(const struct sl_staging *staging, const struct sl_slab *slab)
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        const struct sl_loans *loans = &staging->loans[ring];

        for (uint64_t i = loans->freed; i < loans->taken; i++) {
            if (loan_at(loans, i)->slab == slab)
                return true;
        }
    }
    return false;
}

/* ---- finding a block ---- */

static bool knows(const struct sl_staging *staging, const struct sl_slab *slab)
{
    for (size_t i = 0; i < SL_LINK_SOURCES && staging->known[i]; i++) {
        if (staging->known[i] == slab)
            return true;
    }
    return false;
}

/* In a slab that the link knows, or in one that it does not. */
static struct sl_slab *slab_find(const struct sl_staging *staging, bool known, uint32_t units,
                                 uint32_t *unit_p)
{
    for (struct sl_slab *slab = staging->pool->slabs; slab; slab = slab->next) {
        *unit_p = run_find(slab, units);
        if (*unit_p < SL_SLAB_UNITS && knows(staging, slab) == known)
            return slab;
    }
    return NULL;
}

/* A place for one more slab; SL_LINK_SOURCES when blocks of all are on their way. */
static size_t known_room(struct sl_staging *staging)
{
    size_t place = 0;

    while (place < SL_LINK_SOURCES && staging->known[place])
        place++;
    for (size_t i = 0; place == SL_LINK_SOURCES && i < SL_LINK_SOURCES; i++) {
        if (!has_loan_of(staging, staging->known[i])) {
            forget(staging, i);
            place--;
        }
    }
    return place;
}

/* No slab that the link knows has room: those of lanes that did not look lately are settled, then another slab is made known. */
static SEALANE_RESULT slab_more(struct sl_staging *staging, uint32_t units, struct sl_slab **slab_p,
                                uint32_t *unit_p)
{
    size_t place;

    for (struct sl_staging *lane = staging->pool->lanes; lane; lane = lane->next)
        settle_both(lane);
    *slab_p = slab_find(staging, true, units, unit_p);
    if (*slab_p)
        return SEALANE_OK;
    place = known_room(staging);
    if (place == SL_LINK_SOURCES)
        return SEALANE_OK;
    *slab_p = slab_find(staging, false, units, unit_p);
    if (!*slab_p) {
        SL_TRY(slab_new(staging->pool, slab_p));
        *unit_p = 0;
    }
    SL_TRY(staging->link->ops->sources(staging->link, (*slab_p)->base, SL_SLAB_BYTES));
    staging->known[place] = *slab_p;
    return SEALANE_OK;
}

static void loan_begin(struct sl_staging *staging, struct sl_loans *loans,
                       const struct sl_loan *loan)
{
    struct sl_staging_pool *pool = staging->pool;

    *loan_at(loans, loans->taken++) = *loan;
    loans->pieces += loan->pieces;
    memset(loan->slab->units + loan->unit, TAKEN, loan->units);
    loan->slab->taken += loan->units;
    pool->taken += loan->units;
    if (pool->taken > pool->peak)
        pool->peak = pool->taken;
}

/* ---- what lanes ask ---- */

SEALANE_RESULT sl_staging_init(struct sl_staging *staging, struct sl_staging_pool *pool,
                               struct sl_link *link, const uint32_t pieces[SL_RING_COUNT])
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        staging->loans[ring] = (struct sl_loans){.at = calloc(pieces[ring], sizeof(struct sl_loan)),
                                                 .limit = pieces[ring]};
    }
    staging->pool = pool;
    staging->link = link;
    staging->next = pool->lanes;
    if (pool->lanes)
        pool->lanes->prev = staging;
    pool->lanes = staging;
    if (!staging->loans[SL_RING_MESSAGE].at || !staging->loans[SL_RING_BULK].at)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory for a lane's part of the staging");
    return SEALANE_OK;
}

void sl_staging_leave(struct sl_staging *staging)
{
    for (int ring = 0; staging->pool && ring < SL_RING_COUNT; ring++) {
        struct sl_loans *loans = &staging->loans[ring];

        settle(staging, loans);
        for (uint64_t i = loans->freed; i < loans->written; i++)
            slab_retire(staging->pool, loan_at(loans, i)->slab);
    }
}

void sl_staging_clear(struct sl_staging *staging)
{
    struct sl_staging_pool *pool = staging->pool;

    if (!pool)
        return;
    if (staging->prev)
        staging->prev->next = staging->next;
    else
        pool->lanes = staging->next;
    if (staging->next)
        staging->next->prev = staging->prev;
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        struct sl_loans *loans = &staging->loans[ring];

        while (loans->freed < loans->taken)
            loan_end(staging, loans, loan_at(loans, loans->freed++));
        free(loans->at);
    }
    *staging = (struct sl_staging){.pool = NULL};
    surplus_look_later(pool);
}

uint32_t sl_staging_room(struct sl_staging *staging, enum sl_ring_id ring)
{
    const struct sl_loans *loans = &staging->loans[ring];

    settle_both(staging);
    return staging->waits ? 0 : loans->limit - loans->pieces;
}

SEALANE_RESULT sl_staging_take(struct sl_staging *staging, enum sl_ring_id ring, uint32_t pieces,
                               size_t bytes, uint8_t **at_p)
{
    struct sl_loan loan = {.units = (uint32_t)((bytes + SL_BLOCK_UNIT - 1) / SL_BLOCK_UNIT),
                           .pieces = pieces,
                           .write = UINT64_MAX};
    enum sealane_status status = SEALANE_OK;

    loan.slab = slab_find(staging, true, loan.units, &loan.unit);
    if (!loan.slab)
        status = slab_more(staging, loan.units, &loan.slab, &loan.unit);
    if (status != SEALANE_OK && !has_loans(staging))
        return status;
    if (status != SEALANE_OK)
        SL_LOG(SL_LOG_INFO, "a lane waits for blocks of its own: %s",
               sealane_last_error()->message);
    *at_p = NULL;
    staging->waits = status != SEALANE_OK || !loan.slab;
    if (staging->waits)
        return SEALANE_OK;
    loan_begin(staging, &staging->loans[ring], &loan);
    *at_p = loan.slab->base + (size_t)loan.unit * SL_BLOCK_UNIT;
    return SEALANE_OK;
}

void sl_staging_untake(struct sl_staging *staging, enum sl_ring_id ring)
{
    struct sl_loans *loans = &staging->loans[ring];

    loan_end(staging, loans, loan_at(loans, --loans->taken));
}

void sl_staging_name(struct sl_staging *staging, enum sl_ring_id ring, uint64_t write)
{
    struct sl_loans *loans = &staging->loans[ring];

    loan_at(loans, loans->written++)->write = write;
}

/* ---- the pool ---- */

/* Twice what was needed lately is enough to keep. */
static void surplus_retire(struct sl_staging_pool *pool)
{
    struct sl_slab *newest = NULL;

    for (struct sl_slab *slab = pool->slabs; slab; slab = slab->next)
        newest = slab->retired ? newest : slab;
    if (!newest || !has_surplus(pool) || pool->peak * 2 > (pool->count - 1) * SL_SLAB_UNITS)
        return;
    slab_retire(pool, newest);
    if (newest->taken == 0)
        slab_free(pool, newest);
}

static void look(struct sl_timer *timer)
{
    struct sl_staging_pool *pool =
        (struct sl_staging_pool *)(void *)((uint8_t *)timer -
                                           offsetof(struct sl_staging_pool, timer));

    for (struct sl_staging *lane = pool->lanes; lane; lane = lane->next)
        settle_both(lane);
    surplus_retire(pool);
    pool->peak = pool->taken;
    surplus_look_later(pool);
}

void sl_staging_pool_init(struct sl_staging_pool *pool, struct sl_timers *timers)
{
    *pool = (struct sl_staging_pool){.timers = timers, .timer.fire = look};
}

void sl_staging_pool_clear(struct sl_staging_pool *pool)
{
    if (!pool->timers)
        return;
    sl_timers_stop(pool->timers, &pool->timer);
    while (pool->slabs)
        slab_free(pool, pool->slabs);
    pool->count = 0;
}
