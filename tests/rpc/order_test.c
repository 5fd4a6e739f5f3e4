/* SPDX-License-Identifier: Apache-2.0 */
/* order_test.c - invariant 8: every call ends exactly once at each end, whatever happens in whatever order. Each order of the
 * events below is played on a world of its own and compared with a model of a few lines. AddressSanitizer watches what is borrowed. */
#include "tests/rpc/world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct world world;
static struct sl_lane *lane;
static uint64_t shape[1] = {1000};
static uint8_t data[1000];
static Sealane__Tensor tensor;
static Cases__V1__Everything with_tensor = CASES__V1__EVERYTHING__INIT;

static void prepare(void)
{
    tensor = TENSOR(U8, shape, data, 1000);
    with_tensor.plain = &tensor;
}

TestSuite(order, .init = prepare, .timeout = 120);

/* The orders of `choose` out of `events` numbers, one after the other; false after the last. */
static bool next_order(int *order, int choose, int events)
{
    for (;;) {
        int at = choose - 1;
        bool distinct = true;

        while (at >= 0 && ++order[at] == events)
            order[at--] = 0;
        if (at < 0)
            return false;
        for (int i = 0; i < choose; i++) {
            for (int j = 0; j < i; j++)
                distinct &= order[i] != order[j];
        }
        if (distinct)
            return true;
    }
}

static const char *order_text(const int *order, int choose, const char *const *names, bool stubborn)
{
    static char text[200];
    size_t used = (size_t)snprintf(text, sizeof(text), "%s:", stubborn ? "sealing" : "idle");

    for (int i = 0; i < choose; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, " %s", names[order[i]]);
    return text;
}

/* ---- client ---- */

enum client_event {
    REPLY, /* its tensor is placed, not filled */
    FILLED,
    STATUS,
    CANCEL,
    DEADLINE,
    SENT,
    CLOSED,
    FREE,
    CLIENT_EVENTS
};

static const char *const client_names[] = {"REPLY",    "FILLED", "STATUS", "CANCEL",
                                           "DEADLINE", "SENT",   "CLOSED", "FREE"};

struct client {
    struct outcome outcome;
    struct sealane_call *call;
    void *place;
    /* the model */
    bool has_lane, has_channel, held, placing, decided;
    enum sealane_status status;
};

static void decide(struct client *c, enum sealane_status status, bool stubborn)
{
    if (c->decided)
        return;
    c->decided = true;
    c->status = status;
    c->held = c->held && stubborn;
}

static void lane_is_gone(struct client *c)
{
    c->has_lane = c->held = c->placing = false;
}

static bool ended(const struct client *c)
{
    return c->decided && !c->held && !c->placing;
}

static void client_reply(struct client *c)
{
    struct packed_message *packed = message_new(NULL, 0, &with_tensor.base);
    bool taken = !c->decided;

    cr_assert_eq(message_give(lane, 1, SL_MESSAGE_END, packed), SEALANE_OK);
    cr_assert_eq(fake_place(lane, 1, 0, 0, 1000, &c->place), SEALANE_OK);
    cr_assert_eq(c->place != NULL, taken);
    c->placing = taken;
    message_free(packed);
}

static void client_filled(struct client *c, bool stubborn)
{
    if (!c->placing)
        return;
    memset(c->place, 9, 1000); /* it must still be there */
    c->placing = false;
    decide(c, SEALANE_OK, stubborn);
    cr_assert_eq(fake_filled(lane, 1, 0, 0, 1000), SEALANE_OK);
}

