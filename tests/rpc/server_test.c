/* SPDX-License-Identifier: Apache-2.0 */
/* server_test.c - the server's end over lanes that the test moves by hand. */
#include "tests/rpc/world.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define ECHO "/cases.v1.Cases/Echo"

static struct world world;
static struct sl_lane *lane;
static Cases__V1__Everything request = CASES__V1__EVERYTHING__INIT;
static struct sealane_call *held[100];
static unsigned handled, ended;
static bool answers;

static void count_end(void *user)
{
    (void)user;
    ended++;
}

static void serve_echo(struct sealane_call *call, const Cases__V1__Everything *message, void *user)
{
    (void)user;
    held[handled++] = call;
    sealane_call_on_end(call, count_end, NULL);
    if (answers)
        cr_assert_eq(cases_v1_cases_echo__reply(call, message), SEALANE_OK);
}

static void open_with(const struct sealane_server_options *options)
{
    static const struct cases_v1_cases__handlers handlers = {.echo = serve_echo};

    world = world_open(NULL, options);
    cr_assert_eq(cases_v1_cases__register(world.server, &handlers, NULL), SEALANE_OK);
    lane = fake_accept(world.node);
}

static void open_world(void)
{
    open_with(NULL);
}

static void close_world(void)
{
    world_close(&world);
}

TestSuite(server, .init = open_world, .fini = close_world);

static enum sealane_status give_for(uint64_t call, uint64_t timeout_ns, const void *message)
{
    struct packed_message *packed = message_new(ECHO, timeout_ns, message);
    enum sealane_status status = message_give(lane, call, 0, packed);

    message_free(packed);
    return status;
}

static enum sealane_status give(uint64_t call, const void *message)
{
    return give_for(call, 0, message);
}

static void answer(unsigned i)
{
    cr_assert_eq(cases_v1_cases_echo__reply(held[i], &request), SEALANE_OK);
}

static void sent_newest(void)
{
    cr_assert_eq(fake_sent(lane, fake_newest(world.node, FAKE_SEND)->send), SEALANE_OK);
}

static void expect_status(uint64_t call, enum sealane_status status, const char *says)
{
    const struct fake_act *act = fake_newest(world.node, FAKE_STATUS);

    cr_assert_not_null(act);
    cr_assert_eq(act->call, call);
    cr_assert_eq(act->status, status, "%s", act->text);
    cr_assert_not_null(strstr(act->text, says), "\"%s\" does not say %s", act->text, says);
}

/* ---- making ---- */

