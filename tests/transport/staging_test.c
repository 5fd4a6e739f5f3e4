/* SPDX-License-Identifier: Apache-2.0 */
/* staging_test.c - a node's staging as its lanes see it: what they borrow, what comes back, what links are told. Time is a timer that
 * the test fires. */
#include "transport/staging.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum {
    FRAMES = 128,
    CHUNKS = 64,
    FRAME = 8192,
    CHUNK = 65536 + 128,
    BATCH = 4 * CHUNK,
    BATCHES = SL_SLAB_BYTES / ((BATCH + SL_BLOCK_UNIT - 1) / SL_BLOCK_UNIT * SL_BLOCK_UNIT),
    LANES = 40
};

/* A lane, and what its link knows: memory it was told of, and not told to forget. */
struct lane {
    struct sl_link link; /* first */
    struct sl_staging staging;
    const void *known[64];
    size_t known_count;
    int told, forgot;
    int refuse_from; /* sources fails from this telling on; 0: never */
};

static struct sl_timers timers;
static struct sl_staging_pool pool;
static struct lane lanes[LANES];

static struct lane *lane_of(struct sl_link *link)
{
    return (struct lane *)(void *)link;
}

static SEALANE_RESULT told(struct sl_link *link, const void *base, size_t bytes)
{
    struct lane *lane = lane_of(link);

    if (lane->refuse_from > 0 && lane->told + 1 >= lane->refuse_from)
        return SL_FAIL(SEALANE_RESOURCE_EXHAUSTED, "no memory may be locked");
    cr_assert_eq(bytes, SL_SLAB_BYTES);
    for (size_t i = 0; i < lane->known_count; i++)
        cr_assert_neq(lane->known[i], base, "told twice of one slab");
    lane->known[lane->known_count++] = base;
    lane->told++;
    cr_assert_leq(lane->known_count, SL_LINK_SOURCES);
    return SEALANE_OK;
}

static void forgot(struct sl_link *link, const void *base)
{
    struct lane *lane = lane_of(link);
    size_t i = 0;

    while (i < lane->known_count && lane->known[i] != base)
        i++;
    cr_assert_lt(i, lane->known_count, "to forget what it was not told of");
    lane->known[i] = lane->known[--lane->known_count];
    lane->forgot++;
}

static const struct sl_link_ops ops = {.name = "test", .sources = told, .forget = forgot};

static bool link_knows(const struct lane *lane, const uint8_t *at)
{
    for (size_t i = 0; i < lane->known_count; i++) {
        const uint8_t *base = lane->known[i];

        if (at >= base && at < base + SL_SLAB_BYTES)
            return true;
    }
    return false;
}

static void lane_begin(struct lane *lane)
{
    static const uint32_t pieces[SL_RING_COUNT] = {FRAMES, CHUNKS};

    *lane = (struct lane){.link.ops = &ops};
    cr_assert_eq(sl_staging_init(&lane->staging, &pool, &lane->link, pieces), SEALANE_OK);
}

static void lane_end(struct lane *lane)
{
    sl_staging_leave(&lane->staging);
    lane->link.ops = NULL; /* dropped */
    sl_staging_clear(&lane->staging);
}

static void begin(int count)
{
    sl_staging_pool_init(&pool, &timers);
    for (int i = 0; i < count; i++)
        lane_begin(&lanes[i]);
}

static void end(int count)
{
    for (int i = 0; i < count; i++)
        lane_end(&lanes[i]);
    sl_staging_pool_clear(&pool);
    sl_timers_clear(&timers);
}