static void client_play(struct client *c, enum client_event event, bool stubborn)
{
    switch (event) {
    case REPLY:
        if (c->has_lane)
            client_reply(c);
        break;
    case FILLED:
        if (c->has_lane)
            client_filled(c, stubborn);
        break;
    case STATUS:
        if (!c->has_lane)
            break;
        cr_assert_eq(fake_status(lane, 1, SEALANE_ABORTED, "aborted"), SEALANE_OK);
        decide(c, SEALANE_ABORTED, stubborn);
        break;
    case CANCEL:
        if (c->outcome.count > 0)
            break; /* the call is gone */
        sealane_call_cancel(c->call);
        if (c->has_channel)
            decide(c, SEALANE_CANCELLED, stubborn);
        break;
    case DEADLINE:
        fake_advance(world.node, 1000);
        if (c->has_channel)
            decide(c, SEALANE_DEADLINE_EXCEEDED, stubborn);
        break;
    case SENT:
        if (!c->held)
            break;
        c->held = false;
        cr_assert_eq(fake_sent(lane, fake_newest(world.node, FAKE_SEND)->send), SEALANE_OK);
        break;
    case CLOSED:
        if (!c->has_lane)
            break;
        lane_is_gone(c);
        decide(c, SEALANE_UNAVAILABLE, stubborn);
        fake_closed(lane, SEALANE_UNAVAILABLE, "gone");
        break;
    case FREE:
        if (!c->has_channel)
            break;
        decide(c, SEALANE_CANCELLED, stubborn);
        lane_is_gone(c);
        c->has_channel = false;
        sealane_channel_free(world.channel);
        world.channel = NULL;
        break;
    default:
        cr_assert_fail();
    }
    if (event == CANCEL || event == DEADLINE)
        fake_settle(world.node);
}

static void client_order(const int *order, int choose, bool stubborn)
{
    struct client c = {.has_lane = true, .has_channel = true, .held = true};
    const char *text = order_text(order, choose, client_names, stubborn);

    world = world_open(NULL, NULL);
    fake_settings(world.node)->abandon_says_no = stubborn;
    c.call = world_start(world.channel, &with_tensor.base, 1000, &c.outcome);
    lane = world_lane(&world);
    for (int i = 0; i <= choose; i++) {
        cr_assert_eq(c.outcome.count, ended(&c), "%s: ended %u times after %d events", text,
                     c.outcome.count, i);
        if (i < choose)
            client_play(&c, (enum client_event)order[i], stubborn);
    }
    if (c.outcome.count > 0)
        cr_assert_eq(c.outcome.status, c.status, "%s: %s, expected %s", text,
                     sealane_status_name(c.outcome.status), sealane_status_name(c.status));
    world_close(&world);
    cr_assert_eq(c.outcome.count, 1, "%s: ended %u times at last", text, c.outcome.count);
}

Test(order, invariant_8_a_clients_call_ends_once_in_every_order_of_three_events)
{
    int order[3] = {0, 0, 0}, played = 0;

    while (next_order(order, 3, CLIENT_EVENTS)) {
        client_order(order, 3, false);
        client_order(order, 3, true);
        played++;
    }
    cr_assert_eq(played, 8 * 7 * 6);
}

/* ---- server ---- */

enum server_event {
    ANSWER,
    REFUSE,
    GIVE_UP, /* the client's CANCEL */
    EXPIRE,
    TOLD, /* SENT */
    LOST,
    END,
    SERVER_EVENTS
};

static const char *const server_names[] = {"ANSWER", "REFUSE", "GIVE_UP", "EXPIRE",
                                           "TOLD",   "LOST",   "END"};

static struct sealane_call *held_call;
static unsigned ends;

static void count_end(void *user)
{
    (void)user;
    ends++;
}

static void serve_echo(struct sealane_call *call, const Cases__V1__Everything *request, void *user)
{
    (void)request;
    (void)user;
    held_call = call;
    sealane_call_on_end(call, count_end, NULL);
}

struct peer {
    bool has_lane, has_server, answered, held, decided, stubborn;
};

static bool is_free(const struct peer *p)
{
    return p->answered && p->decided && !p->held;
}

static void over(struct peer *p)
{
    if (!p->decided)
        p->held = p->held && p->stubborn;
    p->decided = true;
}

static void server_answer(struct peer *p, bool ok)
{
    if (p->answered)
        return;
    p->answered = true;
    if (!p->decided && ok)
        p->held = true;
    else
        p->decided = true;
    if (ok)
        cr_assert_eq(cases_v1_cases_echo__reply(held_call, &with_tensor), SEALANE_OK);
    else
        sealane_call_fail(held_call, SEALANE_NOT_FOUND, "nothing");
}

