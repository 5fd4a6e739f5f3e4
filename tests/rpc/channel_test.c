/* SPDX-License-Identifier: Apache-2.0 */
/* channel_test.c - the client's end over a lane that the test moves by hand. */
#include "tests/rpc/world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct world world;
static struct outcome outcome;
static Cases__V1__Everything request = CASES__V1__EVERYTHING__INIT;
static Cases__V1__Everything reply = CASES__V1__EVERYTHING__INIT;

static void open_world(void)
{
    world = world_open(NULL, NULL);
}

static void close_world(void)
{
    world_close(&world);
}

TestSuite(channel, .init = open_world, .fini = close_world);

static void reopen(const struct sealane_channel_options *options)
{
    world_close(&world);
    world = world_open(options, NULL);
}

static enum sealane_status give(struct sl_lane *lane, uint64_t call, const void *message)
{
    struct packed_message *packed = message_new(NULL, 0, message);
    enum sealane_status status = message_give(lane, call, SL_MESSAGE_END, packed);

    message_free(packed);
    return status;
}

static void expect(const struct outcome *o, enum sealane_status status, const char *says)
{
    cr_assert_eq(o->count, 1, "it ended %u times", o->count);
    cr_assert_eq(o->status, status, "%s: %s", sealane_status_name(o->status), o->text);
    cr_assert_not_null(strstr(o->text, says), "\"%s\" does not say %s", o->text, says);
}

static void sent_newest(struct sl_lane *lane)
{
    cr_assert_eq(fake_sent(lane, fake_newest(world.node, FAKE_SEND)->send), SEALANE_OK);
}

/* ---- making ---- */

Test(channel, needs_what_its_header_says)
{
    struct sealane_channel_options options = {.server_name = "dns:x"};
    struct sealane_channel *channel = NULL;
    int credentials;

    cr_assert_eq(sealane_channel_new(world.node, "unix:/x", &options, &channel),
                 SEALANE_INVALID_ARGUMENT);
    options.credentials = (struct sealane_credentials *)(void *)&credentials;
    options.server_name = NULL;
    cr_assert_eq(sealane_channel_new(world.node, "unix:/x", &options, &channel),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(sealane_last_error()->message, "server_name"));
    options.server_name = "dns:x";
    cr_assert_eq(sealane_channel_new(world.node, "ftp://x", &options, &channel),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(sealane_channel_new(world.node, "host.test:7000", &options, &channel),
                 SEALANE_UNIMPLEMENTED, "this node has no tcp");
    options.link = "tcp";
    cr_assert_eq(sealane_channel_new(world.node, "unix:/x", &options, &channel),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(sealane_last_error()->message, "over local, not over tcp"));
    cr_assert_null(channel);
}

Test(channel, refuses_messages_that_are_not_initialised_as_the_methods_request)
{
    Cases__V1__Tree tree = CASES__V1__TREE__INIT;
    Cases__V1__Everything unset;

    memset(&unset, 0, sizeof(unset));
    cr_assert_eq(world_try(world.channel, NULL, &unset.base, 0, &outcome, NULL),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(world_try(world.channel, NULL, &tree.base, 0, &outcome, NULL),
                 SEALANE_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(sealane_last_error()->message,
                              "is cases.v1.Tree, expected an initialised cases.v1.Everything"),
                       "%s", sealane_last_error()->message);
    cr_assert_eq(world_try(world.channel, NULL, NULL, 0, &outcome, NULL), SEALANE_INVALID_ARGUMENT);
    cr_assert_eq(outcome.count, 0);
}

/* ---- connecting ---- */

Test(channel, connects_at_its_first_call_and_sends_it_when_the_lane_is_ready)
{
    static struct outcome second = {.count = 0};

    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 0);
    (void)world_start(world.channel, &request.base, 0, &outcome);
    (void)world_start(world.channel, &request.base, 0, &second);
    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 1);
    cr_assert_eq(fake_did(world.node, FAKE_SEND), 0);
    (void)world_lane(&world);
    cr_assert_eq(fake_did(world.node, FAKE_SEND), 2);
    cr_assert_eq(fake_newest(world.node, FAKE_SEND)->call, 2, "ids rise in the order of the calls");
}

Test(channel, calls_that_wait_for_a_lane_end_with_the_reason_why_there_is_none)
{
    (void)world_start(world.channel, &request.base, 0, &outcome);
    fake_closed(fake_lane(world.node), SEALANE_UNAUTHENTICATED, "certificate expired");
    expect(&outcome, SEALANE_UNAUTHENTICATED, "certificate expired");
}

