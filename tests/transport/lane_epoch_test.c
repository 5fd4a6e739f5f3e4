/* SPDX-License-Identifier: Apache-2.0 */
/* lane_epoch_test.c - thousands of key epochs on both rings of both directions at once, under load: messages and tensors of many sizes,
 * small rings, eight records to a key; over link_local and tcp, and over the fake with memory that seals and opens late, so that jobs of
 * one epoch are in flight when the next but one is asked for. Every byte that arrives is compared. Linked with
 * --wrap=sl_aead_seal, to see every nonce. */
#include "tests/support/lanes.h"
#include "tests/support/memory_fake.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    SHIFT = 3, /* eight records to an epoch */
    EPOCHS = 3000,
    CALLS = 12, /* at a time, each way */
    PARTS = 6,
    PART_MAX = 3 * 16384,
    MESSAGE_MAX = 5000,
    ROUND_MAX_S = 100
};

/* ---- what is sent: everything follows from the end that sends it and the call ---- */

static uint64_t dice(uint64_t seed)
{
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ seed >> 27) * 0x94d049bb133111ebu;
    return seed ^ seed >> 31;
}

static uint64_t seed_of(int from, uint64_t call, unsigned part)
{
    return dice(call * 64 + (uint64_t)from * 32 + part);
}

static size_t message_bytes(int from, uint64_t call)
{
    return 1 + seed_of(from, call, 30) % (call % 5 == 0 ? MESSAGE_MAX : 200);
}

/* Mostly small, so that many records are needed; some of several chunks, at their ends and in between. */
static size_t part_bytes(int from, uint64_t call, unsigned part)
{
    static const size_t edges[] = {1, 15, 16383, 16384, 16385, 32768, PART_MAX};
    uint64_t seed = seed_of(from, call, part);

    return seed % 16 == 0 ? edges[seed / 16 % 7] : 1 + seed / 16 % 300;
}

static unsigned part_count(int from, uint64_t call)
{
    return (unsigned)(seed_of(from, call, 31) % (PARTS + 1));
}

