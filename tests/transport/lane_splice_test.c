/* SPDX-License-Identifier: Apache-2.0 */
/* lane_splice_test.c - everything that somebody who can write a ring can do to one record, as a table, for both rings, both directions
 * and four carriers: an older record in its place, one of another lane, direction, ring, epoch or connection, its neighbour, less of
 * it, more of it, a bit of each field. The record is harmed after it was written and before its reader looks. The lane ends with
 * DATA_LOSS, nothing from the harmed record on is delivered, and another lane of the same nodes goes on. */
#include "tests/transport/lane_pairs.h"

/* ---- before an attack ---- */

static void histories_make(void)
{
    victim.now.images = malloc((size_t)HISTORY * (CHUNK + 128));
    victim.before.images = malloc((size_t)HISTORY * (CHUNK + 128));
}

static void histories_free(void)
{
    free(victim.now.images);
    free(victim.before.images);
}

/* Both lanes, both directions: every ring has had WARM records and no more than one time around more. Then the way back of what is
 * attacked is brought past it, and the same way of the other lane. */
static void warm_up(void)
{
    for (int ring = SL_RING_COUNT - 1; ring >= 0; ring--) {
        for (int i = 0; i < 4; i++) {
            struct pair *pair = &pairs[i / 2];

            while (writer(pair, i % 2, (enum sl_ring_id)ring)->seq < WARM)
                pass_records(pair, 1 - i % 2, ring == SL_RING_BULK);
        }
    }
    while (writer(&pairs[0], 1 - victim.to, victim.ring)->seq <=
           writer(&pairs[0], victim.to, victim.ring)->seq)
        pass_records(&pairs[0], victim.to, victim.ring == SL_RING_BULK);
    while (writer(&pairs[1], victim.to, victim.ring)->seq <=
           writer(&pairs[0], victim.to, victim.ring)->seq)
        pass_records(&pairs[1], 1 - victim.to, victim.ring == SL_RING_BULK);
}

/* ---- what is done to a record ---- */

static const uint8_t *image(const struct history *history, uint64_t seq, size_t stride)
{
    cr_assert_lt(seq, history->count);
    return history->images + seq * stride;
}

static void do_previous(const struct attack *attack)
{
    memcpy(attack->slot, image(&victim.now, attack->seq - 1, attack->stride), attack->stride);
}

static void do_one_epoch_earlier(const struct attack *attack)
{
    memcpy(attack->slot, image(&victim.now, attack->seq - SLOTS, attack->stride), attack->stride);
}

/* Its key was in the same place of the key table. */
static void do_two_epochs_earlier(const struct attack *attack)
{
    memcpy(attack->slot, image(&victim.now, attack->seq - 2 * SLOTS, attack->stride),
           attack->stride);
}

static void do_other_connection(const struct attack *attack)
{
    memcpy(attack->slot, image(&victim.before, attack->seq, attack->stride), attack->stride);
}

/* The record of the same seq in another stream. */
static void splice(const struct attack *attack, const struct pair *pair, int to)
{
    uint64_t seq = writer(pair, to, victim.ring)->seq;

    cr_assert(attack->seq < seq && seq <= attack->seq + SLOTS,
              "seq %llu is not in the ring, which is at %llu", (unsigned long long)attack->seq,
              (unsigned long long)seq);
    memcpy(attack->slot, slot_of(reader(pair, to, victim.ring), attack->seq), attack->stride);
}

static void do_other_lane(const struct attack *attack)
{
    splice(attack, &pairs[1], victim.to);
}

static void do_other_direction(const struct attack *attack)
{
    splice(attack, &pairs[0], 1 - victim.to);
}

