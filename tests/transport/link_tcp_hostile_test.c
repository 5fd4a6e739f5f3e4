/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_hostile_test.c - peers of link_tcp that send whatever they like, as strangers and with rings granted to them. A model
 * of the stream says what each of them may bring about; nothing else happens, least of all to others of the same port. */
#include "tests/transport/link_tcp_raw.h"

enum {
    STREAMS = 1000,
    STREAM_BYTES = 12000,
    HONEST_EVERY = 50 /* streams */
};

static uint32_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state % limit;
}

/* ---- streams ---- */

struct stream {
    uint8_t bytes[STREAM_BYTES];
    size_t count;
};

static void stream_random(struct stream *stream)
{
    stream->count = 1 + random_below(random_below(2) ? 64 : 2000);
    for (size_t i = 0; i < stream->count; i++)
        stream->bytes[i] = (uint8_t)random_below(256);
    /* Half of them at least look like ours. */
    if (random_below(2))
        stream->bytes[0] = SL_TCP_MAGIC;
    if (random_below(2) && stream->count > 2) {
        stream->bytes[1] = SL_TCP_VERSION;
        stream->bytes[2] = random_below(2) ? 'W' : 'B';
    }
}

static uint32_t word_near_a_limit(void)
{
    static const uint32_t limits[] = {
        0,          1,          SLOTS,      STRIDE,     RAW_RING_BYTES,      4096,
        0x7fffffff, 0x80000000, 0xffffffff, 0x00800000, 0xffffffff / STRIDE, 65536};

    return limits[random_below(sizeof(limits) / sizeof(limits[0]))] + random_below(3) - 1;
}

/* Frames that would be good if it were not for one field or two, and the bytes that they announce, or not all of them. */
static void stream_structured(struct stream *stream)
{
    uint32_t frames = 1 + random_below(6);

    stream->count = 0;
    for (uint32_t i = 0; i < frames; i++) {
        struct sl_tcp_header header = {.kind = random_below(3) ? 'W' : 'B',
                                       .bytes = 1 + random_below(STRIDE)};
        uint8_t *at = stream->bytes + stream->count;
        size_t bytes, room = sizeof(stream->bytes) - stream->count - SL_TCP_HEADER_BYTES;

        if (header.kind == 'W') {
            header.ring = (uint8_t)random_below(2);
            header.slot = random_below(SLOTS);
            header.immediate = random_below(0x7fffffff);
        }
        switch (random_below(12)) {
        case 0:
            header.bytes = word_near_a_limit();
            break;
        case 1:
            header.slot = word_near_a_limit();
            break;
        case 2:
            header.ring = (uint8_t)random_below(256);
            break;
        case 3:
            header.kind = (uint8_t)random_below(256);
            break;
        case 4:
            header.slot = word_near_a_limit();
            header.bytes = word_near_a_limit();
            break;
        case 5:
            header.immediate = word_near_a_limit();
            break;
        default:
            break;
        }
        raw_header(at, &header);
        if (random_below(40) == 0)
            at[random_below(2)] ^= (uint8_t)(1u << random_below(8));
        bytes = header.bytes < room ? header.bytes : room / frames;
        bytes = random_below(20) ? bytes : random_below((uint32_t)bytes + 1);
        memset(at + SL_TCP_HEADER_BYTES, (int)(0x40 + i), bytes);
        stream->count += SL_TCP_HEADER_BYTES + bytes;
        if (sizeof(stream->bytes) - stream->count < 1000)
            return;
    }
}

/* ---- the model ---- */

struct outcome {
    uint64_t bytes;    /* of handshakes, told */
    uint64_t arrivals; /* told */
    uint64_t digest;   /* of their immediates, in order */
    bool refused;      /* a header ended the link */
};

static void outcome_arrival(struct outcome *outcome, uint32_t immediate)
{
    outcome->arrivals++;
    outcome->digest = outcome->digest * 31 + immediate;
}