static void fill(uint8_t *at, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = seed + i * 0x9e3779b97f4a7c15u;

        memcpy(at + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

/* ---- the two ends ---- */

struct outgoing {
    struct sl_send send;
    struct sl_part parts[PARTS];
    uint8_t message[MESSAGE_MAX];
    uint8_t *data[PARTS]; /* of the end's memory kind */
    bool busy;
};

struct incoming {
    uint64_t call; /* 0: free */
    size_t message_got;
    bool whole;
    size_t filled[PARTS];
    uint8_t *place[PARTS];
};

static struct end {
    struct lanes_end *lanes_end;
    struct outgoing out[CALLS];
    struct incoming in[2 * CALLS];
    uint64_t next_call, arrived;
    uint64_t held_out,
        held_in; /* turns in which a job of an old epoch kept the next from its key */
    bool enough;
} ends[2];

static struct lanes lanes;
static sl_lane_function *told;    /* what lanes.c does with events */
static struct sl_memory *late[2]; /* the fake's memory; NULL: the host's */
static unsigned memories;

static void copy_in(int end, void *to, const void *from, size_t bytes)
{
    if (late[end])
        memory_fake_put(late[end], to, from, bytes);
    else
        memcpy(to, from, bytes);
}

static void expect_part(int end, const uint8_t *place, size_t bytes, uint64_t seed)
{
    static uint8_t wanted[PART_MAX], got[PART_MAX];

    fill(wanted, bytes, seed);
    if (late[end])
        memory_fake_get(late[end], got, place, bytes);
    else
        memcpy(got, place, bytes);
    cr_assert_eq(memcmp(got, wanted, bytes), 0, "a tensor of %zu bytes arrived changed", bytes);
}

static struct incoming *incoming_of(struct end *end, uint64_t call)
{
    struct incoming *free_one = NULL;

    for (int i = 0; i < 2 * CALLS; i++) {
        if (end->in[i].call == call)
            return &end->in[i];
        if (end->in[i].call == 0)
            free_one = &end->in[i];
    }
    cr_assert_not_null(free_one);
    free_one->call = call;
    free_one->message_got = 0;
    free_one->whole = false;
    memset(free_one->filled, 0, sizeof(free_one->filled));
    return free_one;
}

static void settle(struct end *end, struct incoming *in)
{
    int from = end == &ends[0];

    for (unsigned p = 0; p < part_count(from, in->call); p++) {
        if (in->filled[p] < part_bytes(from, in->call, p))
            return;
    }
    if (!in->whole)
        return;
    end->arrived++;
    in->call = 0;
}

static enum sealane_status take_message(struct end *end, struct sl_lane *lane,
                                        const struct sl_lane_event *event)
{
    struct incoming *in = incoming_of(end, event->call);
    int from = end == &ends[0];
    size_t bytes = message_bytes(from, event->call);
    static uint8_t wanted[MESSAGE_MAX];

    fill(wanted, bytes, seed_of(from, event->call, 29));
    cr_assert_leq(in->message_got + event->count, bytes);
    cr_assert_eq(memcmp(event->bytes, wanted + in->message_got, event->count), 0);
    in->message_got += event->count;
    if (!(event->flags & SL_MESSAGE_LAST))
        return SEALANE_OK;
    cr_assert_eq(in->message_got, bytes);
    in->whole = true;
    settle(end, in);
    return sl_lane_allow(lane, event->call);
}

static void take_part(struct end *end, const struct sl_lane_event *event)
{
    struct incoming *in = incoming_of(end, event->call);
    int from = end == &ends[0];
    size_t bytes = part_bytes(from, event->call, event->part);

    cr_assert(in->whole && event->offset == in->filled[event->part]);
    in->filled[event->part] += event->count;
    cr_assert_leq(in->filled[event->part], bytes);
    if (in->filled[event->part] == bytes)
        expect_part((int)(end - ends), in->place[event->part], bytes,
                    seed_of(from, event->call, event->part));
    settle(end, in);
}

static enum sealane_status on_event(void *owner, struct sl_lane *lane, struct sl_lane_event *event)
{
    struct end *end = owner;

    switch (event->kind) {
    case SL_LANE_MESSAGE:
        return take_message(end, lane, event);
    case SL_LANE_PLACE:
        event->place = incoming_of(end, event->call)->place[event->part] + event->offset;
        return SEALANE_OK;
    case SL_LANE_FILLED:
        take_part(end, event);
        return SEALANE_OK;
    case SL_LANE_SENT:
        for (int i = 0; i < CALLS; i++) {
            if (event->send == &end->out[i].send)
                end->out[i].busy = false;
        }
        return SEALANE_OK;
    default:
        return told(end->lanes_end, lane, event);
    }
}

static void send_one(int from, struct outgoing *out)
{
    uint64_t call = ++ends[from].next_call;
    unsigned count = part_count(from, call);

    out->send = (struct sl_send){.call = call,
                                 .bytes = out->message,
                                 .count = message_bytes(from, call),
                                 .parts = out->parts,
                                 .part_count = count};
    fill(out->message, out->send.count, seed_of(from, call, 29));
    for (unsigned p = 0; p < count; p++) {
        static uint8_t bytes[PART_MAX];

        out->parts[p] = (struct sl_part){out->data[p], part_bytes(from, call, p)};
        fill(bytes, out->parts[p].bytes, seed_of(from, call, p));
        copy_in(from, out->data[p], bytes, out->parts[p].bytes);
    }
    out->busy = true;
    cr_assert_eq(sl_lane_send(lanes.end[from].lane, &out->send), SEALANE_OK);
}

/* ---- the run ---- */

static uint8_t *part_memory(int end)
{
    struct sl_memory *memory = sl_node_memory(lanes.nodes[end]);
    void *at;

    cr_assert_eq(sl_memory_ops(memory)->alloc(memory, PART_MAX, &at), SEALANE_OK);
    return at;
}

static void parts_free(int end, uint8_t *const parts[PARTS])
{
    struct sl_memory *memory = sl_node_memory(lanes.nodes[end]);

    for (int p = 0; p < PARTS; p++)
        sl_memory_ops(memory)->free(memory, parts[p], PART_MAX);
}

static void open_ends(uint32_t bulk_slots)
{
    told = lanes.options[0].on_event;
    for (int i = 0; i < 2; i++) {
        ends[i].lanes_end = &lanes.end[i];
        lanes.options[i].on_event = on_event;
        lanes.options[i].owner = &ends[i];
        lanes.options[i].epoch_shift = SHIFT;
        lanes.options[i].message_slot_bytes = 1024;
        lanes.options[i].message_slots = 8;
        lanes.options[i].bulk_chunk_bytes = 16384;
        lanes.options[i].bulk_slots = bulk_slots;
        lanes.options[i].eager_bytes = 16384;
    }
    lanes_listen(&lanes);
    for (int i = 0; i < 2; i++) {
        for (int c = 0; c < CALLS; c++) {
            for (int p = 0; p < PARTS; p++)
                ends[i].out[c].data[p] = part_memory(i);
        }
        for (int c = 0; c < 2 * CALLS; c++) {
            for (int p = 0; p < PARTS; p++)
                ends[i].in[c].place[p] = part_memory(i);
        }
    }
    lanes_connect(&lanes);
}

static void close_ends(void)
{
    lanes_disconnect(&lanes);
    for (int i = 0; i < 2; i++) {
        for (int c = 0; c < CALLS; c++)
            parts_free(i, ends[i].out[c].data);
        for (int c = 0; c < 2 * CALLS; c++)
            parts_free(i, ends[i].in[c].place);
    }
    lanes_free(&lanes);
}

static uint64_t epochs_of(int end, int ring)
{
    return lanes.end[end].lane->tx[ring].seq >> SHIFT;
}

static bool sends_go_on(int end)
{
    struct end *mine = &ends[end];
    bool busy = false;

    mine->enough =
        epochs_of(end, SL_RING_MESSAGE) >= EPOCHS && epochs_of(end, SL_RING_BULK) >= EPOCHS;
    for (int i = 0; i < CALLS; i++) {
        bool room = mine->next_call - ends[1 - end].arrived < 2 * CALLS;

        if (!mine->out[i].busy && !mine->enough && room)
            send_one(end, &mine->out[i]);
        busy |= mine->out[i].busy;
    }
    return busy;
}

/* Work waits although there is room for it: its epoch's key has no place in the table yet. */
static void count_held(int end)
{
    const struct sl_lane *lane = lanes.end[end].lane;
    const struct sl_sender *tx = &lane->tx[SL_RING_BULK];
    const struct sl_receiver *rx = &lane->rx[SL_RING_BULK];

    ends[end].held_out += lane->bulk.first && sl_sender_room(tx) > 0 && !sl_sender_has_key(tx);
    ends[end].held_in +=
        lane->in.submitted < lane->in.announced && lane->in.submitted >> SHIFT > rx->keys.epoch + 1;
}

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool all_arrived(void)
{
    return ends[0].arrived == ends[1].next_call && ends[1].arrived == ends[0].next_call;
}

/* Placed is told late, and now and then the carrier is full. */
static void carrier_moods(uint64_t turn)
{
    link_fake_hold_placed(lanes.world, turn % 4 != 3);
    if (turn % 16 != 0)
        return;
    link_fake_forget_rules(lanes.world);
    link_fake_rule(lanes.world, &(struct link_fake_rule){.kind = LINK_FAKE_WRITE,
                                                         .any_ring = true,
                                                         .nth = turn / 16 % 5,
                                                         .times = 3,
                                                         .what = LINK_FAKE_AGAIN});
}

static void run(void)
{
    double until = now_s() + ROUND_MAX_S;
    bool busy = true;

    for (uint64_t turn = 0; busy || !all_arrived(); turn++) {
        busy = false;
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(lanes.end[i].closed, 0, "%s", lanes.end[i].close_text);
            busy |= sends_go_on(i);
        }
        if (lanes.world)
            carrier_moods(turn);
        lanes_turn(&lanes, 1);
        for (int i = 0; i < 2 && lanes.end[0].lane && lanes.end[1].lane; i++)
            count_held(i);
        cr_assert_lt(now_s(), until, "%llu and %llu calls arrived, then nothing more",
                     (unsigned long long)ends[0].arrived, (unsigned long long)ends[1].arrived);
    }
}

/* All that was said was heard: credits are the last. */
static bool quiet(struct lanes *all)
{
    bool same = true;

    for (int i = 0; i < 2 * SL_RING_COUNT; i++)
        same &= all->end[i / 2].lane->tx[i % 2].seq == all->end[1 - i / 2].lane->rx[i % 2].next;
    return same;
}

static void expect_epochs(const char *what)
{
    for (int i = 0; i < 2; i++) {
        const struct sl_lane *mine = lanes.end[i].lane, *other = lanes.end[1 - i].lane;

        for (int ring = 0; ring < SL_RING_COUNT; ring++) {
            cr_assert_geq(mine->tx[ring].seq >> SHIFT, EPOCHS);
            cr_assert_eq(mine->tx[ring].seq, other->rx[ring].next);
            cr_assert_eq(mine->tx[ring].keys.epoch, mine->tx[ring].seq >> SHIFT);
            cr_assert_eq(other->rx[ring].keys.epoch, mine->tx[ring].keys.epoch);
        }
        (void)fprintf(
            stderr,
            "epochs over %s, %s: message ring %llu, bulk ring %llu, %llu calls; held back "
            "by an old epoch's jobs: %llu turns out, %llu in\n",
            what, i ? "client to server" : "server to client", (unsigned long long)epochs_of(i, 0),
            (unsigned long long)epochs_of(i, 1), (unsigned long long)ends[i].next_call,
            (unsigned long long)ends[i].held_out, (unsigned long long)ends[i].held_in);
    }
}

/* ---- invariant 3: every nonce of every epoch of all four streams is a new one ---- */

enum {
    NONCES_MAX = 1 << 18
};
static struct nonce {
    uint8_t bytes[SL_NONCE_BYTES];
} * nonces;
static size_t nonce_count;

void __real_sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io,
                         uint8_t tag[SL_TAG_BYTES]);