/* Ciphertext and tag of a chunk as a frame, or of a frame as a chunk: in the form that is right there. */
static void do_other_ring(const struct attack *attack)
{
    enum {
        BYTES = 256
    };
    const uint8_t *from =
        slot_of(reader(&pairs[0], victim.to, (enum sl_ring_id) !victim.ring), attack->seq);
    bool message_ring = victim.ring == SL_RING_MESSAGE;
    size_t bytes = message_ring ? BYTES : sl_get32(from);

    memset(attack->slot, 0, attack->stride);
    if (message_ring)
        sl_put32(attack->slot, BYTES);
    memcpy(attack->slot + (message_ring ? SL_PREFIX_BYTES : 128),
           from + (message_ring ? 128 : SL_PREFIX_BYTES), bytes);
    memcpy(attack->slot + (message_ring ? SL_PREFIX_BYTES + BYTES : 0),
           from + (message_ring ? 0 : SL_PREFIX_BYTES + bytes), SL_TAG_BYTES);
}

static void do_loss(const struct attack *attack)
{
    memset(attack->slot, 0, attack->stride);
}

static void do_drop(const struct attack *attack)
{
    memcpy(attack->slot, attack->next, attack->stride);
}

static void do_duplicate(const struct attack *attack)
{
    memcpy(attack->next, attack->slot, attack->stride);
}

static void do_reorder(const struct attack *attack)
{
    uint8_t *first = malloc(attack->stride);

    memcpy(first, attack->slot, attack->stride);
    memcpy(attack->slot, attack->next, attack->stride);
    memcpy(attack->next, first, attack->stride);
    free(first);
}

/* ---- fields ---- */

static void length_change(const struct attack *attack, int by, bool move_tag)
{
    uint32_t bytes = sl_get32(attack->slot);
    uint8_t tag[SL_TAG_BYTES];

    memcpy(tag, attack->slot + SL_PREFIX_BYTES + bytes, sizeof(tag));
    bytes = (uint32_t)((int)bytes + by);
    sl_put32(attack->slot, bytes);
    if (move_tag)
        memcpy(attack->slot + SL_PREFIX_BYTES + bytes, tag, sizeof(tag));
}

static void do_shorter_by_1(const struct attack *attack)
{
    length_change(attack, -1, true);
}
static void do_shorter_by_16(const struct attack *attack)
{
    length_change(attack, -16, true);
}
static void do_longer_by_1(const struct attack *attack)
{
    length_change(attack, 1, true);
}
static void do_longer_by_16(const struct attack *attack)
{
    length_change(attack, 16, true);
}
static void do_shorter_length_only(const struct attack *attack)
{
    length_change(attack, -1, false);
}
static void do_longer_length_only(const struct attack *attack)
{
    length_change(attack, 1, false);
}
static void do_length_0(const struct attack *attack)
{
    sl_put32(attack->slot, 0);
}
static void do_length_past_the_slot(const struct attack *attack)
{
    sl_put32(attack->slot, (uint32_t)attack->stride - SL_PREFIX_BYTES - SL_TAG_BYTES + 1);
}
static void do_length_all_ones(const struct attack *attack)
{
    sl_put32(attack->slot, UINT32_MAX);
}
static void do_prefix_first_zero(const struct attack *attack)
{
    attack->slot[4] ^= 1;
}
static void do_prefix_last_zero(const struct attack *attack)
{
    attack->slot[SL_PREFIX_BYTES - 1] ^= 0x80;
}

/* Where ciphertext and tag of the record are. */
static uint8_t *sealed_at(const struct attack *attack, size_t *bytes_p)
{
    bool message_ring = victim.ring == SL_RING_MESSAGE;

    *bytes_p = message_ring ? sl_get32(attack->slot) : CHUNK;
    return attack->slot + (message_ring ? SL_PREFIX_BYTES : 128);
}

static uint8_t *tag_at(const struct attack *attack)
{
    size_t bytes;
    uint8_t *sealed = sealed_at(attack, &bytes);

    return victim.ring == SL_RING_MESSAGE ? sealed + bytes : attack->slot;
}