/* gRPC's pauses: 1 s, each next one 1.6 times as long, a fifth more or less. */
Test(channel, pauses_after_a_failed_attempt_longer_each_time)
{
    uint64_t pause_ms = 1000;

    for (unsigned attempt = 1; attempt <= 12; attempt++) {
        struct outcome o = {.count = 0}, refused = {.count = 0};

        (void)world_start(world.channel, &request.base, 0, &o);
        cr_assert_eq(fake_did(world.node, FAKE_CONNECT), attempt);
        fake_closed(fake_lane(world.node), SEALANE_UNAVAILABLE, "nobody there");
        expect(&o, SEALANE_UNAVAILABLE, "nobody there");
        cr_assert_eq(sealane_channel_state(world.channel), SEALANE_CHANNEL_TRANSIENT_FAILURE);
        fake_advance(world.node, pause_ms * 4 / 5 - 1);
        fake_settle(world.node);
        cr_assert_eq(world_try(world.channel, NULL, &request.base, 0, &refused, NULL),
                     SEALANE_UNAVAILABLE, "a pause of less than %llu ms",
                     (unsigned long long)pause_ms * 4 / 5);
        cr_assert_not_null(strstr(sealane_last_error()->message, "nobody there"));
        fake_advance(world.node, pause_ms * 2 / 5 + 2);
        fake_settle(world.node);
        cr_assert_eq(sealane_channel_state(world.channel), SEALANE_CHANNEL_IDLE);
        cr_assert_eq(refused.count, 0);
        pause_ms = pause_ms * 8 / 5 < 120000 ? pause_ms * 8 / 5 : 120000;
    }
    (void)world_start(world.channel, &request.base, 0, &outcome);
    fake_closed(world_lane(&world), SEALANE_UNAVAILABLE,
                "lost"); /* it was there: the next pause is short again */
    outcome.count = 0;
    (void)world_start(world.channel, &request.base, 0, &outcome);
    fake_closed(fake_lane(world.node), SEALANE_UNAVAILABLE, "nobody there");
    fake_advance(world.node, 1200);
    fake_settle(world.node);
    cr_assert_eq(sealane_channel_state(world.channel), SEALANE_CHANNEL_IDLE);
}

static void start_again(struct outcome *o)
{
    o->then = NULL;
    (void)world_start(world.channel, &request.base, 0, o->user);
}

static void try_again(struct outcome *o)
{
    struct outcome *second = o->user;

    second->status = world_try(world.channel, NULL, &request.base, 0, second, NULL);
}

Test(channel, calls_made_in_a_callback_of_a_failed_attempt_fail_at_once)
{
    static struct outcome second = {.count = 0};

    outcome.then = try_again;
    outcome.user = &second;
    (void)world_start(world.channel, &request.base, 0, &outcome);
    fake_closed(fake_lane(world.node), SEALANE_UNAVAILABLE, "nobody there");
    cr_assert_eq(outcome.count, 1);
    cr_assert_eq(second.status, SEALANE_UNAVAILABLE);
    cr_assert_eq(second.count, 0, "what was not started does not end");
}

Test(channel, tells_of_an_attempt_that_could_not_even_start)
{
    fake_settings(world.node)->refuse_connect = true;
    cr_assert_eq(world_try(world.channel, NULL, &request.base, 0, &outcome, NULL), SEALANE_OK);
    cr_assert_eq(outcome.count, 0, "never inside the call that asks");
    fake_settle(world.node);
    expect(&outcome, SEALANE_RESOURCE_EXHAUSTED, "no descriptors left");
}

/* ---- state ---- */

struct heard {
    enum sealane_connectivity states[16];
    unsigned count;
    char why[200];
};

static void hear(void *user, enum sealane_connectivity state, const char *why)
{
    struct heard *heard = user;

    heard->states[heard->count++ % 16] = state;
    (void)snprintf(heard->why, sizeof(heard->why), "%s", why);
}

Test(channel, tells_its_state_when_it_changes)
{
    static const enum sealane_connectivity expected[] = {
        SEALANE_CHANNEL_CONNECTING, SEALANE_CHANNEL_TRANSIENT_FAILURE,
        SEALANE_CHANNEL_IDLE,       SEALANE_CHANNEL_CONNECTING,
        SEALANE_CHANNEL_READY,      SEALANE_CHANNEL_IDLE};
    struct heard heard = {.count = 0};
    struct sl_lane *lane;

    cr_assert_eq(sealane_channel_state(world.channel), SEALANE_CHANNEL_IDLE);
    sealane_channel_on_state(world.channel, hear, &heard);
    (void)world_start(world.channel, &request.base, 0, &outcome);
    fake_settle(world.node);
    fake_closed(fake_lane(world.node), SEALANE_UNAVAILABLE, "nobody there");
    fake_settle(world.node);
    cr_assert_str_eq(heard.why, "nobody there");
    fake_advance(world.node, 1200);
    fake_settle(world.node);
    (void)world_start(world.channel, &request.base, 0, &outcome);
    fake_settle(world.node);
    lane = world_lane(&world);
    fake_settle(world.node);
    cr_assert_str_eq(heard.why, "");
    fake_closed(lane, SEALANE_UNAVAILABLE, "lost");
    fake_settle(world.node);
    cr_assert_str_eq(heard.why, "lost");
    cr_assert_eq(heard.count, 6, "%u states were told", heard.count);
    for (unsigned i = 0; i < 6; i++)
        cr_assert_eq(heard.states[i], expected[i], "state %u is %d", i, (int)heard.states[i]);
    sealane_channel_on_state(world.channel, NULL, NULL);
}

