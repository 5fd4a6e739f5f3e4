/* SPDX-License-Identifier: Apache-2.0 */
/* cancel_test.c - calls given up at every stage, answers that come late, thousands at a time, and stuck ones: over each link. What is
 * asked for is that both ends end each call once, that slots and memory come back, and that nobody else waits.
 */
#include "tests/e2e/load_link.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAIT_MS = 15000,
    LARGE = 48 << 20, /* many times what rings and sockets hold */
    LARGE_OF_VERBS =
        16
        << 20, /* many times what rings hold; few pages, of which a guest of the rig can map some thousands */
    SOME = 4 << 20,
    ROUNDS = 6,
    MOST = 4096 /* the default of max_calls */
};

static struct pair {
    struct load_server *kitchen;
    struct load_client client;
    uint64_t large;
} p;

static uint64_t large_of(const char *link)
{
    return strcmp(link, "verbs") == 0 ? LARGE_OF_VERBS : LARGE;
}

static void open_pair(const char *link, uint64_t tensor_memory_bytes)
{
    const struct sealane_server_options server = {.tensor_memory_bytes = tensor_memory_bytes,
                                                  .max_tensor_bytes = LARGE};
    const struct sealane_channel_options channel = {.link = link,
                                                    .tensor_memory_bytes = tensor_memory_bytes};
    char address[LOAD_ADDRESS];

    address_of(link, address);
    p.large = large_of(link);
    p.kitchen = load_server_new(link, &server);
    load_server_listen(p.kitchen, address);
    p.client = load_client_open(address, &channel, false);
}

static void connect_pair(void)
{
    cr_assert_eq(sealane_channel_connect(p.client.channel, WAIT_MS), SEALANE_OK, "%s",
                 sealane_last_error()->message);
}

static void close_pair(void)
{
    load_client_close(&p.client);
    cr_assert_eq(p.kitchen->wrong, 0);
    cr_assert(load_server_free(p.kitchen), "every call ended once at the server");
}

static void wait_for(const atomic_int *count, int wanted, const char *what)
{
    uint64_t until = load_now_ms() + WAIT_MS;

    while (atomic_load(count) < wanted && load_now_ms() < until)
        load_rest_ms(1);
    cr_assert_eq(atomic_load(count), wanted, "%s: %d, expected %d", what, atomic_load(count),
                 wanted);
}

/* ---- calls ---- */

struct outcome {
    atomic_int count;
    atomic_int of[17]; /* by status */
};

static void note(struct sealane_call *call, enum sealane_status status,
                 const Kitchen__V1__Dish *reply, void *user)
{
    struct outcome *outcome = user;

    (void)reply;
    (void)call;
    atomic_fetch_add(&outcome->of[status], 1);
    atomic_fetch_add(&outcome->count, 1);
}

static struct sealane_call *start(const struct load_dish *dish, struct outcome *outcome)
{
    struct sealane_call *call;

    load_must(kitchen_v1_kitchen_echo__start(p.client.channel, &dish->request, NULL, note, outcome,
                                             &call),
              "a call");
    return call;
}

static struct load_dish never(void)
{
    struct load_dish dish;

    load_dish_fill(&dish, 1, 50, 0);
    dish.request.never = true;
    return dish;
}

static void small_calls(int count)
{
    const struct sealane_call_options options = {.timeout_ms = WAIT_MS};
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;
    struct load_dish dish;

    for (int i = 0; i < count; i++) {
        load_dish_fill(&dish, (uint64_t)i * 100, 100, 0);
        cr_assert_eq(kitchen_v1_kitchen_echo(p.client.channel, &dish.request, &options, &reply,
                                             &call),
                     SEALANE_OK, "call %d: %s", i, sealane_last_error()->message);
        cr_assert(load_dish_matches(&dish.request, reply));
        sealane_call_free(call);
    }
}

/* A tensor that is larger than the pattern: the kitchen cannot check it, and is not asked to look. */
struct large {
    struct load_dish dish;
    uint8_t *bytes;
};

static void large_make(struct large *large)
{
    load_dish_fill(&large->dish, 0, 50, 1);
    large->bytes = calloc(1, p.large);
    cr_assert_not_null(large->bytes);
    large->dish.shape = p.large;
    large->dish.tensor.data = (ProtobufCBinaryData){p.large, large->bytes};
    large->dish.request._maybe_case = KITCHEN__V1__DISH___MAYBE__NOT_SET;
}

