/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_test.c - whole calls between a channel and a server on joined fake lanes: what goes in comes out. */
#include "tests/rpc/world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct world world;
static int handled, ended;

static void count_end(void *user)
{
    (void)user;
    ended++;
}

/* Answers with what came: its tensors live as long as the call. */
static void serve_echo(struct sealane_call *call, const Cases__V1__Everything *request, void *user)
{
    cr_assert_eq(user, &world);
    handled++;
    sealane_call_on_end(call, count_end, NULL);
    cr_assert_eq(cases_v1_cases_echo__reply(call, request), SEALANE_OK, "%s",
                 sealane_last_error()->message);
}

static void serve_plain(struct sealane_call *call, const Cases__V1__Tree *request, void *user)
{
    (void)user;
    handled++;
    if (request->value < 0)
        sealane_call_fail(call, (enum sealane_status) - request->value, "said %d", request->value);
    else
        cr_assert_eq(cases_v1_cases_plain__reply(call, request), SEALANE_OK);
}

static void open_joined(const struct sealane_channel_options *channel,
                        const struct sealane_server_options *server)
{
    static const struct cases_v1_cases__handlers handlers = {.echo = serve_echo,
                                                             .plain = serve_plain};

    world = world_open(channel, server);
    fake_join(world.node);
    cr_assert_eq(cases_v1_cases__register(world.server, &handlers, &world), SEALANE_OK);
}

static void close_joined(void)
{
    world_close(&world);
}

/* ---- a message with tensors everywhere ---- */

enum {
    LEAVES = 8
};

struct filled {
    Cases__V1__Everything message;
    Sealane__Tensor leaf[LEAVES], *many[2];
    uint64_t shape[LEAVES][1];
    Cases__V1__Layer layer[4], *layers[2];
    Cases__V1__Everything__NamedEntry entry, *entries[1];
};

static void everything_fill(struct filled *f, size_t bytes, size_t blob)
{
    cases__v1__everything__init(&f->message);
    for (int i = 0; i < LEAVES; i++) {
        size_t n = bytes + (size_t)i * 3;
        uint8_t *data = malloc(n);

        for (size_t b = 0; b < n; b++)
            data[b] = (uint8_t)(b * 31 + b / 255 + (size_t)i);
        f->shape[i][0] = n;
        f->leaf[i] = TENSOR(U8, f->shape[i], data, n);
    }
    for (int i = 0; i < 4; i++) {
        cases__v1__layer__init(&f->layer[i]);
        f->layer[i].name = "layer";
    }
    f->message.name = "everything";
    f->message.step = 1234567;
    f->message.plain = &f->leaf[0];
    f->message.many = f->many;
    f->message.n_many = 2;
    f->many[0] = &f->leaf[1];
    f->many[1] = &f->leaf[2];
    f->message.layer = &f->layer[0];
    f->layer[0].weights = &f->leaf[3];
    f->layer[0].inner = &f->layer[1];
    f->layer[1].weights = &f->leaf[4];
    f->message.layers = f->layers;
    f->message.n_layers = 2;
    f->layers[0] = &f->layer[2];
    f->layers[1] = &f->layer[3];
    f->layer[3].weights = &f->leaf[5];
    cases__v1__everything__named_entry__init(&f->entry);
    f->entry.key = "key";
    f->entry.value = &f->leaf[6];
    f->entries[0] = &f->entry;
    f->message.named = f->entries;
    f->message.n_named = 1;
    f->message.choice_case = CASES__V1__EVERYTHING__CHOICE_CHOSEN;
    f->message.chosen = &f->leaf[7];
    f->message.blob = (ProtobufCBinaryData){blob, calloc(1, blob + 1)};
}

static void everything_free(struct filled *f)
{
    for (int i = 0; i < LEAVES; i++)
        free(f->leaf[i].data.data);
    free(f->message.blob.data);
}

