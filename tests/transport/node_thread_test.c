/* SPDX-License-Identifier: Apache-2.0 */
/* node_thread_test.c - whatever foreign threads do through the door, lanes, timers and lists of a node are touched by its own thread
 * only: every function through which they are reached looks where it is. Linked with --wrap of them all. TSan watches the memory
 * itself in race.call and race.soak. */
#include "kitchen.sealane.h"
#include "tests/support/certs.h"
#include "tests/support/rdma.h"
#include "transport/lane_inside.h"
#include "transport/link.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    THREADS = 4,
    CALLS = 150,    /* of each thread */
    TENSOR = 600000 /* waits for permission */
};

static atomic_ulong looks, strangers;

/* A node without its own thread yet, or any more, is nobody's: what makes or frees it comes from one thread. */
static void look(const struct sealane_node *node)
{
    atomic_fetch_add(&looks, 1);
    if (!sl_node_is_here(node))
        atomic_fetch_add(&strangers, 1);
}

/* ---- the functions ---- */

enum sealane_status __real_sl_lane_send(struct sl_lane *lane, struct sl_send *send);
enum sealane_status __wrap_sl_lane_send(struct sl_lane *lane, struct sl_send *send);
enum sealane_status __wrap_sl_lane_send(struct sl_lane *lane, struct sl_send *send)
{
    look(sl_lane_node(lane));
    return __real_sl_lane_send(lane, send);
}

bool __real_sl_lane_abandon(struct sl_lane *lane, struct sl_send *send);
bool __wrap_sl_lane_abandon(struct sl_lane *lane, struct sl_send *send);
bool __wrap_sl_lane_abandon(struct sl_lane *lane, struct sl_send *send)
{
    look(sl_lane_node(lane));
    return __real_sl_lane_abandon(lane, send);
}

enum sealane_status __real_sl_lane_allow(struct sl_lane *lane, uint64_t call);
enum sealane_status __wrap_sl_lane_allow(struct sl_lane *lane, uint64_t call);
enum sealane_status __wrap_sl_lane_allow(struct sl_lane *lane, uint64_t call)
{
    look(sl_lane_node(lane));
    return __real_sl_lane_allow(lane, call);
}

enum sealane_status __real_sl_lane_status(struct sl_lane *lane, uint64_t call,
                                          enum sealane_status status, const char *text);
enum sealane_status __wrap_sl_lane_status(struct sl_lane *lane, uint64_t call,
                                          enum sealane_status status, const char *text);
enum sealane_status __wrap_sl_lane_status(struct sl_lane *lane, uint64_t call,
                                          enum sealane_status status, const char *text)
{
    look(sl_lane_node(lane));
    return __real_sl_lane_status(lane, call, status, text);
}

enum sealane_status __real_sl_lane_cancel(struct sl_lane *lane, uint64_t call,
                                          enum sealane_status why);
enum sealane_status __wrap_sl_lane_cancel(struct sl_lane *lane, uint64_t call,
                                          enum sealane_status why);
enum sealane_status __wrap_sl_lane_cancel(struct sl_lane *lane, uint64_t call,
                                          enum sealane_status why)
{
    look(sl_lane_node(lane));
    return __real_sl_lane_cancel(lane, call, why);
}

void __real_sl_lane_close(struct sl_lane *lane, enum sealane_status status, const char *why);
void __wrap_sl_lane_close(struct sl_lane *lane, enum sealane_status status, const char *why);
void __wrap_sl_lane_close(struct sl_lane *lane, enum sealane_status status, const char *why)
{
    look(sl_lane_node(lane));
    __real_sl_lane_close(lane, status, why);
}

bool __real_sl_lane_turn(struct sl_lane *lane, size_t *budget);
bool __wrap_sl_lane_turn(struct sl_lane *lane, size_t *budget);
bool __wrap_sl_lane_turn(struct sl_lane *lane, size_t *budget)
{
    look(sl_lane_node(lane));
    return __real_sl_lane_turn(lane, budget);
}

void __real_sl_lane_link_event(struct sl_lane *lane, const struct sl_link_event *event);
void __wrap_sl_lane_link_event(struct sl_lane *lane, const struct sl_link_event *event);
void __wrap_sl_lane_link_event(struct sl_lane *lane, const struct sl_link_event *event)
{
    look(sl_lane_node(lane));
    __real_sl_lane_link_event(lane, event);
}

enum sealane_status __real_sl_timer_start(struct sealane_node *node, struct sl_timer *timer,
                                          uint64_t at_ns);
enum sealane_status __wrap_sl_timer_start(struct sealane_node *node, struct sl_timer *timer,
                                          uint64_t at_ns);
