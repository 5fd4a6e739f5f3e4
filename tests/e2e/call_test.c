/* SPDX-License-Identifier: Apache-2.0 */
/* call_test.c - calls through generated stubs, between two nodes with threads of their own, over link_local with TLS;
 * over link_verbs with SEALANE_TEST_LINK=verbs. */
#include "kitchen.sealane.h"
#include "tests/support/certs.h"
#include "tests/support/rdma.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    HELD_MAX = 8192
};

static struct kitchen {
    struct sealane_credentials *server_credentials, *client_credentials;
    struct sealane_node *server_node, *client_node;
    struct sealane_server *server;
    struct sealane_channel *channel;
    char address[64];
    atomic_int handled, ended, held_count;
    struct sealane_call *held[HELD_MAX];
    struct sealane_channel *call_back; /* the handler calls this channel, blocking */
    enum sealane_status call_back_status;
    uint8_t *expected; /* what the handler compares the tensor with */
    int compared;
} k;

static void rest_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

/* ---- the server ---- */

struct later {
    struct sealane_call *call;
    const Kitchen__V1__Dish *request;
};

static void answer(struct sealane_call *call, const Kitchen__V1__Dish *request)
{
    if (request->status != 0)
        sealane_call_fail(call, (enum sealane_status)request->status, "the cook says %s",
                          request->name);
    else if (kitchen_v1_kitchen_echo__reply(call, request) != SEALANE_OK)
        (void)fprintf(stderr, "reply: %s\n", sealane_last_error()->message);
}

static void *answer_later(void *argument)
{
    struct later *later = argument;

    rest_ms(later->request->sleep_ms);
    answer(later->call, later->request);
    free(later);
    return NULL;
}

static void count_end(void *user)
{
    (void)user;
    atomic_fetch_add(&k.ended, 1);
}

static void try_to_block(void)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;

    k.call_back_status = kitchen_v1_kitchen_echo(k.call_back, &request, NULL, &reply, &call);
}

static void serve_echo(struct sealane_call *call, const Kitchen__V1__Dish *request, void *user)
{
    pthread_t thread;

    cr_assert_eq(user, &k);
    atomic_fetch_add(&k.handled, 1);
    sealane_call_on_end(call, count_end, NULL);
    if (k.call_back)
        try_to_block();
    if (k.expected)
        k.compared +=
            memcmp(request->tensor->data.data, k.expected, request->tensor->data.len) == 0;
    if (request->never) {
        k.held[atomic_fetch_add(&k.held_count, 1)] = call;
    } else if (request->sleep_ms > 0) {
        struct later *later = malloc(sizeof(*later));

        *later = (struct later){call, request};
        cr_assert_eq(pthread_create(&thread, NULL, answer_later, later), 0);
        (void)pthread_detach(thread);
    } else {
        answer(call, request);
    }
}

static void open_kitchen(const struct sealane_server_options *server_extra,
                         const struct sealane_channel_options *channel_extra)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    struct sealane_server_options server_options =
        server_extra ? *server_extra : (struct sealane_server_options){0};
    struct sealane_channel_options channel_options =
        channel_extra ? *channel_extra : (struct sealane_channel_options){0};

    (void)snprintf(k.address, sizeof(k.address), "unix-abstract:sealane-call-test-%d",
                   (int)getpid());
    if (rdma_wanted()) {
        cr_assert(rdma_address(k.address, sizeof(k.address), 0), "no RDMA device has an address");
        server_options.link = channel_options.link = "verbs";
    }
    k.server_credentials = certs_load("root-p256", "good/server-p256", NULL);
    k.client_credentials = certs_load("root-p256", "good/client-p256", NULL);
    server_options.credentials = k.server_credentials;
    channel_options.credentials = k.client_credentials;
    if (!channel_options.server_name)
        channel_options.server_name = "server.test";
    cr_assert_eq(sealane_node_new(NULL, &k.server_node), SEALANE_OK);
    cr_assert_eq(sealane_node_new(NULL, &k.client_node), SEALANE_OK);
    cr_assert_eq(sealane_server_new(k.server_node, &server_options, &k.server), SEALANE_OK);
    cr_assert_eq(kitchen_v1_kitchen__register(k.server, &handlers, &k), SEALANE_OK);
    cr_assert_eq(sealane_server_listen(k.server, k.address), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(sealane_channel_new(k.client_node, k.address, &channel_options, &k.channel),
                 SEALANE_OK, "%s", sealane_last_error()->message);
}

