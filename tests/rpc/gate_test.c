/* SPDX-License-Identifier: Apache-2.0 */
/* gate_test.c - the line for tensor memory, and what a gate does once it is closed. */
#include "rpc/gate.h"
#include "tests/support/lane_fake.h"

#include <criterion/criterion.h>
#include <string.h>

static struct sealane_node *node;
static struct sl_gate *gate;

static void open_gate(void)
{
    const struct sl_limits limits = {.tensor_memory_bytes = 100};

    node = fake_node_new(true);
    cr_assert_eq(sl_gate_new(node, &limits, &gate), SEALANE_OK);
}

static void close_gate(void)
{
    sl_gate_close(gate);
    fake_settle(node);
    sl_gate_leave(gate);
    sealane_node_free(node);
}

TestSuite(gate, .init = open_gate, .fini = close_gate);

static char order[16];

struct named {
    struct sl_waiter waiter;
    char name;
};

static void granted(struct sl_waiter *waiter)
{
    char name[2] = {((struct named *)(void *)waiter)->name, '\0'};

    strcat(order, name);
}

static struct named waiter_of(char name, uint64_t bytes)
{
    return (struct named){.waiter = {.bytes = bytes, .granted = granted}, .name = name};
}

static void stalled(struct sl_waiter *waiter)
{
    granted(waiter);
    sl_gate_filled(gate, waiter); /* as the end of its call does */
    sl_gate_return(gate, waiter->bytes);
}

Test(gate, takes_memory_back_from_those_who_make_no_progress_while_others_wait)
{
    struct named a = waiter_of('a', 60), b = waiter_of('b', 40), c = waiter_of('c', 50);

    a.waiter.stalled = b.waiter.stalled = c.waiter.stalled = stalled;
    cr_assert(sl_gate_reserve(gate, &a.waiter));
    cr_assert(sl_gate_reserve(gate, &b.waiter));
    fake_advance(node, 60000);
    fake_settle(node);
    cr_assert_str_eq(order, "", "nobody waits: they may take their time");
    sl_gate_moved(gate, &b.waiter);
    cr_assert_not(sl_gate_reserve(gate, &c.waiter));
    fake_advance(node, 2000);
    fake_settle(node);
    cr_assert_str_eq(order, "ac", "a had its time long ago, b has just moved; c comes in");
    sl_gate_moved(gate, &c.waiter);
    sl_gate_filled(gate, &b.waiter);
    sl_gate_filled(gate, &c.waiter);
}

Test(gate, fills_in_the_defaults_that_the_door_states)
{
    struct sl_gate *plain;

    cr_assert_eq(sl_gate_new(node, &(struct sl_limits){0}, &plain), SEALANE_OK);
    cr_assert_eq(plain->limits.max_message_bytes, 4u << 20);
    cr_assert_eq(plain->limits.max_tensor_bytes, (uint64_t)16 << 30);
    cr_assert_eq(plain->limits.tensor_memory_bytes, (uint64_t)64 << 30);
    cr_assert_eq(plain->limits.max_calls, 4096);
    sl_gate_leave(plain);
}

Test(gate, grants_memory_first_come_first_served)
{
    struct named a = waiter_of('a', 60), b = waiter_of('b', 70), c = waiter_of('c', 10),
                 d = waiter_of('d', 30);

    cr_assert(sl_gate_reserve(gate, &a.waiter));
    cr_assert_not(sl_gate_reserve(gate, &b.waiter));
    cr_assert_not(sl_gate_reserve(gate, &c.waiter), "it would fit, but b was first");
    cr_assert_not(sl_gate_reserve(gate, &d.waiter));
    sl_gate_return(gate, 20);
    fake_settle(node);
    cr_assert_str_eq(order, "");
    sl_gate_return(gate, 40);
    fake_settle(node);
    cr_assert_str_eq(order, "bc", "70 and 10 of 100; d waits");
    sl_gate_return(gate, 70);
    fake_settle(node);
    cr_assert_str_eq(order, "bcd");
    cr_assert_eq(gate->used, 40);
}

Test(gate, lets_the_next_go_when_one_steps_out_of_the_line)
{
    struct named a = waiter_of('a', 60), b = waiter_of('b', 70), c = waiter_of('c', 40);

    cr_assert(sl_gate_reserve(gate, &a.waiter));
    cr_assert_not(sl_gate_reserve(gate, &b.waiter));
    cr_assert_not(sl_gate_reserve(gate, &c.waiter));
    sl_gate_unwait(gate, &b.waiter);
    sl_gate_unwait(gate, &b.waiter); /* again: nothing */
    cr_assert_str_eq(order, "", "told in a turn, not inside");
    fake_settle(node);
    cr_assert_str_eq(order, "c");
}

