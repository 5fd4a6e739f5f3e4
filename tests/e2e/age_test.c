/* SPDX-License-Identifier: Apache-2.0 */
/* age_test.c - lanes that grow old under load are replaced by new ones, over each link: no call fails, none is lost, and nothing of
 * the old ones stays.
 */
#include "tests/e2e/load_peer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum {
    AGE_MS = 30,
    LOAD_MS = 2000,
    WAIT_MS = 15000,
    LANES_MIN = 8 /* 40 where nothing else runs */
};

static void wait_for_one_lane(struct load_server *kitchen)
{
    uint64_t until = load_now_ms() + WAIT_MS;

    while (kitchen->ups > kitchen->downs + 1 && load_now_ms() < until)
        load_rest_ms(1);
    cr_assert_leq(kitchen->ups, kitchen->downs + 1, "%d lanes came, %d ended", kitchen->ups,
                  kitchen->downs);
}

static struct footprint burst(struct load_server *kitchen, struct load_client *client,
                              unsigned seed)
{
    const struct load_options options = {
        .threads = 4, .steady = true, .most_outstanding = 16, .seed = seed};
    struct load *load = load_begin(client->channel, &options);
    struct footprint most = {0};
    char why[LOAD_WHY];
    int ups = kitchen->ups;

    for (int i = 0; i < LOAD_MS / 50; i++) {
        struct footprint now = footprint_now();

        most.fds = now.fds > most.fds ? now.fds : most.fds;
        most.shared_maps = now.shared_maps > most.shared_maps ? now.shared_maps : most.shared_maps;
        load_rest_ms(50);
    }
    cr_assert(load_wait(load, WAIT_MS, why), "%s", why);
    (void)fprintf(
        stderr,
        "%d calls, all answered, slowest %d ms; %d lanes; at most %ld fds, %ld shared maps\n",
        load->started, load->slowest_ms, kitchen->ups - ups, most.fds, most.shared_maps);
    cr_assert_gt(load->ok, 300);
    cr_assert_geq(kitchen->ups - ups, LANES_MIN);
    load_free(load);
    wait_for_one_lane(kitchen);
    return most;
}

static void lanes_grow_old(const char *link)
{
    const struct sealane_channel_options options = {.link = link, .max_lane_age_ms = AGE_MS};
    struct load_server *kitchen = load_server_new(link, NULL);
    struct footprint first, second;
    struct load_client client;
    char address[LOAD_ADDRESS];

    load_address(link, address);
    load_server_listen(kitchen, address);
    client = load_client_open(address, &options, false);
    first = burst(kitchen, &client, 1);
    second = burst(kitchen, &client, 2);
    cr_assert_leq(second.fds, first.fds + 24, "a few lanes at a time, not all of them");
    cr_assert_leq(second.shared_maps, first.shared_maps + 36);
    cr_assert_eq(kitchen->wrong, 0);
    load_client_close(&client);
    cr_assert(load_server_free(kitchen));
}

Test(age, invariant_8_local_lanes_are_replaced_and_no_call_is_lost, .timeout = 60)
{
    lanes_grow_old("local");
}

Test(age, invariant_8_tcp_lanes_are_replaced_and_no_call_is_lost, .timeout = 60)
{
    lanes_grow_old("tcp");
}

/* ---- what does not end within the grace is told so ---- */

struct outcome {
    char why[LOAD_WHY];
    atomic_int count;
};

static void note(struct sealane_call *call, enum sealane_status status,
                 const Kitchen__V1__Dish *reply, void *user)
{
    struct outcome *outcome = user;

    (void)reply;
    (void)snprintf(outcome->why, sizeof(outcome->why), "%s: %.280s", sealane_status_name(status),
                   sealane_call_message(call));
    atomic_fetch_add(&outcome->count, 1);
}

Test(age, a_call_that_outlives_the_grace_of_its_lane_is_told_so)
{
    const struct sealane_channel_options options = {.max_lane_age_ms = 100, .lane_grace_ms = 300};
    struct load_server *kitchen = load_server_new(NULL, NULL);
    struct load_client client;
    struct load_dish dish;
    struct outcome outcome = {0};
    char address[LOAD_ADDRESS];
    uint64_t began;

    load_address("local", address);
    load_server_listen(kitchen, address);
    client = load_client_open(address, &options, false);
    load_dish_fill(&dish, 1, 50, 0);
    dish.request.never = true;
    load_must(kitchen_v1_kitchen_echo__start(client.channel, &dish.request, NULL, note, &outcome,
                                             NULL),
              "a call");
    began = load_now_ms();
    while (outcome.count == 0 && load_now_ms() < began + WAIT_MS)
        load_rest_ms(1);
    cr_assert_eq(outcome.count, 1);
    cr_assert_geq(load_now_ms() - began, 300, "not before its grace was over");
    cr_assert(strstr(outcome.why, "UNAVAILABLE") && strstr(outcome.why, "lane_grace_ms"), "%s",
              outcome.why);
    load_client_close(&client);
    cr_assert(load_server_free(kitchen));
}
