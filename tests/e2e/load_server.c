/* SPDX-License-Identifier: Apache-2.0 */
/* load_server.c - the kitchen that the load calls: it checks each request against the pattern, and answers at once, later from
 * threads of its own, or when it closes.
 */
#include "tests/e2e/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call that a worker answers. */
struct load_late {
    struct load_late *next;
    struct sealane_call *call;
    const Kitchen__V1__Dish *request;
    uint64_t due_ms;
};

/* Requests without an offset are not slices of the pattern. */
static bool request_is_right(const Kitchen__V1__Dish *request)
{
    struct load_dish sent;

    if (request->_maybe_case == KITCHEN__V1__DISH___MAYBE__NOT_SET)
        return true;
    if (request->maybe >= LOAD_PATTERN / 2)
        return false;
    load_dish_fill(&sent, request->maybe, request->raw.len,
                   request->tensor ? request->tensor->data.len : 0);
    return load_dish_matches(&sent.request, request);
}

static void answer(struct sealane_call *call, const Kitchen__V1__Dish *request)
{
    if (request->status != 0)
        sealane_call_fail(call, (enum sealane_status)request->status, "the cook was told to");
    else
        load_must(kitchen_v1_kitchen_echo__reply(call, request), "reply");
}

/* ---- late answers ---- */

static struct load_late *late_take(struct load_server *kitchen)
{
    struct load_late *late;

    (void)pthread_mutex_lock(&kitchen->lock);
    while (!kitchen->late_first && !kitchen->closing)
        (void)pthread_cond_wait(&kitchen->more, &kitchen->lock);
    late = kitchen->late_first;
    if (late)
        kitchen->late_first = late->next;
    (void)pthread_mutex_unlock(&kitchen->lock);
    return late;
}

static void burn_until(uint64_t due_ms)
{
    volatile double sum = 1;

    while (load_now_ms() < due_ms) {
        for (int i = 0; i < 1000; i++)
            sum = sum * 1.0000001 + 1;
    }
}

static void *work(void *argument)
{
    struct load_server *kitchen = argument;
    struct load_late *late;

    while ((late = late_take(kitchen)) != NULL) {
        uint64_t now = load_now_ms();

        if (late->request->choice_case == KITCHEN__V1__DISH__CHOICE_WORD)
            burn_until(late->due_ms);
        else if (late->due_ms > now)
            load_rest_ms((long)(late->due_ms - now));
        answer(late->call, late->request);
        free(late);
    }
    return NULL;
}

static void answer_later(struct load_server *kitchen, struct sealane_call *call,
                         const Kitchen__V1__Dish *request)
{
    struct load_late *late = malloc(sizeof(*late));

    if (!late)
        abort();
    *late = (struct load_late){NULL, call, request, load_now_ms() + request->sleep_ms};
    (void)pthread_mutex_lock(&kitchen->lock);
    if (kitchen->late_first)
        kitchen->late_last->next = late;
    else
        kitchen->late_first = late;
    kitchen->late_last = late;
    (void)pthread_cond_signal(&kitchen->more);
    (void)pthread_mutex_unlock(&kitchen->lock);
}

/* ---- the handler ---- */

static void count_end(void *user)
{
    struct load_server *kitchen = user;

    atomic_fetch_add(&kitchen->ended, 1);
}

/* The node's: not even the memory for it needs a lock. */
static void note_thread(struct load_server *kitchen)
{
    if (!kitchen->handled_once)
        kitchen->handling = pthread_self();
    kitchen->handled_once = true;
    if (!pthread_equal(kitchen->handling, pthread_self()))
        atomic_fetch_add(&kitchen->strangers, 1);
}

static void serve_echo(struct sealane_call *call, const Kitchen__V1__Dish *request, void *user)
{
    struct load_server *kitchen = user;

    atomic_fetch_add(&kitchen->handled, 1);
    note_thread(kitchen);
    sealane_call_on_end(call, count_end, kitchen);
    if (!request_is_right(request)) {
        atomic_fetch_add(&kitchen->wrong, 1);
        sealane_call_fail(call, SEALANE_DATA_LOSS, "the request is not what was packed");
    } else if (request->never) {
        int at = atomic_load(&kitchen->held_count);

        if (at == LOAD_HELD_MAX)
            abort();
        kitchen->held[at] = call;
        atomic_store(&kitchen->held_count, at + 1);
    } else if (request->sleep_ms > 0) {
        answer_later(kitchen, call, request);
    } else {
        answer(call, request);
    }
}

static void lane_changed(void *user, const struct sealane_security *security, bool up,
                         const char *why)
{
    struct load_server *kitchen = user;

    (void)security;
    if (!up) {
        (void)pthread_mutex_lock(&kitchen->lock);
        (void)snprintf(kitchen->down_why, sizeof(kitchen->down_why), "%s", why);
        (void)pthread_mutex_unlock(&kitchen->lock);
    }
    atomic_fetch_add(up ? &kitchen->ups : &kitchen->downs, 1);
}

/* ---- opening and closing ---- */

struct load_server *load_server_new(const char *link, const struct sealane_server_options *options)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    struct sealane_server_options all = options ? *options : (struct sealane_server_options){0};
    struct load_server *kitchen = calloc(1, sizeof(*kitchen));

    if (!kitchen)
        abort();
    (void)pthread_mutex_init(&kitchen->lock, NULL);
    (void)pthread_cond_init(&kitchen->more, NULL);
    (void)load_pattern();
    kitchen->credentials = load_credentials("server");
    all.credentials = kitchen->credentials;
    all.link = link;
    load_must(sealane_node_new(NULL, &kitchen->node), "a server's node");
    load_must(sealane_server_new(kitchen->node, &all, &kitchen->server), "server");
    load_must(kitchen_v1_kitchen__register(kitchen->server, &handlers, kitchen), "register");
    sealane_server_on_lane(kitchen->server, lane_changed, kitchen);
    for (int i = 0; i < 2; i++) {
        if (pthread_create(&kitchen->workers[i], NULL, work, kitchen) != 0)
            abort();
    }
    return kitchen;
}

void load_server_listen(struct load_server *kitchen, const char *address)
{
    load_must(sealane_server_listen(kitchen->server, address), address);
}

void load_server_let_go(struct load_server *kitchen)
{
    for (int i = 0; i < atomic_load(&kitchen->held_count); i++)
        sealane_call_fail(kitchen->held[i], SEALANE_ABORTED, "let go");
    atomic_store(&kitchen->held_count, 0);
}

bool load_server_free(struct load_server *kitchen)
{
    bool even;

    sealane_server_free(kitchen->server);
    (void)pthread_mutex_lock(&kitchen->lock);
    kitchen->closing = true;
    (void)pthread_cond_broadcast(&kitchen->more);
    (void)pthread_mutex_unlock(&kitchen->lock);
    for (int i = 0; i < 2; i++)
        (void)pthread_join(kitchen->workers[i], NULL);
    load_server_let_go(kitchen);
    sealane_node_free(kitchen->node);
    sealane_credentials_free(kitchen->credentials);
    even = kitchen->handled == kitchen->ended && kitchen->ups == kitchen->downs;
    if (!even)
        (void)fprintf(stderr, "%d calls were handled, %d ended; %d lanes came, %d ended\n",
                      kitchen->handled, kitchen->ended, kitchen->ups, kitchen->downs);
    (void)pthread_cond_destroy(&kitchen->more);
    (void)pthread_mutex_destroy(&kitchen->lock);
    free(kitchen);
    return even;
}