static void close_kitchen(void)
{
    sealane_channel_free(k.channel);
    sealane_server_free(k.server);
    for (int i = 0; i < k.held_count;
         i++) /* handlers that still owe an answer give it, to nobody */
        sealane_call_fail(k.held[i], SEALANE_ABORTED, "too late");
    sealane_node_free(k.client_node);
    sealane_node_free(k.server_node);
    sealane_credentials_free(k.client_credentials);
    sealane_credentials_free(k.server_credentials);
    cr_assert_eq(k.handled, k.ended, "%d calls were handled, %d ended", k.handled, k.ended);
}

/* ---- requests ---- */

static void fill(uint8_t *at, uint64_t count, unsigned seed)
{
    for (uint64_t i = 0; i < count; i++)
        at[i] = (uint8_t)(i * 131 + (i >> 8) * 17 + seed);
}

struct boxed {
    Sealane__Tensor tensor;
    uint64_t shape[2];
};

/* bytes = rows * columns * 4 */
static Sealane__Tensor *box(struct boxed *boxed, uint64_t rows, uint64_t columns, unsigned seed)
{
    sealane__tensor__init(&boxed->tensor);
    boxed->shape[0] = rows;
    boxed->shape[1] = columns;
    boxed->tensor.dtype = SEALANE__DTYPE__DTYPE_F32;
    boxed->tensor.n_shape = 2;
    boxed->tensor.shape = boxed->shape;
    boxed->tensor.data.len = rows * columns * 4;
    boxed->tensor.data.data = malloc(boxed->tensor.data.len + 1);
    fill(boxed->tensor.data.data, boxed->tensor.data.len, seed);
    return &boxed->tensor;
}

static void check_same(const Sealane__Tensor *a, const Sealane__Tensor *b)
{
    cr_assert_not_null(b);
    cr_assert_eq(a->dtype, b->dtype);
    cr_assert_eq(a->n_shape, b->n_shape);
    for (size_t i = 0; i < a->n_shape; i++)
        cr_assert_eq(a->shape[i], b->shape[i]);
    cr_assert_eq(a->data.len, b->data.len);
    cr_assert_eq(memcmp(a->data.data, b->data.data, a->data.len), 0);
    cr_assert_neq(a->data.data, b->data.data);
}

static enum sealane_status echo(const Kitchen__V1__Dish *request, uint32_t timeout_ms,
                                const Kitchen__V1__Dish **reply_p, struct sealane_call **call_p)
{
    struct sealane_call_options options = {.timeout_ms = timeout_ms};

    return kitchen_v1_kitchen_echo(k.channel, request, &options, reply_p, call_p);
}

static void expect(const Kitchen__V1__Dish *request, uint32_t timeout_ms,
                   enum sealane_status status, const char *text)
{
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;

    cr_assert_eq(echo(request, timeout_ms, &reply, &call), status, "%s: %s",
                 sealane_status_name(sealane_last_error()->status), sealane_last_error()->message);
    cr_assert_null(reply);
    cr_assert_null(call);
    cr_assert(strstr(sealane_last_error()->message, text), "\"%s\" lacks \"%s\"",
              sealane_last_error()->message, text);
}

/* ---- what goes through ---- */

Test(call, echoes_a_small_message)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_security security;
    struct sealane_call *call;

    open_kitchen(NULL, NULL);
    request.name = "soup";
    request._maybe_case = KITCHEN__V1__DISH___MAYBE_MAYBE;
    request.maybe = 0;
    cr_assert_eq(echo(&request, 0, &reply, &call), SEALANE_OK, "%s", sealane_last_error()->message);
    cr_assert_str_eq(reply->name, "soup");
    cr_assert_eq(reply->_maybe_case, KITCHEN__V1__DISH___MAYBE_MAYBE,
                 "presence of a proto3 optional survives");
    sealane_call_security(call, &security);
    cr_assert_str_eq(security.link, rdma_wanted() ? "verbs" : "local");
    cr_assert_eq(strncmp(security.peer, "uri:", 4) == 0 || strncmp(security.peer, "dns:", 4) == 0,
                 1, "%s", security.peer);
    sealane_call_free(call);
    cr_assert_eq(sealane_channel_security(k.channel, &security), SEALANE_OK);
    cr_assert_gt(security.sealed_bytes, 0);
    close_kitchen();
}