/* In 64 bits, where no sum of these can wrap: written down otherwise than link_tcp_in.c does it. */
static bool header_is_good(const uint8_t *at, bool granted)
{
    uint64_t bytes = sl_get32(at + 4), slot = sl_get32(at + 8);

    if (at[0] != 0xe1 || at[1] != 1)
        return false;
    if (at[2] == 'B')
        return bytes >= 1 && bytes <= 4096 && at[3] == 0 && slot == 0 && sl_get32(at + 12) == 0;
    return at[2] == 'W' && granted && at[3] <= 1 && slot < SLOTS &&
           slot * STRIDE + bytes <= RAW_RING_BYTES;
}

static struct outcome stream_foresee(const struct stream *stream, bool granted)
{
    struct outcome outcome = {0};
    const uint8_t *at = stream->bytes;
    size_t left = stream->count;

    while (left >= SL_TCP_HEADER_BYTES) {
        size_t bytes = sl_get32(at + 4), part;

        outcome.refused = !header_is_good(at, granted);
        if (outcome.refused)
            return outcome;
        left -= SL_TCP_HEADER_BYTES;
        part = bytes < left ? bytes : left;
        if (at[2] == 'B')
            outcome.bytes += part;
        else if (part == bytes)
            outcome_arrival(&outcome, sl_get32(at + 12));
        at += SL_TCP_HEADER_BYTES + part;
        left -= part;
    }
    return outcome;
}

/* ---- what really happens ---- */

/* An honest client of the same listening port; its events and the hostile peer's come from the same poll. */
struct honest {
    struct sl_port *port;
    struct sl_link *links[2]; /* CONNECTING, ACCEPTING */
    struct sl_ring_memory ring;
    uint32_t rounds;
};

static struct sl_memory *memory;

static void honest_up(struct honest *honest, const struct raw *raw)
{
    uint8_t grant[SL_GRANT_BYTES];
    struct sl_link_event event;

    *honest = (struct honest){.rounds = 0};
    cr_assert_eq(sl_memory_host_new(&memory), SEALANE_OK);
    cr_assert_eq(sl_memory_ops(memory)->ring_alloc(memory, SL_PLACE_HOST, RAW_RING_BYTES,
                                                   &honest->ring),
                 SEALANE_OK);
    cr_assert_eq(raw_ops->open(NULL, &honest->port), SEALANE_OK);
    cr_assert_eq(raw_ops->connect(honest->port, raw->address, &honest->links[CONNECTING]),
                 SEALANE_OK);
    cr_assert(event_next(raw_ops, honest->port, &event, EVENT_LIMIT_MS));
    cr_assert_eq(event.kind, SL_LINK_CONNECTED);
    honest->links[ACCEPTING] = raw_expect(raw, SL_LINK_ACCEPTED).link;
    cr_assert_eq(raw_ops->grant(honest->links[ACCEPTING], SL_RING_MESSAGE, &honest->ring, STRIDE,
                                grant),
                 SEALANE_OK);
    cr_assert_eq(raw_ops->attach(honest->links[CONNECTING], SL_RING_MESSAGE, grant, RAW_RING_BYTES,
                                 STRIDE),
                 SEALANE_OK);
    sources_fill();
}

static void honest_write(struct honest *honest)
{
    uint32_t n = honest->rounds++;
    struct sl_link_write write = {.ring = SL_RING_MESSAGE,
                                  .slot = n % SLOTS,
                                  .from = contract_sources[n & 0xff],
                                  .bytes = STRIDE,
                                  .immediate = n};

    cr_assert_eq(raw_ops->write_imm(honest->links[CONNECTING], &write), SEALANE_OK);
    (void)raw_ops->arm(honest->port);
}