static struct sl_gate *wide;

static void open_wide(uint64_t tensor_memory_bytes)
{
    const struct sl_limits limits = {.tensor_memory_bytes = tensor_memory_bytes};

    cr_assert_eq(sl_gate_new(node, &limits, &wide), SEALANE_OK);
}

static void close_wide(void)
{
    sl_gate_close(wide);
    cr_expect_eq(wide->pool.kept, 0);
    fake_settle(node);
    sl_gate_leave(wide);
}

Test(gate, keeps_large_memory_for_the_next_tensor_within_the_limit)
{
    void *first, *second;

    open_wide(3 << 20);
    first = sl_gate_alloc(wide, 2 << 20);
    second = sl_gate_alloc(wide, 2 << 20);
    cr_assert_neq(first, second);
    memset(second, 1, 2 << 20);
    sl_gate_free(wide, first, 2 << 20);
    sl_gate_free(wide, second, 2 << 20);
    cr_assert_eq(wide->pool.kept, 2u << 20, "both would pass the limit: the older one went");
    cr_assert_eq(sl_gate_alloc(wide, 2 << 20), second);
    cr_assert_eq(wide->pool.kept, 0);
    sl_gate_free(wide, second, 2 << 20);
    close_wide();
}

Test(gate, spares_make_way_for_what_is_reserved)
{
    struct named a = waiter_of('a', 3 << 20);
    void *spare, *other;

    open_wide(4 << 20);
    spare = sl_gate_alloc(wide, 2 << 20);
    sl_gate_free(wide, spare, 2 << 20);
    cr_assert(sl_gate_reserve(wide, &a.waiter), "spares are nobody's");
    other = sl_gate_alloc(wide, 3 << 20);
    cr_assert_not_null(other);
    cr_assert_eq(wide->pool.kept, 0, "3 of 4 MiB are reserved, 2 are spare: they go");
    sl_gate_filled(wide, &a.waiter);
    sl_gate_return(wide, 3 << 20);
    sl_gate_free(wide, other, 3 << 20);
    close_wide();
}

Test(gate, gives_spare_memory_back_that_nobody_wants_for_long)
{
    open_wide(0);
    sl_gate_free(wide, sl_gate_alloc(wide, 1 << 20), 1 << 20);
    fake_settle(node);
    cr_assert_eq(wide->pool.kept, 1u << 20);
    for (int s = 0; s < 20; s++) {
        fake_advance(node, 1000);
        fake_settle(node);
    }
    cr_assert_eq(wide->pool.kept, 0);
    cr_assert_not(wide->ages, "and then nothing runs any more");
    close_wide();
}

Test(gate, keeps_nothing_once_it_is_closed)
{
    void *at;

    open_wide(0);
    at = sl_gate_alloc(wide, 1 << 20);
    sl_gate_free(wide, sl_gate_alloc(wide, 2 << 20), 2 << 20);
    sl_gate_close(wide);
    cr_assert_eq(wide->pool.kept, 0);
    sl_gate_free(wide, at, 1 << 20);
    cr_assert_eq(wide->pool.kept, 0);
    fake_settle(node);
    sl_gate_leave(wide);
}

Test(gate, answers_null_for_memory_that_no_machine_has)
{
    cr_assert_null(sl_gate_alloc(gate, SIZE_MAX));
    cr_assert_null(sl_gate_alloc(gate, SIZE_MAX - 4095));
    cr_assert_null(sl_gate_alloc(gate, (size_t)1 << 62));
}

static int runs;

static void count(struct sl_post *post)
{
    (void)post;
    runs++;
}

Test(gate, lets_nobody_through_once_it_is_closed)
{
    struct sl_post posts[3] = {{.run = count}, {.run = count}, {.run = count}};

    cr_assert(sl_gate_post(gate, &posts[0]));
    cr_assert_eq(runs, 0);
    cr_assert(sl_gate_post_or_run(gate, &posts[1]));
    cr_assert_eq(runs, 1, "at once on the node's thread");
    sl_gate_close(gate);
    cr_assert_not(sl_gate_post(gate, &posts[2]));
    cr_assert_not(sl_gate_post_or_run(gate, &posts[2]));
    fake_settle(node);
    cr_assert_eq(runs, 2);
}