static uint64_t moved(bool sent)
{
    struct sealane_security security;

    if (sealane_channel_security(p.client.channel, &security) != SEALANE_OK)
        return 0;
    return sent ? security.sealed_bytes : security.opened_bytes;
}

/* ---- given up at every stage ---- */

static void gives_up_in_line(const char *link)
{
    struct load_dish dish = never();
    struct outcome outcome = {0};

    open_pair(link, 0);
    for (int i = 0; i < 100; i++)
        sealane_call_cancel(start(&dish, &outcome)); /* before there is a lane */
    wait_for(&outcome.count, 100, "calls that ended");
    cr_assert_eq(outcome.of[SEALANE_CANCELLED], 100);
    small_calls(1);
    cr_assert_eq(p.kitchen->handled, 1, "the server never heard of the others");
    close_pair();
}

/* Memory for one tensor only at either end: what is not given back is missed in the next round. */
static void gives_up_half_way(const char *link, bool sending)
{
    struct outcome outcome = {0};
    struct sealane_call *call;
    struct large large;
    uint64_t until, from;

    open_pair(link, large_of(link));
    connect_pair();
    for (int round = 1; round <= ROUNDS; round++) {
        large_make(&large);
        from = moved(sending);
        until = load_now_ms() + WAIT_MS;
        call = start(&large.dish, &outcome);
        while (moved(sending) < from + SOME && load_now_ms() < until) {
        }
        sealane_call_cancel(call);
        wait_for(&outcome.count, round, "calls that ended");
        cr_assert_lt(moved(sending), from + p.large, "given up half way");
        free(large.bytes); /* not borrowed any more */
        small_calls(1);
        wait_for(&p.kitchen->ended, p.kitchen->handled, "calls that ended at the server");
    }
    cr_assert_eq(outcome.of[SEALANE_CANCELLED], ROUNDS);
    cr_assert_eq(p.kitchen->handled, sending ? ROUNDS : 2 * ROUNDS, "handlers saw whole requests");
    close_pair();
}

static void gives_up_what_runs(const char *link)
{
    struct load_dish dish = never();
    struct outcome outcome = {0};
    uint64_t until;

    open_pair(link, 0);
    for (int i = 0; i < 200; i++)
        start(&dish, &outcome);
    wait_for(&p.kitchen->held_count, 200, "handlers at work");
    cr_assert(!sealane_call_is_over(p.kitchen->held[0]));
    sealane_call_cancel(start(&dish, &outcome));
    wait_for(&outcome.count, 1, "calls that ended");
    cr_assert_eq(outcome.of[SEALANE_CANCELLED], 1);
    sealane_channel_free(p.client.channel); /* gives all others up */
    p.client.channel = NULL;
    cr_assert_eq(outcome.of[SEALANE_CANCELLED], 201);
    until = load_now_ms() + WAIT_MS;
    for (int i = 0; i < 200; i++) {
        while (!sealane_call_is_over(p.kitchen->held[i]) && load_now_ms() < until)
            load_rest_ms(1);
        cr_assert(sealane_call_is_over(p.kitchen->held[i]), "handler %d can see it", i);
    }
    close_pair();
}

Test(cancel, local_a_call_that_waits_for_a_lane_is_given_up)
{
    gives_up_in_line("local");
}

Test(cancel, tcp_a_call_that_waits_for_a_lane_is_given_up)
{
    gives_up_in_line("tcp");
}

Test(cancel, verbs_a_call_that_waits_for_a_lane_is_given_up)
{
    gives_up_in_line("verbs");
}

Test(cancel, local_a_request_is_given_up_half_way_and_memory_comes_back)
{
    gives_up_half_way("local", true);
}

Test(cancel, tcp_a_request_is_given_up_half_way_and_memory_comes_back)
{
    gives_up_half_way("tcp", true);
}

Test(cancel, verbs_a_request_is_given_up_half_way_and_memory_comes_back)
{
    gives_up_half_way("verbs", true);
}

Test(cancel, local_a_reply_is_given_up_half_way_and_memory_comes_back)
{
    gives_up_half_way("local", false);
}