Test(server, needs_a_node_and_credentials)
{
    struct sealane_server *server = NULL;

    cr_assert_eq(sealane_server_new(world.node, NULL, &server), SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(sealane_server_new(world.node, &(struct sealane_server_options){.max_calls = 1},
                                    &server),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_null(server);
}

Test(server, has_a_service_once)
{
    static const struct cases_v1_cases__handlers handlers = {.echo = serve_echo};

    cr_assert_eq(cases_v1_cases__register(world.server, &handlers, NULL), SEALANE_ALREADY_EXISTS);
    cr_assert_not_null(strstr(sealane_last_error()->message, "cases.v1.Cases"));
}

static char told[200];

static void on_lane(void *user, const struct sealane_security *security, bool up, const char *why)
{
    cr_assert_eq(user, told);
    strcat(told, up ? "up " : "down ");
    strcat(told, security->peer);
    strcat(told, why);
    strcat(told, ";");
}

Test(server, tells_of_lanes_that_come_and_go)
{
    struct sl_lane *second;

    sealane_server_on_lane(world.server, on_lane, told);
    second = fake_accept(world.node);
    fake_closed(second, SEALANE_UNAVAILABLE, ", gone");
    cr_assert_str_eq(told, "up dns:fake.test;down dns:fake.test, gone;");
}

/* ---- answers ---- */

Test(server, answers_with_the_reply_and_the_final_status_in_one)
{
    answers = true;
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(handled, 1);
    cr_assert_eq(fake_did(world.node, FAKE_SEND), 1);
    cr_assert_eq(fake_newest(world.node, FAKE_SEND)->send->flags, SL_MESSAGE_END);
    cr_assert_eq(fake_did(world.node, FAKE_STATUS), 0);
    cr_assert_eq(ended, 0, "the reply's buffers are borrowed");
    sent_newest();
    cr_assert_eq(ended, 1);
}

Test(server, a_handler_may_answer_long_after_it_returned)
{
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(give(2, &request), SEALANE_OK);
    fake_settle(world.node);
    cr_assert_eq(fake_did(world.node, FAKE_SEND), 0);
    answer(1);
    cr_assert_eq(fake_newest(world.node, FAKE_SEND)->call, 2);
    answer(0);
    cr_assert_eq(fake_newest(world.node, FAKE_SEND)->call, 1);
}

Test(server, a_handler_may_answer_with_a_status_and_its_text)
{
    cr_assert_eq(give(1, &request), SEALANE_OK);
    sealane_call_fail(held[0], SEALANE_NOT_FOUND, "no %s number %d", "thing", 7);
    expect_status(1, SEALANE_NOT_FOUND, "no thing number 7");
    cr_assert_eq(ended, 1);
}

Test(server, ok_is_no_failure_and_becomes_unknown)
{
    cr_assert_eq(give(1, &request), SEALANE_OK);
    sealane_call_fail(held[0], SEALANE_OK, "what now");
    expect_status(1, SEALANE_UNKNOWN, "what now");
}

/* 17 is one more than the last; the peer would take such a STATUS for a broken lane. */
Test(server, a_status_that_is_none_becomes_unknown)
{
    static const int none[] = {17, 99, -1};

    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(give(i + 1, &request), SEALANE_OK);
        sealane_call_fail(held[i], (enum sealane_status)none[i], "odd");
        expect_status(i + 1, SEALANE_UNKNOWN, "odd");
    }
}

Test(server, answers_unimplemented_for_paths_that_it_does_not_have)
{
    static const char *const paths[] = {"/cases.v1.Cases/Nothing", "/cases.v1.Case/Echo",
                                        "/cases.v1.Cases/Ech",     "/cases.v1.Cases/Echo2",
                                        "cases.v1.Cases/Echo",     "/",
                                        "/cases.v1.Cases/",        "/cases.v1.Cases/Missing"};
    uint64_t call = 0;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct packed_message *packed = message_new(paths[i], 0, &request.base);

        cr_assert_eq(message_give(lane, ++call, 0, packed), SEALANE_OK);
        expect_status(call, SEALANE_UNIMPLEMENTED, paths[i]);
        message_free(packed);
    }
    cr_assert_eq(handled, 0);
}

/* ---- a call's end from outside ---- */

Test(server, a_deadline_ends_the_call_at_the_server_too)
{
    cr_assert_eq(give_for(1, 50000000, &request), SEALANE_OK);
    cr_assert_leq(sealane_call_remaining_ms(held[0]), 50);
    cr_assert_not(sealane_call_is_over(held[0]));
    fake_advance(world.node, 50);
    fake_settle(world.node);
    cr_assert(sealane_call_is_over(held[0]));
    expect_status(1, SEALANE_DEADLINE_EXCEEDED, "deadline");
    cr_assert_eq(ended, 0, "the handler has not answered");
    answer(0);
    cr_assert_eq(ended, 1);
    cr_assert_eq(fake_did(world.node, FAKE_SEND), 0);
}

Test(server, a_deadline_of_500_years_is_none_that_matters)
{
    cr_assert_eq(give_for(1, UINT64_MAX, &request), SEALANE_OK);
    fake_settle(world.node);
    cr_assert_not(sealane_call_is_over(held[0]));
    cr_assert_gt(sealane_call_remaining_ms(held[0]), INT64_C(1) << 40);
    answer(0);
}

Test(server, a_client_that_gives_up_ends_the_call)
{
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(fake_cancel(lane, 1, SEALANE_CANCELLED), SEALANE_OK);
    cr_assert(sealane_call_is_over(held[0]));
    cr_assert_eq(fake_did(world.node, FAKE_STATUS), 0, "it knows");
    cr_assert_eq(fake_cancel(lane, 1, SEALANE_CANCELLED), SEALANE_OK, "again: skipped");
    answer(0);
    cr_assert_eq(ended, 1);
    cr_assert_eq(fake_cancel(lane, 1, SEALANE_CANCELLED), SEALANE_OK, "long ago: skipped");
}

Test(server, a_lane_that_ends_takes_its_calls_along_and_handlers_still_answer)
{
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(give(2, &request), SEALANE_OK);
    fake_closed(lane, SEALANE_UNAVAILABLE, "the peer is gone");
    cr_assert(sealane_call_is_over(held[0]));
    cr_assert(sealane_call_is_over(held[1]));
    cr_assert_str_eq(sealane_call_message(held[0]), "the peer is gone");
    answer(0);
    sealane_call_fail(held[1], SEALANE_ABORTED, "to nobody");
    cr_assert_eq(ended, 2);
    lane = fake_accept(world.node);
    cr_assert_eq(give(1, &request), SEALANE_OK, "a new lane begins with its own ids");
    cr_assert_eq(handled, 3);
    answer(2);
}

