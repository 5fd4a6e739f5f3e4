/* SPDX-License-Identifier: Apache-2.0 */
/* lane_liar_test.c - peers that proved who they are and then say anything: records that are sealed with true keys and lie, credits, writes,
 * immediates and handshake bytes of all kinds, in random order. The other end refuses or goes on; another lane of the same nodes
 * never notices. */
#include "tests/transport/lane_pairs.h"

enum {
    LIARS = 300,    /* of each carrier */
    FEWER = 100,    /* over RDMA, where a guest takes its time for a handshake */
    LIES = 40,      /* each, at most */
    TRUE_FIRST = 10 /* a liar may begin honestly */
};

static uint64_t random_state;

static uint32_t dice(uint32_t sides)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % sides;
}

/* Mostly what could be true, sometimes anything. */
static uint64_t near(uint64_t truth)
{
    switch (dice(6)) {
    case 0:
        return (uint64_t)dice(UINT32_MAX) << 32 | dice(UINT32_MAX);
    case 1:
        return UINT64_MAX - dice(3);
    case 2:
        return truth + 1 + dice(3);
    default:
        return truth;
    }
}

static SEALANE_RESULT say(const struct sl_record *record)
{
    return sl_lane_control(pairs[0].lane[1], record);
}

static SEALANE_RESULT lie_record(void)
{
    uint8_t body[900];
    struct sl_record record = {.type = (uint8_t)(dice(8) ? 2 + dice(7) : dice(256)),
                               .flags = (uint8_t)(dice(4) ? dice(8) : dice(256)),
                               .call = near(1 + dice(4)),
                               .body = body,
                               .bytes = dice(3) ? dice(40) : dice(sizeof(body))};

    for (size_t i = 0; i < record.bytes; i++)
        body[i] = (uint8_t)(dice(3) ? 0 : dice(256));
    return say(&record);
}

static SEALANE_RESULT lie_run(void)
{
    uint8_t body[SL_BULK_BODY_BYTES];
    struct sl_run run = {.part = (uint32_t)near(0), .count = (uint32_t)near(1 + dice(8))};

    run.offset = near(0);
    run.bytes = near((uint64_t)run.count * CHUNK - dice(CHUNK));
    run.seq = near(pairs[0].lane[1]->out.announced);
    sl_run_write(&run, body);
    return say(&(struct sl_record){
        .type = SL_RECORD_BULK, .call = near(1), .body = body, .bytes = sizeof(body)});
}

/* Said in the next frame's head. */
static SEALANE_RESULT lie_credit(void)
{
    struct sl_receiver *rx = &pairs[0].lane[1]->rx[dice(SL_RING_COUNT)];

    rx->next += dice(2 * SLOTS);
    if (rx->counted < rx->next)
        rx->counted = rx->next;
    return say(&(struct sl_record){.type = SL_RECORD_PONG});
}

static SEALANE_RESULT lie_write(void)
{
    static uint8_t bytes[CHUNK + 128];
    struct sl_link *link = pairs[0].lane[1]->link;
    struct sl_link_write write = {.ring = (enum sl_ring_id)dice(SL_RING_COUNT),
                                  .slot = dice(SLOTS),
                                  .from = bytes,
                                  .immediate = (uint32_t)near(1u << 1)};
    enum sealane_status status;

    write.bytes = 16 + dice(write.ring == SL_RING_MESSAGE ? 1024 - 16 : CHUNK);
    for (size_t i = 0; i < 64; i++)
        bytes[i] = (uint8_t)dice(256);
    status = link->ops->write_imm(link, &write);
    return status == SL_AGAIN ? SEALANE_OK : status;
}

static SEALANE_RESULT lie_handshake(void)
{
    static const uint8_t bytes[5] = {22, 3, 3, 0, 1};
    struct sl_link *link = pairs[0].lane[1]->link;
    enum sealane_status status = link->ops->send(link, bytes, sizeof(bytes));

    return status == SL_AGAIN ? SEALANE_OK : status;
}