/* ---- age ---- */

static struct sl_lane *young_lane(void)
{
    struct sl_lane *lane;

    reopen(&(struct sealane_channel_options){.max_lane_age_ms = 1000, .lane_grace_ms = 500});
    (void)world_start(world.channel, &request.base, 0, &outcome);
    lane = world_lane(&world);
    fake_advance(world.node, 899);
    fake_settle(world.node);
    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 1, "up to a tenth early, not more");
    fake_advance(world.node, 101);
    fake_settle(world.node);
    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 2);
    return lane;
}

Test(channel, new_calls_move_over_when_an_old_lane_is_replaced)
{
    static struct outcome second = {.count = 0}, third = {.count = 0};
    struct sl_lane *old = young_lane(), *young;

    (void)world_start(world.channel, &request.base, 0, &second);
    cr_assert_eq(fake_newest(world.node, FAKE_SEND)->lane, old, "there is no other yet");
    cr_assert_eq(give(old, 2, &reply), SEALANE_OK);
    expect(&second, SEALANE_OK, "");
    young = world_lane(&world);
    cr_assert_neq(young, old);
    (void)world_start(world.channel, &request.base, 0, &third);
    cr_assert_eq(fake_newest(world.node, FAKE_SEND)->lane, young);
    cr_assert_eq(fake_newest(world.node, FAKE_SEND)->call, 1, "each lane counts its own calls");
    cr_assert_eq(fake_did(world.node, FAKE_CLOSE), 0, "a call still runs on the old lane");
    fake_advance(world.node, 400);
    fake_settle(world.node);
    cr_assert_eq(give(young, 1, &reply), SEALANE_OK);
    expect(&third, SEALANE_OK, "");
    cr_assert_eq(outcome.count, 0);
    cr_assert_eq(give(old, 1, &reply), SEALANE_OK);
    expect(&outcome, SEALANE_OK, "");
    cr_assert_eq(fake_newest(world.node, FAKE_CLOSE)->lane, old, "nothing is left to wait for");
}

Test(channel, calls_on_a_replaced_lane_end_when_its_grace_is_over)
{
    struct sl_lane *old = young_lane();

    (void)world_lane(&world);
    fake_advance(world.node, 499);
    fake_settle(world.node);
    cr_assert_eq(outcome.count, 0);
    fake_advance(world.node, 1);
    fake_settle(world.node);
    cr_assert_eq(fake_newest(world.node, FAKE_CLOSE)->lane, old);
    expect(&outcome, SEALANE_UNAVAILABLE, "lane_grace_ms");
}

Test(channel, an_old_lane_goes_on_while_there_is_no_other)
{
    static struct outcome second = {.count = 0};
    struct sl_lane *old = young_lane();

    for (unsigned attempt = 2; attempt < 6; attempt++) {
        cr_assert_eq(fake_did(world.node, FAKE_CONNECT), attempt);
        fake_closed(fake_lane(world.node), SEALANE_UNAVAILABLE, "nobody there");
        cr_assert_eq(sealane_channel_state(world.channel), SEALANE_CHANNEL_READY);
        fake_advance(world.node, 8000);
        fake_settle(world.node);
    }
    (void)world_start(world.channel, &request.base, 0, &second);
    cr_assert_eq(fake_newest(world.node, FAKE_SEND)->lane, old);
    cr_assert_eq(outcome.count + second.count, 0);
}

Test(channel, a_replaced_lane_may_not_answer_for_the_new_one)
{
    static struct outcome second = {.count = 0};
    struct sl_lane *old = young_lane(), *young = world_lane(&world);

    for (int i = 0; i < 3; i++) /* the old lane never had calls 2 and 3 */
        (void)world_start(world.channel, &request.base, 0, &second);
    cr_assert_eq(give(old, 3, &reply), SEALANE_DATA_LOSS);
    cr_assert_eq(give(young, 3, &reply), SEALANE_OK);
}

Test(channel, connects_again_at_the_first_call_after_a_loss)
{
    static struct outcome second = {.count = 0}, third = {.count = 0};

    (void)world_start(world.channel, &request.base, 0, &outcome);
    outcome.then = start_again; /* at once, inside the callback */
    outcome.user = &third;
    fake_closed(world_lane(&world), SEALANE_UNAVAILABLE, "the peer is gone");
    expect(&outcome, SEALANE_UNAVAILABLE, "the peer is gone");
    (void)world_start(world.channel, &request.base, 0, &second);
    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 2, "no pause: the lane had been there");
    (void)world_lane(&world);
    cr_assert_eq(fake_did(world.node, FAKE_SEND), 3);
    cr_assert_eq(second.count + third.count, 0);
}