Test(server, handlers_may_answer_after_the_server_and_the_node_are_gone)
{
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(give(2, &request), SEALANE_OK);
    world_close(&world);
    cr_assert(sealane_call_is_over(held[0]));
    cr_assert_not_null(sealane_call_alloc(held[0], 1 << 20));
    answer(0);
    sealane_call_fail(held[1], SEALANE_ABORTED, "to nobody");
    cr_assert_eq(ended, 2);
    open_world();
}

Test(server, requests_that_were_only_half_here_end_with_their_lane)
{
    struct packed_message *packed = message_new(ECHO, 0, &request.base);

    cr_assert_eq(fake_message(lane, 1, SL_MESSAGE_FIRST, packed->packed.bytes, 12), SEALANE_OK);
    fake_closed(lane, SEALANE_UNAVAILABLE, "gone");
    cr_assert_eq(handled, 0);
    message_free(packed);
}

Test(server, a_cancelled_request_that_was_only_half_here_is_forgotten)
{
    struct packed_message *packed = message_new(ECHO, 0, &request.base);

    cr_assert_eq(fake_message(lane, 1, SL_MESSAGE_FIRST, packed->packed.bytes, 12), SEALANE_OK);
    cr_assert_eq(fake_cancel(lane, 1, SEALANE_CANCELLED), SEALANE_OK);
    cr_assert_eq(fake_message(lane, 1, 0, packed->packed.bytes + 12, 12), SEALANE_OK, "skipped");
    cr_assert_eq(give(2, &request), SEALANE_OK);
    cr_assert_eq(handled, 1);
    message_free(packed);
    answer(0);
}

/* ---- max_calls ---- */

Test(server, names_max_calls)
{
    world_close(&world);
    open_with(&(struct sealane_server_options){.max_calls = 2});
    for (uint64_t call = 1; call <= 3; call++)
        cr_assert_eq(give(call, &request), SEALANE_OK);
    cr_assert_eq(handled, 2);
    expect_status(3, SEALANE_RESOURCE_EXHAUSTED, "max_calls");
    answer(0);
    sent_newest();
    cr_assert_eq(give(4, &request), SEALANE_OK);
    cr_assert_eq(handled, 3);
    answer(1);
    answer(2);
}

Test(server, invariant_9_counts_calls_that_were_given_up_until_their_handlers_answer)
{
    world_close(&world);
    open_with(&(struct sealane_server_options){.max_calls = 10});
    for (uint64_t call = 1; call <= 100; call++) { /* as fast as a client can */
        cr_assert_eq(give(call, &request), SEALANE_OK);
        cr_assert_eq(fake_cancel(lane, call, SEALANE_CANCELLED), SEALANE_OK);
    }
    cr_assert_eq(handled, 10);
    expect_status(100, SEALANE_RESOURCE_EXHAUSTED, "max_calls");
    for (unsigned i = 0; i < 10; i++)
        answer(i);
    cr_assert_eq(ended, 10);
    cr_assert_eq(give(101, &request), SEALANE_OK);
    cr_assert_eq(handled, 11);
    answer(10);
}

/* ---- what a client may and may not say ---- */

Test(server, ends_the_lane_for_ids_that_do_not_rise)
{
    cr_assert_eq(give(5, &request), SEALANE_OK);
    cr_assert_eq(give(5, &request), SEALANE_DATA_LOSS);
    cr_assert_eq(give(4, &request), SEALANE_DATA_LOSS);
    answer(0);
}

Test(server, ends_the_lane_for_calls_never_begun)
{
    void *place;

    cr_assert_eq(give(5, &request), SEALANE_OK);
    cr_assert_eq(fake_message(lane, 6, SL_MESSAGE_LAST, "x", 1), SEALANE_DATA_LOSS);
    cr_assert_eq(fake_cancel(lane, 6, SEALANE_CANCELLED), SEALANE_DATA_LOSS);
    cr_assert_eq(fake_cancel(lane, 0, SEALANE_CANCELLED), SEALANE_DATA_LOSS);
    cr_assert_eq(fake_place(lane, 6, 0, 0, 1, &place), SEALANE_DATA_LOSS);
    cr_assert_eq(fake_cancel(lane, 3, SEALANE_CANCELLED), SEALANE_OK,
                 "3 was taken and given up before it left: it counts as ended");
    answer(0);
}