static void server_play(struct peer *p, enum server_event event)
{
    switch (event) {
    case ANSWER:
    case REFUSE:
        server_answer(p, event == ANSWER);
        break;
    case GIVE_UP:
        if (!p->has_lane)
            break;
        over(p);
        cr_assert_eq(fake_cancel(lane, 1, SEALANE_CANCELLED), SEALANE_OK);
        break;
    case EXPIRE:
        over(p);
        fake_advance(world.node, 1000);
        fake_settle(world.node);
        break;
    case TOLD:
        if (!p->held)
            break;
        p->held = false;
        p->decided = true;
        cr_assert_eq(fake_sent(lane, fake_newest(world.node, FAKE_SEND)->send), SEALANE_OK);
        break;
    case LOST:
        if (!p->has_lane)
            break;
        over(p);
        p->held = p->has_lane = false;
        fake_closed(lane, SEALANE_UNAVAILABLE, "gone");
        break;
    case END:
        over(p);
        p->held = p->has_lane = false;
        sealane_server_free(world.server);
        world.server = NULL;
        break;
    default:
        cr_assert_fail();
    }
}

static void server_order(const int *order, int choose, bool stubborn)
{
    static const struct cases_v1_cases__handlers handlers = {.echo = serve_echo};
    Cases__V1__Everything request = CASES__V1__EVERYTHING__INIT;
    struct packed_message *packed =
        message_new("/cases.v1.Cases/Echo", UINT64_C(1000000000), &request.base);
    const char *text = order_text(order, choose, server_names, stubborn);
    struct peer p = {.has_lane = true, .stubborn = stubborn};

    ends = 0;
    world = world_open(NULL, NULL);
    fake_settings(world.node)->abandon_says_no = stubborn;
    cr_assert_eq(cases_v1_cases__register(world.server, &handlers, NULL), SEALANE_OK);
    lane = fake_accept(world.node);
    cr_assert_eq(message_give(lane, 1, 0, packed), SEALANE_OK);
    for (int i = 0; i <= choose; i++) {
        cr_assert_eq(ends, is_free(&p), "%s: ended %u times after %d events", text, ends, i);
        if (!is_free(&p) && !p.answered)
            cr_assert_eq(sealane_call_is_over(held_call), p.decided, "%s: after %d events", text,
                         i);
        if (i < choose)
            server_play(&p, (enum server_event)order[i]);
    }
    server_answer(&p, true);
    world_close(&world);
    cr_assert_eq(ends, 1, "%s: ended %u times at last", text, ends);
    message_free(packed);
}

Test(order, invariant_8_a_servers_call_ends_once_in_every_order_of_four_events)
{
    int order[4] = {0, 0, 0, 0}, played = 0;

    while (next_order(order, 4, SERVER_EVENTS)) {
        server_order(order, 4, false);
        server_order(order, 4, true);
        played++;
    }
    cr_assert_eq(played, 7 * 6 * 5 * 4);
}

/* ---- the node ends ---- */

Test(order, invariant_8_calls_end_once_when_the_node_ends_under_them)
{
    for (int stage = 0; stage < 4; stage++) {
        struct outcome outcomes[3] = {{.count = 0}};
        struct packed_message *packed = message_new(NULL, 0, &with_tensor.base);

        world = world_open(NULL, NULL);
        fake_settings(world.node)->abandon_says_no = stage == 3;
        for (int i = 0; i < 3; i++)
            sealane_call_cancel(world_start(world.channel, &with_tensor.base, 0, &outcomes[i]));
        if (stage > 0)
            lane = world_lane(&world);
        if (stage > 1)
            cr_assert_eq(message_give(lane, 1, SL_MESSAGE_END, packed), SEALANE_OK);
        sealane_node_free(world.node); /* takes channel and server along */
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(outcomes[i].count, 1, "stage %d, call %d: %u times", stage, i,
                         outcomes[i].count);
            cr_assert_eq(outcomes[i].status, SEALANE_CANCELLED);
        }
        message_free(packed);
    }
}