Test(cancel, tcp_a_reply_is_given_up_half_way_and_memory_comes_back)
{
    gives_up_half_way("tcp", false);
}

Test(cancel, verbs_a_reply_is_given_up_half_way_and_memory_comes_back)
{
    gives_up_half_way("verbs", false);
}

Test(cancel, local_handlers_see_that_nobody_waits)
{
    gives_up_what_runs("local");
}

Test(cancel, tcp_handlers_see_that_nobody_waits)
{
    gives_up_what_runs("tcp");
}

Test(cancel, verbs_handlers_see_that_nobody_waits)
{
    gives_up_what_runs("verbs");
}

/* ---- many threads, late answers ---- */

/* Answers race with cancels, deadlines and, in the end, with the server's. */
static void answers_race(const char *link, bool server_ends)
{
    const struct load_options options = {
        .threads = 4, .raced = true, .small = true, .steady = !server_ends, .seed = 3};
    char why[LOAD_WHY];
    struct load *load;

    open_pair(link, 0);
    connect_pair();
    load = load_begin(p.client.channel, &options);
    load_rest_ms(600);
    if (server_ends) {
        sealane_server_free(p.kitchen->server);
        p.kitchen->server = NULL;
        load_rest_ms(20);
    }
    cr_assert(load_wait(load, WAIT_MS, why), "%s", why);
    (void)fprintf(stderr, "%s: %d calls, %d answered, %d cancelled, %d late, %d UNAVAILABLE\n",
                  link, load->started, load->ok, load->cancelled, load->late, load->unavailable);
    cr_assert_gt(load->ok, 5);
    cr_assert_gt(load->cancelled, 5);
    cr_assert_gt(load->late, 5);
    load_free(load);
    close_pair();
}

Test(cancel, invariant_8_local_late_answers_race_with_cancels_and_deadlines)
{
    answers_race("local", false);
}

Test(cancel, invariant_8_tcp_late_answers_race_with_cancels_and_deadlines)
{
    answers_race("tcp", false);
}

Test(cancel, invariant_8_verbs_late_answers_race_with_cancels_and_deadlines)
{
    answers_race("verbs", false);
}

Test(cancel, invariant_8_local_late_answers_race_with_the_servers_end)
{
    answers_race("local", true);
}

Test(cancel, invariant_8_tcp_late_answers_race_with_the_servers_end)
{
    answers_race("tcp", true);
}

Test(cancel, invariant_8_verbs_late_answers_race_with_the_servers_end)
{
    answers_race("verbs", true);
}

static void threads_share(const char *link)
{
    const struct load_options options = {.threads = 8, .steady = true, .seed = 4};
    char why[LOAD_WHY];
    struct load *load;

    open_pair(link, 0);
    load = load_begin(p.client.channel, &options);
    load_rest_ms(1000);
    cr_assert(load_wait(load, WAIT_MS, why), "%s", why);
    (void)fprintf(stderr, "%s: %d calls of 8 threads\n", link, load->started);
    cr_assert_gt(load->ok, 200);
    cr_assert_eq(load->strangers, 0, "callbacks run on one thread");
    cr_assert_eq(p.kitchen->strangers, 0, "handlers run on one thread");
    cr_assert_eq(p.kitchen->ups, 1, "one lane for all");
    load_free(load);
    close_pair();
}

Test(cancel, invariant_7_local_many_threads_call_on_one_channel)
{
    threads_share("local");
}

Test(cancel, invariant_7_tcp_many_threads_call_on_one_channel)
{
    threads_share("tcp");
}

Test(cancel, invariant_7_verbs_many_threads_call_on_one_channel)
{
    threads_share("verbs");
}

/* ---- thousands at a time; stuck ones ---- */