Test(server, ends_the_lane_when_the_client_answers)
{
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(fake_status(lane, 1, SEALANE_OK, ""), SEALANE_DATA_LOSS);
    answer(0);
}

Test(server, ends_the_lane_for_a_head_that_lies)
{
    struct packed_message *packed = message_new(ECHO, 0, &request.base);

    packed->packed.bytes[16]++;
    cr_assert_eq(message_give(lane, 1, 0, packed), SEALANE_DATA_LOSS);
    cr_assert_eq(handled, 0);
    message_free(packed);
}

Test(server, ends_only_the_call_for_bytes_that_are_no_protobuf)
{
    struct packed_message *packed;

    request.name = "name";
    packed = message_new(ECHO, 0, &request.base);
    packed->packed.bytes[packed->packed.count - 5] = 77; /* the length of the name */
    cr_assert_eq(message_give(lane, 1, 0, packed), SEALANE_OK);
    expect_status(1, SEALANE_INVALID_ARGUMENT, "no protobuf");
    cr_assert_eq(give(2, &request), SEALANE_OK);
    cr_assert_eq(handled, 1);
    message_free(packed);
    answer(0);
}

Test(server, refuses_a_message_larger_than_max_message_bytes_and_skips_the_rest)
{
    static uint8_t blob[2000];
    struct packed_message *packed;

    world_close(&world);
    open_with(&(struct sealane_server_options){.max_message_bytes = 1000});
    request.blob = (ProtobufCBinaryData){2000, blob};
    packed = message_new(ECHO, 0, &request.base);
    cr_assert_eq(fake_message(lane, 1, SL_MESSAGE_FIRST, packed->packed.bytes, 100), SEALANE_OK);
    expect_status(1, SEALANE_RESOURCE_EXHAUSTED, "max_message_bytes allows 1000");
    cr_assert_eq(fake_message(lane, 1, 0, packed->packed.bytes + 100, 1000), SEALANE_OK);
    cr_assert_eq(fake_message(lane, 1, SL_MESSAGE_LAST, packed->packed.bytes + 1100,
                              packed->packed.count - 1100),
                 SEALANE_OK);
    cr_assert_eq(fake_did(world.node, FAKE_STATUS), 1);
    request.blob.len = 0;
    cr_assert_eq(give(2, &request), SEALANE_OK);
    cr_assert_eq(handled, 1);
    message_free(packed);
    answer(0);
}

/* ---- tensors of a request ---- */

static uint64_t shape[1] = {100};
static uint8_t data[1000000];

static struct said_part part(uint64_t bytes, uint32_t field, uint32_t index)
{
    return (struct said_part){bytes, {.count = 1, .steps = {{field, index}}}};
}

static void give_saying(uint64_t call, unsigned count, const struct said_part *parts)
{
    struct packed_message *packed = message_saying(ECHO, &request.base, parts, count);

    cr_assert_eq(message_give(lane, call, 0, packed), SEALANE_OK);
    message_free(packed);
}

Test(server, refuses_parts_that_do_not_fit_the_message)
{
    Sealane__Tensor tensor = TENSOR(U8, shape, data, 100);
    struct said_part parts[3] = {{.bytes = 0}};

    request.plain = &tensor;
    request.name = "name";

    give_saying(1, 0, parts);
    expect_status(1, SEALANE_INVALID_ARGUMENT,
                  "field plain: a tensor's shape and dtype make 100 bytes, its data has 0");
    parts[0] = part(99, 3, 0);
    give_saying(2, 1, parts);
    expect_status(2, SEALANE_INVALID_ARGUMENT, "make 100 bytes, its data has 99");
    parts[0] = parts[1] = part(100, 3, 0);
    give_saying(3, 2, parts);
    expect_status(3, SEALANE_INVALID_ARGUMENT, "two tensors are said to be in field plain");
    parts[1] = part(100, 1, 0);
    give_saying(4, 2, parts);
    expect_status(4, SEALANE_INVALID_ARGUMENT, "name is no message");
    parts[1] = part(100, 4, 0);
    give_saying(5, 2, parts);
    expect_status(5, SEALANE_INVALID_ARGUMENT, "many[0], but there are 0 of many");
    parts[1] = part(UINT64_MAX, 99, 0);
    give_saying(6, 2, parts);
    expect_status(6, SEALANE_INVALID_ARGUMENT, "2^64");
    cr_assert_eq(handled, 0);
    parts[1] = part(UINT64_MAX - 100, 99, 0);
    give_saying(7, 2, parts);
    cr_assert_eq(fake_did(world.node, FAKE_STATUS), 6, "a field that is not known costs nothing");
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 1);
}

