/* SPDX-License-Identifier: Apache-2.0 */
/* node_race.c - many threads post into one node, whose thread counts and starts timers. A plain main(): Criterion does not start
 * under ThreadSanitizer. Also run under ASan in the dev preset. */
#include "transport/node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    THREADS = 4,
    POSTS = 2000, /* of each thread */
    NAP_EVERY = 100,
    NAP_NS = 200000 /* longer than the node spins: it must be woken from sleep, too */
};

/* What the node's thread alone touches, no atomics: the inbox must order it. */
struct world {
    struct sealane_node *node;
    unsigned ran;
    unsigned fired;
    unsigned out_of_order;
    unsigned not_here;
    unsigned last[THREADS]; /* number of the last post of each thread, counted from 1 */
    atomic_uint finished;   /* posts and timers that are through */
};

struct item {
    struct sl_post post; /* first: found again from it */
    struct sl_timer timer;
    struct world *world;
    unsigned thread, number;
};

struct poster {
    struct world *world;
    struct item *items;
    unsigned thread;
};

static struct item *item_of_timer(struct sl_timer *timer)
{
    return (struct item *)(void *)((char *)timer - offsetof(struct item, timer));
}

static void fire(struct sl_timer *timer)
{
    struct world *world = item_of_timer(timer)->world;

    world->fired++;
    atomic_fetch_add_explicit(&world->finished, 1, memory_order_release);
}

static void run(struct sl_post *post)
{
    struct item *item = (struct item *)(void *)post;
    struct world *world = item->world;

    world->ran++;
    world->not_here += !sl_node_is_here(world->node);
    world->out_of_order += item->number != world->last[item->thread] + 1;
    world->last[item->thread] = item->number;
    item->timer.fire = fire;
    if (sl_timer_start(world->node, &item->timer,
                       sl_node_now(world->node) + item->number % 7 * 50000) != SEALANE_OK)
        abort();
    atomic_fetch_add_explicit(&world->finished, 1, memory_order_release);
}

static void *post_all(void *argument)
{
    const struct poster *poster = argument;

    for (unsigned i = 0; i < POSTS; i++) {
        struct item *item = &poster->items[i];

        item->world = poster->world;
        item->thread = poster->thread;
        item->number = i + 1;
        item->post.run = run;
        sl_node_post(poster->world->node, &item->post);
        if (i % NAP_EVERY == 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return NULL;
}

static bool all_finished(struct world *world)
{
    for (int tries = 0; tries < 20000; tries++) {
        if (atomic_load_explicit(&world->finished, memory_order_acquire) == 2 * THREADS * POSTS)
            return true;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

static bool invariant_7_posts_and_timers_run_on_the_nodes_thread_in_order(struct item *items)
{
    struct world world = {.ran = 0};
    struct poster posters[THREADS];
    pthread_t threads[THREADS];

    if (sealane_node_new(NULL, &world.node) != SEALANE_OK)
        return false;
    for (unsigned t = 0; t < THREADS; t++) {
        posters[t] = (struct poster){.world = &world, .items = items + (size_t)t * POSTS, t};
        if (pthread_create(&threads[t], NULL, post_all, &posters[t]) != 0)
            abort();
    }
    for (unsigned t = 0; t < THREADS; t++)
        (void)pthread_join(threads[t], NULL);
    bool finished = all_finished(&world);
    sealane_node_free(world.node);
    (void)printf("%u posts run, %u timers fired, %u out of order, %u on another thread\n",
                 world.ran, world.fired, world.out_of_order, world.not_here);
    return finished && world.ran == THREADS * POSTS && world.fired == THREADS * POSTS &&
           world.out_of_order == 0 && world.not_here == 0;
}

int main(void)
{
    struct item *items = calloc((size_t)THREADS * POSTS, sizeof(*items));
    bool good = items && invariant_7_posts_and_timers_run_on_the_nodes_thread_in_order(items);

    free(items);
    return good ? 0 : 1;
}