static void honest_arrived(const struct honest *honest, const struct sl_link_event *event)
{
    uint32_t n = honest->rounds - 1;

    cr_assert_eq(event->kind, SL_LINK_ARRIVED, "the honest link is harmed: %s", event->why);
    cr_assert_eq(event->immediate, n);
    cr_assert(is_filled(honest->ring.base + n % SLOTS * STRIDE, STRIDE, (int)(n & 0xff)));
}

static void honest_down(struct honest *honest)
{
    raw_ops->close(honest->port);
}

/* Takes all that one stream brings, GONE included. */
static struct outcome stream_watch(const struct raw *raw, const struct honest *honest,
                                   bool honest_writes)
{
    struct outcome outcome = {0};
    struct sl_link_event event;
    bool gone = false;

    while (!gone || honest_writes) {
        cr_assert(event_next(raw_ops, raw->port, &event, EVENT_LIMIT_MS), "the link does not end");
        if (event.link == honest->links[ACCEPTING]) {
            honest_arrived(honest, &event);
            honest_writes = false;
            continue;
        }
        cr_assert_eq(event.link, raw->link);
        cr_assert_not(gone, "an event after GONE");
        gone = event.kind == SL_LINK_GONE;
        if (event.kind == SL_LINK_BYTES)
            outcome.bytes += event.count;
        else if (event.kind == SL_LINK_ARRIVED)
            outcome_arrival(&outcome, event.immediate);
        else
            cr_assert(gone, "an event of kind %d", (int)event.kind);
        outcome.refused =
            gone && strstr(event.why, "closed") == NULL && strstr(event.why, "broke") == NULL;
    }
    return outcome;
}

/* Sends in a few pieces, as the network may cut it. */
static void stream_send(const struct raw *raw, const struct stream *stream)
{
    size_t sent = 0;

    while (sent < stream->count) {
        size_t part = random_below(3) ? stream->count - sent
                                      : 1 + random_below((uint32_t)(stream->count - sent));

        raw_send(raw, stream->bytes + sent, part);
        sent += part;
    }
}

static void streams_try(void (*make)(struct stream *stream), bool granted)
{
    static struct stream stream;
    struct honest honest;
    struct raw raw;
    uint32_t refused = 0;

    random_state = granted ? 20261201 : 4711;
    raw_open(&raw);
    honest_up(&honest, &raw);
    for (int i = 0; i < STREAMS; i++) {
        struct outcome expected, seen;
        bool honest_writes = i % HONEST_EVERY == 0;

        make(&stream);
        expected = stream_foresee(&stream, granted);
        raw_connect(&raw);
        if (granted)
            raw_grant(&raw);
        if (honest_writes)
            honest_write(&honest);
        stream_send(&raw, &stream);
        raw_hang_up(&raw);
        seen = stream_watch(&raw, &honest, honest_writes);
        cr_assert(seen.bytes == expected.bytes && seen.arrivals == expected.arrivals &&
                      seen.digest == expected.digest && seen.refused == expected.refused,
                  "stream %d: %llu bytes, %llu arrivals, refused %d; expected %llu, %llu, %d", i,
                  (unsigned long long)seen.bytes, (unsigned long long)seen.arrivals, seen.refused,
                  (unsigned long long)expected.bytes, (unsigned long long)expected.arrivals,
                  expected.refused);
        refused += seen.refused;
        raw_ops->drop(raw.link);
        raw_canaries_expect(&raw);
    }
    cr_assert_gt(refused, STREAMS / 10, "the streams are too tame");
    honest_down(&honest);
    raw_close(&raw);
    sl_memory_ops(memory)->ring_free(memory, &honest.ring);
    sl_memory_ops(memory)->close(memory);
}

Test(link_tcp_hostile, survives_1000_random_streams_of_strangers)
{
    streams_try(stream_random, false);
}

Test(link_tcp_hostile, survives_1000_structured_streams_of_strangers)
{
    streams_try(stream_structured, false);
}

Test(link_tcp_hostile, survives_1000_random_streams_of_peers_with_rings)
{
    streams_try(stream_random, true);
}

