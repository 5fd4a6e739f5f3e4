/* SPDX-License-Identifier: Apache-2.0 */
/* lane_test.c - a whole lane between two nodes: what goes through, and in what order. Attacks are in lane_attack_test.c. */
#include "tests/support/certs.h"
#include "tests/support/lanes.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct lanes lanes;

static void open_lanes(bool fake, uint32_t epoch_shift)
{
    lanes_init(&lanes, fake);
    for (int i = 0; i < 2; i++) {
        lanes.options[i].epoch_shift = epoch_shift;
        lanes.options[i].message_slot_bytes = 1024;
        lanes.options[i].message_slots = 8;
        lanes.options[i].bulk_chunk_bytes = 16384;
        lanes.options[i].bulk_slots = 8;
        lanes.options[i].eager_bytes = 40000;
    }
    lanes_listen(&lanes);
    lanes_connect(&lanes);
}

static void fill(uint8_t *at, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (uint8_t)(i * 131 + (i >> 8) * 17 + seed);
}

/* Invariant 5, looked at from outside at both ends. */
static void check_counters(void)
{
    for (int i = 0; i < 2; i++) {
        const struct sl_lane *lane = lanes.end[i].lane;

        if (!lane)
            continue;
        for (int ring = 0; ring < SL_RING_COUNT; ring++) {
            const struct sl_sender *tx = &lane->tx[ring];
            const struct sl_receiver *rx = &lane->rx[ring];

            cr_assert(tx->acked <= tx->seq && tx->seq <= tx->acked + tx->geometry.slots);
            cr_assert(rx->told <= rx->next && rx->next <= rx->counted &&
                      rx->counted <= rx->next + rx->geometry.slots);
        }
    }
}

static bool server_has_sent(struct lanes *all)
{
    check_counters();
    return all->end[0].sent > 0;
}

static bool client_has_sent(struct lanes *all)
{
    check_counters();
    return all->end[1].sent > 0;
}

static void round_trip(bool fake, size_t count, uint64_t part_bytes)
{
    uint8_t *bytes = malloc(count), *part = malloc(part_bytes + 1),
            *place = calloc(1, part_bytes + 1);
    struct sl_part parts[] = {{part, part_bytes}};

    open_lanes(fake, 0);
    fill(bytes, count, 3);
    fill(part, part_bytes, 9);
    for (int from = 0; from < 2; from++) {
        struct sl_send send = {
            .call = 7, .bytes = bytes, .count = count, .parts = parts, .part_count = 1};
        struct lanes_end *to = &lanes.end[1 - from];

        to->place = place;
        memset(place, 0, part_bytes);
        cr_assert_eq(sl_lane_send(lanes.end[from].lane, &send), SEALANE_OK);
        cr_assert(lanes_until(&lanes, from ? client_has_sent : server_has_sent));
        lanes_turn(&lanes, 400);
        cr_assert_eq(to->byte_count, count);
        cr_assert_arr_eq(to->bytes, bytes, count);
        cr_assert_eq(to->filled, part_bytes);
        cr_assert_arr_eq(place, part, part_bytes);
        cr_assert(to->last_flags & SL_MESSAGE_LAST);
        cr_assert_eq(to->last_call, 7);
    }
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(bytes);
    free(part);
    free(place);
}

Test(lane, carries_one_byte_over_the_fake)
{
    round_trip(true, 1, 0);
}
Test(lane, carries_a_message_of_many_frames_over_the_fake)
{
    round_trip(true, 300000, 0);
}
Test(lane, carries_an_eager_tensor_over_the_fake)
{
    round_trip(true, 10, 40000);
}
Test(lane, carries_an_allowed_tensor_over_the_fake)
{
    round_trip(true, 10, 1 << 20);
}
Test(lane, carries_one_byte_over_link_local)
{
    round_trip(false, 1, 1);
}
Test(lane, carries_a_message_of_many_frames_over_link_local)
{
    round_trip(false, 300000, 16384);
}
Test(lane, carries_an_allowed_tensor_over_link_local)
{
    round_trip(false, 10, (1 << 20) + 1);
}

