/* SPDX-License-Identifier: Apache-2.0 */
/* lane_attack_test.c - what somebody on the wire, or a peer that lies, can do to a lane: end it, and nothing else. */
#include "tests/support/lanes.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static struct lanes lanes;

static void listen_small(void)
{
    lanes_init(&lanes, true);
    for (int i = 0; i < 2; i++) {
        lanes.options[i].message_slot_bytes = 1024;
        lanes.options[i].message_slots = 8;
        lanes.options[i].bulk_chunk_bytes = 16384;
        lanes.options[i].bulk_slots = 8;
        lanes.options[i].epoch_shift = 3;
    }
    lanes_listen(&lanes);
}

static bool server_closed(struct lanes *all)
{
    return all->end[0].closed > 0;
}

static void send_bytes(int from, struct sl_send *send, const void *bytes, size_t count)
{
    static uint64_t call;

    *send = (struct sl_send){.call = ++call, .bytes = bytes, .count = count};
    cr_assert_eq(sl_lane_send(lanes.end[from].lane, send), SEALANE_OK, "%s",
                 sealane_last_error()->message);
}

/* ---- invariant 1: what is seen on the wire ---- */

struct wire {
    uint8_t *bytes; /* everything that crossed, one after the other */
    size_t count, size;
    bool wrote[3];
    int late_sends;
    int bad_heads;
};

static void record(void *context, const struct link_fake_crossing *crossing)
{
    struct wire *wire = context;
    bool message = crossing->kind == LINK_FAKE_WRITE && crossing->ring == SL_RING_MESSAGE;
    size_t zeros_from = message ? 4 : 16, zeros_to = message ? 16 : 128;

    if (wire->count + crossing->count > wire->size) {
        wire->size = (wire->count + crossing->count) * 2;
        wire->bytes = realloc(wire->bytes, wire->size);
    }
    memcpy(wire->bytes + wire->count, crossing->bytes, crossing->count);
    wire->count += crossing->count;
    if (crossing->kind == LINK_FAKE_SEND) {
        wire->late_sends += wire->wrote[crossing->from];
        return;
    }
    wire->wrote[crossing->from] = true;
    for (size_t i = zeros_from; i < zeros_to && i < crossing->count; i++)
        wire->bad_heads += crossing->bytes[i] != 0;
    wire->bad_heads +=
        message && crossing->count != sl_get32(crossing->bytes) + SL_PREFIX_BYTES + SL_TAG_BYTES;
}

Test(lane_attack, invariant_1_nothing_that_is_said_is_seen)
{
    enum {
        MARKER = 24,
        TENSOR = 100000
    };
    uint8_t marker[3][MARKER], message[300], *tensor = calloc(1, TENSOR), *place = malloc(TENSOR);
    struct sl_part parts[] = {{tensor, TENSOR}};
    struct sl_send send = {
        .call = 1, .bytes = message, .count = sizeof(message), .parts = parts, .part_count = 1};
    struct wire wire = {0};

    for (int i = 0; i < 3; i++) {
        cr_assert_eq(sl_random(marker[i], MARKER), SEALANE_OK);
        for (int b = 0; b < MARKER; b++)
            marker[i][b] =
                (uint8_t)('a' + marker[i][b] % 26); /* text, so that STATUS may carry it */
    }
    marker[2][MARKER - 1] = '\0';
    for (size_t at = 0; at + MARKER <= sizeof(message); at += MARKER)
        memcpy(message + at, marker[0], MARKER);
    for (size_t at = 0; at + MARKER <= TENSOR; at += 5000)
        memcpy(tensor + at, marker[1], MARKER);
    listen_small();
    link_fake_tap(lanes.world, record, &wire);
    lanes_connect(&lanes);
    lanes.end[0].place = place;
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    cr_assert_eq(sl_lane_status(lanes.end[0].lane, 1, SEALANE_NOT_FOUND, (char *)marker[2]),
                 SEALANE_OK);
    lanes_turn(&lanes, 300);
    cr_assert_eq(lanes.end[0].filled, TENSOR);
    cr_assert_str_eq(lanes.end[1].last_text, (char *)marker[2]);
    cr_assert_gt(wire.count, TENSOR);
    for (int i = 0; i < 3; i++)
        cr_assert_null(memmem(wire.bytes, wire.count, marker[i], MARKER - 1),
                       "marker %d is in the clear", i);
    cr_assert_eq(wire.bad_heads, 0, "clear bytes are a length and zeros");
    cr_assert_eq(wire.late_sends, 0, "no two-sided bytes once an end wrote to a ring");
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(wire.bytes);
    free(tensor);
    free(place);
}