static void do_first_sealed_bit(const struct attack *attack)
{
    size_t bytes;

    sealed_at(attack, &bytes)[0] ^= 1;
}
static void do_middle_sealed_bit(const struct attack *attack)
{
    size_t bytes;
    uint8_t *at = sealed_at(attack, &bytes);

    at[bytes / 2] ^= 0x10;
}
static void do_last_sealed_bit(const struct attack *attack)
{
    size_t bytes;
    uint8_t *at = sealed_at(attack, &bytes);

    at[bytes - 1] ^= 0x80;
}
static void do_cut_in_half(const struct attack *attack)
{
    size_t bytes;
    uint8_t *at = sealed_at(attack, &bytes);

    memset(at + bytes / 2, 0, bytes - bytes / 2);
}
static void do_first_tag_bit(const struct attack *attack)
{
    tag_at(attack)[0] ^= 1;
}
static void do_last_tag_bit(const struct attack *attack)
{
    tag_at(attack)[SL_TAG_BYTES - 1] ^= 0x80;
}
static void do_no_tag(const struct attack *attack)
{
    memset(tag_at(attack), 0, SL_TAG_BYTES);
}
static void do_tag_of_the_previous(const struct attack *attack)
{
    const uint8_t *from = image(&victim.now, attack->seq - 1, attack->stride);

    memcpy(tag_at(attack), from + (tag_at(attack) - attack->slot), SL_TAG_BYTES);
}

/* ---- the table ---- */

static void do_nothing(const struct attack *attack)
{
    (void)attack;
}
/* Nobody reads what lies between a chunk's tag and its ciphertext, or behind a frame's tag. */
static void do_unread_bytes(const struct attack *attack)
{
    if (victim.ring == SL_RING_BULK)
        memset(attack->slot + SL_TAG_BYTES, 0xee, 128 - SL_TAG_BYTES);
    else
        memset(tag_at(attack) + SL_TAG_BYTES, 0xee, 64);
}

enum where {
    BOTH,
    MESSAGES, /* the message ring only */
    CHUNKS
};

enum {
    WHOLE = 2 /* good: both records that were written; the lane goes on */
};

static const struct harm {
    const char *name;
    void (*run)(const struct attack *attack);
    enum where where;
    unsigned good; /* records before the harmed one that arrive */
} harms[] = {
    {"nothing is done to it", do_nothing, BOTH, WHOLE},
    {"bytes that nobody reads", do_unread_bytes, BOTH, WHOLE},
    {"the previous record again", do_previous, BOTH, 0},
    {"the record of the slot one epoch earlier", do_one_epoch_earlier, BOTH, 0},
    {"the record of the slot two epochs earlier", do_two_epochs_earlier, BOTH, 0},
    {"the record of the same seq of another connection", do_other_connection, BOTH, 0},
    {"the record of the same seq of another lane", do_other_lane, BOTH, 0},
    {"the record of the same seq of the other direction", do_other_direction, BOTH, 0},
    {"a record of the other ring", do_other_ring, BOTH, 0},
    {"nothing: it is lost", do_loss, BOTH, 0},
    {"the next: it is dropped", do_drop, BOTH, 0},
    {"it comes twice", do_duplicate, BOTH, 1},
    {"it changes places with the next", do_reorder, BOTH, 0},
    {"1 byte less", do_shorter_by_1, MESSAGES, 0},
    {"16 bytes less", do_shorter_by_16, MESSAGES, 0},
    {"1 byte more", do_longer_by_1, MESSAGES, 0},
    {"16 bytes more", do_longer_by_16, MESSAGES, 0},
    {"a length less by 1", do_shorter_length_only, MESSAGES, 0},
    {"a length more by 1", do_longer_length_only, MESSAGES, 0},
    {"a length of 0", do_length_0, MESSAGES, 0},
    {"a length past the slot", do_length_past_the_slot, MESSAGES, 0},
    {"a length of all ones", do_length_all_ones, MESSAGES, 0},
    {"the first zero of the prefix", do_prefix_first_zero, MESSAGES, 0},
    {"the last zero of the prefix", do_prefix_last_zero, MESSAGES, 0},
    {"the first bit of the ciphertext", do_first_sealed_bit, BOTH, 0},
    {"a bit in the middle of the ciphertext", do_middle_sealed_bit, BOTH, 0},
    {"the last bit of the ciphertext", do_last_sealed_bit, BOTH, 0},
    {"half of the ciphertext", do_cut_in_half, BOTH, 0},
    {"the first bit of the tag", do_first_tag_bit, BOTH, 0},
    {"the last bit of the tag", do_last_tag_bit, BOTH, 0},
    {"no tag", do_no_tag, BOTH, 0},
    {"the tag of the previous record", do_tag_of_the_previous, BOTH, 0},
};

