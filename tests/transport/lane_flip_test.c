/* SPDX-License-Identifier: Apache-2.0 */
/* lane_flip_test.c - a peer that writes into the ring while we open: a second thread flips bits of a sealed record, through a mapping of
 * its own of the same pages, as fast as it can. Every open must be refused or give exactly what was sealed. A million opens, of
 * frames by the lane and of chunks by the host's memory kind. */
#include "tests/support/lanes.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    FRAME_OPENS = 150000, /* of each AEAD and size */
    CHUNK_OPENS = 134000, /* of each AEAD, small chunks */
    LARGE_OPENS = 1500,   /* of each AEAD, 64 KiB */
    LARGE = 65536,
    FLIPS_IN_A_ROW = 32,
    PATIENCE = 200 /* times as many opens until some were accepted and some refused */
};

/* ---- the peer ---- */

struct peer {
    uint8_t *page; /* its own mapping of the ring */
    size_t mapped;
    size_t at, bytes; /* where the record is */
    atomic_bool stop;
    atomic_ulong flips;
    pthread_t thread;
};

/* Each bit is flipped and flipped back, again and again, before the next is chosen: the record is whole half of the time. */
static void *peer_run(void *context)
{
    struct peer *peer = context;
    uint64_t random = 88172645463325252u;

    while (!atomic_load_explicit(&peer->stop, memory_order_relaxed)) {
        volatile uint8_t *byte;
        uint8_t bit;

        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        byte = peer->page + peer->at + random % peer->bytes;
        bit = (uint8_t)(1u << (random >> 32) % 8);
        for (int i = 0; i < 2 * FLIPS_IN_A_ROW; i++)
            *byte ^= bit;
        atomic_fetch_add_explicit(&peer->flips, 2 * FLIPS_IN_A_ROW, memory_order_relaxed);
    }
    return NULL;
}

static void peer_begin(struct peer *peer, const struct sl_ring_memory *ring, size_t at,
                       size_t bytes)
{
    *peer = (struct peer){.mapped = ring->bytes, .at = at, .bytes = bytes};
    peer->page = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
    cr_assert(peer->page != MAP_FAILED);
    cr_assert_eq(pthread_create(&peer->thread, NULL, peer_run, peer), 0);
    while (atomic_load(&peer->flips) == 0)
        continue;
}

static unsigned long peer_end(struct peer *peer)
{
    atomic_store(&peer->stop, true);
    cr_assert_eq(pthread_join(peer->thread, NULL), 0);
    (void)munmap(peer->page, peer->mapped);
    return atomic_load(&peer->flips);
}

/* ---- what came of opens ---- */

static struct outcome {
    unsigned long accepted, refused, wrong;
} all;

static void expect_both(const char *what, const struct outcome *outcome, unsigned long flips)
{
    (void)fprintf(stderr, "%s: %lu opens, %lu accepted, %lu refused, %lu wrong; %lu flips\n", what,
                  outcome->accepted + outcome->refused, outcome->accepted, outcome->refused,
                  outcome->wrong, flips);
    cr_assert_eq(outcome->wrong, 0);
    cr_assert_gt(outcome->accepted, 0, "nothing was ever opened");
    cr_assert_gt(outcome->refused, 0, "no flip ever hit an open");
    all.accepted += outcome->accepted;
    all.refused += outcome->refused;
}

/* So many opens, and both outcomes: with fewer cores than threads they take turns. */
static bool goes_on(const struct outcome *outcome, unsigned long opens)
{
    unsigned long done = outcome->accepted + outcome->refused;

    return done < opens ||
           ((outcome->accepted == 0 || outcome->refused == 0) && done < opens * PATIENCE);
}