Test(link_tcp_hostile, survives_1000_structured_streams_of_peers_with_rings)
{
    streams_try(stream_structured, true);
}

/* ---- one at a time ---- */

/* What becomes of a link to which one header and so many bytes of 0xee are sent. */
static struct sl_link_event header_try(struct raw *raw, const struct sl_tcp_header *header,
                                       size_t bytes, bool granted)
{
    static uint8_t stream[SL_TCP_HEADER_BYTES + RAW_RING_BYTES];
    struct sl_link_event event;

    raw_connect(raw);
    if (granted)
        raw_grant(raw);
    raw_header(stream, header);
    memset(stream + SL_TCP_HEADER_BYTES, 0xee, bytes);
    raw_send(raw, stream, SL_TCP_HEADER_BYTES + bytes);
    cr_assert(event_next(raw_ops, raw->port, &event, EVENT_LIMIT_MS));
    cr_assert_eq(event.link, raw->link);
    raw_ops->drop(raw->link);
    raw_hang_up(raw);
    return event;
}

Test(link_tcp_hostile,
     invariant_2_before_a_grant_a_peer_writes_nothing_and_after_it_only_the_rings_bytes)
{
    struct sl_tcp_header header = {.kind = 'W', .bytes = STRIDE, .immediate = 1};
    struct sl_link_event event;
    struct raw raw;

    raw_open(&raw);
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        header.ring = (uint8_t)ring;
        event = header_try(&raw, &header, STRIDE, false);
        cr_assert_eq(event.kind, SL_LINK_GONE);
        cr_assert_neq(strstr(event.why, "not granted"), NULL, "%s", event.why);
    }
    for (int ring = 0; ring < SL_RING_COUNT; ring++)
        cr_assert(is_filled(raw_ring(&raw, ring), RAW_RING_BYTES, 0), "written without a grant");
    header = (struct sl_tcp_header){.kind = 'W', .ring = SL_RING_BULK, .bytes = RAW_RING_BYTES};
    cr_assert_eq(header_try(&raw, &header, RAW_RING_BYTES, true).kind, SL_LINK_ARRIVED);
    cr_assert(is_filled(raw_ring(&raw, SL_RING_BULK), RAW_RING_BYTES, 0xee));
    cr_assert(is_filled(raw_ring(&raw, SL_RING_MESSAGE), RAW_RING_BYTES, 0));
    raw_close(&raw); /* looks round the rings */
}

Test(link_tcp_hostile, invariant_9_a_length_is_checked_against_its_limit_before_use)
{
    static const struct {
        uint32_t slot, bytes;
        bool good;
    } writes[] = {
        {0, RAW_RING_BYTES, true},
        {0, RAW_RING_BYTES + 1, false},
        {1, RAW_RING_BYTES - STRIDE, true},
        {1, RAW_RING_BYTES - STRIDE + 1, false},
        {SLOTS - 1, STRIDE, true},
        {SLOTS - 1, STRIDE + 1, false},
        {SLOTS, 0, false},
        {SLOTS, 1, false},
        {0xffffffff, 0, false},
        {0xffffffff, 0xffffffff, false},
        {0, 0xffffffff, false},
        {1, 0xffffffff - STRIDE + 1, false},
        {0x00800000, STRIDE, false}, /* slot * stride is 2^32 */
        {0, 0, true},
    };
    static const uint32_t sends[] = {0, 1, 4096, 4097, 0x7fffffff, 0xffffffff};
    struct raw raw;

    raw_open(&raw);
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
        struct sl_tcp_header header = {.kind = 'W',
                                       .slot = writes[i].slot,
                                       .bytes = writes[i].bytes};
        struct sl_link_event event =
            header_try(&raw, &header, writes[i].good ? writes[i].bytes : 0, true);

        cr_assert_eq(event.kind, writes[i].good ? SL_LINK_ARRIVED : SL_LINK_GONE, "write %zu", i);
        raw_canaries_expect(&raw);
    }
    for (size_t i = 0; i < sizeof(sends) / sizeof(sends[0]); i++) {
        struct sl_tcp_header header = {.kind = 'B', .bytes = sends[i]};
        struct sl_link_event event = header_try(&raw, &header, 1, false);

        cr_assert_eq(event.kind, sends[i] >= 1 && sends[i] <= 4096 ? SL_LINK_BYTES : SL_LINK_GONE,
                     "send %zu", i);
    }
    raw_close(&raw);
}

