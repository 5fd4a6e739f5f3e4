/* SPDX-License-Identifier: Apache-2.0 */
/* lane_wipe_test.c - what is left of a lane's keys in the memory of its process, both ends in one: while it is up, after epochs, after
 * its end. All writable memory is searched, freed heap and stacks included. Linked with --wrap=sl_keys_init, to learn the
 * exporter's secret, and --wrap=sl_lane_control, to look at once when keys exist. */
#include "tests/support/lanes.h"
#include "tests/support/memory_scan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    EPOCHS = 16,     /* of each ring and direction that are looked for */
    TABLE_LINES = 8, /* of what the AEAD made of one key */
    LINE_BYTES = 16
};

static struct lanes lanes;

/* Of one ring and direction. */
struct stream {
    struct needle secret[EPOCHS], key[EPOCHS], iv[EPOCHS];
};

static struct secrets {
    unsigned asked; /* how often sl_keys_init ran */
    bool seen;      /* the exporter's secret stood in memory when it did */
    unsigned left;  /* how often it still did once an end had its keys */
    enum sl_aead aead;
    struct needle exporter;
    struct stream streams[2][SL_RING_COUNT]; /* by direction and ring */
    struct needle lines[TABLE_LINES];        /* of the AEAD's table */
} secrets;

/* ---- what is looked for ---- */

static void stream_derive(struct stream *stream, const uint8_t *exporter, const uint8_t context[3])
{
    uint8_t secret[SL_SECRET_BYTES], next[SL_SECRET_BYTES], key[SL_AEAD_KEY_MAX];
    size_t key_bytes = sl_aead_key_bytes((enum sl_aead)context[2]);

    cr_assert_eq(sl_expand_label(48, exporter, "sl lane", context, 3, secret, 48), SEALANE_OK);
    for (int e = 0; e < EPOCHS; e++) {
        stream->secret[e] = needle_of(secret, sizeof(secret));
        cr_assert_eq(sl_expand_label(48, secret, "key", NULL, 0, key, key_bytes), SEALANE_OK);
        stream->key[e] = needle_of(key, 16); /* AES-256: the first round key */
        cr_assert_eq(sl_expand_label(48, secret, "iv", NULL, 0, key, SL_NONCE_BYTES), SEALANE_OK);
        stream->iv[e] = needle_of(key, SL_NONCE_BYTES);
        cr_assert_eq(sl_expand_label(48, secret, "sl next", NULL, 0, next, 48), SEALANE_OK);
        memcpy(secret, next, sizeof(secret));
    }
    sl_wipe(secret, sizeof(secret));
    sl_wipe(next, sizeof(next));
    sl_wipe(key, sizeof(key));
}

SEALANE_RESULT __real_sl_keys_init(struct sl_keys *keys, const uint8_t *secret,
                                   enum sl_direction direction, unsigned ring, enum sl_aead aead,
                                   unsigned shift);
SEALANE_RESULT __wrap_sl_keys_init(struct sl_keys *keys, const uint8_t *secret,
                                   enum sl_direction direction, unsigned ring, enum sl_aead aead,
                                   unsigned shift);

/* Both ends ask for the keys of every stream, from the same secret. */
SEALANE_RESULT __wrap_sl_keys_init(struct sl_keys *keys, const uint8_t *secret,
                                   enum sl_direction direction, unsigned ring, enum sl_aead aead,
                                   unsigned shift)
{
    const uint8_t context[3] = {(uint8_t)direction, (uint8_t)ring, (uint8_t)aead};

    if (secrets.asked++ == 0) {
        secrets.exporter = needle_of(secret, SL_SECRET_BYTES);
        (void)memory_scan(&secrets.exporter, 1, NULL);
        secrets.seen = secrets.exporter.found;
    }
    secrets.aead = aead;
    stream_derive(&secrets.streams[direction][ring], secret, context);
    return __real_sl_keys_init(keys, secret, direction, ring, aead, shift);
}

SEALANE_RESULT __real_sl_lane_control(struct sl_lane *lane, const struct sl_record *record);
SEALANE_RESULT __wrap_sl_lane_control(struct sl_lane *lane, const struct sl_record *record);

/* CONFIRM is queued as soon as there are keys. */
SEALANE_RESULT __wrap_sl_lane_control(struct sl_lane *lane, const struct sl_record *record)
{
    if (record->type == SL_RECORD_CONFIRM) {
        (void)memory_scan(&secrets.exporter, 1, NULL);
        secrets.left += secrets.exporter.found;
    }
    return __real_sl_lane_control(lane, record);
}

/* Some round keys and powers of H, where ipsec-mb has them for every key length and every CPU. ChaCha20-Poly1305 has none. */
static void lines_take(const struct sl_aead_key *key)
{
    static const size_t at[TABLE_LINES] = {0, 48, 96, 144, 256, 288, 320, 352};

    for (size_t i = 0; i < TABLE_LINES && secrets.aead != SL_AEAD_CHACHA20_POLY1305; i++)
        secrets.lines[i] = needle_of((const uint8_t *)key + at[i], LINE_BYTES);
}

