/* SPDX-License-Identifier: Apache-2.0 */
/* attack_verbs_test.c - what a client that proved who it is can do with its queue pair: end its own lane, and nothing else. It is a
 * whole node whose end of link_verbs is reached into, so that all it did before is true. Beside it a victim calls the same server:
 * none of its calls fails, each ends once. Linked with --wrap of sl_verbs_grant. */
#include "rpc/channel.h"
#include "tests/e2e/load_link.h"
#include "tests/e2e/load_peer.h"
#include "transport/lane_inside.h"
#include "transport/link_verbs_inside.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEAD_MS = 1500,
    WAIT_MS = 15000,
    BESIDE_MS = 150, /* for how long the victim calls before and after */
    GARBAGE = 4096
};

enum who {
    VICTIM,
    ATTACKER
};

struct outcome {
    atomic_int count;
    enum sealane_status status;
    char text[LOAD_WHY];
};

static struct scene {
    char address[LOAD_ADDRESS];
    struct load_server *kitchen;
    struct load_client client[2]; /* the attacker's node is turned by the test */
    struct outcome held[2];       /* a call of each that is never answered */
    struct load *load;            /* the victim's */
    struct sl_verbs *verbs;       /* the attacker's end of its link */
} s;

static _Alignas(4096) uint8_t garbage[GARBAGE];
static uint32_t
    few_receives; /* so many of the attacker's next grants get one receive, whatever the ring */

SEALANE_RESULT __real_sl_verbs_grant(struct sl_link *link, enum sl_ring_id id,
                                     const struct sl_ring_memory *memory, size_t stride,
                                     uint8_t descriptor[SL_GRANT_BYTES]);
SEALANE_RESULT __wrap_sl_verbs_grant(struct sl_link *link, enum sl_ring_id id,
                                     const struct sl_ring_memory *memory, size_t stride,
                                     uint8_t descriptor[SL_GRANT_BYTES]);

/* The attacker is who has no thread of its own. */
SEALANE_RESULT __wrap_sl_verbs_grant(struct sl_link *link, enum sl_ring_id id,
                                     const struct sl_ring_memory *memory, size_t stride,
                                     uint8_t descriptor[SL_GRANT_BYTES])
{
    const struct sl_lane *lane = link->owner;
    bool few = few_receives > 0 && sl_node_is_polled(lane->node);

    SL_TRY(__real_sl_verbs_grant(link, id, memory, few ? memory->bytes : stride, descriptor));
    if (few) {
        few_receives--;
        sl_put32(descriptor + 24, (uint32_t)stride);
    }
    return SEALANE_OK;
}

/* ---- the scene ---- */

/* Turns the attacker's node. */
static void turn(void)
{
    cr_assert_eq(sealane_node_poll(s.client[ATTACKER].node, 2), SEALANE_OK);
}

static void turn_until(const atomic_int *count, int wanted, const char *what)
{
    uint64_t until = load_now_ms() + WAIT_MS;

    while (atomic_load(count) < wanted && load_now_ms() < until)
        turn();
    cr_assert_eq(atomic_load(count), wanted, "%s: %d, expected %d", what, atomic_load(count),
                 wanted);
}

static void note(struct sealane_call *call, enum sealane_status status,
                 const Kitchen__V1__Dish *reply, void *user)
{
    struct outcome *outcome = user;

    (void)reply;
    outcome->status = status;
    (void)snprintf(outcome->text, sizeof(outcome->text), "%.300s", sealane_call_message(call));
    atomic_fetch_add(&outcome->count, 1);
}

static void start(enum who who, const struct load_dish *dish, struct outcome *outcome)
{
    load_must(kitchen_v1_kitchen_echo__start(s.client[who].channel, &dish->request, NULL, note,
                                             outcome, NULL),
              "a call");
}