Test(call, carries_tensors_wherever_they_stand_and_leaves_the_request_alone)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT, inner = KITCHEN__V1__DISH__INIT, before;
    Kitchen__V1__Dish__NamedEntry entry = KITCHEN__V1__DISH__NAMED_ENTRY__INIT,
                                  *entries[] = {&entry};
    struct boxed b[7];
    Sealane__Tensor *many[] = {box(&b[0], 3, 5, 1), box(&b[1], 1000, 1000, 2), box(&b[2], 0, 7, 3)};
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;

    open_kitchen(NULL, NULL);
    request.tensor = box(&b[3], 1, 1, 4);
    request.n_many = 3;
    request.many = many;
    entry.key = "salt";
    entry.value = box(&b[4], 70, 1000, 5);
    request.n_named = 1;
    request.named = entries;
    request.choice_case = KITCHEN__V1__DISH__CHOICE_CHOSEN;
    request.chosen = box(&b[5], 2, 2, 6);
    inner.tensor = box(&b[6], 9, 9, 7);
    request.inner = &inner;
    before = request;
    cr_assert_eq(echo(&request, 0, &reply, &call), SEALANE_OK, "%s", sealane_last_error()->message);
    cr_assert_eq(memcmp(&before, &request, sizeof(request)), 0);
    check_same(request.tensor, reply->tensor);
    cr_assert_eq(reply->n_many, 3);
    for (int i = 0; i < 2; i++)
        check_same(many[i], reply->many[i]);
    cr_assert_eq(reply->many[2]->data.len, 0);
    cr_assert_eq(reply->n_named, 1);
    check_same(entry.value, reply->named[0]->value);
    cr_assert_eq(reply->choice_case, KITCHEN__V1__DISH__CHOICE_CHOSEN);
    check_same(request.chosen, reply->chosen);
    check_same(inner.tensor, reply->inner->tensor);
    sealane_call_free(call);
    close_kitchen();
    for (int i = 0; i < 7; i++)
        free(b[i].tensor.data.data);
}

/* 3 GiB that take 64 MiB: one piece of memory, mapped again and again. */
static uint8_t *map_repeated(size_t piece, size_t times)
{
    int fd = memfd_create("repeated", MFD_CLOEXEC);
    uint8_t *at =
        mmap(NULL, piece * times, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    cr_assert(fd >= 0 && at != MAP_FAILED && ftruncate(fd, (off_t)piece) == 0);
    for (size_t i = 0; i < times; i++)
        cr_assert_neq(mmap(at + i * piece, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                           fd, 0),
                      MAP_FAILED);
    (void)close(fd);
    fill(at, piece, 7);
    return at;
}

Test(call, carries_a_tensor_of_three_gibibytes)
{
    enum {
        PIECE = 64 << 20,
        TIMES = 48
    };
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    uint64_t shape = (uint64_t)PIECE * TIMES;

    open_kitchen(NULL, NULL);
    k.expected = map_repeated(PIECE, TIMES);
    tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    tensor.n_shape = 1;
    tensor.shape = &shape;
    tensor.data.len = shape;
    tensor.data.data = k.expected;
    request.tensor = &tensor;
    request.status = SEALANE_ALREADY_EXISTS; /* no reply of that size: the handler compares */
    expect(&request, 0, SEALANE_ALREADY_EXISTS, "the cook says");
    cr_assert_eq(k.compared, 1);
    close_kitchen();
    (void)munmap(k.expected, shape);
}

Test(call, carries_a_message_of_many_frames)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;

    open_kitchen(NULL, NULL);
    request.raw.len = 4000000;
    request.raw.data = malloc(request.raw.len);
    fill(request.raw.data, request.raw.len, 5);
    cr_assert_eq(echo(&request, 0, &reply, &call), SEALANE_OK, "%s", sealane_last_error()->message);
    cr_assert_eq(reply->raw.len, request.raw.len);
    cr_assert_eq(memcmp(reply->raw.data, request.raw.data, request.raw.len), 0);
    sealane_call_free(call);
    close_kitchen();
    free(request.raw.data);
}

/* ---- statuses ---- */