void __wrap_sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io,
                         uint8_t tag[SL_TAG_BYTES]);

void __wrap_sl_aead_seal(struct sl_aead_key *key, const struct sl_aead_io *io,
                         uint8_t tag[SL_TAG_BYTES])
{
    if (nonces && nonce_count < NONCES_MAX)
        memcpy(nonces[nonce_count++].bytes, io->nonce, SL_NONCE_BYTES);
    __real_sl_aead_seal(key, io, tag);
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, SL_NONCE_BYTES);
}

/* An iv of 96 random bits per epoch: two equal nonces anywhere are a repetition, not chance. */
static void expect_new_nonces(void)
{
    size_t twice = 0;

    cr_assert_geq(nonce_count, (size_t)4 * EPOCHS << SHIFT);
    cr_assert_lt(nonce_count, NONCES_MAX);
    qsort(nonces, nonce_count, sizeof(*nonces), compare);
    for (size_t i = 1; i < nonce_count; i++)
        twice += compare(&nonces[i - 1], &nonces[i]) == 0;
    cr_assert_eq(twice, 0, "%zu of %zu nonces came before", twice, nonce_count);
}

/* ---- over what ---- */

static struct sl_memory *memory_late(void)
{
    struct sl_memory *memory;

    cr_assert_eq(memory_fake_new(64 << 20, &memory), SEALANE_OK);
    memory_fake_order(memory, MEMORY_FAKE_SHUFFLED);
    memory_fake_pace(memory, 3);
    late[memories++] = memory;
    return memory;
}