Test(channel, calls_made_while_a_lane_is_ending_go_to_the_next)
{
    struct sl_lane *lane;
    static struct outcome second = {.count = 0};

    fake_settings(world.node)->send_fails = true; /* as a lane that is closing answers */
    (void)world_start(world.channel, &request.base, 0, &outcome);
    lane = world_lane(&world);
    (void)world_start(world.channel, &request.base, 0, &second);
    cr_assert_eq(outcome.count + second.count, 0);
    fake_settings(world.node)->send_fails = false;
    fake_closed(lane, SEALANE_UNAVAILABLE, "gone");
    fake_settle(world.node);
    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 2);
    lane = world_lane(&world);
    cr_assert_eq(fake_did(world.node, FAKE_SEND), 2);
    cr_assert_eq(give(lane, fake_newest(world.node, FAKE_SEND)->call, &reply), SEALANE_OK);
    expect(&second, SEALANE_OK, "");
}

Test(channel, connect_waits_until_its_time_is_over)
{
    cr_assert_eq(sealane_channel_connect(world.channel, 20), SEALANE_DEADLINE_EXCEEDED);
    cr_assert_not_null(strstr(sealane_last_error()->message, "20 ms"), "%s",
                       sealane_last_error()->message);
    fake_join(world.node);
    cr_assert_eq(sealane_channel_connect(world.channel, 1000), SEALANE_OK);
    cr_assert_eq(sealane_channel_connect(world.channel, 1000), SEALANE_OK, "it is there");
    cr_assert_eq(fake_did(world.node, FAKE_CONNECT), 1);
}

Test(channel, security_is_asked_of_the_lane_that_is_there)
{
    struct sealane_security security;

    cr_assert_eq(sealane_channel_security(world.channel, &security), SEALANE_FAILED_PRECONDITION);
    fake_join(world.node);
    cr_assert_eq(sealane_channel_connect(world.channel, 1000), SEALANE_OK);
    cr_assert_eq(sealane_channel_security(world.channel, &security), SEALANE_OK);
    cr_assert_str_eq(security.peer, "dns:fake.test");
}

/* ---- limits ---- */