static void join(enum who who)
{
    const struct sealane_channel_options options = {.link = "verbs"};
    struct load_dish dish;

    s.client[who] = load_client_open(s.address, &options, who == ATTACKER);
    cr_assert_eq(sealane_channel_connect(s.client[who].channel, WAIT_MS), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    load_dish_fill(&dish, 17, 100, 0);
    dish.request.never = true;
    start(who, &dish, &s.held[who]);
}

static struct sl_link *link_of(enum who who)
{
    return s.client[who].channel->current->lane->link;
}

/* The server's end of a lane: its held call is on it. */
static struct sl_lane *servers_lane(enum who who)
{
    return s.kitchen->held[who]->lane;
}

static void open_scene(void)
{
    const struct sealane_server_options options = {.dead_after_ms = DEAD_MS};
    uint64_t until;

    address_of("verbs", s.address);
    for (size_t i = 0; i < GARBAGE; i++)
        garbage[i] = (uint8_t)(i * 37 + 11);
    s.kitchen = load_server_new("verbs", &options);
    load_server_listen(s.kitchen, s.address);
    join(VICTIM);
    until = load_now_ms() + WAIT_MS;
    while (atomic_load(&s.kitchen->held_count) < 1 && load_now_ms() < until)
        load_rest_ms(1);
    join(ATTACKER);
    turn_until(&s.kitchen->held_count, 2, "calls that are held");
    s.verbs = sl_verbs_of(link_of(ATTACKER));
    cr_assert_eq(sl_link_verbs.sources(&s.verbs->link, garbage, GARBAGE), SEALANE_OK);
}

static void victim_calls(void)
{
    static const struct load_options options = {
        .threads = 1, .steady = true, .small = true, .most_outstanding = 6, .seed = 9};

    s.load = load_begin(s.client[VICTIM].channel, &options);
    load_rest_ms(BESIDE_MS);
}

/* The attacker's lane is over at both ends, for this reason; its call ended once at both. */
static void expect_thrown_out(enum sealane_status status, const char *why)
{
    turn_until(&s.kitchen->downs, 1, "lanes that ended");
    cr_assert(strstr(s.kitchen->down_why, why), "expected \"%s\" in: %s", why, s.kitchen->down_why);
    cr_assert(sealane_call_is_over(s.kitchen->held[ATTACKER]));
    cr_assert_eq(s.kitchen->held[ATTACKER]->status, status, "%s: %s",
                 sealane_status_name(s.kitchen->held[ATTACKER]->status), s.kitchen->down_why);
    turn_until(&s.held[ATTACKER].count, 1, "calls of the attacker that ended");
    cr_assert_eq(s.held[ATTACKER].status, SEALANE_UNAVAILABLE, "%s", s.held[ATTACKER].text);
}

/* The victim goes on for a while; nothing that it ever asked for failed. */
static void close_scene(void)
{
    char why[LOAD_WHY];

    load_rest_ms(BESIDE_MS);
    cr_assert(load_wait(s.load, WAIT_MS, why), "the victim: %s", why);
    cr_assert_gt(s.load->ok, 10);
    cr_assert_lt(s.load->slowest_ms, 5000);
    cr_assert_eq(s.held[VICTIM].count, 0, "%s", s.held[VICTIM].text);
    cr_assert_eq(s.kitchen->wrong, 0);
    load_free(s.load);
    load_server_let_go(s.kitchen);
    for (uint64_t until = load_now_ms() + WAIT_MS;
         atomic_load(&s.held[VICTIM].count) == 0 && load_now_ms() < until;)
        load_rest_ms(1);
    cr_assert_eq(s.held[VICTIM].count, 1);
    cr_assert_eq(s.held[VICTIM].status, SEALANE_ABORTED, "%s", s.held[VICTIM].text);
    load_client_close(&s.client[ATTACKER]);
    cr_assert_eq(s.held[ATTACKER].count, 1);
    load_client_close(&s.client[VICTIM]);
    cr_assert_leq(s.kitchen->ups, 3);
    cr_assert(load_server_free(s.kitchen), "every call ended once at the server");
    memset(&s, 0, sizeof(s));
}

/* ---- means ---- */

/* Past all of the lane's own counting. False: the link has no room, or is over. */
static bool scribble(enum sl_ring_id ring, uint32_t slot, size_t bytes, uint32_t immediate)
{
    const struct sl_link_write write = {
        .ring = ring, .slot = slot, .from = garbage, .bytes = bytes, .immediate = immediate};
    enum sealane_status status = sl_link_verbs.write_imm(&s.verbs->link, &write);

    cr_assert(status == SEALANE_OK || status == SL_AGAIN, "%s", sealane_last_error()->message);
    return status == SEALANE_OK && !s.verbs->mute;
}

static uint32_t next_slot(enum sl_ring_id ring)
{
    const struct sl_sender *tx = &s.client[ATTACKER].channel->current->lane->tx[ring];

    return (uint32_t)(tx->seq % tx->geometry.slots);
}

static uint32_t counting(enum sl_ring_id ring, uint32_t slots)
{
    return slots << 1 | (uint32_t)ring;
}

/* ---- other memory ---- */

/* Soft-RoCE tells the server by a completion, other devices by an event. */
static void expect_access_refused(void)
{
    expect_thrown_out(SEALANE_UNAVAILABLE, "the peer is gone");
    cr_assert(strstr(s.kitchen->down_why, "remote access error: the peer sent what it may not") ||
                  strstr(s.kitchen->down_why, "memory that it was not granted"),
              "%s", s.kitchen->down_why);
    cr_assert(strstr(s.held[ATTACKER].text, "remote access error"), "%s", s.held[ATTACKER].text);
}

/* The ring of an idle lane as it stands. */
static uint8_t *picture(const struct sl_lane *lane, enum sl_ring_id ring)
{
    const struct sl_ring_memory *memory = &lane->rx[ring].memory;
    uint8_t *bytes = malloc(memory->bytes);

    cr_assert_not_null(bytes);
    memcpy(bytes, memory->base, memory->bytes);
    return bytes;
}

static void reach_for_the_victims(enum sl_ring_id ring)
{
    const struct sl_lane *victims;
    uint8_t *before;

    open_scene();
    victims = servers_lane(VICTIM);
    before = picture(victims, ring);
    s.verbs->theirs[ring] = sl_verbs_of(link_of(VICTIM))->theirs[ring];
    cr_assert(scribble(ring, 0, GARBAGE, counting(ring, 1)));
    expect_access_refused();
    cr_assert_eq(memcmp(before, victims->rx[ring].memory.base, victims->rx[ring].memory.bytes), 0,
                 "the victim's ring was written to");
    free(before);
    victim_calls();
    close_scene();
}

Test(attack_verbs, invariant_2_the_message_ring_of_another_client_is_out_of_reach)
{
    reach_for_the_victims(SL_RING_MESSAGE);
}

Test(attack_verbs, invariant_2_the_bulk_ring_of_another_client_is_out_of_reach)
{
    reach_for_the_victims(SL_RING_BULK);
}

/* While the victim calls. */
static void reach_past_its_own(uint64_t address, size_t bytes)
{
    open_scene();
    victim_calls();
    s.verbs->theirs[SL_RING_MESSAGE].address = address;
    cr_assert(scribble(SL_RING_MESSAGE, 0, bytes, counting(SL_RING_MESSAGE, 1)));
    expect_access_refused();
    close_scene();
}

Test(attack_verbs, invariant_2_behind_its_own_ring_nothing_is_in_reach)
{
    enum {
        RING = 128 * 8192 /* by default */
    };

    reach_past_its_own(RING - 64, 65);
}

Test(attack_verbs, invariant_2_before_its_own_ring_nothing_is_in_reach)
{
    reach_past_its_own(UINT64_MAX - 63, 64);
}

/* ---- garbage ---- */

static void write_garbage(uint32_t length, const char *why)
{
    open_scene();
    victim_calls();
    sl_put32(garbage, length);
    memset(garbage + 4, 0, 12);
    cr_assert(
        scribble(SL_RING_MESSAGE, next_slot(SL_RING_MESSAGE), 2000, counting(SL_RING_MESSAGE, 1)));
    expect_thrown_out(SEALANE_DATA_LOSS, why);
    close_scene();
}

Test(attack_verbs, invariant_4_garbage_that_looks_like_a_frame_ends_its_lane)
{
    write_garbage(1000, "failed authentication");
}

Test(attack_verbs, invariant_9_garbage_of_a_length_that_no_slot_has_ends_its_lane)
{
    write_garbage(UINT32_MAX, "4294967295");
}

static void expect_it_still_calls(void)
{
    struct outcome outcome = {0};
    struct load_dish dish;

    load_dish_fill(&dish, 4711, 1000, 400000);
    start(ATTACKER, &dish, &outcome);
    turn_until(&outcome.count, 1, "calls that ended");
    cr_assert_eq(outcome.status, SEALANE_OK, "%s", outcome.text);
    cr_assert_eq(s.kitchen->downs, 0, "%s", s.kitchen->down_why);
}

/* In its message ring, announced as chunks: nobody looks there before a frame says so, and then what was garbage is overwritten. */
Test(attack_verbs, invariant_5_garbage_that_nobody_was_told_of_is_overwritten)
{
    open_scene();
    victim_calls();
    cr_assert(
        scribble(SL_RING_MESSAGE, next_slot(SL_RING_MESSAGE), 2000, counting(SL_RING_BULK, 1)));
    expect_it_still_calls();
    sealane_channel_free(s.client[ATTACKER].channel); /* ends by itself */
    s.client[ATTACKER].channel = NULL;
    close_scene();
}

/* ---- immediates ---- */

static void announce(uint32_t immediate, const char *why)
{
    open_scene();
    victim_calls();
    cr_assert(scribble(SL_RING_MESSAGE, 0, 0, immediate));
    expect_thrown_out(SEALANE_DATA_LOSS, why);
    close_scene();
}

Test(attack_verbs, invariant_4_a_slot_that_was_never_written_ends_its_lane)
{
    announce(counting(SL_RING_MESSAGE, 1), "");
}

Test(attack_verbs, invariant_5_more_slots_than_a_ring_has_end_their_lane)
{
    announce(counting(SL_RING_MESSAGE, 129), "129 written slots");
}

Test(attack_verbs, invariant_5_no_slots_at_all_end_their_lane)
{
    announce(counting(SL_RING_BULK, 0), "0 written slots");
}

Test(attack_verbs, invariant_5_slots_of_the_other_ring_that_are_too_many_end_their_lane)
{
    announce(UINT32_MAX, "2147483647 written slots");
}

/* ---- floods ---- */

Test(attack_verbs, invariant_14_a_flood_of_writes_drowns_its_own_lane_only)
{
    open_scene();
    victim_calls();
    for (uint64_t until = load_now_ms() + WAIT_MS;
         s.held[ATTACKER].count == 0 && load_now_ms() < until;) {
        for (uint32_t i = 0; scribble(SL_RING_BULK, i % 64, GARBAGE, counting(SL_RING_BULK, 1));
             i++) {
        }
        turn();
    }
    expect_thrown_out(SEALANE_DATA_LOSS, "written slots");
    close_scene();
}

/* Words of the link's own that say nothing new: each takes a receive at the server, and it can be done for ever. As many at a time as
 * the send queue has places for words, which the attacker's own calls need no more. */
Test(attack_verbs, invariant_14_a_flood_of_empty_words_stops_nobody)
{
    struct ibv_send_wr *bad,
        word = {.opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED};
    uint64_t until;
    int posted = 0;

    open_scene();
    victim_calls();
    word.wr_id = sl_verbs_work_id(s.verbs, SL_VERBS_WORK_CREDIT, 0);
    word.imm_data = htonl((uint32_t)SL_VERBS_CREDIT << 24 | (s.verbs->taken & 0xffffff));
    until = load_now_ms() + 500;
    while (load_now_ms() < until) {
        for (; s.verbs->credits_posted < SL_VERBS_PIECES; posted++) {
            cr_assert_eq(ibv_post_send(s.verbs->qp, &word, &bad), 0);
            s.verbs->credits_posted++;
        }
        turn();
    }
    (void)fprintf(stderr, "%d words\n", posted);
    cr_assert_gt(posted, 200); /* some thousands where nothing else runs */
    expect_it_still_calls();
    sealane_channel_free(s.client[ATTACKER].channel);
    s.client[ATTACKER].channel = NULL;
    close_scene();
}

/* ---- who takes nothing in ---- */

enum {
    ORDERS = 200,
    ORDER_BYTES = 4000,
    HEAP_SLACK = 16 << 20
};

/* How often a device of this host was asked for a receive that was not there; -1: it does not count. */
static long not_ready(void)
{
    glob_t files;
    long all = -1, one;

    if (glob("/sys/class/infiniband/*/ports/1/hw_counters/send_rnr_err", 0, NULL, &files) != 0)
        return -1;
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *file = fopen(files.gl_pathv[i], "re");

        if (file && fscanf(file, "%ld", &one) == 1)
            all = (all < 0 ? 0 : all) + one;
        if (file)
            (void)fclose(file);
    }
    globfree(&files);
    return all;
}