/* A block, filled and written; NULL: none now. */
static uint8_t *take(struct lane *lane, enum sl_ring_id ring)
{
    uint32_t pieces = ring == SL_RING_BULK ? 4 : 1;
    size_t bytes = ring == SL_RING_BULK ? BATCH : FRAME;
    uint8_t *at;

    if (sl_staging_room(&lane->staging, ring) < pieces)
        return NULL;
    cr_assert_eq(sl_staging_take(&lane->staging, ring, pieces, bytes, &at), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    if (!at)
        return NULL;
    cr_assert(link_knows(lane, at), "a block that the link was not told of");
    memset(at, 0x5a, bytes);
    sl_staging_name(&lane->staging, ring, ++lane->link.posted);
    return at;
}

static void release_all(struct lane *lane)
{
    lane->link.released = lane->link.posted;
}

static bool look(void)
{
    struct sl_timer *timer = sl_timers_due(&timers, UINT64_MAX);

    if (timer)
        timer->fire(timer);
    return timer != NULL;
}

Test(staging, a_block_that_came_back_is_the_next_one)
{
    uint8_t *first[2];

    begin(1);
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        first[ring] = take(&lanes[0], (enum sl_ring_id)ring);
        release_all(&lanes[0]);
        for (int i = 0; i < 1000; i++) {
            cr_assert_eq(take(&lanes[0], (enum sl_ring_id)ring), first[ring],
                         "the same cache lines");
            release_all(&lanes[0]);
        }
    }
    cr_assert_eq(first[0], first[1]);
    cr_assert_eq((uintptr_t)first[0] % SL_SLAB_BYTES, 0, "a large page could lie there");
    cr_assert_eq(lanes[0].told, 1);
    cr_assert_eq(pool.count, 1);
    end(1);
}

Test(staging, a_block_is_nobodys_next_before_its_write_is_released)
{
    uint8_t *one, *two, *three;

    begin(2);
    one = take(&lanes[0], SL_RING_MESSAGE);
    two = take(&lanes[0], SL_RING_MESSAGE);
    three = take(&lanes[1], SL_RING_MESSAGE);
    cr_assert_eq(two, one + FRAME);
    cr_assert_eq(three, two + FRAME);
    lanes[0].link.released = 1;
    cr_assert_eq(sl_staging_room(&lanes[0].staging, SL_RING_MESSAGE), FRAMES - 1);
    cr_assert_eq(take(&lanes[1], SL_RING_MESSAGE), one, "the first came back, for anybody");
    cr_assert_eq(take(&lanes[1], SL_RING_MESSAGE), three + FRAME);
    end(2);
}

/* Memory that is being sealed in has no write yet. */
Test(staging, a_block_without_a_write_stays)
{
    uint8_t *at, *other;

    begin(1);
    cr_assert_eq(sl_staging_take(&lanes[0].staging, SL_RING_BULK, 4, BATCH, &at), SEALANE_OK);
    lanes[0].link.posted = lanes[0].link.released = 1000;
    cr_assert_eq(sl_staging_room(&lanes[0].staging, SL_RING_BULK), CHUNKS - 4);
    other = take(&lanes[0], SL_RING_MESSAGE);
    cr_assert_geq(other, at + BATCH);
    sl_staging_name(&lanes[0].staging, SL_RING_BULK, ++lanes[0].link.posted);
    release_all(&lanes[0]);
    cr_assert_eq(sl_staging_room(&lanes[0].staging, SL_RING_BULK), CHUNKS);
    end(1);
}

Test(staging, a_block_that_was_not_needed_goes_back_at_once)
{
    uint8_t *at, *again;

    begin(1);
    cr_assert_not_null(take(&lanes[0], SL_RING_MESSAGE)); /* stays on its way */
    for (int i = 0; i < 3 * FRAMES; i++) {
        cr_assert_eq(sl_staging_take(&lanes[0].staging, SL_RING_MESSAGE, 1, FRAME, &at),
                     SEALANE_OK);
        sl_staging_untake(&lanes[0].staging, SL_RING_MESSAGE);
    }
    cr_assert_eq(sl_staging_room(&lanes[0].staging, SL_RING_MESSAGE), FRAMES - 1);
    again = take(&lanes[0], SL_RING_MESSAGE);
    cr_assert_eq(again, at);
    release_all(&lanes[0]);
    cr_assert_eq(sl_staging_room(&lanes[0].staging, SL_RING_MESSAGE), FRAMES);
    end(1);
}

Test(staging, lanes_that_sent_hold_nothing_afterwards)
{
    begin(LANES);
    for (int i = 0; i < LANES; i++) {
        cr_assert_not_null(take(&lanes[i], SL_RING_MESSAGE));
        cr_assert_not_null(take(&lanes[i], SL_RING_BULK));
        release_all(&lanes[i]);
        cr_assert_eq(sl_staging_room(&lanes[i].staging, SL_RING_BULK), CHUNKS);
        cr_assert_eq(sl_staging_room(&lanes[i].staging, SL_RING_MESSAGE), FRAMES);
    }
    cr_assert_eq(pool.taken, 0);
    cr_assert_eq(pool.count, 1, "one slab for all");
    end(LANES);
}

