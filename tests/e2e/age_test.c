/* SPDX-License-Identifier: Apache-2.0 */
/* age_test.c - lanes that grow old under load are replaced by new ones, over each link: no call fails, none is lost, and nothing of
 * the old ones stays.
 */
#include "tests/e2e/load_link.h"
#include "tests/e2e/load_peer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum {
    AGE_MS = 30,
    LOAD_MS = 2000,
    WAIT_MS = 15000,
    LANES_MIN = 8, /* 40 where nothing else runs */
    CALLS_MIN = 300,
    SLOW = 4 /* times less on the one processor of a guest, where each handshake takes its time */
};

static void one_lane_is_left(const struct load_server *kitchen)
{
    uint64_t until = load_now_ms() + WAIT_MS;
    int more;

    do
        more = kitchen->ups - kitchen->downs - 1;
    while (more > 0 && load_now_ms() < until);
    cr_assert_leq(more, 0, "%d old lanes have not ended", more);
}

/* Idle channels replace their lanes as well: what there is at least, is what one lane has and what was not given back. */
static struct footprint footprint_least(void)
{
    struct footprint least = footprint_now();

    for (int i = 0; i < 100; i++) {
        struct footprint now = footprint_now();

        least.fds = now.fds < least.fds ? now.fds : least.fds;
        least.shared_maps =
            now.shared_maps < least.shared_maps ? now.shared_maps : least.shared_maps;
        load_rest_ms(5);
    }
    return least;
}

static struct footprint burst(struct load_server *kitchen, const struct load_client *client,
                              int slow, unsigned seed)
{
    const struct load_options options = {
        .threads = 4, .steady = true, .most_outstanding = 16, .seed = seed};
    struct load *load = load_begin(client->channel, &options);
    char why[LOAD_WHY];
    int ups = kitchen->ups;

    load_rest_ms(LOAD_MS);
    cr_assert(load_wait(load, WAIT_MS, why), "%s", why);
    (void)fprintf(stderr, "%d calls, all answered, slowest %d ms, on %d lanes\n", load->started,
                  load->slowest_ms, kitchen->ups - ups);
    cr_assert_gt(load->ok, CALLS_MIN / slow);
    cr_assert_geq(kitchen->ups - ups, LANES_MIN / slow);
    load_free(load);
    return footprint_least();
}

/* `small`: short rings, and keys of eight records. */
static void lanes_grow_old(const char *link, bool small)
{
    const struct sealane_server_options server = {.small_rings = small,
                                                  .epoch_shift = small ? 3 : 0};
    const struct sealane_channel_options options = {.link = link,
                                                    .max_lane_age_ms = AGE_MS,
                                                    .small_rings = small,
                                                    .epoch_shift = small ? 3 : 0};
    struct load_server *kitchen;
    struct footprint first, second;
    struct load_client client;
    char address[LOAD_ADDRESS];
    int slow = strcmp(link, "verbs") == 0 ? SLOW : 1;

    address_of(link, address);
    kitchen = load_server_new(link, &server);
    load_server_listen(kitchen, address);
    client = load_client_open(address, &options, false);
    first = burst(kitchen, &client, slow, 1);
    second = burst(kitchen, &client, slow, 2);
    (void)fprintf(stderr, "fds %ld, %ld; shared maps %ld, %ld\n", first.fds, second.fds,
                  first.shared_maps, second.shared_maps);
    cr_assert_leq(second.fds, first.fds);
    cr_assert_leq(second.shared_maps, first.shared_maps);
    one_lane_is_left(kitchen);
    cr_assert_eq(kitchen->wrong, 0);
    load_client_close(&client);
    cr_assert(load_server_free(kitchen));
}

Test(age, invariant_8_local_lanes_are_replaced_and_no_call_is_lost, .timeout = 60)
{
    lanes_grow_old("local", false);
}

Test(age, invariant_8_tcp_lanes_are_replaced_and_no_call_is_lost, .timeout = 60)
{
    lanes_grow_old("tcp", false);
}

Test(age, invariant_8_verbs_lanes_are_replaced_and_no_call_is_lost, .timeout = 60)
{
    lanes_grow_old("verbs", false);
}

Test(age, invariant_8_local_lanes_of_short_rings_and_keys_are_replaced, .timeout = 60)
{
    lanes_grow_old("local", true);
}

Test(age, invariant_8_tcp_lanes_of_short_rings_and_keys_are_replaced, .timeout = 60)
{
    lanes_grow_old("tcp", true);
}

Test(age, invariant_8_verbs_lanes_of_short_rings_and_keys_are_replaced, .timeout = 60)
{
    lanes_grow_old("verbs", true);
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

    address_of("local", address);
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
