/* SPDX-License-Identifier: Apache-2.0 */
/* load_process.c - one end of the load as a process of its own, for tests that kill or stop it. It does what it is told by single bytes
 * on stdin, answers each by one byte on stdout, and ends with stdin, so that no test leaves it behind.
 * usage: load-process server|client <address> <link> <dead_after_ms>
 *
 *   server   l: listens (l)
 *   client   c: one call (o: came back right, x: failed) · h: begins a call that is never answered (h) · b: begins a load (b) ·
 *            s: stops the load (o: all ended as they may, x) · d: how many of the h ended (one byte)
 */
#include "tests/e2e/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct client {
    struct load_client at;
    struct load *load;
    atomic_uchar over; /* calls that were never to be answered, and ended */
};

static void say(char what)
{
    if (write(STDOUT_FILENO, &what, 1) != 1)
        abort();
}

/* Of a line of commands one byte at a time; false at the end. */
static bool hear(char *what)
{
    return read(STDIN_FILENO, what, 1) == 1;
}

static void serve(const char *address, const char *link, uint32_t dead_after_ms)
{
    const struct sealane_server_options options = {.dead_after_ms = dead_after_ms};
    struct load_server *kitchen = load_server_new(link, &options);
    char what;

    while (hear(&what)) {
        if (what == 'l')
            load_server_listen(kitchen, address);
        say(what);
    }
    (void)load_server_free(kitchen);
}

static void over(struct sealane_call *call, enum sealane_status status,
                 const Kitchen__V1__Dish *reply, void *user)
{
    struct client *client = user;

    (void)call;
    (void)status;
    (void)reply;
    atomic_fetch_add(&client->over, 1);
}

static char call_once(const struct client *client)
{
    const struct sealane_call_options options = {.timeout_ms = 10000};
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;
    struct load_dish dish;
    char result = 'x';

    load_dish_fill(&dish, 4711, 100, 100000);
    if (sealane_channel_connect(client->at.channel, 10000) != SEALANE_OK)
        return 'x';
    if (kitchen_v1_kitchen_echo(client->at.channel, &dish.request, &options, &reply, &call) ==
        SEALANE_OK)
        result = load_dish_matches(&dish.request, reply) ? 'o' : 'x';
    else
        (void)fprintf(stderr, "a call failed: %s\n", sealane_last_error()->message);
    sealane_call_free(call);
    return result;
}

static char hold_one(struct client *client)
{
    struct load_dish dish;

    load_dish_fill(&dish, 11, 100, 0);
    dish.request.never = true;
    return kitchen_v1_kitchen_echo__start(client->at.channel, &dish.request, NULL, over, client,
                                          NULL) == SEALANE_OK
               ? 'h'
               : 'x';
}

static char load_end(struct client *client)
{
    char why[LOAD_WHY];

    if (!load_wait(client->load, 10000, why)) {
        (void)fprintf(stderr, "load: %s\n", why);
        return 'x';
    }
    load_free(client->load);
    client->load = NULL;
    return 'o';
}

static char obey(struct client *client, char what)
{
    const struct load_options options = {.seed = (unsigned)getpid()};

    switch (what) {
    case 'c':
        return call_once(client);
    case 'h':
        return hold_one(client);
    case 'b':
        client->load = load_begin(client->at.channel, &options);
        return 'b';
    case 's':
        return load_end(client);
    case 'd':
        return (char)atomic_load(&client->over);
    default:
        return '?';
    }
}

static void call(const char *address, const char *link, uint32_t dead_after_ms)
{
    const struct sealane_channel_options options = {.link = link, .dead_after_ms = dead_after_ms};
    struct client client = {.at = load_client_open(address, &options, false)};
    char what;

    while (hear(&what))
        say(obey(&client, what));
    if (client.load)
        (void)load_end(&client);
    load_client_close(&client.at);
}

int main(int count, char **argument)
{
    uint32_t dead_after_ms;

    if (count != 5) {
        (void)fprintf(stderr,
                      "usage: load-process server|client <address> <link> <dead_after_ms>\n");
        return 2;
    }
    dead_after_ms = (uint32_t)strtoul(argument[4], NULL, 10);
    if (strcmp(argument[1], "server") == 0)
        serve(argument[2], argument[3], dead_after_ms);
    else
        call(argument[2], argument[3], dead_after_ms);
    return 0;
}