Test(lane, tells_what_protects_it)
{
    struct sealane_security security;

    open_lanes(true, 0);
    sl_lane_security(lanes.end[1].lane, &security);
    cr_assert_str_eq(security.link, "fake");
    cr_assert_str_eq(security.message_aead, "AES-256-GCM");
    cr_assert(strstr(security.tls_suite, "TLS_") == security.tls_suite);
    cr_assert(strstr(security.peer, "server") != NULL, "%s", security.peer);
    lanes_disconnect(&lanes);
    cr_assert_eq(lanes.end[0].ready, 1);
    cr_assert_eq(lanes.end[0].closed, 1, "each end is told CLOSED once");
    cr_assert_eq(lanes.end[1].closed, 1);
    lanes_free(&lanes);
}

/* Which AEADs an end allows. */
static struct sealane_credentials *credentials_with(int end, const enum sealane_aead *aeads,
                                                    size_t count)
{
    char ca[CERTS_PATH], certificate[CERTS_PATH], key[CERTS_PATH];
    struct sealane_credentials_options options = {
        .ca_file = certs_path("ca/root-p256.pem", ca),
        .certificate_file =
            certs_path(end ? "good/client-p256.pem" : "good/server-p256.pem", certificate),
        .key_file = certs_path(end ? "good/client-p256.key" : "good/server-p256.key", key),
        .aeads = aeads,
        .aead_count = count,
    };
    struct sealane_credentials *credentials;

    cr_assert_eq(sealane_credentials_new(&options, &credentials), SEALANE_OK, "%s",
                 sealane_last_error()->message);
    return credentials;
}

static void use_aeads(int end, const enum sealane_aead *aeads, size_t count)
{
    sealane_credentials_free(lanes.credentials[end]);
    lanes.credentials[end] = credentials_with(end, aeads, count);
    lanes.options[end].credentials = lanes.credentials[end];
}

static bool client_closed(struct lanes *all)
{
    return all->end[1].closed;
}

Test(lane, the_servers_first_choice_that_the_client_has_too_is_taken)
{
    static const enum sealane_aead chacha_first[] = {SEALANE_CHACHA20_POLY1305,
                                                     SEALANE_AES_256_GCM};
    static const enum sealane_aead aes_128[] = {SEALANE_AES_128_GCM};
    uint8_t bytes[100] = {1};

    for (int i = 0; i < 2; i++) {
        struct sl_send send = {.call = 1, .bytes = bytes, .count = sizeof(bytes)};

        lanes_init(&lanes, true);
        use_aeads(i, i ? aes_128 : chacha_first, i ? 1 : 2);
        lanes_listen(&lanes);
        lanes_connect(&lanes);
        cr_assert_str_eq(lanes.end[0].lane->security.message_aead,
                         i ? "AES-128-GCM" : "ChaCha20-Poly1305");
        cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
        cr_assert(lanes_until(&lanes, client_has_sent));
        lanes_turn(&lanes, 5);
        cr_assert_eq(lanes.end[0].byte_count, 100);
        lanes_disconnect(&lanes);
        lanes_free(&lanes);
    }
}

Test(lane, without_a_common_aead_the_client_is_told_why)
{
    static const enum sealane_aead aes_128[] = {SEALANE_AES_128_GCM},
                                   chacha[] = {SEALANE_CHACHA20_POLY1305};

    lanes_init(&lanes, true);
    use_aeads(0, aes_128, 1);
    use_aeads(1, chacha, 1);
    lanes_listen(&lanes);
    lanes_begin(&lanes);
    cr_assert(lanes_until(&lanes, client_closed));
    cr_assert_eq(lanes.end[1].close_status, SEALANE_FAILED_PRECONDITION);
    cr_assert(strstr(lanes.end[1].close_text, "no common AEAD") &&
                  strstr(lanes.end[1].close_text, "ChaCha20-Poly1305"),
              "%s", lanes.end[1].close_text);
    cr_assert_eq(lanes.end[0].ready, 0);
    lanes_free(&lanes);
}