static void same_tensor(const Sealane__Tensor *a, const Sealane__Tensor *b)
{
    cr_assert_not_null(b);
    cr_assert_eq(a->dtype, b->dtype);
    cr_assert_eq(a->n_shape, b->n_shape);
    cr_assert_eq(a->shape[0], b->shape[0]);
    cr_assert_eq(a->data.len, b->data.len);
    cr_assert_neq(a->data.data, b->data.data);
    cr_assert_eq((uintptr_t)b->data.data % 16, 0);
    cr_assert_eq(memcmp(a->data.data, b->data.data, a->data.len), 0);
}

static void same_everything(const struct filled *f, const Cases__V1__Everything *got)
{
    cr_assert_str_eq(got->name, "everything");
    cr_assert_eq(got->step, 1234567);
    cr_assert_eq(got->blob.len, f->message.blob.len);
    same_tensor(&f->leaf[0], got->plain);
    same_tensor(&f->leaf[1], got->many[0]);
    same_tensor(&f->leaf[2], got->many[1]);
    same_tensor(&f->leaf[3], got->layer->weights);
    same_tensor(&f->leaf[4], got->layer->inner->weights);
    cr_assert_null(got->layers[0]->weights);
    same_tensor(&f->leaf[5], got->layers[1]->weights);
    cr_assert_str_eq(got->named[0]->key, "key");
    same_tensor(&f->leaf[6], got->named[0]->value);
    cr_assert_eq(got->choice_case, CASES__V1__EVERYTHING__CHOICE_CHOSEN);
    same_tensor(&f->leaf[7], got->chosen);
}

static void exchange(size_t bytes, size_t blob)
{
    struct filled *f = calloc(1, sizeof(*f));
    const Cases__V1__Everything *reply;
    struct sealane_call *call;

    everything_fill(f, bytes, blob);
    cr_assert_eq(cases_v1_cases_echo(world.channel, &f->message, NULL, &reply, &call), SEALANE_OK,
                 "%zu bytes: %s", bytes, sealane_last_error()->message);
    same_everything(f, reply);
    sealane_call_free(call);
    everything_free(f);
    free(f);
}

Test(exchange, carries_tensors_of_every_place_and_size)
{
    open_joined(NULL, NULL);
    exchange(1, 0);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 0, "small ones come unasked");
    exchange(1000, 0);
    exchange(65536, 0);
    exchange(300000, 0);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 4, "of two messages, both ways");
    fake_settle(world.node);
    cr_assert_eq(ended, 4);
    cr_assert_eq(fake_held(world.node), 0);
    close_joined();
}

Test(exchange, carries_messages_of_several_fragments_with_tensors)
{
    open_joined(NULL, NULL);
    for (size_t blob = 7000; blob < 9000; blob += 97)
        exchange(100, blob);
    exchange(200000, 3 << 20);
    close_joined();
}

Test(exchange, carries_messages_in_the_smallest_fragments)
{
    open_joined(NULL, NULL);
    fake_settings(world.node)->fragment_bytes = 8;
    fake_settings(world.node)->chunk_bytes = 7;
    exchange(50, 10);
    close_joined();
}

Test(exchange, carries_many_calls_at_once)
{
    enum {
        CALLS = 300
    };
    struct outcome *outcomes = calloc(CALLS, sizeof(*outcomes));
    Cases__V1__Tree request = CASES__V1__TREE__INIT;
    const struct sealane_method *plain = &cases_v1_cases__service.methods[1];

    open_joined(NULL, NULL);
    for (int i = 0; i < CALLS; i++) {
        request.value = i;
        outcomes[i].keep = true;
        cr_assert_eq(world_try(world.channel, plain, &request.base, 1000, &outcomes[i], NULL),
                     SEALANE_OK);
    }
    request.value = 99999; /* packed already */
    fake_settle(world.node);
    for (int i = 0; i < CALLS; i++) {
        cr_assert_eq(outcomes[i].count, 1);
        cr_assert_eq(outcomes[i].status, SEALANE_OK);
        cr_assert_eq(((const Cases__V1__Tree *)(const void *)outcomes[i].reply)->value, i);
        sealane_call_free(outcomes[i].kept);
    }
    free(outcomes);
    close_joined();
}