enum sealane_status __wrap_sl_timer_start(struct sealane_node *node, struct sl_timer *timer,
                                          uint64_t at_ns)
{
    look(node);
    return __real_sl_timer_start(node, timer, at_ns);
}

void __real_sl_timer_stop(struct sealane_node *node, struct sl_timer *timer);
void __wrap_sl_timer_stop(struct sealane_node *node, struct sl_timer *timer);
void __wrap_sl_timer_stop(struct sealane_node *node, struct sl_timer *timer)
{
    look(node);
    __real_sl_timer_stop(node, timer);
}

void __real_sl_node_adopt(struct sealane_node *node, struct sl_child *child);
void __wrap_sl_node_adopt(struct sealane_node *node, struct sl_child *child);
void __wrap_sl_node_adopt(struct sealane_node *node, struct sl_child *child)
{
    look(node);
    __real_sl_node_adopt(node, child);
}

void __real_sl_node_disown(struct sealane_node *node, struct sl_child *child);
void __wrap_sl_node_disown(struct sealane_node *node, struct sl_child *child);
void __wrap_sl_node_disown(struct sealane_node *node, struct sl_child *child)
{
    look(node);
    __real_sl_node_disown(node, child);
}

/* ---- calls from everywhere ---- */

static struct kitchen {
    struct sealane_credentials *credentials[2];
    struct sealane_node *nodes[2];
    struct sealane_server *server;
    struct sealane_channel *channel;
    atomic_int done, handled, ended;
    uint8_t *tensor;
} kitchen;

static void count_end(void *user)
{
    (void)user;
    atomic_fetch_add(&kitchen.ended, 1);
}

struct later {
    struct sealane_call *call;
    const Kitchen__V1__Dish *request;
};

static void *answer(void *argument)
{
    struct later *later = argument;

    (void)usleep(later->request->sleep_ms * 1000);
    if (later->request->status)
        sealane_call_fail(later->call, (enum sealane_status)later->request->status, "from afar");
    else
        cr_assert_eq(kitchen_v1_kitchen_echo__reply(later->call, later->request), SEALANE_OK);
    free(later);
    return NULL;
}

/* Answered by a thread of its own, always. */
static void serve_echo(struct sealane_call *call, const Kitchen__V1__Dish *request, void *user)
{
    struct later *later = malloc(sizeof(*later));
    pthread_t thread;

    (void)user;
    atomic_fetch_add(&kitchen.handled, 1);
    sealane_call_on_end(call, count_end, NULL);
    *later = (struct later){call, request};
    cr_assert_eq(pthread_create(&thread, NULL, answer, later), 0);
    (void)pthread_detach(thread);
}

static void done(struct sealane_call *call, enum sealane_status status,
                 const Kitchen__V1__Dish *reply, void *user)
{
    (void)call;
    (void)status;
    (void)reply;
    (void)user;
    atomic_fetch_add(&kitchen.done, 1);
}

/* Starts, waits, cancels, lets time run out, asks: all that a thread may. */
static void *customer(void *argument)
{
    struct sealane_channel *channel = argument;
    uint64_t shape = TENSOR;
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;

    tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    tensor.n_shape = 1;
    tensor.shape = &shape;
    tensor.data.len = TENSOR;
    tensor.data.data = kitchen.tensor;
    for (int i = 0; i < CALLS; i++) {
        Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
        struct sealane_call_options options = {.timeout_ms = i % 7 == 3 ? 1 : 5000};
        struct sealane_security security;
        const Kitchen__V1__Dish *reply;
        struct sealane_call *call = NULL;

        request.status = i % 5 == 4 ? SEALANE_ABORTED : 0;
        request.sleep_ms = i % 7 == 3 || i % 11 == 5 ? 3 : 0;
        request.tensor = i % 6 == 2 ? &tensor : NULL;
        if (i % 11 == 5) {
            cr_assert_eq(kitchen_v1_kitchen_echo__start(channel, &request, &options, done, NULL,
                                                        &call),
                         SEALANE_OK);
            sealane_call_cancel(call); /* it sleeps at the server: it is not over */
        } else {
            if (kitchen_v1_kitchen_echo(channel, &request, &options, &reply, &call) == SEALANE_OK)
                sealane_call_free(call);
            atomic_fetch_add(&kitchen.done, 1);
        }
        (void)!sealane_channel_security(channel, &security);
    }
    return NULL;
}