/* ---- looking ---- */

/* Searches once for everything; the verdicts are then in `secrets`. */
static void search(void)
{
    static struct needle all[NEEDLES_MAX];
    struct needle *const from[] = {&secrets.exporter, &secrets.streams[0][0].secret[0],
                                   &secrets.lines[0]};
    const size_t counts[] = {1, sizeof(secrets.streams) / sizeof(struct needle), TABLE_LINES};
    size_t count = 0, back = 0;

    for (size_t i = 0; i < 3; i++) {
        for (size_t n = 0; n < counts[i]; n++) {
            if (from[i][n].bytes > 0)
                all[count++] = from[i][n];
        }
    }
    cr_assert_gt(memory_scan(all, count, NULL), 1 << 20);
    for (size_t i = 0; i < 3; i++) {
        for (size_t n = 0; n < counts[i]; n++) {
            if (from[i][n].bytes > 0)
                from[i][n].found = all[back++].found;
        }
    }
}

/* Of each stream: two epochs are in the table and the secret of the next is kept. Returns the least old epoch. */
static uint64_t expect_only_keys_in_use(void)
{
    uint64_t least = UINT64_MAX;

    search();
    cr_assert_not(secrets.exporter.found, "the exporter's secret is still there");
    for (int s = 0; s < 2 * SL_RING_COUNT; s++) {
        const struct stream *stream = &secrets.streams[s / 2][s % 2];
        uint64_t old = lanes.end[s / 2 == SL_CLIENT_TO_SERVER].lane->tx[s % 2].keys.epoch;

        cr_assert_eq(lanes.end[s / 2 != SL_CLIENT_TO_SERVER].lane->rx[s % 2].keys.epoch, old);
        cr_assert_lt(old + 2, EPOCHS);
        least = old < least ? old : least;
        for (uint64_t e = 0; e < EPOCHS; e++) {
            bool used = e == old || e == old + 1;

            cr_assert_eq(stream->key[e].found, used, "key of epoch %d, stream %d", (int)e, s);
            cr_assert_eq(stream->iv[e].found, used, "iv of epoch %d, stream %d", (int)e, s);
            cr_assert_eq(stream->secret[e].found, e == old + 2, "secret of epoch %d, stream %d",
                         (int)e, s);
        }
    }
    return least;
}

static void expect_nothing(const char *when)
{
    search();
    cr_assert_not(secrets.exporter.found, "%s: the exporter's secret is left", when);
    for (int s = 0; s < 2 * SL_RING_COUNT; s++) {
        const struct stream *stream = &secrets.streams[s / 2][s % 2];

        for (int e = 0; e < EPOCHS; e++) {
            cr_assert_not(stream->key[e].found, "%s: key of epoch %d, stream %d", when, e, s);
            cr_assert_not(stream->iv[e].found, "%s: iv of epoch %d, stream %d", when, e, s);
            cr_assert_not(stream->secret[e].found, "%s: secret of epoch %d, stream %d", when, e, s);
        }
    }
    for (int i = 0; i < TABLE_LINES; i++)
        cr_assert_not(secrets.lines[i].found, "%s: line %d of the AEAD's table", when, i);
}

/* ---- lanes ---- */

enum carrier {
    FAKE,
    LOCAL,
    TCP
};

static void listen_small(enum carrier carrier, enum sealane_aead aead)
{
    if (strcmp(SEALANE_AEAD, "ipsecmb") != 0)
        cr_skip("libcrypto keeps keys in memory of its own");
    lanes_init(&lanes, carrier == FAKE);
    if (carrier == TCP)
        (void)snprintf(lanes.address, sizeof(lanes.address), "127.0.0.1:0");
    lanes_use_aead(&lanes, aead);
    for (int i = 0; i < 2; i++) {
        lanes.options[i].message_slot_bytes = 1024;
        lanes.options[i].message_slots = 8;
        lanes.options[i].bulk_chunk_bytes = 16384;
        lanes.options[i].bulk_slots = 8;
        lanes.options[i].epoch_shift = 3;
    }
    lanes_listen(&lanes);
}