Test(call, every_status_comes_back_with_its_message)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;

    open_kitchen(NULL, NULL);
    request.name = "no: \xc3\xa9t\xc3\xa9";
    for (uint32_t status = 1; status <= 16; status++) {
        request.status = status;
        expect(&request, 0, (enum sealane_status)status, "the cook says no: \xc3\xa9t\xc3\xa9");
    }
    close_kitchen();
}

Test(call, a_method_without_handler_is_unimplemented)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;

    open_kitchen(NULL, NULL);
    cr_assert_eq(kitchen_v1_kitchen_unwritten(k.channel, &request, NULL, &reply, &call),
                 SEALANE_UNIMPLEMENTED);
    cr_assert(strstr(sealane_last_error()->message, "/kitchen.v1.Kitchen/Unwritten"), "%s",
              sealane_last_error()->message);
    close_kitchen();
}

Test(call, a_late_answer_from_another_thread_is_fine)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;

    open_kitchen(NULL, NULL);
    request.name = "stew";
    request.sleep_ms = 30;
    cr_assert_eq(echo(&request, 5000, &reply, &call), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_str_eq(reply->name, "stew");
    sealane_call_free(call);
    close_kitchen();
}

Test(call, a_deadline_ends_the_call_at_both_ends)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;

    open_kitchen(NULL, NULL);
    cr_assert_eq(sealane_channel_connect(k.channel, 5000), SEALANE_OK);
    request.never = true;
    expect(&request, 60, SEALANE_DEADLINE_EXCEEDED, "deadline");
    for (int i = 0; i < 200 && (k.held_count == 0 || !sealane_call_is_over(k.held[0])); i++)
        rest_ms(5);
    cr_assert_eq(k.held_count, 1);
    cr_assert(sealane_call_is_over(k.held[0]), "the handler can see that nobody waits");
    cr_assert_leq(sealane_call_remaining_ms(k.held[0]), 0);
    request.never = false;
    expect(&(Kitchen__V1__Dish){.base = request.base,
                                .name = (char *)protobuf_c_empty_string,
                                .status = 5},
           0, SEALANE_NOT_FOUND, "");
    close_kitchen();
}

/* ---- limits ---- */

Test(call, limits_name_their_option)
{
    struct sealane_server_options server = {.max_message_bytes = 100000,
                                            .max_tensor_bytes = 1 << 20};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    struct boxed boxed;

    open_kitchen(&server, NULL);
    request.raw.len = 200000;
    request.raw.data = calloc(1, request.raw.len);
    expect(&request, 0, SEALANE_RESOURCE_EXHAUSTED, "max_message_bytes");
    request.raw.len = 5 << 20;
    request.raw.data = realloc(request.raw.data, request.raw.len);
    expect(&request, 0, SEALANE_RESOURCE_EXHAUSTED, "max_message_bytes");
    free(request.raw.data);
    request.raw = (ProtobufCBinaryData){0, NULL};
    request.tensor = box(&boxed, 1024, 257, 1);
    expect(&request, 0, SEALANE_RESOURCE_EXHAUSTED, "max_tensor_bytes");
    free(boxed.tensor.data.data);
    request.tensor = box(&boxed, 1024, 256, 1);
    request.status = 5;
    expect(&request, 0, SEALANE_NOT_FOUND, "");
    free(boxed.tensor.data.data);
    close_kitchen();
}

Test(call, a_tensor_whose_shape_lies_never_leaves)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    struct boxed boxed;

    open_kitchen(NULL, NULL);
    request.tensor = box(&boxed, 10, 10, 1);
    boxed.shape[0] = 11;
    expect(&request, 0, SEALANE_INVALID_ARGUMENT, "field tensor");
    boxed.shape[0] = boxed.shape[1] = UINT64_MAX;
    expect(&request, 0, SEALANE_INVALID_ARGUMENT, "2^63");
    boxed.tensor.dtype = SEALANE__DTYPE__DTYPE_UNSPECIFIED;
    expect(&request, 0, SEALANE_INVALID_ARGUMENT, "dtype 0");
    cr_assert_eq(k.handled, 0);
    close_kitchen();
    free(boxed.tensor.data.data);
}

/* ---- many ---- */

struct tally {
    atomic_int done, good;
};

static void count_done(struct sealane_call *call, enum sealane_status status,
                       const Kitchen__V1__Dish *reply, void *user)
{
    struct tally *tally = user;

    (void)call;
    (void)reply;
    atomic_fetch_add(&tally->good, status == SEALANE_OK);
    atomic_fetch_add(&tally->done, 1);
}