/* ---- invariant 3: a (key, nonce) pair seals at most one thing ---- */

struct sealed {
    const void *key;
    uint8_t nonce[SL_NONCE_BYTES];
};

enum {
    SEALED_MAX = 1 << 16
};
static struct sealed *sealed_all;
static size_t sealed_count, sealed_twice;

void __real_sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io,
                         uint8_t tag[SL_TAG_BYTES]);
void __wrap_sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io,
                         uint8_t tag[SL_TAG_BYTES]);

/* The linker sends every seal through here (--wrap). A key that replaces another in place has another iv. */
void __wrap_sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io,
                         uint8_t tag[SL_TAG_BYTES])
{
    for (size_t i = 0; sealed_all && i < sealed_count; i++)
        sealed_twice +=
            sealed_all[i].key == key && memcmp(sealed_all[i].nonce, io->nonce, SL_NONCE_BYTES) == 0;
    if (sealed_all && sealed_count < SEALED_MAX) {
        sealed_all[sealed_count].key = key;
        memcpy(sealed_all[sealed_count++].nonce, io->nonce, SL_NONCE_BYTES);
    }
    __real_sl_aead_seal(key, io, tag);
}

Test(lane_attack, invariant_3_no_nonce_is_used_twice_under_a_key)
{
    uint8_t *part = malloc(300000), *place = malloc(300000), *message = calloc(1, 30000);
    struct sl_part parts[] = {{part, 300000}};
    uint64_t call = 0;

    sealed_all = calloc(SEALED_MAX, sizeof(*sealed_all));
    memset(part, 7, 300000);
    listen_small();
    for (int connection = 0; connection < 3; connection++) {
        lanes_connect(&lanes);
        lanes.end[0].place = place;
        for (uint64_t nth = 0; nth < 60; nth += 3) /* a carrier that is often full */
            link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                                 .any_ring = true,
                                                                 .nth = nth,
                                                                 .what = LINK_FAKE_AGAIN});
        for (int round = 0; round < 6; round++) {
            struct sl_send send = {
                .call = ++call, .bytes = message, .count = 30000, .parts = parts, .part_count = 1};
            struct sl_send given_up = {
                .call = ++call, .bytes = message, .count = 30000, .parts = parts, .part_count = 1};

            cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
            cr_assert_eq(sl_lane_send(lanes.end[1].lane, &given_up), SEALANE_OK);
            lanes_turn(&lanes, 2 + round * 3);
            part[round]++; /* a changed buffer is not sealed under an old seq */
            cr_assert(sl_lane_abandon(lanes.end[1].lane, &given_up));
            while (send.state != SL_SEND_DONE)
                lanes_turn(&lanes, 1);
        }
        cr_assert_eq(lanes.end[0].closed, 0, "%s", lanes.end[0].close_text);
        lanes_disconnect(&lanes);
    }
    cr_assert_gt(sealed_count, 800);
    cr_assert_lt(sealed_count, SEALED_MAX);
    cr_assert_eq(sealed_twice, 0);
    lanes_free(&lanes);
    free(sealed_all);
    free(part);
    free(place);
    free(message);
}

/* ---- invariant 4: only the next record is accepted ---- */

enum {
    DISTURBED = 400000 /* a tensor of several writes */
};