/* Messages with a tensor each way, until every stream is in epoch `epoch` or later. */
static void traffic(uint64_t epoch)
{
    static uint64_t call;
    static uint8_t place[100];
    uint8_t byte = 1, tensor[100] = {2};
    struct sl_part parts[] = {{tensor, sizeof(tensor)}};

    while (lanes.end[1].lane->tx[SL_RING_BULK].keys.epoch < epoch) {
        struct sl_send sends[2];

        call++;
        for (int end = 0; end < 2; end++) {
            lanes.end[end].place = place;
            sends[end] = (struct sl_send){
                .call = call, .bytes = &byte, .count = 1, .parts = parts, .part_count = 1};
            cr_assert_eq(sl_lane_send(lanes.end[end].lane, &sends[end]), SEALANE_OK);
        }
        while (sends[0].state != SL_SEND_DONE || sends[1].state != SL_SEND_DONE)
            lanes_turn(&lanes, 1);
        lanes_turn(&lanes, 4); /* the BULK records, too */
    }
}

static void close_lanes(void)
{
    lanes_free(&lanes);
    expect_nothing("after the node's end");
}

Test(lane_wipe, invariant_10_only_keys_in_use_are_in_memory)
{
    listen_small(FAKE, SEALANE_AES_256_GCM);
    lanes_connect(&lanes);
    cr_assert_eq(secrets.asked, 8);
    cr_assert(secrets.seen, "the search does not find what is there");
    cr_assert_eq(secrets.left, 0, "the exporter's secret outlived the making of keys");
    cr_assert_eq(expect_only_keys_in_use(), 0);
    traffic(2);
    cr_assert_geq(expect_only_keys_in_use(), 2);
    lanes_disconnect(&lanes);
    close_lanes();
}

static void expect_wiped_at_the_lanes_end(enum carrier carrier, enum sealane_aead aead)
{
    listen_small(carrier, aead);
    lanes_connect(&lanes);
    traffic(
        2); /* a lap more than the epoch: the job of seq 0, whose nonce is the iv, is overwritten */
    (void)expect_only_keys_in_use();
    lines_take(lanes.end[0].lane->rx[SL_RING_BULK].keys.key[0]);
    search();
    for (int i = 0; i < TABLE_LINES; i++)
        cr_assert(secrets.lines[i].bytes == 0 || secrets.lines[i].found);
    lanes_disconnect(&lanes);
    expect_nothing("after the lane's end");
    close_lanes();
}

Test(lane_wipe, invariant_10_nothing_is_left_when_a_lane_over_the_fake_ends)
{
    expect_wiped_at_the_lanes_end(FAKE, SEALANE_AES_256_GCM);
}
Test(lane_wipe, invariant_10_nothing_is_left_when_a_lane_over_link_local_ends)
{
    expect_wiped_at_the_lanes_end(LOCAL, SEALANE_AES_256_GCM);
}
Test(lane_wipe, invariant_10_nothing_is_left_when_a_lane_over_tcp_ends)
{
    expect_wiped_at_the_lanes_end(TCP, SEALANE_AES_256_GCM);
}
Test(lane_wipe, invariant_10_nothing_is_left_of_chacha20_poly1305)
{
    expect_wiped_at_the_lanes_end(LOCAL, SEALANE_CHACHA20_POLY1305);
}
Test(lane_wipe, invariant_10_nothing_is_left_of_aes_128)
{
    expect_wiped_at_the_lanes_end(LOCAL, SEALANE_AES_128_GCM);
}

Test(lane_wipe, invariant_10_nothing_is_left_when_nodes_end_under_a_lane)
{
    listen_small(LOCAL, SEALANE_AES_256_GCM);
    lanes_connect(&lanes);
    traffic(1);
    close_lanes();
}

Test(lane_wipe, invariant_10_nothing_is_left_when_an_attack_ends_the_lane)
{
    listen_small(FAKE, SEALANE_AES_256_GCM);
    lanes_connect(&lanes);
    traffic(1);
    link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                         .any_ring = true,
                                                         .what = LINK_FAKE_FLIP,
                                                         .bit = 300});
    cr_assert_eq(sl_lane_status(lanes.end[1].lane, 1, SEALANE_ABORTED, "harmed"), SEALANE_OK);
    cr_assert(lanes_until(&lanes, lanes_both_closed));
    cr_assert_eq(lanes.end[0].close_status, SEALANE_DATA_LOSS);
    expect_nothing("after an attack");
    close_lanes();
}

/* Keys exist, the peer does not prove that it has them. */
Test(lane_wipe, invariant_10_nothing_is_left_of_a_handshake_that_fails_at_its_last_step)
{
    for (int from = LINK_FAKE_CLIENT; from <= LINK_FAKE_SERVER; from++) {
        secrets = (struct secrets){0};
        listen_small(FAKE, SEALANE_AES_256_GCM);
        link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                             .from = (enum link_fake_from)from,
                                                             .ring = SL_RING_MESSAGE,
                                                             .what = LINK_FAKE_FLIP,
                                                             .bit = 200});
        lanes_begin(&lanes);
        cr_assert(lanes_until(&lanes, lanes_both_closed));
        cr_assert_eq(secrets.asked, 8);
        cr_assert(secrets.seen);
        expect_nothing("after a failed handshake");
        close_lanes();
    }
}