Test(lane, invariant_14_messages_of_two_calls_take_turns)
{
    /* A long message is on its way; a short one of another call passes it. */
    uint8_t *bytes = calloc(1, 200000), small[10] = {5};
    struct sl_send longer = {.call = 1, .bytes = bytes, .count = 200000},
                   shorter = {.call = 2, .bytes = small, .count = sizeof(small)};

    open_lanes(true, 0);
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &longer), SEALANE_OK);
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &shorter), SEALANE_OK);
    cr_assert(lanes_until(&lanes, client_has_sent));
    cr_assert_eq(lanes.end[1].sent, 1);
    cr_assert_lt(longer.sent, 10000, "the long one has hardly begun when the short one is done");
    while (lanes.end[1].sent < 2)
        lanes_turn(&lanes, 1);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(bytes);
}

Test(lane, parts_wait_for_the_receivers_permission)
{
    uint8_t *part = calloc(1, 50000), *place = malloc(50000), byte = 1;
    struct sl_part parts[] = {{part, 50000}};
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    open_lanes(true, 0);
    lanes.end[0].place = place;
    lanes.end[0].keep_quiet = true;
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    lanes_turn(&lanes, 50);
    cr_assert_eq(lanes.end[0].placed, 0);
    cr_assert_eq(lanes.end[1].sent, 0);
    cr_assert_eq(sl_lane_allow(lanes.end[0].lane, 1), SEALANE_OK);
    cr_assert(lanes_until(&lanes, client_has_sent));
    lanes_turn(&lanes, 20);
    cr_assert_eq(lanes.end[0].filled, 50000);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(part);
    free(place);
}

Test(lane, skipped_chunks_are_credited_so_that_others_can_go_on)
{
    uint8_t *part = malloc(1 << 20), *place = calloc(1, 1 << 20), byte = 1;
    struct sl_part parts[] = {{part, 1 << 20}};

    fill(part, 1 << 20, 5);
    open_lanes(true, 0);
    for (uint64_t call = 1; call <= 4;
         call++) { /* 64 chunks each through 8 slots; only the last is wanted */
        struct sl_send send = {
            .call = call, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

        lanes.end[0].place = call == 4 ? place : NULL;
        lanes.end[1].sent = 0;
        cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
        cr_assert(lanes_until(&lanes, client_has_sent));
        lanes_turn(&lanes, 50);
    }
    cr_assert_eq(lanes.end[0].placed, 4u << 20);
    cr_assert_eq(lanes.end[0].filled, 1u << 20);
    cr_assert_arr_eq(place, part, 1 << 20);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(part);
    free(place);
}

Test(lane, an_abandoned_send_is_given_back_at_once_or_told)
{
    uint8_t *bytes = calloc(1, 100000), small[10] = {6};
    struct sl_send first = {.call = 1, .bytes = bytes, .count = 100000},
                   second = {.call = 2, .bytes = small, .count = sizeof(small)};

    open_lanes(true, 0);
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &first), SEALANE_OK);
    lanes_turn(&lanes, 2);
    cr_assert_gt(first.sent, 0);
    cr_assert_lt(first.sent, 100000);
    cr_assert(sl_lane_abandon(lanes.end[1].lane, &first));
    memset(bytes, 0xee, 100000); /* ours again */
    cr_assert_eq(sl_lane_cancel(lanes.end[1].lane, 1, SEALANE_CANCELLED), SEALANE_OK);
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &second), SEALANE_OK);
    cr_assert(lanes_until(&lanes, client_has_sent));
    lanes_turn(&lanes, 5);
    cr_assert_eq(lanes.end[0].cancels, 1);
    cr_assert_eq(lanes.end[0].last_call, 2);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(bytes);
}

Test(lane, a_call_that_never_left_is_not_cancelled_at_the_peer)
{
    open_lanes(true, 0);
    cr_assert_eq(sl_lane_cancel(lanes.end[1].lane, 5, SEALANE_CANCELLED), SEALANE_OK);
    lanes_turn(&lanes, 10);
    cr_assert_eq(lanes.end[0].cancels, 0);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
}

Test(lane, status_text_is_cut_at_a_character)
{
    char text[SL_STATUS_TEXT_MAX + 10];

    open_lanes(true, 0);
    memset(text, 'a', sizeof(text));
    memcpy(text + SL_STATUS_TEXT_MAX - 1, "\xc3\xa9", 2); /* an é across the limit */
    text[sizeof(text) - 1] = '\0';
    cr_assert_eq(sl_lane_status(lanes.end[0].lane, 3, SEALANE_NOT_FOUND, text), SEALANE_OK);
    lanes_turn(&lanes, 5);
    cr_assert_eq(lanes.end[1].statuses, 1);
    cr_assert_eq(lanes.end[1].last_status, SEALANE_NOT_FOUND);
    cr_assert_eq(strlen(lanes.end[1].last_text), SL_STATUS_TEXT_MAX - 1);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
}

