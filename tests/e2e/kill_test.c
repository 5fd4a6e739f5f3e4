/* SPDX-License-Identifier: Apache-2.0 */
/* kill_test.c - kill -9 of either end at random moments, under load, over each link: every call ends once and as it may, nothing hangs,
 * others are served meanwhile, and the survivor is left with nothing of the dead. SEALANE_KILL_ROUNDS (200) of each.
 */
#include "tests/e2e/load_link.h"
#include "tests/e2e/load_peer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 200,
    SETTLED = 20, /* from this round on, or from half of them, nothing may grow */
    SLOW = 6, /* times more of it until a death over verbs: a guest of the rig has one processor */
    WAIT_MS = 15000,
    TENSOR_MEMORY = 32 << 20, /* bounds what the pool keeps, too */
#if defined(__SANITIZE_ADDRESS__)
    HEAP_SLACK = 64 << 10, /* nothing is kept for the next call: a use after free shows */
#else
    HEAP_SLACK = 16 << 20,
#endif
    RESIDENT_SLACK = 2 * TENSOR_MEMORY
};

static int rounds_wanted(void)
{
    const char *text = getenv("SEALANE_KILL_ROUNDS");
    int rounds = text ? atoi(text) : ROUNDS;

    return rounds >= 4 ? rounds : ROUNDS;
}

static int settled(int rounds)
{
    return rounds / 2 < SETTLED ? rounds / 2 : SETTLED;
}

static unsigned pace_of(const char *link)
{
    return strcmp(link, "verbs") == 0 ? SLOW : 1;
}

static unsigned moment_seed;

static void rest_some_ms(unsigned least, unsigned most)
{
    load_rest_ms((long)(least + (unsigned)rand_r(&moment_seed) % (most - least + 1)));
}

static void wait_until(const atomic_int *count, int wanted, const char *what)
{
    uint64_t until = load_now_ms() + WAIT_MS;

    while (atomic_load(count) != wanted && load_now_ms() < until)
        load_rest_ms(1);
    cr_assert_eq(atomic_load(count), wanted, "%s: %d, expected %d", what, atomic_load(count),
                 wanted);
}

static void same_footprint(const struct footprint *before, int rounds)
{
    const struct footprint quiet = footprint_quiet(), *after = &quiet;

    (void)fprintf(stderr,
                  "%d rounds: fds %ld -> %ld, shared maps %ld -> %ld, heap %ld -> %ld KiB, "
                  "resident %ld -> %ld MiB\n",
                  rounds, before->fds, after->fds, before->shared_maps, after->shared_maps,
                  before->heap_bytes >> 10, after->heap_bytes >> 10, before->resident_bytes >> 20,
                  after->resident_bytes >> 20);
    cr_assert_leq(after->fds, before->fds);
    cr_assert_leq(after->shared_maps, before->shared_maps);
    cr_assert_leq(after->heap_bytes, before->heap_bytes + HEAP_SLACK);
    cr_assert_leq(after->resident_bytes, before->resident_bytes + RESIDENT_SLACK);
}

/* ---- loads, added up ---- */

struct sums {
    int started, ok, unavailable, slowest_ms;
};

static void load_over(struct load *load, struct sums *sums, int round)
{
    char why[LOAD_WHY];

    cr_assert(load_wait(load, WAIT_MS, why), "round %d: %s", round, why);
    sums->started += load->started;
    sums->ok += load->ok;
    sums->unavailable += load->unavailable;
    if (load->slowest_ms > sums->slowest_ms)
        sums->slowest_ms = load->slowest_ms;
    load_free(load);
}

static void say_sums(const char *who, const struct sums *sums)
{
    (void)fprintf(stderr, "%s: %d calls, %d answered, %d UNAVAILABLE, slowest %d ms\n", who,
                  sums->started, sums->ok, sums->unavailable, sums->slowest_ms);
}

/* ---- the server dies ---- */

static bool has_lane(const struct load_client *client)
{
    enum sealane_connectivity state = sealane_channel_state(client->channel);

    return state == SEALANE_CHANNEL_READY || state == SEALANE_CHANNEL_CONNECTING;
}

static void lane_is_gone(const struct load_client *client)
{
    uint64_t until = load_now_ms() + WAIT_MS;

    while (has_lane(client) && load_now_ms() < until)
        load_rest_ms(1);
    cr_assert(!has_lane(client));
}

/* One of three begins its load before there is a lane: some die while they shake hands. */
static void server_dies_once(const struct load_client *client, struct peer *server, unsigned pace,
                             struct sums *sums, int round)
{
    struct load_options options = {.seed = (unsigned)round};
    struct load *load;

    cr_assert_eq(peer_ask(server, 'l'), 'l');
    if (round % 3 != 0)
        cr_assert_eq(sealane_channel_connect(client->channel, WAIT_MS), SEALANE_OK, "%s",
                     sealane_last_error()->message);
    load = load_begin(client->channel, &options);
    rest_some_ms(round % 3 != 0 ? 8 * pace : 0, 40 * pace);
    peer_kill(server);
    rest_some_ms(0, 4);
    load_over(load, sums, round);
    lane_is_gone(client);
}