/* Grants rings without receives, has answers made for them, and looks no more: the server's writes are refused for ever (RNR). */
Test(attack_verbs, invariant_14_a_client_that_takes_nothing_in_is_given_up)
{
    static struct outcome orders;
    struct load_dish dish;
    uint64_t stopped;
    long heap, refused = not_ready();

    few_receives = SL_RING_COUNT;
    open_scene();
    victim_calls();
    heap = footprint_now().heap_bytes;
    load_dish_fill(&dish, 4711, ORDER_BYTES, 0);
    dish.request.sleep_ms = 100;
    for (int i = 0; i < ORDERS; i++)
        start(ATTACKER, &dish, &orders);
    for (uint64_t until = load_now_ms() + 60; load_now_ms() < until;)
        turn();
    stopped = load_now_ms();
    for (long most = heap + HEAP_SLACK; s.kitchen->downs == 0; load_rest_ms(20)) {
        cr_assert_lt(load_now_ms(), stopped + WAIT_MS, "nobody gives it up");
        cr_assert_lt(footprint_now().heap_bytes, most);
    }
    (void)fprintf(stderr, "given up after %d ms: %s; %ld writes had no receive\n",
                  (int)(load_now_ms() - stopped), s.kitchen->down_why, not_ready() - refused);
    cr_assert(refused < 0 || not_ready() > refused, "there were receives enough");
    cr_assert_lt(orders.count, ORDERS);
    expect_thrown_out(SEALANE_UNAVAILABLE, "said nothing for 1500 ms");
    turn_until(&orders.count, ORDERS, "orders that ended");
    close_scene();
}