/* ---- credits ---- */

static uint64_t frames_seen[3], credit_only[3];

/* A credit-only frame has no records: prefix 16, head 16, tag 16. */
static void count_frames(void *context, const struct link_fake_crossing *crossing)
{
    (void)context;
    if (crossing->kind != LINK_FAKE_WRITE || crossing->ring != SL_RING_MESSAGE)
        return;
    frames_seen[crossing->from]++;
    credit_only[crossing->from] += crossing->count == 48;
}

Test(lane, invariant_5_credit_only_frames_do_not_answer_each_other)
{
    uint8_t *bytes = calloc(1, 500000);
    struct sl_send send = {.call = 1, .bytes = bytes, .count = 500000};

    open_lanes(true, 0);
    link_fake_tap(lanes.world, count_frames, NULL);
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    cr_assert(lanes_until(&lanes, client_has_sent));
    lanes_turn(&lanes, 100);
    cr_assert_gt(frames_seen[LINK_FAKE_CLIENT], 500);
    cr_assert_gt(credit_only[LINK_FAKE_SERVER], 50, "the server, which says nothing, must credit");
    cr_assert_leq(credit_only[LINK_FAKE_SERVER], frames_seen[LINK_FAKE_CLIENT] / 2 + 1);
    cr_assert_eq(credit_only[LINK_FAKE_CLIENT], 0, "the client had nothing but credits to credit");
    memset(frames_seen, 0, sizeof(frames_seen));
    lanes_turn(&lanes, 200);
    cr_assert_eq(frames_seen[LINK_FAKE_CLIENT] + frames_seen[LINK_FAKE_SERVER], 0,
                 "a quiet lane is quiet");
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(bytes);
}

Test(lane, invariant_5_the_last_slot_is_left_for_credit)
{
    uint8_t *bytes = calloc(1, 500000);
    struct sl_send sends[2] = {{.call = 1, .bytes = bytes, .count = 500000},
                               {.call = 2, .bytes = bytes, .count = 500000}};

    open_lanes(true, 0);
    link_fake_hold_all(lanes.world, true);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sl_lane_send(lanes.end[i].lane, &sends[i]), SEALANE_OK);
    lanes_turn(&lanes, 50);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(sl_sender_room(&lanes.end[i].lane->tx[SL_RING_MESSAGE]), 1,
                     "end %d filled all but one slot", i);
    link_fake_hold_all(lanes.world, false);
    while (lanes.end[0].sent + lanes.end[1].sent <
           2) { /* both rings were full of data and still they drain */
        lanes_turn(&lanes, 1);
        check_counters();
    }
    lanes_turn(&lanes, 400);
    cr_assert_eq(lanes.end[0].byte_count, 500000);
    cr_assert_eq(lanes.end[1].byte_count, 500000);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(bytes);
}

/* ---- carriers that are slow ---- */

Test(lane, a_carrier_that_is_full_is_tried_again_with_the_same_bytes)
{
    uint8_t *part = malloc(200000), *place = calloc(1, 200000), byte = 1;
    struct sl_part parts[] = {{part, 200000}};
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    fill(part, 200000, 7);
    open_lanes(true, 0);
    lanes.end[0].place = place;
    for (uint64_t nth = 0; nth < 20; nth += 2)
        link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                             .any_ring = true,
                                                             .nth = nth * 3,
                                                             .times = 2,
                                                             .what = LINK_FAKE_AGAIN});
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    cr_assert(lanes_until(&lanes, client_has_sent));
    lanes_turn(&lanes, 50);
    cr_assert_arr_eq(place, part, 200000);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(part);
    free(place);
}