/* A lane that does not look again, as it has nothing to send, keeps others out of nothing. */
Test(staging, blocks_of_lanes_that_do_not_look_come_back_before_there_are_more_slabs)
{
    begin(LANES);
    for (int i = 0; i < LANES; i++) {
        cr_assert_not_null(take(&lanes[i], SL_RING_BULK));
        release_all(&lanes[i]);
    }
    cr_assert_eq(pool.count, 1);
    end(LANES);
}

static size_t take_all(struct lane *lane)
{
    size_t bytes = 0;

    while (take(lane, SL_RING_BULK))
        bytes += BATCH;
    while (take(lane, SL_RING_MESSAGE))
        bytes += FRAME;
    return bytes;
}

Test(staging, invariant_14_a_stuck_lane_holds_its_pieces_and_stops_no_other)
{
    begin(LANES);
    for (int i = 1; i < LANES; i++)
        cr_assert_eq(take_all(&lanes[i]), (size_t)CHUNKS * CHUNK + (size_t)FRAMES * FRAME);
    for (int i = 0; i < 1000; i++) {
        cr_assert_not_null(take(&lanes[0], SL_RING_BULK));
        cr_assert_not_null(take(&lanes[0], SL_RING_MESSAGE));
        release_all(&lanes[0]);
    }
    cr_assert_leq(lanes[0].told, 2);
    cr_assert_leq(pool.count, LANES * 4);
    end(LANES);
}

/* Slab after slab is taken up by others: those that a link knows and does not need make room. */
Test(staging, a_link_forgets_slabs_when_it_knows_all_that_it_can)
{
    begin(LANES);
    for (int i = 1; i < LANES; i++) {
        cr_assert_not_null(take(&lanes[0], SL_RING_BULK));
        release_all(&lanes[0]);
        cr_assert_gt(take_all(&lanes[i]), 0);
    }
    cr_assert_gt(lanes[0].told, SL_LINK_SOURCES);
    cr_assert_eq(lanes[0].known_count, SL_LINK_SOURCES);
    end(LANES);
}