static void open_kitchen(const char *address, const char *link)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    struct sealane_server_options server = {.link = link};
    struct sealane_channel_options channel = {.server_name = "dns:server.test", .link = link};
    char bound[SL_ADDRESS_BYTES];

    kitchen.tensor = calloc(1, TENSOR);
    kitchen.credentials[0] = server.credentials = certs_load("root-p256", "good/server-p256", NULL);
    kitchen.credentials[1] = channel.credentials =
        certs_load("root-p256", "good/client-p256", NULL);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sealane_node_new(NULL, &kitchen.nodes[i]), SEALANE_OK);
    cr_assert_eq(sealane_server_new(kitchen.nodes[0], &server, &kitchen.server), SEALANE_OK);
    cr_assert_eq(kitchen_v1_kitchen__register(kitchen.server, &handlers, NULL), SEALANE_OK);
    cr_assert_eq(sealane_server_listen(kitchen.server, address), SEALANE_OK);
    cr_assert_eq(sealane_server_address(kitchen.server, 0, bound, sizeof(bound)), SEALANE_OK);
    cr_assert_eq(sealane_channel_new(kitchen.nodes[1], bound, &channel, &kitchen.channel),
                 SEALANE_OK);
}

static void expect_own_thread_only(const char *address, const char *link)
{
    pthread_t threads[THREADS];

    open_kitchen(address, link);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, customer, kitchen.channel), 0);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 1000 && atomic_load(&kitchen.done) < THREADS * CALLS; i++)
        (void)usleep(5000);
    cr_assert_eq(kitchen.done, THREADS * CALLS);
    sealane_channel_free(kitchen.channel); /* from this thread, which is no node's */
    sealane_server_free(kitchen.server);
    for (int i = 0; i < 1000 && kitchen.ended < kitchen.handled; i++)
        (void)usleep(5000);
    cr_assert_eq(kitchen.ended, kitchen.handled);
    for (int i = 0; i < 2; i++) {
        sealane_node_free(kitchen.nodes[i]);
        sealane_credentials_free(kitchen.credentials[i]);
    }
    free(kitchen.tensor);
    (void)fprintf(stderr, "%s: lanes and timers were touched %lu times, %lu from another thread\n",
                  link, atomic_load(&looks), atomic_load(&strangers));
    cr_assert_gt(atomic_load(&looks), THREADS * CALLS * 4);
    cr_assert_eq(atomic_load(&strangers), 0);
}

Test(node_thread, invariant_7_lanes_over_link_local_are_touched_by_their_nodes_thread_only)
{
    char address[64];

    (void)snprintf(address, sizeof(address), "unix-abstract:sealane-node-thread-%d", (int)getpid());
    expect_own_thread_only(address, "local");
}

Test(node_thread, invariant_7_lanes_over_tcp_are_touched_by_their_nodes_thread_only)
{
    expect_own_thread_only("127.0.0.1:0", "tcp");
}

Test(node_thread, invariant_7_lanes_over_verbs_are_touched_by_their_nodes_thread_only)
{
    char address[64];

    if (!rdma_address(address, sizeof(address), 0))
        cr_skip_test("this host has no RDMA device with an address");
    expect_own_thread_only(address, "verbs");
}

/* The look is not blind. */
static void *close_from_outside(void *argument)
{
    sl_timer_stop(argument, &(struct sl_timer){.fire = NULL});
    return NULL;
}

Test(node_thread, a_foreign_hand_is_seen)
{
    const struct sealane_node_options options = {.polled = true};
    struct sealane_node *node;
    pthread_t thread;

    cr_assert_eq(sealane_node_new(&options, &node), SEALANE_OK);
    cr_assert_eq(pthread_create(&thread, NULL, close_from_outside, node), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(atomic_load(&strangers), 1);
    sealane_node_free(node);
}

/* ---- a node is told to end just as it is about to sleep ---- */

static sem_t falling_asleep, told;
static atomic_bool held;

void __real_sl_inbox_sleep_begin(struct sl_inbox *inbox);
void __wrap_sl_inbox_sleep_begin(struct sl_inbox *inbox);
void __wrap_sl_inbox_sleep_begin(struct sl_inbox *inbox)
{
    if (atomic_exchange(&held, false)) {
        (void)sem_post(&falling_asleep);
        (void)sem_wait(&told);
    }
    __real_sl_inbox_sleep_begin(inbox);
}

void __real_sl_inbox_wake(struct sl_inbox *inbox);
void __wrap_sl_inbox_wake(struct sl_inbox *inbox);
void __wrap_sl_inbox_wake(struct sl_inbox *inbox)
{
    __real_sl_inbox_wake(inbox);
    (void)sem_post(&told);
}

Test(node_thread, a_node_that_is_freed_as_it_falls_asleep_ends, .timeout = 10)
{
    struct sealane_node *node;

    cr_assert_eq(sem_init(&falling_asleep, 0, 0), 0);
    cr_assert_eq(sem_init(&told, 0, 0), 0);
    atomic_store(&held, true);
    cr_assert_eq(sealane_node_new(NULL, &node), SEALANE_OK);
    cr_assert_eq(sem_wait(&falling_asleep), 0);
    sealane_node_free(node);
}