Test(channel, names_its_own_max_calls)
{
    static struct outcome outcomes[3] = {{.count = 0}};

    reopen(&(struct sealane_channel_options){.max_calls = 2});
    (void)world_start(world.channel, &request.base, 0, &outcomes[0]);
    (void)world_start(world.channel, &request.base, 0, &outcomes[1]);
    cr_assert_eq(world_try(world.channel, NULL, &request.base, 0, &outcomes[2], NULL),
                 SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_not_null(strstr(sealane_last_error()->message, "max_calls"));
    cr_assert_eq(give(world_lane(&world), 1, &reply), SEALANE_OK);
    cr_assert_eq(outcomes[0].count, 1);
    (void)world_start(world.channel, &request.base, 0, &outcomes[2]);
    cr_assert_eq(outcomes[2].count, 0);
}

Test(channel, names_the_servers_max_calls)
{
    static struct outcome second = {.count = 0}, third = {.count = 0};

    fake_settings(world.node)->peer_max_calls = 1;
    (void)world_start(world.channel, &request.base, 0, &outcome);
    (void)world_start(world.channel, &request.base, 0, &second);
    (void)world_lane(&world);
    expect(&second, SEALANE_RESOURCE_EXHAUSTED, "the server's max_calls");
    cr_assert_eq(world_try(world.channel, NULL, &request.base, 0, &third, NULL),
                 SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_eq(outcome.count + third.count, 0);
}

/* ---- deadlines ---- */

Test(channel, a_deadline_ends_the_call_and_tells_the_server)
{
    struct sl_lane *lane;

    (void)world_start(world.channel, &request.base, 50, &outcome);
    lane = world_lane(&world);
    fake_advance(world.node, 49);
    fake_settle(world.node);
    cr_assert_eq(outcome.count, 0);
    fake_advance(world.node, 1);
    fake_settle(world.node);
    expect(&outcome, SEALANE_DEADLINE_EXCEEDED, "deadline");
    cr_assert_eq(fake_newest(world.node, FAKE_CANCEL)->call, 1);
    cr_assert_eq(fake_newest(world.node, FAKE_CANCEL)->status, SEALANE_DEADLINE_EXCEEDED);
    cr_assert_eq(fake_held(world.node), 0);
    cr_assert_eq(give(lane, 1, &reply), SEALANE_OK, "an answer that comes late is skipped");
    cr_assert_eq(outcome.count, 1);
}

Test(channel, a_deadline_runs_while_there_is_no_lane)
{
    (void)world_start(world.channel, &request.base, 50, &outcome);
    fake_advance(world.node, 50);
    fake_settle(world.node);
    expect(&outcome, SEALANE_DEADLINE_EXCEEDED, "");
    cr_assert_eq(fake_did(world.node, FAKE_CANCEL), 0, "the server never heard of it");
}

Test(channel, tells_the_server_the_time_that_is_left)
{
    struct sl_head head;
    const struct sl_send *send;

    (void)world_start(world.channel, &request.base, 50, &outcome);
    fake_advance(world.node, 30);
    (void)world_lane(&world);
    send = fake_newest(world.node, FAKE_SEND)->send;
    cr_assert_eq(sl_head_parse(send->bytes, send->count, &head), SEALANE_OK);
    cr_assert_eq(head.timeout_ns, 20000000);
}

Test(channel, without_a_deadline_tells_none)
{
    struct sl_head head;
    const struct sl_send *send;
    struct sealane_call *call = world_start(world.channel, &request.base, 0, &outcome);

    cr_assert_eq(sealane_call_remaining_ms(call), INT64_MAX);
    (void)world_lane(&world);
    send = fake_newest(world.node, FAKE_SEND)->send;
    cr_assert_eq(sl_head_parse(send->bytes, send->count, &head), SEALANE_OK);
    cr_assert_eq(head.timeout_ns, 0);
}

Test(channel, the_longest_deadline_is_a_deadline)
{
    struct sealane_call *call = world_start(world.channel, &request.base, UINT32_MAX, &outcome);
    int64_t left = sealane_call_remaining_ms(call);

    cr_assert_leq(left, UINT32_MAX);
    cr_assert_geq(left, (int64_t)UINT32_MAX - 10000);
    fake_settle(world.node);
    cr_assert_eq(outcome.count, 0);
}

/* ---- cancelling ---- */

Test(channel, cancel_ends_the_call_in_a_coming_turn)
{
    struct sealane_call *call = world_start(world.channel, &request.base, 0, &outcome);

    (void)world_lane(&world);
    sealane_call_cancel(call);
    sealane_call_cancel(call);
    cr_assert_eq(outcome.count, 0);
    fake_settle(world.node);
    expect(&outcome, SEALANE_CANCELLED, "cancelled by the caller");
    cr_assert_eq(fake_did(world.node, FAKE_CANCEL), 1);
    cr_assert_eq(fake_newest(world.node, FAKE_CANCEL)->status, SEALANE_CANCELLED);
}

Test(channel, a_call_is_not_over_while_its_tensors_are_being_sealed)
{
    struct sealane_call *call;
    struct sl_lane *lane;

    fake_settings(world.node)->abandon_says_no = true;
    call = world_start(world.channel, &request.base, 0, &outcome);
    lane = world_lane(&world);
    sealane_call_cancel(call);
    fake_settle(world.node);
    cr_assert_eq(outcome.count, 0, "its buffers are still borrowed");
    sent_newest(lane);
    expect(&outcome, SEALANE_CANCELLED, "");
}

Test(channel, kept_calls_and_replies_outlive_the_channel)
{
    outcome.keep = true;
    (void)world_start(world.channel, &request.base, 0, &outcome);
    reply.name = "kept";
    cr_assert_eq(give(world_lane(&world), 1, &reply), SEALANE_OK);
    reopen(NULL);
    cr_assert_str_eq(((const Cases__V1__Everything *)(const void *)outcome.reply)->name, "kept");
    sealane_call_cancel(outcome.kept); /* nothing is there to be cancelled */
    fake_settle(world.node);
    sealane_call_free(outcome.kept);
    cr_assert_eq(outcome.count, 1);
}

Test(channel, free_of_nothing_is_fine)
{
    sealane_call_free(NULL);
    sealane_channel_free(NULL);
    sealane_server_free(NULL);
}

static void call_back(struct outcome *o)
{
    const Cases__V1__Everything *got;
    struct sealane_call *call;

    cr_assert_eq(cases_v1_cases_echo(world.channel, &request, NULL, &got, &call),
                 SEALANE_FAILED_PRECONDITION);
    cr_assert_eq(sealane_channel_connect(world.channel, 10), SEALANE_FAILED_PRECONDITION);
    sealane_channel_free(world.channel); /* does nothing here */
    o->user = o;
}

Test(channel, blocking_inside_a_callback_is_refused)
{
    outcome.then = call_back;
    (void)world_start(world.channel, &request.base, 0, &outcome);
    cr_assert_eq(give(world_lane(&world), 1, &reply), SEALANE_OK);
    cr_assert_eq(outcome.user, &outcome);
}

Test(channel, callbacks_of_its_end_are_inside_too)
{
    outcome.then = call_back;
    (void)world_start(world.channel, &request.base, 0, &outcome);
    (void)world_lane(&world);
    reopen(NULL);
    expect(&outcome, SEALANE_CANCELLED, "the channel ended");
    cr_assert_eq(outcome.user, &outcome);
}

/* ---- what a server may and may not say ---- */

static struct sl_lane *started(uint32_t eager_bytes)
{
    struct sl_lane *lane;

    if (eager_bytes)
        fake_settings(world.node)->eager_bytes = eager_bytes;
    (void)world_start(world.channel, &request.base, 0, &outcome);
    lane = world_lane(&world);
    sent_newest(lane);
    return lane;
}

Test(channel, a_reply_without_its_final_status_waits_for_it)
{
    struct packed_message *packed = message_new(NULL, 0, &reply.base);
    struct sl_lane *lane = started(0);

    cr_assert_eq(message_give(lane, 1, 0, packed), SEALANE_OK);
    cr_assert_eq(outcome.count, 0);
    cr_assert_eq(fake_status(lane, 1, SEALANE_OK, ""), SEALANE_OK);
    expect(&outcome, SEALANE_OK, "");
    message_free(packed);
}

Test(channel, ok_without_a_reply_is_internal)
{
    struct sl_lane *lane = started(0);

    cr_assert_eq(fake_status(lane, 1, SEALANE_OK, ""), SEALANE_OK);
    expect(&outcome, SEALANE_INTERNAL, "no reply");
}

Test(channel, a_reply_that_cannot_be_read_is_internal_and_ends_only_its_call)
{
    struct packed_message *packed = message_new(NULL, 0, &reply.base);
    static struct outcome second = {.count = 0};
    struct sl_lane *lane = started(0);
    Cases__V1__Tree tree = CASES__V1__TREE__INIT;

    tree.value = 5; /* field 1 is a string in Everything */
    cr_assert_eq(give(lane, 1, &tree), SEALANE_OK);
    expect(&outcome, SEALANE_INTERNAL, "the reply of /cases.v1.Cases/Echo cannot be read");
    (void)world_start(world.channel, &request.base, 0, &second);
    cr_assert_eq(message_give(lane, 2, SL_MESSAGE_END, packed), SEALANE_OK);
    cr_assert_eq(second.status, SEALANE_OK);
    message_free(packed);
}

Test(channel, ends_the_lane_when_the_server_speaks_of_a_call_never_made)
{
    struct sl_lane *lane = started(0);
    void *place;

    cr_assert_eq(give(lane, 2, &reply), SEALANE_DATA_LOSS);
    cr_assert_eq(give(lane, 0, &reply), SEALANE_DATA_LOSS);
    cr_assert_eq(fake_status(lane, 99, SEALANE_ABORTED, ""), SEALANE_DATA_LOSS);
    cr_assert_eq(fake_place(lane, 2, 0, 0, 10, &place), SEALANE_DATA_LOSS);
    cr_assert_null(place);
    cr_assert_eq(outcome.count, 0);
    fake_settle(world.node);
    expect(&outcome, SEALANE_DATA_LOSS, "speaks of call 2, the last one made was 1");
}

Test(channel, skips_what_comes_for_a_call_that_ended)
{
    struct sl_lane *lane = started(0);
    void *place = &place;

    cr_assert_eq(fake_status(lane, 1, SEALANE_ABORTED, "no"), SEALANE_OK);
    cr_assert_eq(give(lane, 1, &reply), SEALANE_OK);
    cr_assert_eq(fake_status(lane, 1, SEALANE_ABORTED, "again"), SEALANE_OK);
    cr_assert_eq(fake_place(lane, 1, 0, 0, 10, &place), SEALANE_OK);
    cr_assert_null(place);
    expect(&outcome, SEALANE_ABORTED, "no");
}

Test(channel, ends_the_lane_when_the_server_cancels)
{
    cr_assert_eq(fake_cancel(started(0), 1, SEALANE_CANCELLED), SEALANE_DATA_LOSS);
}

Test(channel, ends_the_lane_for_a_reply_with_a_path_or_a_deadline)
{
    struct packed_message *path = message_new("/a/b", 0, &reply.base),
                          *deadline = message_new(NULL, 1, &reply.base);

    cr_assert_eq(message_give(started(0), 1, SL_MESSAGE_END, path), SEALANE_DATA_LOSS);
    fake_settle(world.node);
    cr_assert_eq(message_give(started(0), 2, SL_MESSAGE_END, deadline), SEALANE_DATA_LOSS);
    message_free(path);
    message_free(deadline);
}

Test(channel, ends_the_lane_for_fragments_that_do_not_add_up)
{
    struct packed_message *packed = message_new(NULL, 0, &reply.base);
    const uint8_t *bytes = packed->packed.bytes;
    size_t count = packed->packed.count;
    const struct {
        uint8_t flags[2];
        size_t count[2];
    } cases[] = {
        {{SL_MESSAGE_FIRST | SL_MESSAGE_LAST}, {count - 1}},
        {{SL_MESSAGE_FIRST, SL_MESSAGE_LAST}, {10, count - 11}},
        {{SL_MESSAGE_FIRST, SL_MESSAGE_FIRST}, {10, count - 10}},
        {{SL_MESSAGE_LAST}, {count}},
        {{SL_MESSAGE_FIRST | SL_MESSAGE_LAST}, {7}},
        {{SL_MESSAGE_FIRST | SL_MESSAGE_LAST, SL_MESSAGE_FIRST | SL_MESSAGE_LAST}, {count, count}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sl_lane *lane = started(0);
        uint64_t call = fake_newest(world.node, FAKE_SEND)->call;
        enum sealane_status status =
            fake_message(lane, call, cases[i].flags[0], bytes, cases[i].count[0]);

        if (cases[i].count[1] > 0) {
            cr_assert_eq(status, SEALANE_OK, "case %zu", i);
            status = fake_message(lane, call, cases[i].flags[1],
                                  bytes + (i == 5 ? 0 : cases[i].count[0]), cases[i].count[1]);
        }
        cr_assert_eq(status, SEALANE_DATA_LOSS, "case %zu", i);
        fake_settle(world.node);
        cr_assert_eq(outcome.count, i + 1);
        cr_assert_eq(outcome.status, SEALANE_DATA_LOSS);
    }
    message_free(packed);
}

Test(channel, ends_the_lane_for_more_bytes_than_the_head_says)
{
    struct packed_message *packed = message_new(NULL, 0, &reply.base);
    struct sl_lane *lane = started(0);
    static const uint8_t more[100];

    cr_assert_eq(fake_message(lane, 1, SL_MESSAGE_FIRST, packed->packed.bytes, 10), SEALANE_OK);
    cr_assert_eq(fake_message(lane, 1, 0, more, 100), SEALANE_DATA_LOSS);
    message_free(packed);
}

/* ---- tensors of a reply ---- */

static uint64_t shape[1];
static Sealane__Tensor tensor;
static uint8_t data[1 << 20];

static void put_tensor(uint64_t bytes)
{
    shape[0] = bytes;
    tensor = TENSOR(U8, shape, data, bytes);
    reply.plain = &tensor;
}

Test(channel, invariant_6_a_reply_is_told_when_every_byte_of_its_tensors_is_there)
{
    struct sl_lane *lane = started(0);
    void *place[3];

    put_tensor(1000);
    cr_assert_eq(give(lane, 1, &reply), SEALANE_OK);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_eq(fake_place(lane, 1, 0, i * 400, 400, &place[i]), SEALANE_OK);
    cr_assert_eq(fake_filled(lane, 1, 0, 0, 400), SEALANE_OK);
    cr_assert_eq(fake_filled(lane, 1, 0, 400, 400), SEALANE_OK);
    cr_assert_eq(outcome.count, 0, "200 bytes are missing");
    cr_assert_eq(fake_place(lane, 1, 0, 800, 200, &place[2]), SEALANE_OK);
    cr_assert_eq((uint8_t *)place[2] - (uint8_t *)place[0], 800);
    cr_assert_eq(outcome.count, 0, "placed is not verified");
    cr_assert_eq(fake_filled(lane, 1, 0, 800, 200), SEALANE_OK);
    expect(&outcome, SEALANE_OK, "");
    reply.plain = NULL;
}

Test(channel, larger_tensors_are_allowed_after_memory_is_there)
{
    struct sl_lane *lane = started(100000);
    void *place;

    put_tensor(100000);
    cr_assert_eq(give(lane, 1, &reply), SEALANE_OK);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 0, "it fits the eager window");
    cr_assert_eq(fake_place(lane, 1, 0, 0, 100000, &place), SEALANE_OK);
    cr_assert_eq(fake_filled(lane, 1, 0, 0, 100000), SEALANE_OK);
    (void)world_start(world.channel, &request.base, 0, &outcome);
    put_tensor(100001);
    cr_assert_eq(give(lane, 2, &reply), SEALANE_OK);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 1);
    cr_assert_eq(fake_newest(world.node, FAKE_ALLOW)->call, 2);
    reply.plain = NULL;
}

Test(channel, waits_for_memory_in_turn_and_only_the_waiting_call_feels_it)
{
    static struct outcome outcomes[3] = {{.count = 0}};
    struct sl_lane *lane;
    void *place;

    reopen(&(struct sealane_channel_options){.tensor_memory_bytes = 500000});
    for (int i = 0; i < 3; i++)
        (void)world_start(world.channel, &request.base, i == 1 ? 50 : 0, &outcomes[i]);
    lane = world_lane(&world);
    put_tensor(300000);
    cr_assert_eq(give(lane, 1, &reply), SEALANE_OK);
    cr_assert_eq(give(lane, 2, &reply), SEALANE_OK);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 1, "the second waits");
    reply.plain = NULL;
    cr_assert_eq(give(lane, 3, &reply), SEALANE_OK);
    cr_assert_eq(outcomes[2].count, 1, "others go on");
    fake_advance(world.node, 50);
    fake_settle(world.node);
    expect(&outcomes[1], SEALANE_DEADLINE_EXCEEDED, "");
    cr_assert_eq(fake_place(lane, 1, 0, 0, 300000, &place), SEALANE_OK);
    cr_assert_eq(fake_filled(lane, 1, 0, 0, 300000), SEALANE_OK);
    expect(&outcomes[0], SEALANE_OK, "");
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 1);
}