Test(staging, a_refused_registration_waits_for_what_is_on_its_way_and_fails_without)
{
    uint8_t *at;

    begin(2);
    lanes[1].refuse_from = 2;
    for (int i = 0; i < BATCHES; i++)
        cr_assert_not_null(take(&lanes[1], SL_RING_BULK));
    cr_assert_eq(sl_staging_take(&lanes[1].staging, SL_RING_BULK, 4, BATCH, &at), SEALANE_OK);
    cr_assert_null(at);
    cr_assert_eq(sl_staging_room(&lanes[1].staging, SL_RING_BULK), 0, "it waits");
    lanes[1].link.released = 1;
    cr_assert_eq(sl_staging_room(&lanes[1].staging, SL_RING_BULK), CHUNKS - 4 * (BATCHES - 1));
    cr_assert_not_null(take(&lanes[1], SL_RING_BULK), "from the slab that it knows");

    lanes[0].refuse_from = 1;
    cr_assert_eq(sl_staging_take(&lanes[0].staging, SL_RING_MESSAGE, 1, FRAME, &at),
                 SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(sealane_last_error()->message, "no memory may be locked");
    end(2);
}

Test(staging, slabs_that_are_not_needed_any_more_are_forgotten_and_given_back)
{
    int looks = 0;

    begin(LANES);
    for (int i = 0; i < LANES; i++)
        cr_assert_gt(take_all(&lanes[i]), 0);
    cr_assert_gt(pool.count, LANES);
    cr_assert(look());
    cr_assert_gt(pool.count, LANES, "all in use");
    for (int i = 0; i < LANES; i++)
        release_all(&lanes[i]);
    while (look())
        looks++;
    cr_assert_eq(pool.count, 1, "one is kept for lanes that are there");
    cr_assert_null(pool.slabs->next);
    cr_assert_leq(looks, LANES * 4);
    for (int i = 0; i < LANES; i++)
        cr_assert_leq(lanes[i].known_count, 1);
    for (int i = 0; i < LANES; i++)
        lane_end(&lanes[i]);
    while (look()) {
    }
    cr_assert_null(pool.slabs, "and none for nobody");
    sl_staging_pool_clear(&pool);
    sl_timers_clear(&timers);
}

Test(staging, a_slab_in_use_is_not_given_back)
{
    uint8_t *at;

    begin(2);
    (void)take_all(&lanes[0]);
    at = take(&lanes[1], SL_RING_BULK);
    cr_assert_eq(pool.slabs->next->next->base,
                 (void *)((uintptr_t)at & ~(uintptr_t)(SL_SLAB_BYTES - 1)));
    release_all(&lanes[0]);
    while (look()) {
    }
    cr_assert_eq(pool.count, 1);
    cr_assert_eq(at[BATCH - 1], 0x5a, "still mapped");
    cr_assert(link_knows(&lanes[1], at));
    release_all(&lanes[1]);
    cr_assert_neq(take(&lanes[1], SL_RING_BULK), NULL);
    cr_assert_null(pool.slabs->next, "it went when its last block was back");
    end(2);
}

/* A carrier may read on for a moment after a drop: nobody writes there again. */
Test(staging, what_a_dropped_link_may_still_read_is_never_used_again)
{
    uint8_t *dropped, *before, *after;

    begin(2);
    before = take(&lanes[1], SL_RING_MESSAGE);
    dropped = take(&lanes[0], SL_RING_MESSAGE);
    lane_end(&lanes[0]);
    cr_assert_eq(dropped[0], 0x5a, "another lane's blocks keep it mapped");
    after = take(&lanes[1], SL_RING_MESSAGE);
    cr_assert(after < before - SL_SLAB_BYTES || after >= before + SL_SLAB_BYTES,
              "no new blocks of that slab");
    cr_assert_eq(lanes[1].known_count, 2);
    release_all(&lanes[1]);
    cr_assert_eq(sl_staging_room(&lanes[1].staging, SL_RING_MESSAGE), FRAMES);
    cr_assert_eq(lanes[1].known_count, 1);
    lane_begin(&lanes[0]);
    end(2);
}

Test(staging, a_link_whose_writes_were_released_leaves_its_slab_to_others)
{
    uint8_t *first;

    begin(2);
    first = take(&lanes[0], SL_RING_MESSAGE);
    release_all(&lanes[0]);
    lane_end(&lanes[0]);
    cr_assert_eq(take(&lanes[1], SL_RING_MESSAGE), first);
    lane_begin(&lanes[0]);
    end(2);
}

Test(staging, a_lane_that_ends_while_it_seals_gives_its_blocks_back)
{
    uint8_t *at;

    begin(2);
    cr_assert_eq(sl_staging_take(&lanes[0].staging, SL_RING_BULK, 4, BATCH, &at), SEALANE_OK);
    lane_end(&lanes[0]);
    cr_assert_eq(pool.taken, 0);
    cr_assert_eq(take(&lanes[1], SL_RING_MESSAGE), at, "nothing ever left from there");
    lane_begin(&lanes[0]);
    end(2);
}

/* A line of /proc: "Name:   number kB"; 0 when it is not there. `from`: the line that it comes after. */
static unsigned long number_in(const char *file, const char *from, const char *name)
{
    FILE *lines = fopen(file, "r");
    unsigned long number = 0;
    bool there = from == NULL;
    char line[512];

    cr_assert_not_null(lines);
    while (fgets(line, sizeof(line), lines)) {
        there = there || strncmp(line, from, strlen(from)) == 0;
        if (there && strncmp(line, name, strlen(name)) == 0) {
            (void)sscanf(line + strlen(name), "%lu", &number);
            break;
        }
    }
    (void)fclose(lines);
    return number;
}

Test(staging, slabs_are_large_pages_where_the_system_keeps_some)
{
    char begins[32];
    uint8_t *at;

    if (number_in("/proc/meminfo", NULL, "HugePages_Free:") < 1 ||
        number_in("/proc/meminfo", NULL, "Hugepagesize:") != SL_SLAB_BYTES / 1024)
        cr_skip("no free huge pages of 2 MiB: /proc/sys/vm/nr_hugepages");
    begin(1);
    at = take(&lanes[0], SL_RING_BULK);
    (void)snprintf(begins, sizeof(begins), "%lx-", (unsigned long)at);
    cr_assert_eq(number_in("/proc/self/smaps", begins, "KernelPageSize:"), SL_SLAB_BYTES / 1024);
    end(1);
}

Test(staging, a_part_that_was_never_given_ends_well)
{
    struct sl_staging staging = {.pool = NULL};

    sl_staging_leave(&staging);
    sl_staging_clear(&staging);
}
