/* SPDX-License-Identifier: Apache-2.0 */
/* threads_test.c - calls made, cancelled, answered and freed by threads that are not the node's. */
#include "tests/rpc/world.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    THREADS = 4,
    CALLS = 200
};

static struct world world;
static atomic_int left;

static void serve_plain(struct sealane_call *call, const Cases__V1__Tree *request, void *user)
{
    (void)user;
    cr_assert_eq(cases_v1_cases_plain__reply(call, request), SEALANE_OK);
}

static void open_joined(void)
{
    static const struct cases_v1_cases__handlers handlers = {.plain = serve_plain};

    world = world_open(NULL, NULL);
    fake_join(world.node);
    cr_assert_eq(cases_v1_cases__register(world.server, &handlers, NULL), SEALANE_OK);
}

static void close_joined(void)
{
    world_close(&world);
}

TestSuite(threads, .init = open_joined, .fini = close_joined);

/* Failures are returned: an assert in another thread would end it silently. */
static void *call_many(void *argument)
{
    const char *wrong = NULL;
    int seed = (int)(size_t)argument;

    for (int i = 0; i < CALLS && !wrong; i++) {
        Cases__V1__Tree request = CASES__V1__TREE__INIT;
        const Cases__V1__Tree *reply;
        struct sealane_call *call;

        request.value = seed * 1000 + i;
        if (cases_v1_cases_plain(world.channel, &request, NULL, &reply, &call) != SEALANE_OK)
            wrong = "a call failed";
        else if (reply->value != request.value)
            wrong = "a reply of another call";
        sealane_call_free(call);
    }
    atomic_fetch_sub(&left, 1);
    return (void *)(uintptr_t)wrong;
}

static void run_threads(void *(*function)(void *))
{
    pthread_t threads[THREADS];

    atomic_store(&left, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, function, (void *)(i + 1)), 0);
    while (atomic_load(&left) > 0)
        cr_assert_eq(sealane_node_poll(world.node, 1), SEALANE_OK);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;

        cr_assert_eq(pthread_join(threads[i], &wrong), 0);
        cr_assert_null(wrong, "%s", (const char *)wrong);
    }
}

Test(threads, block_in_calls_while_another_polls_the_node)
{
    run_threads(call_many);
}

static atomic_uint delivered;

static void count_delivery(struct sealane_call *call, enum sealane_status status,
                           const ProtobufCMessage *reply, sealane_function *done, void *user)
{
    (void)call;
    (void)reply;
    (void)done;
    (void)user;
    if (status == SEALANE_OK || status == SEALANE_CANCELLED)
        atomic_fetch_add(&delivered, 1);
    if (user)
        sealane_call_keep(call);
}

/* Kept calls: the pointer stays good however the race between cancel and reply ends. */
static void *start_and_cancel(void *argument)
{
    Cases__V1__Tree request = CASES__V1__TREE__INIT;
    const char *wrong = NULL;

    for (int i = 0; i < CALLS; i++) {
        const struct sealane_completion completion = {.deliver = count_delivery, .user = argument};
        struct sealane_call *call;

        if (sealane_unary_start(world.channel, &cases_v1_cases__service.methods[1], &request.base,
                                NULL, &completion, &call) != SEALANE_OK) {
            wrong = "a call was refused";
            continue;
        }
        sealane_call_cancel(call);
        sealane_call_cancel(call);
    }
    atomic_fetch_sub(&left, 1);
    return (void *)(uintptr_t)wrong;
}

Test(threads, invariant_8_race_cancels_with_replies)
{
    pthread_t threads[THREADS];

    atomic_store(&left, THREADS);
    /* Nobody polls while they start and cancel: the pointers are good until done has begun to run. */
    for (size_t i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, start_and_cancel, NULL), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *wrong;

        cr_assert_eq(pthread_join(threads[i], &wrong), 0);
        cr_assert_null(wrong, "%s", (const char *)wrong);
    }
    fake_settle(world.node);
    cr_assert_eq(atomic_load(&delivered), THREADS * CALLS);
}

/* ---- answers from other threads ---- */

static void *answer_from_elsewhere(void *argument)
{
    struct sealane_call *call = argument;
    Cases__V1__Everything reply = CASES__V1__EVERYTHING__INIT;

    reply.step = 42;
    if (cases_v1_cases_echo__reply(call, &reply) != SEALANE_OK)
        (void)fprintf(stderr, "AddressSanitizer would say less: a reply was refused\n");
    return NULL;
}

static pthread_t answering;

static void serve_elsewhere(struct sealane_call *call, const ProtobufCMessage *request,
                            sealane_function *function, void *user)
{
    (void)request;
    (void)function;
    (void)user;
    cr_assert_eq(pthread_create(&answering, NULL, answer_from_elsewhere, call), 0);
}

static void nothing(void)
{
}

Test(threads, answer_calls_from_outside_the_node)
{
    static const struct sealane_method method = {"/other.Service/Echo",
                                                 &cases__v1__everything__descriptor,
                                                 &cases__v1__everything__descriptor};
    static const struct sealane_service service = {"other.Service", &method, 1};
    static const struct sealane_handler handler = {serve_elsewhere, nothing};
    Cases__V1__Everything request = CASES__V1__EVERYTHING__INIT;
    const ProtobufCMessage *reply;
    struct sealane_call *call;

    cr_assert_eq(sealane_server_add(world.server, &service, &handler, NULL), SEALANE_OK);
    for (int i = 0; i < 50; i++) {
        cr_assert_eq(sealane_unary_call(world.channel, &method, &request.base, NULL, &reply, &call),
                     SEALANE_OK, "%s", sealane_last_error()->message);
        cr_assert_eq(pthread_join(answering, NULL), 0);
        cr_assert_eq(((const Cases__V1__Everything *)(const void *)reply)->step, 42);
        sealane_call_free(call);
    }
}

/* ---- ends from other threads ---- */

static void *free_the_channel(void *argument)
{
    (void)argument;
    sealane_channel_free(world.channel);
    world.channel = NULL;
    atomic_store(&left, 0);
    return NULL;
}

Test(threads, free_a_channel_with_calls_in_flight_from_outside_the_node)
{
    Cases__V1__Tree request = CASES__V1__TREE__INIT;
    const struct sealane_completion completion = {.deliver = count_delivery};
    pthread_t thread;

    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(sealane_unary_start(world.channel, &cases_v1_cases__service.methods[1],
                                         &request.base, NULL, &completion, NULL),
                     SEALANE_OK);
    atomic_store(&left, 1);
    cr_assert_eq(pthread_create(&thread, NULL, free_the_channel, NULL), 0);
    while (atomic_load(&left) > 0)
        cr_assert_eq(sealane_node_poll(world.node, 1), SEALANE_OK);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(atomic_load(&delivered), CALLS, "before sealane_channel_free returned");
}
