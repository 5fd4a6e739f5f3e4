/* SPDX-License-Identifier: Apache-2.0 */
/* load_race.c - the load of tests/e2e over each link, while lanes are replaced all the time, the state is watched and asked for, and
 * channel and server are freed under it. A plain main(): Criterion does not start under ThreadSanitizer. */
#include "tests/e2e/load.h"

#include <stdio.h>

enum {
    AGE_MS = 50,
    LOAD_MS = 1500,
    SHORT_MS = 300,
    WAIT_MS = 60000 /* under ThreadSanitizer on a busy machine */
};

static struct world {
    struct load_server *kitchen;
    struct load_client client;
    atomic_int ready, failed; /* states that were told */
    atomic_bool stop, polled;
} w;

static bool check(bool good, const char *link, const char *what)
{
    if (!good)
        (void)fprintf(stderr, "%s: failed: %s\n", link, what);
    return good;
}

static void told(void *user, enum sealane_connectivity state, const char *why)
{
    struct world *world = user;

    (void)why;
    if (state == SEALANE_CHANNEL_READY)
        atomic_fetch_add(&world->ready, 1);
    if (state == SEALANE_CHANNEL_TRANSIENT_FAILURE)
        atomic_fetch_add(&world->failed, 1);
}

/* Any thread may ask, and say who is told. */
static void *ask(void *unused)
{
    struct sealane_security security;

    (void)unused;
    while (!atomic_load(&w.stop)) {
        if (sealane_channel_state(w.client.channel) == SEALANE_CHANNEL_READY &&
            sealane_channel_security(w.client.channel, &security) != SEALANE_OK)
            (void)fprintf(stderr, "no lane: %s\n", sealane_last_error()->message);
        sealane_channel_on_state(w.client.channel, told, &w);
        load_rest_ms(1);
    }
    return NULL;
}

static void open_world(const char *link, uint32_t lane_grace_ms, bool polled)
{
    const struct sealane_channel_options options = {.link = link,
                                                    .max_lane_age_ms = AGE_MS,
                                                    .lane_grace_ms = lane_grace_ms};
    char address[LOAD_ADDRESS];

    w.kitchen = load_server_new(link, NULL);
    (void)load_address(link, address);
    load_server_listen(w.kitchen, address);
    w.client = load_client_open(address, &options, polled);
    sealane_channel_on_state(w.client.channel, told, &w);
}

static bool ended_well(const char *link, struct load *load)
{
    char why[LOAD_WHY] = "";
    bool good = check(load_wait(load, WAIT_MS, why), link, why);

    (void)fprintf(stderr, "%s: %d calls, %d answered, %d cancelled, %d UNAVAILABLE, %d lanes\n",
                  link, load->started, load->ok, load->cancelled, load->unavailable,
                  w.kitchen->ups);
    good &= check(load->strangers == 0, link, "callbacks run on the node's thread");
    good &= check(w.kitchen->strangers == 0, link, "handlers run on the node's thread");
    if (good)
        load_free(load);
    return good;
}

static bool lanes_are_replaced(const char *link)
{
    const struct load_options options = {
        .threads = 3, .small = true, .steady = true, .most_outstanding = 8, .seed = 1};
    struct load *load;
    pthread_t asking;
    bool good;

    open_world(link, 0, false);
    load_must(sealane_channel_connect(w.client.channel, WAIT_MS), "connect");
    atomic_store(&w.stop, false);
    if (pthread_create(&asking, NULL, ask, NULL) != 0)
        return false;
    load = load_begin(w.client.channel, &options);
    load_rest_ms(LOAD_MS);
    good = ended_well(link, load);
    atomic_store(&w.stop, true);
    (void)pthread_join(asking, NULL);
    load_client_close(&w.client);
    good &= check(w.kitchen->ups >= 3, link, "lanes were replaced");
    return check(load_server_free(w.kitchen), link, "the server's calls ended once") && good;
}

/* With calls in flight, lanes being made, and others that die under their calls as their grace is over at once: first the one, then the
 * other. */
static bool ends_are_freed(const char *link, bool server_first)
{
    const struct load_options options = {
        .threads = 3, .small = true, .channel_ends = true, .seed = 2};
    struct load *load;
    bool good;

    open_world(link, 1, false);
    load = load_begin(w.client.channel, &options);
    load_rest_ms(SHORT_MS);
    if (server_first) {
        sealane_server_free(w.kitchen->server);
        w.kitchen->server = NULL;
        load_rest_ms(SHORT_MS);
    }
    load_stop(load);
    sealane_channel_free(w.client.channel);
    w.client.channel = NULL;
    good = ended_well(link, load);
    load_client_close(&w.client);
    return check(load_server_free(w.kitchen), link, "the server's calls ended once") && good;
}

static void *poll_on(void *unused)
{
    (void)unused;
    while (!atomic_load(&w.stop)) {
        load_must(sealane_node_poll(w.client.node, 1), "poll");
        atomic_store(&w.polled, true);
    }
    return NULL;
}

/* One thread moves the client's node, the load's call on it and the first one frees its channel meanwhile. */
static bool a_node_is_polled(const char *link)
{
    const struct load_options options = {.threads = 3, .small = true, .steady = true, .seed = 3};
    struct load *load;
    pthread_t polling;
    bool good;

    open_world(link, 0, true);
    atomic_store(&w.stop, false);
    atomic_store(&w.polled, false);
    if (pthread_create(&polling, NULL, poll_on, NULL) != 0)
        return false;
    while (!atomic_load(&w.polled)) /* until then the node is this thread's, which made it */
        load_rest_ms(1);
    load_must(sealane_channel_connect(w.client.channel, WAIT_MS), "connect");
    load = load_begin(w.client.channel, &options);
    load_rest_ms(2 * SHORT_MS);
    good = ended_well(link, load);
    sealane_channel_free(w.client.channel);
    w.client.channel = NULL;
    atomic_store(&w.stop, true);
    (void)pthread_join(polling, NULL);
    load_client_close(&w.client);
    return check(load_server_free(w.kitchen), link, "the server's calls ended once") && good;
}

int main(void)
{
    static const char *const links[] = {"local", "tcp"};
    bool good = true;

    for (int i = 0; i < 2; i++) {
        good &= lanes_are_replaced(links[i]);
        good &= ends_are_freed(links[i], false);
        good &= ends_are_freed(links[i], true);
        good &= a_node_is_polled(links[i]);
    }
    good &= check(w.ready >= 6, "all", "READY was told of each channel");
    return good ? 0 : 1;
}