static void expect_outcome(const struct harm *harm, size_t bytes_before, uint64_t filled_before)
{
    const struct pair *pair = &pairs[0];
    int to = victim.to;
    bool message_ring = victim.ring == SL_RING_MESSAGE;
    size_t good_bytes = message_ring ? harm->good * MESSAGE : pair->bytes[to] - bytes_before;

    cr_assert_eq(pair->bytes[to] - bytes_before, good_bytes, "%s: bytes were delivered",
                 harm->name);
    cr_assert_eq(pair->filled[to] - filled_before, message_ring ? 0 : harm->good * CHUNK,
                 "%s: chunks were told", harm->name);
    cr_assert_eq(pair->closed[to], harm->good < WHOLE, "%s: the lane ended %d times", harm->name,
                 pair->closed[to]);
    if (harm->good == WHOLE)
        return;
    cr_assert_eq(pair->close_status[to], SEALANE_DATA_LOSS, "%s", harm->name);
    connecting = &pairs[0];
    cr_assert(lanes_until(&lanes, both_down), "%s", harm->name);
    cr_assert_eq(pair->close_status[1 - to], SEALANE_UNAVAILABLE,
                 "%s: the peer is told nothing but that the lane is gone", harm->name);
}

/* What of a refused chunk's place was written was wiped; the rest of the tensor never came. */
static void expect_place_wiped(const struct harm *harm)
{
    const uint8_t *place = pairs[0].place[victim.to] + (size_t)harm->good * CHUNK;

    for (size_t i = 0; i < CHUNK; i++)
        cr_assert_eq(place[i], 0, "%s: byte %zu of the place of a refused chunk", harm->name, i);
}

static void expect_other_lane_goes_on(const struct harm *harm)
{
    struct pair *pair = &pairs[1];

    for (int from = 0; from < 2; from++) {
        size_t bytes = pair->bytes[1 - from];
        uint64_t filled = pair->filled[1 - from];

        for (int i = 0; i < 3; i++)
            pass_records(pair, from, 2);
        cr_assert_eq(pair->bytes[1 - from] - bytes, 3 * MESSAGE, "%s", harm->name);
        cr_assert_eq(pair->filled[1 - from] - filled, 6 * CHUNK, "%s", harm->name);
    }
    cr_assert_eq(pair->closed[0] + pair->closed[1], 0, "%s ended another lane", harm->name);
}

/* More records of a connection that was left alone: what is spliced into later ones. */
static void remember_connection(void)
{
    struct history last = victim.before;

    while (victim.now.count < HISTORY)
        pass_records(&pairs[0], 1 - victim.to, victim.ring == SL_RING_BULK);
    victim.before = victim.now;
    victim.now = last;
}

static bool victim_judged(struct lanes *all)
{
    waiting = &pairs[0];
    return pairs[0].closed[victim.to] > 0 || all_read(all);
}