/* Sends ten frames and a tensor with something done to the writes; the lane must end, and what was delivered is a prefix. */
static void disturb(enum link_fake_what what, enum sl_ring_id ring, uint64_t nth)
{
    uint8_t *part = malloc(DISTURBED), *place = calloc(1, DISTURBED), message[10][200];
    struct sl_part parts[] = {{part, DISTURBED}};
    struct sl_send tensor = {.call = 1000,
                             .bytes = message[0],
                             .count = 200,
                             .parts = parts,
                             .part_count = 1},
                   sends[10];

    for (int i = 0; i < 10; i++)
        memset(message[i], i + 1, 200);
    memset(part, 0x77, DISTURBED);
    listen_small();
    lanes_connect(&lanes);
    lanes.end[0].place = place;
    link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                         .from = LINK_FAKE_CLIENT,
                                                         .ring = ring,
                                                         .nth = nth,
                                                         .what = what});
    for (int i = 0; i < 10 && lanes.end[1].lane; i++) {
        send_bytes(1, &sends[i], message[i], 200);
        lanes_turn(&lanes, 2);
    }
    if (lanes.end[1].lane) {
        cr_assert_eq(sl_lane_send(lanes.end[1].lane, &tensor), SEALANE_OK);
        lanes_turn(&lanes, 100);
    }
    cr_assert_eq(lanes.end[0].closed, 1, "%d to write %llu of ring %d went unseen", (int)what,
                 (unsigned long long)nth, (int)ring);
    cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS, "%s", lanes.end[0].close_text);
    cr_assert(lanes_until(&lanes, lanes_both_closed));
    cr_assert_eq(lanes.end[1].close_status, SEALANE_UNAVAILABLE,
                 "the peer is told nothing but that the lane is gone");
    for (size_t i = 0; i < lanes.end[0].byte_count; i++)
        cr_assert_eq(lanes.end[0].bytes[i], i < 2000 ? i / 200 + 1 : 1, "out of order at %zu", i);
    for (size_t i = 0; i < DISTURBED; i++)
        cr_assert(place[i] == 0x77 || place[i] == 0,
                  "byte %zu of the tensor is neither right nor wiped", i);
    lanes_free(&lanes);
    free(part);
    free(place);
}

Test(lane_attack, invariant_4_a_lost_frame_ends_the_lane)
{
    disturb(LINK_FAKE_LOSE, SL_RING_MESSAGE, 4);
}

Test(lane_attack, invariant_4_a_frame_whose_bytes_are_lost_ends_the_lane)
{
    disturb(LINK_FAKE_LOSE_BYTES, SL_RING_MESSAGE, 4);
}

Test(lane_attack, invariant_4_an_overtaken_frame_ends_the_lane)
{
    disturb(LINK_FAKE_HOLD, SL_RING_MESSAGE, 4);
}

Test(lane_attack, invariant_4_a_repeated_frame_ends_the_lane)
{
    disturb(LINK_FAKE_TWICE, SL_RING_MESSAGE, 4);
}

Test(lane_attack, invariant_4_lost_chunks_end_the_lane)
{
    disturb(LINK_FAKE_LOSE, SL_RING_BULK, 0);
}

Test(lane_attack, invariant_4_chunks_whose_bytes_are_lost_end_the_lane)
{
    disturb(LINK_FAKE_LOSE_BYTES, SL_RING_BULK, 1);
}

/* An image of one write in the place of another of the same length. */
struct splice {
    uint8_t image[SL_SCRATCH_BYTES];
    size_t count;
    enum link_fake_from from;
    enum sl_ring_id ring;
    uint64_t skip;
};

static void take_image(void *context, const struct link_fake_crossing *crossing)
{
    struct splice *splice = context;

    if (crossing->kind != LINK_FAKE_WRITE || crossing->from != splice->from ||
        crossing->ring != splice->ring || splice->count > 0 || splice->skip-- > 0)
        return;
    memcpy(splice->image, crossing->bytes, crossing->count);
    splice->count = crossing->count;
}

static void put_image(void *context, uint8_t *bytes, size_t count)
{
    const struct splice *splice = context;

    memcpy(bytes, splice->image, count < splice->count ? count : splice->count);
}

/* Every image is of a true frame with the same content and length, so only where and when it was sealed differs. */
static void splice_frame(enum link_fake_from from, uint64_t skip, bool other_lane)
{
    uint8_t message[100] = {9};
    struct splice *splice = calloc(1, sizeof(*splice));
    struct sl_send sends[24];

    splice->from = from;
    splice->skip = skip;
    listen_small();
    lanes_connect(&lanes);
    link_fake_tap(lanes.world, take_image, splice);
    for (int i = 0; i < 12; i++) {
        send_bytes(i % 2, &sends[i], message, sizeof(message));
        lanes_turn(&lanes, 2);
    }
    cr_assert_gt(splice->count, 0);
    if (other_lane) {
        lanes_disconnect(&lanes);
        lanes_connect(&lanes);
    }
    lanes.end[0].byte_count = 0;
    link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                         .from = LINK_FAKE_CLIENT,
                                                         .ring = SL_RING_MESSAGE,
                                                         .what = LINK_FAKE_CHANGE,
                                                         .change = put_image,
                                                         .context = splice});
    send_bytes(1, &sends[12], message, sizeof(message));
    lanes_turn(&lanes, 5);
    cr_assert_eq(lanes.end[0].closed, 1);
    cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS);
    cr_assert_eq(lanes.end[0].byte_count, 0, "nothing of the spliced frame was delivered");
    lanes_free(&lanes);
    free(splice);
}