static void wait_for(const atomic_int *count, int wanted)
{
    for (int i = 0; i < 4000 && atomic_load(count) < wanted; i++)
        rest_ms(5);
    cr_assert_eq(atomic_load(count), wanted);
}

Test(call, thousands_of_calls_are_in_flight_and_a_stuck_one_stops_nobody, .timeout = 120)
{
    enum {
        CALLS = 3000
    };
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    struct tally stuck = {0}, tally = {0};
    struct sealane_call *call;

    open_kitchen(NULL, NULL);
    request.never = true;
    cr_assert_eq(kitchen_v1_kitchen_echo__start(k.channel, &request, NULL, count_done, &stuck,
                                                &call),
                 SEALANE_OK);
    request.never = false;
    for (int i = 0; i < CALLS; i++)
        cr_assert_eq(kitchen_v1_kitchen_echo__start(k.channel, &request, NULL, count_done, &tally,
                                                    NULL),
                     SEALANE_OK);
    wait_for(&tally.done, CALLS);
    cr_assert_eq(tally.good, CALLS);
    cr_assert_eq(stuck.done, 0);
    sealane_call_cancel(call);
    wait_for(&stuck.done, 1);
    cr_assert_eq(stuck.good, 0);
    close_kitchen();
}

Test(call, max_calls_is_the_limit_of_both_ends)
{
    struct sealane_server_options server = {.max_calls = 3};
    struct sealane_channel_options channel = {.max_calls = 5};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    struct tally tally = {0};

    open_kitchen(&server, &channel);
    cr_assert_eq(sealane_channel_connect(k.channel, 5000), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    request.never = true;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(kitchen_v1_kitchen_echo__start(k.channel, &request, NULL, count_done, &tally,
                                                    NULL),
                     SEALANE_OK);
    expect(&request, 0, SEALANE_RESOURCE_EXHAUSTED, "max_calls");
    sealane_channel_free(k.channel);
    k.channel = NULL;
    cr_assert_eq(tally.done, 3, "freeing the channel ended them");
    cr_assert_eq(tally.good, 0);
    close_kitchen();
}

static void *call_often(void *argument)
{
    atomic_int *good = argument;

    for (int i = 0; i < 300; i++) {
        Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
        const Kitchen__V1__Dish *reply;
        struct sealane_call *call;
        struct boxed boxed;

        request.tensor = box(&boxed, 1, (uint64_t)i * 300 + 1, (unsigned)i);
        if (echo(&request, 0, &reply, &call) == SEALANE_OK) {
            check_same(request.tensor, reply->tensor);
            atomic_fetch_add(good, 1);
            sealane_call_free(call);
        }
        free(boxed.tensor.data.data);
    }
    return NULL;
}

Test(call, several_threads_share_a_channel, .timeout = 120)
{
    pthread_t threads[4];
    atomic_int good = 0;

    open_kitchen(NULL, NULL);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, call_often, &good), 0);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(threads[i], NULL);
    cr_assert_eq(good, 1200);
    close_kitchen();
}

Test(call, tensor_memory_that_is_short_makes_calls_wait_in_turn, .timeout = 120)
{
    struct sealane_server_options server = {.tensor_memory_bytes = 4 << 20};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    struct tally tally = {0};
    struct boxed boxed;

    open_kitchen(&server, NULL);
    request.tensor = box(&boxed, 1024, 768, 1); /* 3 MiB: one at a time */
    request.sleep_ms = 5;
    for (int i = 0; i < 12; i++)
        cr_assert_eq(kitchen_v1_kitchen_echo__start(k.channel, &request, NULL, count_done, &tally,
                                                    NULL),
                     SEALANE_OK);
    wait_for(&tally.done, 12);
    cr_assert_eq(tally.good, 12);
    free(boxed.tensor.data.data);
    request.tensor = box(&boxed, 1024, 1025, 1);
    expect(&request, 0, SEALANE_RESOURCE_EXHAUSTED, "tensor_memory_bytes");
    free(boxed.tensor.data.data);
    close_kitchen();
}

/* ---- ends ---- */