Test(lane, chunks_are_announced_only_once_they_are_placed)
{
    uint8_t *part = calloc(1, 30000), *place = calloc(1, 30000), byte = 1;
    struct sl_part parts[] = {{part, 30000}};
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    open_lanes(true, 0);
    lanes.end[0].place = place;
    link_fake_hold_placed(lanes.world, true);
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    lanes_turn(&lanes, 50);
    cr_assert_eq(lanes.end[0].messages, 1, "the message does not wait for chunks");
    cr_assert_eq(lanes.end[0].placed, 0);
    link_fake_hold_placed(lanes.world, false);
    lanes_turn(&lanes, 50);
    cr_assert_eq(lanes.end[0].filled, 30000);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(part);
    free(place);
}

/* ---- epochs ---- */

Test(lane, keys_change_every_eight_records_on_both_rings_without_anybody_noticing, .timeout = 60)
{
    enum {
        BYTES = 16384 * 200
    };
    uint8_t *part = malloc(BYTES), *place = calloc(1, BYTES), *bytes = malloc(300000);
    struct sl_part parts[] = {{part, BYTES}};

    fill(part, BYTES, 1);
    fill(bytes, 300000, 2);
    open_lanes(true, 3);
    for (int round = 0; round < 4; round++) {
        struct sl_send send = {.call = (uint64_t)round + 1,
                               .bytes = bytes,
                               .count = 300000,
                               .parts = parts,
                               .part_count = 1};

        lanes.end[0].place = place;
        lanes.end[0].byte_count = lanes.end[0].filled = 0;
        lanes.end[1].sent = 0;
        memset(place, 0, BYTES);
        cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
        cr_assert(lanes_until(&lanes, client_has_sent));
        lanes_turn(&lanes, 50);
        cr_assert_eq(lanes.end[0].filled, BYTES);
        cr_assert_arr_eq(place, part, BYTES);
        cr_assert_arr_eq(lanes.end[0].bytes, bytes, 300000);
    }
    cr_assert_gt(lanes.end[0].lane->rx[SL_RING_MESSAGE].keys.epoch, 150);
    cr_assert_eq(lanes.end[0].lane->rx[SL_RING_BULK].keys.epoch, 100);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(part);
    free(place);
    free(bytes);
}

/* ---- silence ---- */

Test(lane, a_peer_that_says_nothing_is_taken_for_dead, .timeout = 30)
{
    lanes_init(&lanes, true);
    lanes.options[1].dead_after_ms = 200;
    lanes_listen(&lanes);
    lanes_connect(&lanes);
    link_fake_hold_all(lanes.world, true);
    while (!lanes.end[1].closed)
        cr_assert_eq(sealane_node_poll(lanes.nodes[1], 10), SEALANE_OK);
    cr_assert_eq(lanes.end[1].close_status, SEALANE_UNAVAILABLE);
    cr_assert_str_eq(lanes.end[1].close_text, "the peer said nothing for 200 ms");
    link_fake_hold_all(lanes.world, false);
    lanes_free(&lanes);
}

Test(lane, a_quiet_peer_that_answers_pings_is_alive, .timeout = 30)
{
    lanes_init(&lanes, true);
    lanes.options[1].dead_after_ms = 500;
    lanes_listen(&lanes);
    lanes_connect(&lanes);
    for (int i = 0; i < 160; i++) { /* 1.6 s: several PINGs */
        for (int n = 0; n < 2; n++)
            cr_assert_eq(sealane_node_poll(lanes.nodes[n], 5), SEALANE_OK);
    }
    cr_assert_gt(lanes.end[1].lane->pinged_ns, 0);
    cr_assert_eq(lanes.end[1].closed, 0, "%s", lanes.end[1].close_text);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
}

Test(lane, a_peer_that_dies_is_told_once_and_everything_is_given_back)
{
    uint8_t *part = calloc(1, 1 << 20), byte = 1;
    struct sl_part parts[] = {{part, 1 << 20}};
    struct sl_send send = {.call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

    open_lanes(true, 0);
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    lanes_turn(&lanes, 3);
    link_fake_cut(lanes.world);
    cr_assert(lanes_until(&lanes, lanes_both_closed));
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(lanes.end[i].closed, 1);
        cr_assert_eq(lanes.end[i].close_status, SEALANE_UNAVAILABLE);
    }
    free(part);
    lanes_free(&lanes);
}
