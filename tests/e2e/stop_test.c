/* SPDX-License-Identifier: Apache-2.0 */
/* stop_test.c - peers that are stopped (SIGSTOP) are noticed within dead_after_ms, by both roles, over each link; who only computes is
 * not taken for dead; and who was stopped itself does not take others for dead when it wakes.
 */
#include "tests/e2e/load_link.h"
#include "tests/e2e/load_peer.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEAD_MS = 600,
    NOTICED_MS = 2 * DEAD_MS, /* a look each quarter of it; the rest is for a busy machine */
    WAIT_MS = 15000
};

static void wait_until(const atomic_int *count, int wanted, const char *what)
{
    uint64_t until = load_now_ms() + WAIT_MS;

    while (atomic_load(count) < wanted && load_now_ms() < until)
        load_rest_ms(1);
    cr_assert_eq(atomic_load(count), wanted, "%s: %d, expected %d", what, atomic_load(count),
                 wanted);
}

static struct load_client client_connect(const char *link, const char *address,
                                         uint32_t dead_after_ms, bool polled)
{
    const struct sealane_channel_options options = {.link = link, .dead_after_ms = dead_after_ms};
    struct load_client client = load_client_open(address, &options, polled);

    cr_assert_eq(sealane_channel_connect(client.channel, WAIT_MS), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    return client;
}

/* ---- calls ---- */

struct outcome {
    atomic_int count;
    enum sealane_status status;
    char text[LOAD_WHY];
};

static void note(struct sealane_call *call, enum sealane_status status,
                 const Kitchen__V1__Dish *reply, void *user)
{
    struct outcome *outcome = user;

    (void)reply;
    outcome->status = status;
    (void)snprintf(outcome->text, sizeof(outcome->text), "%.300s", sealane_call_message(call));
    atomic_fetch_add(&outcome->count, 1);
}

/* Its bytes are slices of the pattern: nothing is borrowed from the stack. */
static void hold(const struct load_client *client, struct outcome *outcome)
{
    struct load_dish dish;

    load_dish_fill(&dish, 17, 100, 0);
    dish.request.never = true;
    load_must(kitchen_v1_kitchen_echo__start(client->channel, &dish.request, NULL, note, outcome,
                                             NULL),
              "a call that is held");
}

/* `burn_ms`: the handler's application computes for so long. */
static void call_once(const struct load_client *client, uint32_t burn_ms)
{
    const struct sealane_call_options options = {.timeout_ms = WAIT_MS};
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;
    struct load_dish dish;

    load_dish_fill(&dish, 4711, 1000, 100000);
    dish.request.sleep_ms = burn_ms;
    if (burn_ms > 0) {
        dish.request.choice_case = KITCHEN__V1__DISH__CHOICE_WORD;
        dish.request.word = (char *)(uintptr_t) "burn";
    }
    cr_assert_eq(kitchen_v1_kitchen_echo(client->channel, &dish.request, &options, &reply, &call),
                 SEALANE_OK, "%s", sealane_last_error()->message);
    cr_assert(load_dish_matches(&dish.request, reply));
    sealane_call_free(call);
}

static void burn(uint64_t ms)
{
    uint64_t until = load_now_ms() + ms;

    while (load_now_ms() < until) {
    }
}

/* ---- a stopped server ---- */

/* Under load: the rings are full, and a PING may have no room either. */
static void server_stops(const char *link)
{
    const struct load_options options = {.seed = 2};
    struct outcome held = {0}, second = {0};
    char address[LOAD_ADDRESS], why[LOAD_WHY];
    struct load_client client;
    struct load *load;
    struct peer server;
    uint64_t stopped;

    address_of(link, address);
    server = peer_spawn("server", address, link, 0);
    cr_assert_eq(peer_ask(&server, 'l'), 'l');
    client = client_connect(link, address, DEAD_MS, false);
    hold(&client, &held);
    call_once(&client, 0);
    load = load_begin(client.channel, &options);
    load_rest_ms(50);
    stopped = load_now_ms();
    peer_signal(&server, SIGSTOP);
    hold(&client, &second); /* on its way to nobody */
    wait_until(&held.count, 1, "the call that was held");
    wait_until(&second.count, 1, "the call that was made later");
    (void)fprintf(stderr, "%s: a stopped server was noticed after %d ms\n", link,
                  (int)(load_now_ms() - stopped));
    cr_assert_lt(load_now_ms() - stopped, NOTICED_MS);
    cr_assert_eq(held.status, SEALANE_UNAVAILABLE, "%s", held.text);
    cr_assert(strstr(held.text, "said nothing for"), "%s", held.text);
    cr_assert_eq(second.status, SEALANE_UNAVAILABLE, "%s", second.text);
    peer_signal(&server, SIGCONT);
    cr_assert_eq(sealane_channel_connect(client.channel, WAIT_MS), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    call_once(&client, 0);
    cr_assert(load_wait(load, WAIT_MS, why), "%s", why);
    cr_assert_gt(load->unavailable, 0);
    load_free(load);
    load_client_close(&client);
    cr_assert_eq(peer_end(&server), 0, "the woken server ends with nothing left");
}

Test(stop, local_a_server_that_is_stopped_is_noticed_and_found_again_when_it_wakes, .timeout = 60)
{
    server_stops("local");
}

Test(stop, tcp_a_server_that_is_stopped_is_noticed_and_found_again_when_it_wakes, .timeout = 60)
{
    server_stops("tcp");
}

Test(stop, verbs_a_server_that_is_stopped_is_noticed_and_found_again_when_it_wakes, .timeout = 60)
{
    server_stops("verbs");
}

/* ---- a stopped client ---- */

static void client_stops(const char *link)
{
    const struct sealane_server_options options = {.dead_after_ms = DEAD_MS};
    const struct load_options honest_load = {
        .steady = true, .small = true, .threads = 1, .most_outstanding = 4};
    struct load_server *kitchen;
    char address[LOAD_ADDRESS], why[LOAD_WHY];
    struct load_client honest;
    struct load *load;
    struct peer client;
    uint64_t stopped;

    address_of(link, address);
    kitchen = load_server_new(link, &options);
    load_server_listen(kitchen, address);
    honest = client_connect(link, address, 0, false);
    client = peer_spawn("client", address, link, 0);
    cr_assert_eq(peer_ask(&client, 'c'), 'o');
    cr_assert_eq(peer_ask(&client, 'h'), 'h');
    wait_until(&kitchen->held_count, 1, "the call that is held");
    cr_assert_eq(peer_ask(&client, 'b'), 'b');
    load = load_begin(honest.channel, &honest_load);
    load_rest_ms(50);
    stopped = load_now_ms();
    peer_signal(&client, SIGSTOP);
    wait_until(&kitchen->downs, 1, "lanes that ended");
    (void)fprintf(stderr, "%s: a stopped client was noticed after %d ms\n", link,
                  (int)(load_now_ms() - stopped));
    cr_assert_lt(load_now_ms() - stopped, NOTICED_MS);
    cr_assert(strstr(kitchen->down_why, "said nothing for"), "%s", kitchen->down_why);
    cr_assert(sealane_call_is_over(kitchen->held[0]), "its handler can see that nobody waits");
    peer_signal(&client, SIGCONT);
    if (peer_ask(&client, 'c') != 'o') /* it may have been put on the lane that was gone: once */
        cr_assert_eq(peer_ask(&client, 'c'), 'o', "the woken client connects again");
    cr_assert_eq(peer_ask(&client, 'd'), 1, "its old call ended");
    cr_assert_eq(peer_ask(&client, 's'), 'o', "and so did all others, as they may");
    cr_assert_eq(kitchen->ups, 3);
    cr_assert(load_wait(load, WAIT_MS, why), "the other client: %s", why);
    cr_assert_gt(load->ok, 20);
    load_free(load);
    cr_assert_eq(peer_end(&client), 0);
    load_client_close(&honest);
    cr_assert(load_server_free(kitchen));
}

Test(stop, invariant_14_local_a_client_that_is_stopped_is_noticed_and_harms_no_other, .timeout = 60)
{
    client_stops("local");
}

Test(stop, invariant_14_tcp_a_client_that_is_stopped_is_noticed_and_harms_no_other, .timeout = 60)
{
    client_stops("tcp");
}

Test(stop, invariant_14_verbs_a_client_that_is_stopped_is_noticed_and_harms_no_other, .timeout = 60)
{
    client_stops("verbs");
}

/* ---- nobody has to wait for the stopped ---- */

enum {
    GIVEN_UP = 20,
    PROMPT_MS = 3000 /* long before anybody is taken for dead */
};

/* Tensors on their way to it are no longer borrowed once their calls were given up. */
static void calls_to_the_stopped(const char *link)
{
    struct sealane_call *calls[GIVEN_UP];
    struct outcome outcome = {0};
    char address[LOAD_ADDRESS];
    struct load_client client;
    struct load_dish dish;
    struct peer server;
    uint64_t began;

    address_of(link, address);
    server = peer_spawn("server", address, link, 0);
    cr_assert_eq(peer_ask(&server, 'l'), 'l');
    client = client_connect(link, address, 0, false);
    peer_signal(&server, SIGSTOP);
    load_dish_fill(&dish, 0, 100, 3 << 20);
    dish.tensor.data.data = malloc(3 << 20);
    cr_assert_not_null(dish.tensor.data.data);
    memcpy(dish.tensor.data.data, load_pattern(), 3 << 20);
    for (int i = 0; i < GIVEN_UP; i++)
        load_must(kitchen_v1_kitchen_echo__start(client.channel, &dish.request, NULL, note,
                                                 &outcome, &calls[i]),
                  "a call");
    load_rest_ms(100);
    began = load_now_ms();
    for (int i = 0; i < GIVEN_UP; i++)
        sealane_call_cancel(calls[i]);
    wait_until(&outcome.count, GIVEN_UP, "calls that were given up");
    cr_assert_eq(outcome.status, SEALANE_CANCELLED);
    free(dish.tensor.data.data);
    load_client_close(&client);
    cr_assert_lt(load_now_ms() - began, PROMPT_MS);
    peer_signal(&server, SIGCONT);
    cr_assert_eq(peer_end(&server), 0);
}

Test(stop, local_calls_to_a_stopped_server_are_given_up_and_their_channel_freed, .timeout = 60)
{
    calls_to_the_stopped("local");
}

Test(stop, tcp_calls_to_a_stopped_server_are_given_up_and_their_channel_freed, .timeout = 60)
{
    calls_to_the_stopped("tcp");
}

Test(stop, verbs_calls_to_a_stopped_server_are_given_up_and_their_channel_freed, .timeout = 60)
{
    calls_to_the_stopped("verbs");
}

static void server_of_the_stopped(const char *link)
{
    struct load_server *kitchen;
    char address[LOAD_ADDRESS];
    struct peer client;
    uint64_t began;

    address_of(link, address);
    kitchen = load_server_new(link, NULL);
    load_server_listen(kitchen, address);
    client = peer_spawn("client", address, link, 0);
    cr_assert_eq(peer_ask(&client, 'c'), 'o');
    cr_assert_eq(peer_ask(&client, 'b'), 'b');
    load_rest_ms(50);
    peer_signal(&client, SIGSTOP);
    load_rest_ms(100);
    began = load_now_ms();
    cr_assert(load_server_free(kitchen));
    cr_assert_lt(load_now_ms() - began, PROMPT_MS);
    peer_signal(&client, SIGCONT);
    cr_assert_eq(peer_ask(&client, 's'), 'o', "its calls ended as they may");
    cr_assert_eq(peer_end(&client), 0);
}

Test(stop, local_a_server_of_a_stopped_client_is_freed, .timeout = 60)
{
    server_of_the_stopped("local");
}

Test(stop, tcp_a_server_of_a_stopped_client_is_freed, .timeout = 60)
{
    server_of_the_stopped("tcp");
}

Test(stop, verbs_a_server_of_a_stopped_client_is_freed, .timeout = 60)
{
    server_of_the_stopped("verbs");
}

/* ---- who computes is alive ---- */

/* The lane lives while the applications of both ends compute: for three times what is deadly beside a node with a thread of its own. Between
 * two polls for less than half of it: that is how long a PING may go unanswered, whatever silence there was before. */
static void applications_compute(const char *link, bool polled)
{
    const uint32_t dead_after_ms = polled ? 1200 : 300, compute_ms = polled ? 450 : 900;
    const struct sealane_server_options options = {.dead_after_ms = dead_after_ms};
    struct load_server *kitchen;
    char address[LOAD_ADDRESS];
    struct load_client client;

    address_of(link, address);
    kitchen = load_server_new(link, &options);
    load_server_listen(kitchen, address);
    client = client_connect(link, address, dead_after_ms, polled);
    call_once(&client, compute_ms);
    for (int i = 0; i < 3; i++) {
        burn(compute_ms);
        call_once(&client, 0);
    }
    cr_assert_eq(kitchen->ups, 1, "one lane all the time");
    cr_assert_eq(kitchen->downs, 0, "%s", kitchen->down_why);
    load_client_close(&client);
    cr_assert(load_server_free(kitchen));
}

Test(stop, local_applications_that_compute_are_alive, .timeout = 60)
{
    applications_compute("local", false);
}

Test(stop, tcp_applications_that_compute_are_alive, .timeout = 60)
{
    applications_compute("tcp", false);
}

Test(stop, verbs_applications_that_compute_are_alive, .timeout = 60)
{
    applications_compute("verbs", false);
}

Test(stop, local_a_polled_node_may_compute_for_less_than_half_of_dead_after_ms, .timeout = 60)
{
    applications_compute("local", true);
}

Test(stop, tcp_a_polled_node_may_compute_for_less_than_half_of_dead_after_ms, .timeout = 60)
{
    applications_compute("tcp", true);
}

Test(stop, verbs_a_polled_node_may_compute_for_less_than_half_of_dead_after_ms, .timeout = 60)
{
    applications_compute("verbs", true);
}

/* ---- who was stopped itself ---- */

enum {
    STOPS = 4,
    HASTY_MS = 200
};

/* At all phases of silence, a PING on its way included. */
static void stop_and_wake(const struct peer *peer, int round)
{
    load_rest_ms(10 + round * HASTY_MS / 4);
    peer_signal(peer, SIGSTOP);
    load_rest_ms(3 * HASTY_MS);
    peer_signal(peer, SIGCONT);
}

static void woken_client(const char *link)
{
    struct load_server *kitchen;
    char address[LOAD_ADDRESS];
    struct peer client;

    address_of(link, address);
    kitchen = load_server_new(link, NULL);
    load_server_listen(kitchen, address);
    client = peer_spawn("client", address, link, HASTY_MS);
    cr_assert_eq(peer_ask(&client, 'c'), 'o');
    cr_assert_eq(peer_ask(&client, 'h'), 'h');
    wait_until(&kitchen->held_count, 1, "the call that is held");
    for (int round = 0; round < STOPS; round++) {
        stop_and_wake(&client, round);
        load_rest_ms(HASTY_MS * 2);
        cr_assert_eq(kitchen->downs, 0, "after stop %d: %s", round + 1, kitchen->down_why);
    }
    cr_assert_eq(peer_ask(&client, 'd'), 0, "the call is still held");
    cr_assert_eq(peer_ask(&client, 'c'), 'o');
    cr_assert_eq(kitchen->ups, 1, "still the first lane");
    cr_assert_eq(peer_end(&client), 0);
    cr_assert(load_server_free(kitchen));
}

Test(stop, local_a_client_that_wakes_does_not_take_its_server_for_dead, .timeout = 60)
{
    woken_client("local");
}

Test(stop, tcp_a_client_that_wakes_does_not_take_its_server_for_dead, .timeout = 60)
{
    woken_client("tcp");
}

Test(stop, verbs_a_client_that_wakes_does_not_take_its_server_for_dead, .timeout = 60)
{
    woken_client("verbs");
}

static void woken_server(const char *link)
{
    struct outcome held = {0};
    char address[LOAD_ADDRESS];
    struct load_client client;
    struct peer server;

    address_of(link, address);
    server = peer_spawn("server", address, link, HASTY_MS);
    cr_assert_eq(peer_ask(&server, 'l'), 'l');
    client = client_connect(link, address, 0, false);
    hold(&client, &held);
    call_once(&client, 0);
    for (int round = 0; round < STOPS; round++) {
        stop_and_wake(&server, round);
        load_rest_ms(HASTY_MS * 2);
        cr_assert_eq(held.count, 0, "after stop %d: %s", round + 1, held.text);
        cr_assert_eq(sealane_channel_state(client.channel), SEALANE_CHANNEL_READY);
    }
    call_once(&client, 0);
    cr_assert_eq(held.count, 0, "still the first lane");
    load_client_close(&client);
    cr_assert_eq(held.count, 1);
    cr_assert_eq(peer_end(&server), 0);
}

Test(stop, local_a_server_that_wakes_does_not_take_its_client_for_dead, .timeout = 60)
{
    woken_server("local");
}

Test(stop, tcp_a_server_that_wakes_does_not_take_its_client_for_dead, .timeout = 60)
{
    woken_server("tcp");
}

Test(stop, verbs_a_server_that_wakes_does_not_take_its_client_for_dead, .timeout = 60)
{
    woken_server("verbs");
}