Test(server, invariant_6_a_handler_runs_when_every_byte_of_every_tensor_is_there)
{
    uint64_t large[1] = {300000};
    Sealane__Tensor tensors[2] = {TENSOR(U8, large, data, 300000), TENSOR(U8, shape, data, 100)};
    Sealane__Tensor *many[] = {&tensors[0], &tensors[1]};
    void *place;

    request.many = many;
    request.n_many = 2;
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 1);
    for (uint64_t offset = 0; offset < 300000; offset += 60000) {
        cr_assert_eq(fake_place(lane, 1, 0, offset, 60000, &place), SEALANE_OK);
        memset(place, 7, 60000);
        cr_assert_eq(fake_filled(lane, 1, 0, offset, 60000), SEALANE_OK);
        cr_assert_eq(handled, 0, "at %llu", (unsigned long long)offset);
    }
    cr_assert_eq(fake_place(lane, 1, 1, 0, 100, &place), SEALANE_OK);
    memset(place, 8, 100);
    cr_assert_eq(handled, 0);
    cr_assert_eq(fake_filled(lane, 1, 1, 0, 100), SEALANE_OK);
    cr_assert_eq(handled, 1);
    request.n_many = 0;
    answer(0);
}

Test(server, memory_being_filled_outlives_the_call_that_asked_for_it)
{
    Sealane__Tensor tensor = TENSOR(U8, shape, data, 100);
    void *place;

    request.plain = &tensor;
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(fake_place(lane, 1, 0, 0, 50, &place), SEALANE_OK);
    cr_assert_eq(fake_cancel(lane, 1, SEALANE_CANCELLED), SEALANE_OK);
    memset(place, 1, 50); /* freed memory would show */
    cr_assert_eq(fake_filled(lane, 1, 0, 0, 50), SEALANE_OK);
    cr_assert_eq(fake_place(lane, 1, 0, 50, 50, &place), SEALANE_OK, "skipped now");
    cr_assert_null(place);
    cr_assert_eq(handled, 0);
    request.plain = NULL;
}

Test(server, calls_without_memory_wait_in_turn_until_their_deadline)
{
    uint64_t large[1] = {300000};
    Sealane__Tensor tensor = TENSOR(U8, large, data, 300000);
    void *place;

    world_close(&world);
    open_with(&(struct sealane_server_options){.tensor_memory_bytes = 400000});
    request.plain = &tensor;
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(give_for(2, 50000000, &request), SEALANE_OK);
    cr_assert_eq(give(3, &request), SEALANE_OK);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 1);
    request.plain = NULL;
    cr_assert_eq(give(4, &request), SEALANE_OK);
    cr_assert_eq(handled, 1, "what needs no memory goes on");
    fake_advance(world.node, 50);
    fake_settle(world.node);
    expect_status(2, SEALANE_DEADLINE_EXCEEDED, "");
    cr_assert_eq(fake_place(lane, 1, 0, 0, 300000, &place), SEALANE_OK);
    cr_assert_eq(fake_filled(lane, 1, 0, 0, 300000), SEALANE_OK);
    cr_assert_eq(handled, 2);
    answer(1);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 1, "the reply is not out yet");
    sent_newest();
    fake_settle(world.node);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 2);
    cr_assert_eq(fake_newest(world.node, FAKE_ALLOW)->call, 3);
    answer(0);
}

Test(server, bytes_of_tensors_may_not_come_again)
{
    Sealane__Tensor tensor = TENSOR(U8, shape, data, 100);
    void *place;

    request.plain = &tensor;
    cr_assert_eq(give(1, &request), SEALANE_OK);
    cr_assert_eq(fake_place(lane, 1, 0, 0, 100, &place), SEALANE_OK);
    cr_assert_eq(fake_filled(lane, 1, 0, 0, 100), SEALANE_OK);
    cr_assert_eq(handled, 1);
    cr_assert_eq(fake_place(lane, 1, 0, 0, 100, &place), SEALANE_DATA_LOSS,
                 "the handler reads it already");
    cr_assert_null(place);
    request.plain = NULL;
    answer(0);
}