Test(call, a_blocking_call_inside_a_handler_is_refused)
{
    struct sealane_channel_options options = {.server_name = "server.test"};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;

    open_kitchen(NULL, NULL);
    options.credentials = k.client_credentials;
    cr_assert_eq(sealane_channel_new(k.server_node, k.address, &options, &k.call_back), SEALANE_OK);
    request.status = 5;
    expect(&request, 0, SEALANE_NOT_FOUND, "");
    cr_assert_eq(k.call_back_status, SEALANE_FAILED_PRECONDITION);
    sealane_channel_free(k.call_back);
    close_kitchen();
}

Test(call, invariant_8_a_server_that_ends_ends_every_call_once)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    struct tally tally = {0};
    struct boxed boxed;

    open_kitchen(NULL, NULL);
    request.never = true;
    request.tensor = box(&boxed, 1000, 1000, 1);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(kitchen_v1_kitchen_echo__start(k.channel, &request, NULL, count_done, &tally,
                                                    NULL),
                     SEALANE_OK);
    wait_for(&k.held_count, 20);
    sealane_server_free(k.server);
    k.server = NULL;
    wait_for(&tally.done, 20);
    cr_assert_eq(tally.good, 0);
    rest_ms(50);
    cr_assert_eq(tally.done, 20, "nobody was told twice");
    request.never = false;
    expect(&request, 0, SEALANE_UNAVAILABLE, "");
    close_kitchen();
    free(boxed.tensor.data.data);
}

Test(call, a_server_that_is_back_is_found_again)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    struct sealane_server_options options = {0};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;

    open_kitchen(NULL, NULL);
    cr_assert_eq(echo(&request, 0, &reply, &call), SEALANE_OK);
    sealane_call_free(call);
    sealane_server_free(k.server);
    expect(&request, 0, SEALANE_UNAVAILABLE, "");
    options.credentials = k.server_credentials;
    cr_assert_eq(sealane_server_new(k.server_node, &options, &k.server), SEALANE_OK);
    cr_assert_eq(kitchen_v1_kitchen__register(k.server, &handlers, &k), SEALANE_OK);
    cr_assert_eq(sealane_server_listen(k.server, k.address), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    cr_assert_eq(
        sealane_channel_connect(k.channel, 5000), SEALANE_OK, "%s",
        sealane_last_error()->message); /* the pause after the attempt that failed is waited for */
    cr_assert_eq(echo(&request, 5000, &reply, &call), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    sealane_call_free(call);
    close_kitchen();
}

Test(call, wrong_names_are_refused_before_anything_is_said)
{
    struct sealane_channel_options options = {.server_name = "dns:other.test"};
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;

    open_kitchen(NULL, &options);
    expect(&request, 0, SEALANE_UNAUTHENTICATED, "other.test");
    cr_assert_eq(sealane_channel_connect(k.channel, 2000), SEALANE_UNAUTHENTICATED);
    cr_assert_eq(k.handled, 0);
    close_kitchen();
}

Test(call, nobody_at_the_address_is_unavailable)
{
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;

    open_kitchen(NULL, NULL);
    sealane_server_free(k.server);
    k.server = NULL;
    expect(&request, 0, SEALANE_UNAVAILABLE, "");
    cr_assert_eq(sealane_channel_connect(k.channel, 1000), SEALANE_UNAVAILABLE);
    close_kitchen();
}

Test(call, arguments_that_are_missing_are_named)
{
    struct sealane_channel_options options = {0};
    struct sealane_channel *channel;

    open_kitchen(NULL, NULL);
    cr_assert_eq(sealane_channel_new(k.client_node, k.address, &options, &channel),
                 SEALANE_INVALID_ARGUMENT);
    options.credentials = k.client_credentials;
    cr_assert_eq(sealane_channel_new(k.client_node, k.address, &options, &channel),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert(strstr(sealane_last_error()->message, "server_name"));
    options.server_name = "x";
    cr_assert_eq(sealane_channel_new(k.client_node, "carrier-pigeon://7", &options, &channel),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(kitchen_v1_kitchen__register(k.server, &(struct kitchen_v1_kitchen__handlers){0},
                                              NULL),
                 SEALANE_ALREADY_EXISTS);
    cr_assert_eq(sealane_server_listen(k.server, k.address), SEALANE_ALREADY_EXISTS);
    cr_assert_eq(sealane_node_poll(k.client_node, 0), SEALANE_FAILED_PRECONDITION);
    close_kitchen();
}