Test(exchange, hands_over_the_servers_status_and_text)
{
    Cases__V1__Tree request = CASES__V1__TREE__INIT;
    const Cases__V1__Tree *reply = &request;
    struct sealane_call *call = (struct sealane_call *)1;

    open_joined(NULL, NULL);
    for (int status = 1; status <= 16; status++) {
        char text[20];

        request.value = -status;
        (void)snprintf(text, sizeof(text), "said -%d", status);
        cr_assert_eq(cases_v1_cases_plain(world.channel, &request, NULL, &reply, &call),
                     (enum sealane_status)status);
        cr_assert_str_eq(sealane_last_error()->message, text);
        cr_assert_null(reply);
        cr_assert_null(call);
    }
    close_joined();
}

Test(exchange, answers_unimplemented_for_what_the_server_does_not_have)
{
    Cases__V1__Tree request = CASES__V1__TREE__INIT;
    Cases__V1__Older older = CASES__V1__OLDER__INIT;
    const Cases__V1__Tree *reply;
    const Cases__V1__Older *other;
    struct sealane_call *call;

    open_joined(NULL, NULL);
    cr_assert_eq(cases_v1_cases_missing(world.channel, &request, NULL, &reply, &call),
                 SEALANE_UNIMPLEMENTED);
    cr_assert_not_null(strstr(sealane_last_error()->message, "/cases.v1.Cases/Missing"), "%s",
                       sealane_last_error()->message);
    cr_assert_eq(cases_v1_old_echo(world.channel, &older, NULL, &other, &call),
                 SEALANE_UNIMPLEMENTED, "a service that was not added");
    close_joined();
}

/* ---- a peer of another age ---- */

static void serve_old(struct sealane_call *call, const ProtobufCMessage *request,
                      sealane_function *function, void *user)
{
    const Cases__V1__Older *old = (const Cases__V1__Older *)(const void *)request;
    Cases__V1__Older reply =
        CASES__V1__OLDER__INIT; /* not the request: that still has shapes, as unknown fields */

    (void)function;
    (void)user;
    handled++;
    cr_assert_str_eq(old->name, "everything");
    cr_assert_eq(sealane_call_reply(call, &reply.base), SEALANE_OK);
}

static void nothing(void)
{
}

Test(exchange, skips_tensors_of_fields_that_the_receiver_does_not_know)
{
    static const struct sealane_method methods[] = {
        {"/cases.v1.Cases/Echo", &cases__v1__older__descriptor, &cases__v1__older__descriptor}};
    static const struct sealane_service service = {"cases.v1.Cases", methods, 1};
    static const struct sealane_handler handler = {serve_old, nothing};
    struct filled *f = calloc(1, sizeof(*f));
    const Cases__V1__Everything *reply;
    struct sealane_call *call;

    world = world_open(NULL, &(struct sealane_server_options){.max_tensor_bytes = 10});
    fake_join(world.node);
    cr_assert_eq(sealane_server_add(world.server, &service, &handler, NULL), SEALANE_OK);
    for (size_t bytes = 10; bytes <= 1000000; bytes *= 1000) {
        everything_fill(f, bytes, 0);
        cr_assert_eq(cases_v1_cases_echo(world.channel, &f->message, NULL, &reply, &call),
                     SEALANE_OK, "%zu bytes, none of which count: %s", bytes,
                     sealane_last_error()->message);
        cr_assert_null(reply->plain);
        sealane_call_free(call);
        everything_free(f);
    }
    cr_assert_eq(handled, 2);
    free(f);
    close_joined();
}

/* ---- limits ---- */

static enum sealane_status try_echo(size_t tensor_bytes, size_t blob)
{
    struct filled *f = calloc(1, sizeof(*f));
    const Cases__V1__Everything *reply;
    struct sealane_call *call;
    enum sealane_status status;