Test(lane_attack, invariant_4_an_old_frame_is_refused)
{
    splice_frame(LINK_FAKE_CLIENT, 2, false);
}
Test(lane_attack, invariant_4_a_frame_of_the_other_direction_is_refused)
{
    splice_frame(LINK_FAKE_SERVER, 2, false);
}
Test(lane_attack, invariant_4_a_frame_of_another_connection_is_refused)
{
    splice_frame(LINK_FAKE_CLIENT, 0, true);
}

/* ---- every bit ---- */

Test(lane_attack, every_bit_of_a_frame_that_is_flipped_ends_the_lane_undelivered, .timeout = 300)
{
    uint8_t message[24] = {1, 2, 3};
    size_t bytes = SL_PREFIX_BYTES + SL_FRAME_HEAD_BYTES + SL_RECORD_HEAD_BYTES + sizeof(message) +
                   SL_TAG_BYTES;

    listen_small();
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        struct sl_send send;

        lanes_connect(&lanes);
        link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                             .from = LINK_FAKE_CLIENT,
                                                             .ring = SL_RING_MESSAGE,
                                                             .what = LINK_FAKE_FLIP,
                                                             .bit = bit});
        send_bytes(1, &send, message, sizeof(message));
        lanes_turn(&lanes, 3);
        cr_assert_eq(lanes.end[0].closed, 1, "bit %zu", bit);
        cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS, "bit %zu", bit);
        cr_assert_eq(lanes.end[0].messages, 0, "bit %zu", bit);
        cr_assert(lanes_until(&lanes, lanes_both_closed));
        link_fake_forget_rules(lanes.world);
    }
    lanes_free(&lanes);
}

Test(lane_attack, a_changed_confirm_never_lets_the_lane_come_up)
{
    listen_small();
    for (size_t bit = 0; bit < 8 * (SL_PREFIX_BYTES + SL_FRAME_HEAD_BYTES + SL_RECORD_HEAD_BYTES +
                                    SL_HASH_BYTES + SL_TAG_BYTES);
         bit += 37) {
        enum link_fake_from from = bit % 2 ? LINK_FAKE_CLIENT : LINK_FAKE_SERVER;

        link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                             .from = from,
                                                             .ring = SL_RING_MESSAGE,
                                                             .what = LINK_FAKE_FLIP,
                                                             .bit = bit});
        lanes_begin(&lanes);
        cr_assert(lanes_until(&lanes, lanes_both_closed));
        cr_assert_eq(lanes.end[from == LINK_FAKE_CLIENT ? 0 : 1].ready, 0, "bit %zu", bit);
        lanes_disconnect(&lanes);
        link_fake_forget_rules(lanes.world);
    }
    lanes_free(&lanes);
}

/* ---- invariant 6 ---- */

Test(lane_attack, invariant_6_a_damaged_chunk_is_never_told_and_its_place_is_wiped)
{
    uint8_t *part = malloc(65536), *place = malloc(65536), byte = 1;
    struct sl_part parts[] = {{part, 65536}};

    memset(part, 0x3c, 65536);
    listen_small();
    for (size_t chunk = 0; chunk < 4; chunk++) {
        struct sl_send send = {
            .call = 1, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};

        memset(place, 0xee, 65536);
        lanes_connect(&lanes);
        lanes.end[0].place = place;
        link_fake_rule(lanes.world,
                       &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                .from = LINK_FAKE_CLIENT,
                                                .ring = SL_RING_BULK,
                                                .nth = chunk / 4,
                                                .what = LINK_FAKE_FLIP,
                                                .bit = (chunk % 4) * (16384 + 128) * 8 + 1024 +
                                                       5000 * chunk});
        cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
        cr_assert(lanes_until(&lanes, lanes_both_closed));
        cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS, "%s", lanes.end[0].close_text);
        cr_assert_eq(lanes.end[0].filled, chunk * 16384, "only the chunks before it were told");
        for (size_t i = 0; i < 16384; i++)
            cr_assert_eq(place[chunk * 16384 + i], 0, "byte %zu of the damaged chunk's place", i);
        link_fake_forget_rules(lanes.world);
    }
    lanes_free(&lanes);
    free(part);
    free(place);
}