static void thousands(const char *link)
{
    const Kitchen__V1__Dish *reply;
    struct load_dish dish = never();
    struct outcome outcome = {0};
    struct sealane_call *call;

    open_pair(link, 0);
    for (int i = 0; i < MOST - 1; i++)
        start(&dish, &outcome);
    wait_for(&p.kitchen->held_count, MOST - 1, "handlers at work");
    small_calls(500); /* through the one place that is left */
    start(&dish, &outcome);
    wait_for(&p.kitchen->held_count, MOST, "handlers at work");
    cr_assert_eq(kitchen_v1_kitchen_echo(p.client.channel, &dish.request, NULL, &reply, &call),
                 SEALANE_RESOURCE_EXHAUSTED);
    cr_assert(strstr(sealane_last_error()->message, "max_calls"), "%s",
              sealane_last_error()->message);
    cr_assert_eq(outcome.count, 0);
    load_server_let_go(p.kitchen);
    wait_for(&outcome.count, MOST, "calls that ended");
    cr_assert_eq(outcome.of[SEALANE_ABORTED], MOST);
    small_calls(10);
    cr_assert_eq(outcome.count, MOST, "nobody was told twice");
    cr_assert_eq(p.kitchen->ups, 1, "all on one lane");
    close_pair();
}

/* A call that was given up has its place at the server until its handler answered, and then no longer. */
static void places_come_back(const char *link)
{
    static struct sealane_call *calls[MOST];
    const Kitchen__V1__Dish *reply;
    struct load_dish dish = never();
    struct outcome outcome = {0};
    struct sealane_call *call;

    open_pair(link, 0);
    for (int i = 0; i < MOST; i++)
        calls[i] = start(&dish, &outcome);
    wait_for(&p.kitchen->held_count, MOST, "handlers at work");
    for (int i = 0; i < MOST; i++)
        sealane_call_cancel(calls[i]);
    wait_for(&outcome.count, MOST, "calls that ended");
    cr_assert_eq(outcome.of[SEALANE_CANCELLED], MOST);
    cr_assert_eq(kitchen_v1_kitchen_echo(p.client.channel, &dish.request, NULL, &reply, &call),
                 SEALANE_RESOURCE_EXHAUSTED, "%s", sealane_last_error()->message);
    cr_assert_eq(p.kitchen->ended, 0);
    load_server_let_go(p.kitchen);
    wait_for(&p.kitchen->ended, MOST, "calls that ended at the server");
    small_calls(10);
    close_pair();
}

Test(cancel, invariant_14_local_thousands_of_stuck_calls_stop_no_other)
{
    thousands("local");
}

Test(cancel, invariant_14_tcp_thousands_of_stuck_calls_stop_no_other)
{
    thousands("tcp");
}

Test(cancel, invariant_14_verbs_thousands_of_stuck_calls_stop_no_other)
{
    thousands("verbs");
}

Test(cancel, invariant_8_local_places_of_calls_that_were_given_up_come_back)
{
    places_come_back("local");
}

Test(cancel, invariant_8_tcp_places_of_calls_that_were_given_up_come_back)
{
    places_come_back("tcp");
}

Test(cancel, invariant_8_verbs_places_of_calls_that_were_given_up_come_back)
{
    places_come_back("verbs");
}

/* One holds the memory and never ends, others wait for it: calls that need none go on. */
static void memory_is_short(const char *link)
{
    struct outcome stuck = {0}, waiting = {0};
    struct load_dish dish;

    open_pair(link, SOME);
    load_dish_fill(&dish, 0, 50, 3 << 20);
    dish.request.never = true;
    start(&dish, &stuck);
    wait_for(&p.kitchen->held_count, 1, "handlers at work");
    dish.request.never = false;
    for (int i = 0; i < 10; i++)
        start(&dish, &waiting);
    sealane_call_cancel(start(&dish, &waiting)); /* in line for memory, or on its way there */
    small_calls(500);
    wait_for(&waiting.count, 1, "the one that was given up");
    cr_assert_eq(waiting.of[SEALANE_CANCELLED], 1);
    cr_assert_eq(p.kitchen->handled, 501);
    load_server_let_go(p.kitchen);
    wait_for(&waiting.count, 11, "calls that ended");
    cr_assert_eq(waiting.of[SEALANE_OK], 10);
    cr_assert_eq(stuck.of[SEALANE_ABORTED], 1);
    close_pair();
}

Test(cancel, invariant_14_local_calls_that_wait_for_memory_stop_no_other)
{
    memory_is_short("local");
}

Test(cancel, invariant_14_tcp_calls_that_wait_for_memory_stop_no_other)
{
    memory_is_short("tcp");
}

Test(cancel, invariant_14_verbs_calls_that_wait_for_memory_stop_no_other)
{
    memory_is_short("verbs");
}