    everything_fill(f, tensor_bytes, blob);
    status = cases_v1_cases_echo(world.channel, &f->message, NULL, &reply, &call);
    sealane_call_free(call);
    everything_free(f);
    free(f);
    return status;
}

static void says(const char *text)
{
    cr_assert_not_null(strstr(sealane_last_error()->message, text), "\"%s\" does not say %s",
                       sealane_last_error()->message, text);
}

Test(exchange, names_max_tensor_bytes_at_either_end)
{
    open_joined(&(struct sealane_channel_options){.max_tensor_bytes = 400000},
                &(struct sealane_server_options){.max_tensor_bytes = 900000});
    cr_assert_eq(try_echo(40000, 0), SEALANE_OK);
    cr_assert_eq(try_echo(60000, 0), SEALANE_RESOURCE_EXHAUSTED, "the reply");
    says("480084 bytes, max_tensor_bytes allows 400000");
    cr_assert_eq(try_echo(120000, 0), SEALANE_RESOURCE_EXHAUSTED, "the request");
    says("960084 bytes, max_tensor_bytes allows 900000");
    cr_assert_eq(try_echo(40000, 0), SEALANE_OK, "the lane goes on");
    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 1);
    close_joined();
}

Test(exchange, names_max_tensor_bytes_for_eager_tensors_too)
{
    open_joined(NULL, &(struct sealane_server_options){.max_tensor_bytes = 100});
    cr_assert_eq(try_echo(100, 0), SEALANE_RESOURCE_EXHAUSTED);
    says("max_tensor_bytes allows 100");
    close_joined();
}

Test(exchange, names_tensor_memory_bytes_for_what_can_never_fit)
{
    open_joined(NULL, &(struct sealane_server_options){.tensor_memory_bytes = 500000});
    cr_assert_eq(try_echo(100000, 0), SEALANE_RESOURCE_EXHAUSTED);
    says("tensor_memory_bytes is 500000");
    close_joined();
}

Test(exchange, names_max_message_bytes_at_either_end)
{
    open_joined(&(struct sealane_channel_options){.max_message_bytes = 100000},
                &(struct sealane_server_options){.max_message_bytes = 50000});
    cr_assert_eq(try_echo(1, 40000), SEALANE_OK);
    cr_assert_eq(try_echo(1, 60000), SEALANE_RESOURCE_EXHAUSTED, "refused by the server");
    says("max_message_bytes allows 50000");
    cr_assert_eq(try_echo(1, 110000), SEALANE_RESOURCE_EXHAUSTED, "not even sent");
    says("max_message_bytes allows 100000");
    cr_assert_eq(try_echo(1, 40000), SEALANE_OK, "the lane goes on");
    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 1);
    close_joined();
}