/* ---- invariant 9: an authenticated peer that lies ---- */

static void lie(const struct sl_record *record, const char *expected)
{
    lanes_connect(&lanes);
    cr_assert_eq(sl_lane_control(lanes.end[1].lane, record), SEALANE_OK);
    lanes_turn(&lanes, 5);
    cr_assert_eq(lanes.end[0].closed, 1, "record type %u, %zu bytes went unpunished", record->type,
                 record->bytes);
    cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS);
    cr_assert(strstr(lanes.end[0].close_text, expected), "\"%s\" lacks \"%s\"",
              lanes.end[0].close_text, expected);
    cr_assert_eq(lanes.end[0].messages + lanes.end[0].statuses + lanes.end[0].cancels, 0);
    cr_assert(lanes_until(&lanes, lanes_both_closed));
}

Test(lane_attack, invariant_9_records_that_lie_end_the_lane)
{
    static uint8_t body[600] = {17};
    const struct sl_record lies[] = {
        {.type = 0},
        {.type = 9, .call = 1},
        {.type = 255, .call = 1, .body = body, .bytes = 100},
        {.type = SL_RECORD_CONFIRM, .body = body, .bytes = SL_HASH_BYTES},
        {.type = SL_RECORD_MESSAGE, .call = 1},
        {.type = SL_RECORD_MESSAGE, .call = 0, .flags = 3, .body = body, .bytes = 1},
        {.type = SL_RECORD_MESSAGE, .call = 1, .flags = 8, .body = body, .bytes = 1},
        {.type = SL_RECORD_MESSAGE, .call = 1, .flags = SL_MESSAGE_END, .body = body, .bytes = 1},
        {.type = SL_RECORD_STATUS, .call = 1, .body = body, .bytes = 3},
        {.type = SL_RECORD_STATUS, .call = 1, .body = body, .bytes = 4}, /* status 17 */
        {.type = SL_RECORD_STATUS, .call = 1, .body = body + 1, .bytes = 517},
        {.type = SL_RECORD_CANCEL, .call = 1, .body = body + 1, .bytes = 5},
        {.type = SL_RECORD_PING, .body = body, .bytes = 7},
        {.type = SL_RECORD_BULK, .call = 1, .body = body, .bytes = 31},
        {.type = SL_RECORD_BULK, .call = 1, .body = body + 1, .bytes = 32},
    };

    listen_small();
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
        lie(&lies[i], "record");
    lanes_free(&lanes);
}

static void lie_of_run(struct sl_run run, const char *expected)
{
    uint8_t body[SL_BULK_BODY_BYTES];

    sl_run_write(&run, body);
    lie(&(struct sl_record){.type = SL_RECORD_BULK, .call = 1, .body = body, .bytes = sizeof(body)},
        expected);
}

Test(lane_attack, invariant_9_chunks_that_were_not_written_end_the_lane)
{
    listen_small();
    lie_of_run((struct sl_run){.count = 1, .bytes = 1, .seq = 1},
               "announced bulk record 1, expected 0");
    lie_of_run((struct sl_run){.count = 9, .bytes = 9 * 16384, .seq = 0},
               "announced 9 chunks, expected at most 8");
    lie_of_run(
        (struct sl_run){.count = UINT32_MAX, .bytes = (uint64_t)UINT32_MAX * 16384, .seq = 0},
        "expected at most 8");
    lanes_free(&lanes);
}

Test(lane_attack, invariant_6_announced_chunks_without_bytes_fill_nothing)
{
    struct sl_run run = {.count = 1, .bytes = 100};
    uint8_t body[SL_BULK_BODY_BYTES], place[16384];

    listen_small();
    lanes_connect(&lanes);
    memset(place, 0xee, sizeof(place));
    lanes.end[0].place = place;
    sl_run_write(&run, body);
    cr_assert_eq(sl_lane_control(lanes.end[1].lane, &(struct sl_record){.type = SL_RECORD_BULK,
                                                                        .call = 1,
                                                                        .body = body,
                                                                        .bytes = sizeof(body)}),
                 SEALANE_OK);
    lanes_turn(&lanes, 5);
    cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS);
    cr_assert_eq(lanes.end[0].filled, 0);
    cr_assert_eq(place[0], 0);
    lanes_free(&lanes);
}