Test(channel, memory_goes_to_the_next_when_a_kept_reply_is_freed)
{
    static struct outcome second = {.count = 0};
    struct sl_lane *lane;
    void *place;

    reopen(&(struct sealane_channel_options){.tensor_memory_bytes = 500000});
    outcome.keep = true;
    (void)world_start(world.channel, &request.base, 0, &outcome);
    (void)world_start(world.channel, &request.base, 0, &second);
    lane = world_lane(&world);
    put_tensor(300000);
    cr_assert_eq(give(lane, 1, &reply), SEALANE_OK);
    cr_assert_eq(fake_place(lane, 1, 0, 0, 300000, &place), SEALANE_OK);
    cr_assert_eq(fake_filled(lane, 1, 0, 0, 300000), SEALANE_OK);
    cr_assert_eq(give(lane, 2, &reply), SEALANE_OK);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 1);
    sealane_call_free(outcome.kept);
    fake_settle(world.node);
    cr_assert_eq(fake_did(world.node, FAKE_ALLOW), 2);
    cr_assert_eq(fake_newest(world.node, FAKE_ALLOW)->call, 2);
    reply.plain = NULL;
}

Test(channel, invariant_9_ends_the_lane_for_tensor_bytes_that_were_not_announced)
{
    static const struct {
        const char *what;
        uint32_t part;
        uint64_t offset;
        size_t count;
    } lies[] = {{"a part too many", 1, 0, 10},
                {"past the end", 0, 0, 1001},
                {"not at the front", 0, 1, 10},
                {"an offset of 2^64 - 1", 0, UINT64_MAX, 10},
                {"a part of 2^32 - 1", UINT32_MAX, 0, 1}};

    put_tensor(1000);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct sl_lane *lane = started(0);
        void *place;

        cr_assert_eq(give(lane, fake_newest(world.node, FAKE_SEND)->call, &reply), SEALANE_OK);
        cr_assert_eq(fake_place(lane, fake_newest(world.node, FAKE_SEND)->call, lies[i].part,
                                lies[i].offset, lies[i].count, &place),
                     SEALANE_DATA_LOSS, "%s", lies[i].what);
        cr_assert_null(place);
        fake_settle(world.node);
        cr_assert_eq(outcome.count, i + 1);
    }
    reply.plain = NULL;
}