Test(link_tcp_hostile, refuses_other_protocols_at_their_first_bytes)
{
    static const char *const others[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                         "\x16\x03\x01\x02\x01\x01\x01\xfc\x03\x03 a TLS hello",
                                         "SSH-2.0-OpenSSH_9.2\r\n"};
    struct raw raw;

    raw_open(&raw);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        struct sl_link_event event;

        raw_connect(&raw);
        raw_send(&raw, others[i], strlen(others[i]));
        event = raw_expect(&raw, SL_LINK_GONE);
        cr_assert_neq(strstr(event.why, "expected e1 01"), NULL, "%s", event.why);
        raw_ops->drop(raw.link);
        raw_hang_up(&raw);
    }
    raw_close(&raw);
}

/* However much waits in the kernel, and keeps coming, and however many events are asked for. */
Test(link_tcp_hostile, takes_a_bounded_share_from_one_peer_in_a_poll)
{
    enum {
        SHARE_BYTES = 131072,
        READ_BYTES = RAW_RING_BYTES + 4096 /* the last read of a share may go over it */
    };
    static uint8_t frame[SL_TCP_HEADER_BYTES + RAW_RING_BYTES];
    struct sl_link_event events[256];
    struct raw raw;
    int told, most = 0;

    raw_up(&raw);
    raw_header(frame, &(struct sl_tcp_header){.kind = 'W', .bytes = RAW_RING_BYTES});
    for (int i = 0; i < 200 && send(raw.fd, frame, sizeof(frame), MSG_DONTWAIT) == sizeof(frame);
         i++) {
    }
    (void)raw_ops->arm(raw.port);
    for (int i = 0; i < 20; i++) {
        told = raw_ops->poll(raw.port, events, 256);
        most = told > most ? told : most;
    }
    cr_assert_gt(most, 1);
    cr_assert_leq((size_t)most, (SHARE_BYTES + READ_BYTES) / sizeof(frame) + 1);
    raw_close(&raw);
}

/* A peer that sends without end and reads nothing keeps its link busy, and holds up no other. */
Test(link_tcp_hostile, is_not_held_up_by_a_peer_that_sends_without_end)
{
    static uint8_t flood[128 * (SL_TCP_HEADER_BYTES + STRIDE)];
    struct sl_link_event events[64];
    struct honest honest;
    struct raw raw;
    size_t count = 0;
    bool arrived = false;

    raw_open(&raw);
    honest_up(&honest, &raw);
    raw_connect(&raw);
    raw_grant(&raw);
    for (uint32_t i = 0; i < 128; i++)
        count += raw_write(flood + count, 0, i % SLOTS, i);
    honest_write(&honest);
    for (int round = 0; round < 200 && !arrived; round++) {
        int told;

        (void)send(raw.fd, flood, count,
                   MSG_DONTWAIT | MSG_NOSIGNAL); /* cuts are of no matter here */
        told = raw_ops->poll(raw.port, events, 64);
        for (int i = 0; i < told; i++) {
            if (events[i].link == honest.links[ACCEPTING]) {
                honest_arrived(&honest, &events[i]);
                arrived = true;
            }
        }
    }
    cr_assert(arrived, "200 polls brought nothing but the flood");
    honest_down(&honest);
    raw_close(&raw);
    sl_memory_ops(memory)->ring_free(memory, &honest.ring);
    sl_memory_ops(memory)->close(memory);
}