Test(lane_attack, invariant_5_acknowledging_what_was_not_sent_ends_the_lane)
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        uint8_t byte = 1;
        struct sl_send send;

        listen_small();
        lanes_connect(&lanes);
        lanes.end[1].lane->rx[ring].next += 5;
        lanes.end[1].lane->rx[ring].counted += 5;
        send_bytes(1, &send, &byte, 1);
        lanes_turn(&lanes, 5);
        cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS);
        cr_assert(strstr(lanes.end[0].close_text, "acknowledged"), "%s", lanes.end[0].close_text);
        cr_assert_eq(lanes.end[0].messages, 0);
        lanes_free(&lanes);
    }
}

Test(lane_attack, invariant_9_immediates_that_lie_end_the_lane)
{
    static const uint32_t immediates[] = {0,          1,          9 << 1,
                                          9 << 1 | 1, UINT32_MAX, UINT32_MAX - 1,
                                          1u << 31};
    static const uint8_t bytes[48];

    listen_small();
    for (size_t i = 0; i < sizeof(immediates) / sizeof(immediates[0]); i++) {
        struct sl_link_write write = {.ring = SL_RING_MESSAGE,
                                      .slot = 2,
                                      .from = bytes,
                                      .bytes = sizeof(bytes),
                                      .immediate = immediates[i]};

        lanes_connect(&lanes);
        cr_assert_eq(lanes.end[1].lane->link->ops->write_imm(lanes.end[1].lane->link, &write),
                     SEALANE_OK);
        lanes_turn(&lanes, 5);
        cr_assert_eq(lanes.end[0].closed, 1, "immediate 0x%08x", immediates[i]);
        cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS);
        cr_assert(lanes_until(&lanes, lanes_both_closed));
    }
    lanes_free(&lanes);
}

Test(lane_attack, handshake_bytes_on_a_lane_that_is_up_end_it)
{
    static const uint8_t bytes[] = {22, 3, 3, 0, 5, 1, 0, 0, 1, 0};

    listen_small();
    lanes_connect(&lanes);
    cr_assert_eq(lanes.end[1].lane->link->ops->send(lanes.end[1].lane->link, bytes, sizeof(bytes)),
                 SEALANE_OK);
    cr_assert(lanes_until(&lanes, server_closed));
    cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS);
    lanes_free(&lanes);
}

Test(lane_attack, a_ping_flood_is_answered_by_one_pong_at_a_time)
{
    static const uint8_t body[8] = {1};

    listen_small();
    lanes_connect(&lanes);
    for (int i = 0; i < 20000 && lanes.end[1].lane; i++) {
        cr_assert_eq(sl_lane_control(lanes.end[1].lane, &(struct sl_record){.type = SL_RECORD_PING,
                                                                            .body = body,
                                                                            .bytes = 8}),
                     SEALANE_OK);
        if (i % 100 == 0)
            lanes_turn(&lanes, 1);
    }
    lanes_turn(&lanes, 2000);
    cr_assert_eq(lanes.end[0].closed, 0, "%s", lanes.end[0].close_text);
    cr_assert_leq(lanes.end[0].lane->control.size, 1 << 16, "answers do not pile up");
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
}

Test(lane_attack, an_event_that_is_refused_ends_only_its_lane)
{
    uint8_t byte = 1;
    struct sl_send send;

    listen_small();
    lanes_connect(&lanes);
    lanes.end[0].answer = SEALANE_DATA_LOSS;
    send_bytes(1, &send, &byte, 1);
    lanes_turn(&lanes, 5);
    cr_assert_str_eq(lanes.end[0].close_text, "the test refuses a message");
    cr_assert(lanes_until(&lanes, lanes_both_closed));
    lanes.end[0].answer = SEALANE_OK;
    lanes_connect(&lanes);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
}

/* ---- strangers ---- */