static void attack_once(const struct harm *harm)
{
    struct pair *pair = &pairs[0];
    struct sl_receiver *rx;
    struct attack attack;
    size_t bytes;
    uint64_t filled;

    victim.now.count = 0;
    if (!pairs[1].lane[1])
        connect_pair(&pairs[1]);
    connect_pair(&pairs[0]);
    warm_up();
    rx = reader(pair, victim.to, victim.ring);
    cr_assert_eq(rx->next, writer(pair, victim.to, victim.ring)->seq, "all is read");
    attack = (struct attack){.run = harm->run,
                             .ring = victim.ring,
                             .seq = rx->next,
                             .slot = slot_of(rx, rx->next),
                             .next = slot_of(rx, rx->next + 1),
                             .stride = rx->geometry.stride};
    bytes = pair->bytes[victim.to];
    filled = pair->filled[victim.to];
    memset(pair->place[victim.to], 0xee, sizeof(tensor));
    write_records(pair, 1 - victim.to, victim.ring == SL_RING_BULK ? 2 : 0);
    if (victim.ring == SL_RING_MESSAGE)
        write_records(pair, 1 - victim.to, 0);
    if (whole)
        pending = &attack;
    else
        harm->run(&attack);
    cr_assert_eq(sealane_node_poll(lanes.nodes[victim.to], 0), SEALANE_OK);
    cr_assert_null(pending);
    cr_assert(lanes_until(&lanes, victim_judged));
    expect_outcome(harm, bytes, filled);
    if (victim.ring == SL_RING_BULK && harm->good < WHOLE)
        expect_place_wiped(harm);
    expect_other_lane_goes_on(harm);
    if (harm == &harms[0])
        remember_connection();
    close_pair(&pairs[0]);
}

static void attack_all(enum carrier carrier, enum sl_ring_id ring)
{
    static const enum where only[] = {MESSAGES, CHUNKS};

    listen_small(carrier);
    histories_make();
    victim.ring = ring;
    for (victim.to = 0; victim.to < 2; victim.to++) {
        for (size_t i = 0; i < sizeof(harms) / sizeof(harms[0]); i++) {
            if (harms[i].run == do_other_lane) /* its seqs must be those of a young lane */
                close_pair(&pairs[1]);
            if (harms[i].where == BOTH || harms[i].where == only[ring])
                attack_once(&harms[i]);
        }
    }
    histories_free();
    close_all();
}

Test(lane_splice, invariant_4_a_harmed_frame_ends_its_lane_over_the_fake)
{
    attack_all(FAKE, SL_RING_MESSAGE);
}
Test(lane_splice, invariant_4_a_harmed_frame_ends_its_lane_over_link_local)
{
    attack_all(LOCAL, SL_RING_MESSAGE);
}
Test(lane_splice, invariant_4_a_harmed_frame_ends_its_lane_over_tcp)
{
    attack_all(TCP, SL_RING_MESSAGE);
}
Test(lane_splice, invariant_4_a_harmed_frame_ends_its_lane_over_verbs)
{
    attack_all(VERBS, SL_RING_MESSAGE);
}
Test(lane_splice, invariant_4_a_harmed_chunk_ends_its_lane_over_the_fake)
{
    attack_all(FAKE, SL_RING_BULK);
}
Test(lane_splice, invariant_4_a_harmed_chunk_ends_its_lane_over_link_local)
{
    attack_all(LOCAL, SL_RING_BULK);
}
Test(lane_splice, invariant_4_a_harmed_chunk_ends_its_lane_over_tcp)
{
    attack_all(TCP, SL_RING_BULK);
}
Test(lane_splice, invariant_4_a_harmed_chunk_ends_its_lane_over_verbs)
{
    attack_all(VERBS, SL_RING_BULK);
}

/* ---- BULK records that lie ---- */