Test(channel, ends_the_lane_for_tensor_bytes_that_come_before_their_message)
{
    void *place;

    cr_assert_eq(fake_place(started(0), 1, 0, 0, 10, &place), SEALANE_DATA_LOSS);
    cr_assert_null(place);
}

Test(channel, ends_the_lane_for_tensor_bytes_that_come_unasked)
{
    struct sl_lane *lane;
    void *place;

    reopen(&(struct sealane_channel_options){.tensor_memory_bytes = 500000});
    (void)world_start(world.channel, &request.base, 0, &outcome);
    (void)world_start(world.channel, &request.base, 0, &outcome);
    lane = world_lane(&world);
    put_tensor(300000);
    cr_assert_eq(give(lane, 1, &reply), SEALANE_OK);
    cr_assert_eq(give(lane, 2, &reply), SEALANE_OK);
    cr_assert_eq(fake_place(lane, 2, 0, 0, 10, &place), SEALANE_DATA_LOSS, "memory is not there");
    reply.plain = NULL;
}

Test(channel, refuses_a_reply_whose_tensor_came_inside_the_message)
{
    Cases__V1__Forged forged = CASES__V1__FORGED__INIT;
    Cases__V1__Forged__Tensor inside = CASES__V1__FORGED__TENSOR__INIT;

    inside.dtype = SEALANE__DTYPE__DTYPE_U8;
    shape[0] = 4;
    inside.n_shape = 1;
    inside.shape = shape;
    inside.data = (ProtobufCBinaryData){4, data};
    forged.plain = &inside;
    cr_assert_eq(give(started(0), 1, &forged), SEALANE_OK);
    expect(&outcome, SEALANE_INTERNAL, "field plain: a tensor came with 4 bytes inside");
}