Test(lane_attack, a_stranger_that_never_speaks_is_dropped_in_time)
{
    static const struct sl_link_ops *const ops = &link_fake;
    struct sl_link_event events[8];
    struct sl_port *port;
    struct sl_link *link;
    bool gone = false;

    lanes_init(&lanes, true);
    lanes.options[0].handshake_timeout_ms = 50;
    lanes_listen(&lanes);
    cr_assert_eq(ops->open(NULL, &port), SEALANE_OK);
    cr_assert_eq(ops->connect(port, lanes.address, &link), SEALANE_OK);
    for (int i = 0; i < 300 && !gone; i++) {
        int count = ops->poll(port, events, 8);

        for (int e = 0; e < count; e++)
            gone |= events[e].kind == SL_LINK_GONE;
        cr_assert_eq(sealane_node_poll(lanes.nodes[0], 5), SEALANE_OK);
    }
    cr_assert(gone);
    cr_assert_eq(lanes.end[0].ready, 0);
    ops->close(port);
    lanes_free(&lanes);
}

Test(lane_attack, half_open_strangers_are_limited_and_do_not_keep_others_out_for_long,
     .timeout = 60)
{
    enum {
        STRANGERS = 1300,
        MAY_WAIT = 1024
    };
    static const struct sl_link_ops *const ops = &link_fake;
    struct sl_link_event events[64];
    struct sl_link *links[STRANGERS];
    struct sl_port *port;
    int gone = 0;

    lanes_init(&lanes, true);
    lanes.options[0].handshake_timeout_ms = 300;
    lanes_listen(&lanes);
    cr_assert_eq(ops->open(NULL, &port), SEALANE_OK);
    for (int i = 0; i < STRANGERS; i++)
        cr_assert_eq(ops->connect(port, lanes.address, &links[i]), SEALANE_OK);
    for (int i = 0; i < 2 * STRANGERS; i++) {
        int count = ops->poll(port, events, 64);

        for (int e = 0; e < count; e++)
            gone += events[e].kind == SL_LINK_GONE;
        cr_assert_eq(sealane_node_poll(lanes.nodes[0], 0), SEALANE_OK);
    }
    cr_assert_geq(gone, STRANGERS - MAY_WAIT, "%d were dropped at once", gone);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(sealane_node_poll(lanes.nodes[0], 5), SEALANE_OK);
    lanes_connect(&lanes); /* the others' time is up: there is room again */
    lanes_disconnect(&lanes);
    ops->close(port);
    lanes_free(&lanes);
}

/* ---- what a peer can make us spend ---- */

Test(lane_attack, invariant_9_a_queue_that_is_never_quite_empty_does_not_grow)
{
    struct sl_queue queue = {0};
    uint8_t record[100] = {7};

    cr_assert_eq(sl_queue_push(&queue, record, sizeof(record)), SEALANE_OK);
    for (int i = 0; i < 100000; i++) {
        record[0] = (uint8_t)i;
        cr_assert_eq(sl_queue_push(&queue, record, sizeof(record)), SEALANE_OK);
        queue.begin += sizeof(record);
        cr_assert_eq(queue.at[queue.begin], (uint8_t)i, "the bytes moved along");
    }
    cr_assert_leq(queue.size, 1000);
    sl_queue_clear(&queue);
}

Test(lane_attack, invariant_14_a_full_ring_of_records_does_not_keep_other_lanes_waiting)
{
    /* One turn takes a bounded number of frames; the rest is taken in the next. */
    static const uint8_t body[4] = {1};
    uint64_t before;

    lanes_init(&lanes, true);
    lanes_listen(&lanes);
    lanes_connect(&lanes);
    for (int i = 0; i < 60000; i++)
        cr_assert_eq(
            sl_lane_control(
                lanes.end[1].lane,
                &(struct sl_record){.type = SL_RECORD_CANCEL, .call = 1, .body = body, .bytes = 4}),
            SEALANE_OK);
    cr_assert_eq(sealane_node_poll(lanes.nodes[1], 0), SEALANE_OK);
    before = lanes.end[0].lane->rx[SL_RING_MESSAGE].next;
    cr_assert_eq(sealane_node_poll(lanes.nodes[0], 0), SEALANE_OK);
    cr_assert_leq(lanes.end[0].lane->rx[SL_RING_MESSAGE].next - before, 32);
    lanes_turn(&lanes, 200);
    cr_assert_eq(lanes.end[0].cancels, 60000);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
}