Test(lane_splice, invariant_4_bulk_records_that_overlap_or_leave_a_gap_end_the_lane)
{
    static const struct {
        int64_t off; /* from what comes next */
        uint32_t chunks;
    } lies[] = {{-1, 1}, {-1, 2}, {-3, 1}, {-3, 4}, {1, 1}, {8, 1}, {INT64_MIN, 1}};

    listen_small(FAKE);
    histories_make();
    connect_pair(&pairs[1]);
    for (size_t i = 0; i < 2 * sizeof(lies) / sizeof(lies[0]); i++) {
        int from = (int)(i % 2);
        uint8_t body[SL_BULK_BODY_BYTES];
        struct sl_record record = {
            .type = SL_RECORD_BULK, .call = 1, .body = body, .bytes = sizeof(body)};
        struct sl_run run = {.count = lies[i / 2].chunks,
                             .bytes = (uint64_t)lies[i / 2].chunks * CHUNK};

        victim.now.count = 0;
        connect_pair(&pairs[0]);
        pass_records(&pairs[0], from, 3);
        cr_assert_eq(pairs[0].filled[1 - from], 3 * CHUNK);
        run.seq = 3 + (uint64_t)lies[i / 2].off;
        sl_run_write(&run, body);
        cr_assert_eq(sl_lane_control(pairs[0].lane[from], &record), SEALANE_OK);
        connecting = &pairs[0];
        cr_assert(lanes_until(&lanes, both_down));
        cr_assert_eq(pairs[0].close_status[1 - from], SEALANE_DATA_LOSS);
        cr_assert(strstr(pairs[0].close_text[1 - from], "announced bulk record"), "%s",
                  pairs[0].close_text[1 - from]);
        cr_assert_eq(pairs[0].filled[1 - from], 3 * CHUNK);
        expect_other_lane_goes_on(&harms[0]);
    }
    histories_free();
    close_all();
}

/* ---- the first frame, which proves the keys ---- */

static struct confirm {
    uint8_t frame[1024];
    size_t count;
} confirms[3]; /* by who wrote it */

static void take_confirm(void *context, const struct link_fake_crossing *crossing)
{
    struct confirm *confirm = &confirms[crossing->from];

    (void)context;
    if (crossing->kind != LINK_FAKE_WRITE || confirm->count > 0)
        return;
    memcpy(confirm->frame, crossing->bytes, crossing->count);
    confirm->count = crossing->count;
}

static void put_confirm(void *context, uint8_t *bytes, size_t count)
{
    const struct confirm *confirm = context;

    cr_assert_eq(confirm->count, count, "a CONFIRM is as long as any other");
    memcpy(bytes, confirm->frame, count);
}

/* The CONFIRM of `from` is replaced by this one, which is true but not for here. */
static void expect_not_confirmed(enum link_fake_from from, struct confirm *confirm)
{
    struct pair *pair = &pairs[0];
    int to = from == LINK_FAKE_CLIENT ? 0 : 1;

    link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                         .from = from,
                                                         .ring = SL_RING_MESSAGE,
                                                         .what = LINK_FAKE_CHANGE,
                                                         .change = put_confirm,
                                                         .context = confirm});
    *pair = (struct pair){.place = {pair->place[0], pair->place[1]}};
    connecting = pair;
    lanes.options[1].owner = pair;
    cr_assert_eq(sl_node_connect(lanes.nodes[1], lanes.address, &lanes.options[1],
                                 &lanes.connecting),
                 SEALANE_OK);
    while (pair->closed[1] == 0)
        lanes_turn(&lanes, 1);
    cr_assert_null(pair->lane[to], "a lane came up on somebody else's CONFIRM");
    if (to == 1)
        cr_assert_eq(pair->close_status[1], SEALANE_DATA_LOSS);
    cr_assert(lanes_until(&lanes, both_down));
    link_fake_forget_rules(lanes.world);
}

Test(lane_splice, invariant_4_a_confirm_of_elsewhere_lets_no_lane_come_up)
{
    struct confirm earlier[3];

    listen_small(FAKE);
    link_fake_tap(lanes.world, take_confirm, NULL);
    connect_pair(&pairs[0]);
    close_pair(&pairs[0]);
    memcpy(earlier, confirms, sizeof(earlier));
    connect_pair(&pairs[1]); /* another lane that is up */
    expect_not_confirmed(LINK_FAKE_CLIENT, &earlier[LINK_FAKE_CLIENT]);
    expect_not_confirmed(LINK_FAKE_SERVER, &earlier[LINK_FAKE_SERVER]);
    confirms[LINK_FAKE_CLIENT].count = 0; /* its own comes back to the client: it writes first */
    expect_not_confirmed(LINK_FAKE_SERVER, &confirms[LINK_FAKE_CLIENT]);
    histories_make();
    expect_other_lane_goes_on(&harms[0]);
    histories_free();
    close_all();
}