Test(exchange, names_max_message_bytes_of_a_reply_that_the_client_refuses)
{
    open_joined(&(struct sealane_channel_options){.max_message_bytes = 5000}, NULL);
    cr_assert_eq(try_echo(1, 5000), SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_eq(try_echo(1, 100), SEALANE_OK);
    close_joined();
}

Test(exchange, calls_wait_in_turn_when_tensor_memory_is_short)
{
    enum {
        CALLS = 5
    };
    struct outcome outcomes[CALLS] = {{.count = 0}};
    struct filled *f = calloc(1, sizeof(*f));

    open_joined(NULL, &(struct sealane_server_options){.tensor_memory_bytes = 1500000});
    everything_fill(f, 100000, 0); /* 800084 bytes: one at a time */
    for (int i = 0; i < CALLS; i++)
        (void)world_start(world.channel, &f->message.base, 0, &outcomes[i]);
    fake_settle(world.node);
    for (int i = 0; i < CALLS; i++) {
        cr_assert_eq(outcomes[i].count, 1, "call %d", i);
        cr_assert_eq(outcomes[i].status, SEALANE_OK, "%s", outcomes[i].text);
    }
    everything_free(f);
    free(f);
    close_joined();
}

/* ---- memory of a call ---- */

static void serve_from_call_memory(struct sealane_call *call, const Cases__V1__Everything *request,
                                   void *user)
{
    Cases__V1__Everything reply = CASES__V1__EVERYTHING__INIT;
    uint64_t shape[1] = {request->step};
    uint8_t *data = sealane_call_alloc(call, request->step);
    Sealane__Tensor tensor = TENSOR(U8, shape, data, request->step);

    (void)user;
    cr_assert_not_null(data);
    cr_assert_eq((uintptr_t)data % 64, 0);
    cr_assert_not_null(sealane_call_alloc(call, 0));
    memset(data, 0x5a, request->step);
    reply.plain = &tensor;
    cr_assert_eq(cases_v1_cases_echo__reply(call, &reply), SEALANE_OK);
}

Test(exchange, replies_from_memory_of_the_call_whatever_its_size)
{
    static const struct cases_v1_cases__handlers handlers = {.echo = serve_from_call_memory};
    static const size_t sizes[] = {1, 100, 10000, 300000, 100 << 20};
    Cases__V1__Everything request = CASES__V1__EVERYTHING__INIT;
    const Cases__V1__Everything *reply;
    struct sealane_call *call;

    world = world_open(NULL, NULL);
    fake_join(world.node);
    cr_assert_eq(cases_v1_cases__register(world.server, &handlers, NULL), SEALANE_OK);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        request.step = sizes[i];
        cr_assert_eq(cases_v1_cases_echo(world.channel, &request, NULL, &reply, &call), SEALANE_OK,
                     "%s", sealane_last_error()->message);
        cr_assert_eq(reply->plain->data.len, sizes[i]);
        cr_assert_eq(reply->plain->data.data[sizes[i] - 1], 0x5a);
        sealane_call_free(call);
    }
    close_joined();
}

Test(exchange, memory_that_nobody_has_is_null)
{
    Cases__V1__Everything request = CASES__V1__EVERYTHING__INIT;
    const Cases__V1__Everything *reply;
    struct sealane_call *call;

    open_joined(NULL, NULL);
    cr_assert_eq(cases_v1_cases_echo(world.channel, &request, NULL, &reply, &call), SEALANE_OK);
    cr_assert_null(sealane_call_alloc(call, SIZE_MAX));
    cr_assert_null(sealane_call_alloc(call, SIZE_MAX - 62));
    cr_assert_not_null(sealane_call_alloc(call, 100));
    sealane_call_free(call);
    close_joined();
}

/* ---- answers that cannot be packed ---- */

static void serve_badly(struct sealane_call *call, const Cases__V1__Everything *request, void *user)
{
    Cases__V1__Everything reply = CASES__V1__EVERYTHING__INIT, nothing_set;
    uint64_t shape[1] = {3};
    Sealane__Tensor tensor = TENSOR(U8, shape, shape, 4);

    (void)user;
    reply.plain = &tensor;
    memset(&nothing_set, 0, sizeof(nothing_set));
    cr_assert_eq(cases_v1_cases_echo__reply(call, request->step ? &nothing_set : &reply),
                 SEALANE_INVALID_ARGUMENT);
}

Test(exchange, a_reply_that_cannot_be_packed_answers_with_its_status)
{
    static const struct cases_v1_cases__handlers handlers = {.echo = serve_badly};
    Cases__V1__Everything request = CASES__V1__EVERYTHING__INIT;
    const Cases__V1__Everything *reply;
    struct sealane_call *call;

    world = world_open(NULL, NULL);
    fake_join(world.node);
    cr_assert_eq(cases_v1_cases__register(world.server, &handlers, NULL), SEALANE_OK);
    cr_assert_eq(cases_v1_cases_echo(world.channel, &request, NULL, &reply, &call),
                 SEALANE_INVALID_ARGUMENT);
    says("field plain: a tensor's shape and dtype make 3 bytes, its data has 4");
    request.step = 1;
    cr_assert_eq(cases_v1_cases_echo(world.channel, &request, NULL, &reply, &call),
                 SEALANE_INVALID_ARGUMENT);
    says("not initialised, expected an initialised cases.v1.Everything");
    close_joined();
}