static void cross(const char *what)
{
    nonces = malloc(NONCES_MAX * sizeof(*nonces));
    run();
    if (lanes.world)
        link_fake_hold_placed(lanes.world, false);
    cr_assert(lanes_until(&lanes, quiet));
    expect_epochs(what);
    expect_new_nonces();
    close_ends();
    free(nonces);
    nonces = NULL;
}

Test(lane_epoch, invariant_3_thousands_of_epochs_are_crossed_over_link_local)
{
    lanes_init(&lanes, false);
    open_ends(8);
    cross("link_local");
}

Test(lane_epoch, invariant_3_thousands_of_epochs_are_crossed_over_tcp)
{
    lanes_init(&lanes, false);
    (void)snprintf(lanes.address, sizeof(lanes.address), "127.0.0.1:0");
    open_ends(8);
    cross("tcp");
}

Test(lane_epoch, invariant_3_thousands_of_epochs_are_crossed_over_verbs)
{
    lanes_over_verbs(&lanes);
    open_ends(8);
    cross("verbs");
}

Test(lane_epoch, invariant_3_thousands_of_epochs_are_crossed_while_jobs_of_old_ones_are_in_flight)
{
    lanes_init(&lanes, true);
    lanes.memory = memory_late;
    open_ends(40); /* five epochs of chunks may be on their way */
    cross("the fake");
    for (int i = 0; i < 2; i++) {
        cr_assert_gt(ends[i].held_out, 100, "no sealing ever waited for an old epoch");
        cr_assert_gt(ends[i].held_in, 100, "no opening ever waited for an old epoch");
    }
}