static void servers_die(const char *link, uint32_t max_lane_age_ms)
{
    const struct sealane_channel_options options = {.link = link,
                                                    .tensor_memory_bytes = TENSOR_MEMORY,
                                                    .max_lane_age_ms = max_lane_age_ms};
    int rounds = max_lane_age_ms > 0 ? rounds_wanted() / 4 : rounds_wanted();
    struct footprint before = {0};
    struct sums sums = {0};
    char address[LOAD_ADDRESS];
    struct load_client client;
    struct peer server, next;
    long files = footprint_files();

    address_of(link, address);
    client = load_client_open(address, &options, false);
    next = peer_spawn("server", address, link, 0);
    for (int round = 1; round <= rounds; round++) {
        server = next;
        next = peer_spawn("server", address, link, 0); /* while the other one works */
        server_dies_once(&client, &server, pace_of(link), &sums, round);
        if (round == settled(rounds))
            before = footprint_quiet();
    }
    say_sums(link, &sums);
    same_footprint(&before, rounds);
    peer_kill(&next);
    cr_assert_eq(footprint_files(), files);
    cr_assert_gt(sums.ok, rounds * 5);
    cr_assert_gt(sums.unavailable, rounds);
    load_client_close(&client);
}

Test(kill, invariant_8_local_servers_that_are_killed_leave_no_call_open, .timeout = 600)
{
    servers_die("local", 0);
}

Test(kill, invariant_8_tcp_servers_that_are_killed_leave_no_call_open, .timeout = 600)
{
    servers_die("tcp", 0);
}

Test(kill, invariant_8_verbs_servers_that_are_killed_leave_no_call_open, .timeout = 600)
{
    servers_die("verbs", 0);
}

/* Some die while a lane is there and the next one is being made. */
Test(kill, invariant_8_local_servers_that_are_killed_while_lanes_are_replaced, .timeout = 600)
{
    servers_die("local", 15);
}

Test(kill, invariant_8_tcp_servers_that_are_killed_while_lanes_are_replaced, .timeout = 600)
{
    servers_die("tcp", 15);
}

Test(kill, invariant_8_verbs_servers_that_are_killed_while_lanes_are_replaced, .timeout = 600)
{
    servers_die("verbs", 15);
}

/* ---- a client dies, another one is served ---- */

/* One of four is killed without a look at how far it got. */
static void client_dies_once(struct load_server *kitchen, struct peer *client, unsigned pace,
                             int round)
{
    int ups = kitchen->ups;

    cr_assert_eq(peer_ask(client, 'b'), 'b');
    if (round % 4 != 0) {
        wait_until(&kitchen->ups, ups + 1, "lanes that came");
        rest_some_ms(3, 40 * pace);
    } else {
        rest_some_ms(0, 15);
    }
    peer_kill(client);
}

static void nothing_left(struct load_server *kitchen)
{
    uint64_t until = load_now_ms() + WAIT_MS;

    while ((kitchen->ups != kitchen->downs + 1 || kitchen->handled != kitchen->ended) &&
           load_now_ms() < until)
        load_rest_ms(1);
    cr_assert_eq(kitchen->ups, kitchen->downs + 1, "%d lanes came, %d ended; one is the other's",
                 kitchen->ups, kitchen->downs);
    cr_assert_eq(kitchen->handled, kitchen->ended, "%d calls were handled, %d ended",
                 kitchen->handled, kitchen->ended);
    cr_assert_eq(kitchen->wrong, 0);
}

static void clients_die(const char *link)
{
    const struct sealane_channel_options honest_channel = {.link = link};
    const struct load_options honest_options = {
        .threads = 1, .steady = true, .small = true, .most_outstanding = 8, .seed = 5};
    const struct sealane_server_options options = {.tensor_memory_bytes = TENSOR_MEMORY};
    int rounds = rounds_wanted();
    struct footprint before = {0};
    struct sums sums = {0};
    char address[LOAD_ADDRESS];
    struct load_server *kitchen;
    struct load_client honest;
    struct peer dying, next;
    struct load *load;

    address_of(link, address);
    kitchen = load_server_new(link, &options);
    load_server_listen(kitchen, address);
    honest = load_client_open(address, &honest_channel, false);
    cr_assert_eq(sealane_channel_connect(honest.channel, WAIT_MS), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    next = peer_spawn("client", address, link, 0);
    for (int round = 1; round <= rounds; round++) {
        dying = next;
        next = peer_spawn("client", address, link, 0);
        load = load_begin(honest.channel, &honest_options);
        client_dies_once(kitchen, &dying, pace_of(link), round);
        rest_some_ms(1, 5);
        load_over(load, &sums, round);
        nothing_left(kitchen);
        if (round == settled(rounds))
            before = footprint_quiet();
    }
    say_sums(link, &sums);
    same_footprint(&before, rounds);
    peer_kill(&next);
    cr_assert_eq(sums.unavailable, 0);
    cr_assert_gt(sums.ok, rounds * 5);
    cr_assert_lt(sums.slowest_ms, 5000, "another client's death made a call wait");
    load_client_close(&honest);
    cr_assert(load_server_free(kitchen));
}

Test(kill, invariant_14_local_clients_that_are_killed_harm_no_other, .timeout = 600)
{
    clients_die("local");
}

Test(kill, invariant_14_tcp_clients_that_are_killed_harm_no_other, .timeout = 600)
{
    clients_die("tcp");
}

Test(kill, invariant_14_verbs_clients_that_are_killed_harm_no_other, .timeout = 600)
{
    clients_die("verbs");
}