/* ---- after the handshake ---- */

Test(attack_verbs, invariant_1_handshake_bytes_on_a_lane_that_is_up_end_it)
{
    static const uint8_t record[] = {22, 3, 3, 0, 1, 0};

    open_scene();
    victim_calls();
    cr_assert_eq(sl_link_verbs.send(&s.verbs->link, record, sizeof(record)), SEALANE_OK);
    expect_thrown_out(SEALANE_DATA_LOSS, "handshake bytes");
    close_scene();
}

/* ---- who is gone in the middle ---- */

static uint64_t sealed_bytes(void)
{
    struct sealane_security security;

    cr_assert_eq(sealane_channel_security(s.client[ATTACKER].channel, &security), SEALANE_OK);
    return security.sealed_bytes;
}

/* Its queue pair is no more, and nobody says so. */
Test(attack_verbs, invariant_8_a_queue_pair_that_is_gone_amid_a_tensor_ends_its_calls)
{
    enum {
        TENSOR = 3 << 20,
        SOME = 1 << 20
    };
    static struct outcome order;
    struct load_dish dish;

    open_scene();
    victim_calls();
    load_dish_fill(&dish, 0, 100, TENSOR);
    start(ATTACKER, &dish, &order);
    for (uint64_t until = load_now_ms() + WAIT_MS; sealed_bytes() < SOME;) {
        cr_assert_lt(load_now_ms(), until, "the tensor does not leave");
        turn();
    }
    cr_assert_lt(sealed_bytes(), TENSOR, "not amid it");
    cr_assert_eq(ibv_destroy_qp(s.verbs->qp), 0);
    s.verbs->qp = NULL;
    s.verbs->mute = true;
    while (s.kitchen->downs == 0)
        load_rest_ms(1);
    (void)fprintf(stderr, "the server: %s\n", s.kitchen->down_why);
    sl_verbs_over(s.verbs, "the attacker ends");
    expect_thrown_out(SEALANE_UNAVAILABLE, "");
    turn_until(&order.count, 1, "orders that ended");
    cr_assert_eq(order.status, SEALANE_UNAVAILABLE);
    close_scene();
}