/* It stands in the ring, written behind the counters' back: into what is not read yet, and what was. */
static SEALANE_RESULT lie_scribble(void)
{
    const struct sl_receiver *rx =
        &pairs[0].lane[0]->rx[pairs[0].lane[0] ? dice(SL_RING_COUNT) : 0];
    uint8_t *slot = slot_of(rx, rx->next + dice(SLOTS));

    slot[dice(rx->geometry.stride)] ^= (uint8_t)(1 + dice(255));
    return SEALANE_OK;
}

static SEALANE_RESULT tell_truth(void)
{
    static uint64_t call = 1000;
    static struct sl_send sends[LIES + TRUE_FIRST];
    static struct sl_part part = {tensor, 2 * CHUNK};
    struct sl_send *send = &sends[call++ % (LIES + TRUE_FIRST)];

    if (send->state != SL_SEND_NONE && send->state != SL_SEND_DONE)
        return SEALANE_OK; /* still in use: the liar's ring is full */
    *send = (struct sl_send){
        .call = call, .bytes = message, .count = MESSAGE, .parts = &part, .part_count = dice(2)};
    return sl_lane_send(pairs[0].lane[1], send);
}

static enum sealane_status lie(void)
{
    static enum sealane_status (*const lies[])(
        void) = {lie_record, lie_record, lie_run,    lie_run,       lie_credit,
                 lie_write,  tell_truth, tell_truth, lie_handshake, lie_scribble};

    return lies[dice(sizeof(lies) / sizeof(lies[0]))]();
}

/* Returns whether the other end had enough of it. */
static bool meet_liar(void)
{
    struct pair *pair = &pairs[0];
    bool refused;

    connect_pair(pair);
    pair->lies = true;
    for (uint32_t i = dice(TRUE_FIRST); i > 0; i--)
        cr_assert_eq(tell_truth(), SEALANE_OK);
    for (int i = 0; i < LIES && pair->lane[0] && pair->lane[1]; i++) {
        (void)!lie(); /* the liar's own lane may be over already */
        if (dice(3) == 0)
            lanes_turn(&lanes, 1);
    }
    lanes_turn(&lanes, 5);
    refused = pair->lane[0] == NULL;
    if (refused)
        cr_assert_neq(pair->close_status[0], SEALANE_OK);
    close_pair(pair);
    return refused;
}

static void expect_other_lane_goes_on(void)
{
    struct pair *pair = &pairs[1];

    for (int from = 0; from < 2; from++) {
        size_t bytes = pair->bytes[1 - from];
        uint64_t filled = pair->filled[1 - from];

        pass_records(pair, from, 2);
        cr_assert_eq(pair->bytes[1 - from] - bytes, MESSAGE);
        cr_assert_eq(pair->filled[1 - from] - filled, 2 * CHUNK);
    }
    cr_assert_eq(pair->closed[0] + pair->closed[1], 0);
}

static void meet_liars(enum carrier carrier)
{
    int refused = 0, liars = carrier == VERBS ? FEWER : LIARS;

    listen_small(carrier);
    connect_pair(&pairs[1]);
    for (int i = 0; i < liars; i++) {
        random_state = (uint64_t)i * 977 + (uint64_t)carrier;
        refused += meet_liar();
        if (i % 10 == 0)
            expect_other_lane_goes_on();
    }
    expect_other_lane_goes_on();
    (void)fprintf(stderr, "%d liars, %d were thrown out\n", liars, refused);
    cr_assert_gt(refused, liars / 2);
    close_all();
}

Test(lane_liar, invariant_9_liars_with_true_keys_harm_only_their_own_lane_over_the_fake)
{
    meet_liars(FAKE);
}
Test(lane_liar, invariant_9_liars_with_true_keys_harm_only_their_own_lane_over_link_local)
{
    meet_liars(LOCAL);
}
Test(lane_liar, invariant_9_liars_with_true_keys_harm_only_their_own_lane_over_verbs)
{
    meet_liars(VERBS);
}