static bool all_zero(const uint8_t *at, size_t bytes)
{
    return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

/* ---- frames ---- */

static struct lanes lanes;
static uint8_t message[512];
static struct told {
    unsigned messages;
    bool wrong;
} told_now;
static size_t message_bytes;
static sl_lane_function *told;

static enum sealane_status on_event(void *owner, struct sl_lane *lane, struct sl_lane_event *event)
{
    if (event->kind != SL_LANE_MESSAGE)
        return told(owner, lane, event);
    told_now.messages++;
    told_now.wrong |= event->count != message_bytes ||
                      memcmp(event->bytes, message, message_bytes) != 0 || event->call != 1 ||
                      event->flags != (SL_MESSAGE_FIRST | SL_MESSAGE_LAST);
    return SEALANE_OK;
}

/* The lane takes the same frame again and again: it is put back to where it was. */
static void frame_open(struct sl_lane *lane, uint64_t seq, struct outcome *outcome)
{
    struct sl_receiver *rx = &lane->rx[SL_RING_MESSAGE];

    lane->state = SL_LANE_UP;
    lane->rx_untold_data = 0;
    rx->next = seq;
    rx->counted = seq + 1;
    told_now = (struct told){0};
    sl_lane_frames_in(lane);
    if (rx->next == seq + 1 && lane->state == SL_LANE_UP)
        outcome->accepted++;
    else
        outcome->refused++;
    /* Told exactly once when accepted, not at all when refused; whole either way. */
    outcome->wrong += told_now.wrong || told_now.messages != (rx->next == seq + 1) ||
                      (rx->next == seq + 1) != (lane->state == SL_LANE_UP);
}

static void open_lanes(enum sealane_aead aead)
{
    lanes_init(&lanes, false);
    lanes_use_aead(&lanes, aead);
    told = lanes.options[0].on_event;
    lanes.options[0].on_event = on_event;
    lanes_listen(&lanes);
    lanes_connect(&lanes);
}

static void flip_frames(enum sealane_aead aead, size_t bytes)
{
    struct sl_send send = {.call = 1, .bytes = message, .count = bytes};
    struct outcome outcome = {0};
    struct sl_receiver *rx;
    struct sl_lane *lane;
    struct peer peer;
    uint64_t seq;
    char what[60];

    open_lanes(aead);
    message_bytes = bytes;
    lane = lanes.end[0].lane;
    rx = &lane->rx[SL_RING_MESSAGE];
    seq = rx->next;
    cr_assert_eq(sl_lane_send(lanes.end[1].lane, &send), SEALANE_OK);
    cr_assert_eq(sealane_node_poll(lanes.nodes[1], 0), SEALANE_OK);
    cr_assert_eq(send.state, SL_SEND_DONE);
    frame_open(lane, seq, &outcome);
    cr_assert_eq(outcome.accepted, 1, "unharmed it is opened");
    peer_begin(&peer, &rx->memory, (size_t)(seq % rx->geometry.slots) * rx->geometry.stride,
               SL_FRAME_OVERHEAD + SL_RECORD_HEAD_BYTES + bytes);
    while (goes_on(&outcome, FRAME_OPENS))
        frame_open(lane, seq, &outcome);
    (void)snprintf(what, sizeof(what), "%s, messages of %zu bytes", lane->security.message_aead,
                   bytes);
    expect_both(what, &outcome, peer_end(&peer));
    lanes_free(&lanes);
}

/* ---- chunks ---- */

struct chunk {
    struct sl_memory *memory;
    struct sl_ring_memory ring;
    struct sl_job job;
    uint8_t *plain, *place;
};

static void chunk_begin(struct chunk *chunk, enum sl_aead aead, size_t bytes)
{
    static const uint8_t key[SL_AEAD_KEY_MAX] = {7, 1}, nonce[SL_NONCE_BYTES] = {3};
    struct sl_aead_io io = {.nonce = nonce, .bytes = bytes};
    uint8_t *sealed = malloc(bytes), tag[SL_TAG_BYTES];

    *chunk = (struct chunk){.plain = malloc(bytes), .place = malloc(bytes)};
    for (size_t i = 0; i < bytes; i++)
        chunk->plain[i] = (uint8_t)(i * 31 + 1);
    cr_assert_eq(sl_memory_host_new(&chunk->memory), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(chunk->memory)
                     ->ring_alloc(chunk->memory, SL_PLACE_HOST, LARGE + 128, &chunk->ring),
                 SEALANE_OK);
    chunk->job = (struct sl_job){
        .in = chunk->ring.base + 128, .out = chunk->place, .bytes = bytes, .tag = chunk->ring.base};
    cr_assert_eq(sl_aead_key_new(aead, key, &chunk->job.key), SEALANE_OK);
    memcpy(chunk->job.nonce, nonce, sizeof(nonce));
    io.in = chunk->plain;
    io.out = sealed;
    sl_aead_seal(chunk->job.key, &io, tag);
    memcpy(chunk->ring.base + 128, sealed, bytes);
    memcpy(chunk->ring.base, tag, sizeof(tag));
    free(sealed);
}

static void chunk_end(struct chunk *chunk)
{
    sl_aead_key_free(chunk->job.key);
    sl_memory_ops(chunk->memory)->ring_free(chunk->memory, &chunk->ring);
    sl_memory_ops(chunk->memory)->close(chunk->memory);
    free(chunk->plain);
    free(chunk->place);
}

static void judge(const struct chunk *chunk, bool accepted, struct outcome *outcome)
{
    outcome->accepted += accepted;
    outcome->refused += !accepted;
    if (accepted)
        outcome->wrong += memcmp(chunk->place, chunk->plain, chunk->job.bytes) != 0;
    else
        outcome->wrong += !all_zero(chunk->place, chunk->job.bytes);
}

static void flip_chunks(enum sl_aead aead, size_t bytes, unsigned long opens)
{
    struct outcome outcome = {0};
    struct chunk chunk;
    struct peer peer;
    char what[60];

    chunk_begin(&chunk, aead, bytes);
    peer_begin(&peer, &chunk.ring, 0, 128 + bytes);
    while (goes_on(&outcome, opens)) {
        chunk.job.state = SL_JOB_PENDING;
        sl_memory_ops(chunk.memory)->open(chunk.memory, &chunk.job, 1);
        judge(&chunk, chunk.job.state == SL_JOB_DONE, &outcome);
    }
    (void)snprintf(what, sizeof(what), "%s, chunks of %zu bytes", sl_aead_name(aead), bytes);
    expect_both(what, &outcome, peer_end(&peer));
    chunk_end(&chunk);
}

Test(lane_flip, invariant_13_a_million_opens_under_a_writing_peer_are_refused_or_right)
{
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (uint8_t)(i * 13 + 5);
    flip_frames(SEALANE_CHACHA20_POLY1305, 24);
    flip_frames(SEALANE_AES_256_GCM, 200);
    flip_frames(SEALANE_CHACHA20_POLY1305, 400);
    flip_frames(SEALANE_AES_128_GCM, 500);
    for (size_t i = 0; i < sl_aead_supported_count; i++) {
        flip_chunks(sl_aead_supported[i], 64, CHUNK_OPENS / 2);
        flip_chunks(sl_aead_supported[i], 512, CHUNK_OPENS / 2);
        flip_chunks(sl_aead_supported[i], LARGE, LARGE_OPENS);
    }
    (void)fprintf(stderr, "all: %lu accepted, %lu refused\n", all.accepted, all.refused);
    cr_assert_geq(all.accepted + all.refused, 1000000);
}

/* The same peer against an AEAD that is handed the ring: it wins, or the test above would prove nothing. ChaCha20-Poly1305 is read
 * twice, once for the tag and once for the text. */
Test(lane_flip, the_same_peer_deceives_an_aead_that_reads_the_ring)
{
    struct outcome outcome = {0};
    struct chunk chunk;
    struct peer peer;
    struct sl_aead_io io;

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        cr_skip("one CPU: the peer writes only when we do not open");
    chunk_begin(&chunk, SL_AEAD_CHACHA20_POLY1305, 512);
    io = (struct sl_aead_io){
        .nonce = chunk.job.nonce, .in = chunk.job.in, .out = chunk.place, .bytes = 512};
    peer_begin(&peer, &chunk.ring, 128, 512);
    while (outcome.wrong == 0 && outcome.accepted + outcome.refused < CHUNK_OPENS * PATIENCE)
        judge(&chunk, sl_aead_open(chunk.job.key, &io, chunk.ring.base), &outcome);
    (void)peer_end(&peer);
    (void)fprintf(stderr, "an AEAD on the ring was deceived after %lu opens\n",
                  outcome.accepted + outcome.refused);
    cr_assert_gt(outcome.wrong, 0);
    chunk_end(&chunk);
}
