/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_test.c - the contract over an RDMA device, then what only this carrier has: what a peer can do by plain verbs to a
 * queue pair, a ring and a port that are not its own. Without a device each test is skipped. */
#include "tests/transport/link_contract.h"
#include "tests/transport/link_verbs_raw.h"
#include "transport/bytes.h"
#include "transport/link_verbs_inside.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const malformed[] = {"127.0.0.1:65536", "127.0.0.1", "127.0.0.1:x", "127.1:7000",
                                        "[::1]7000",       "[::1]:",    NULL};

static const struct link_world verbs_world = {.ops = &sl_link_verbs,
                                              .begin = raw_skip_without_device,
                                              .address = raw_address,
                                              .malformed = malformed,
                                              .foreign = "unix:/path",
                                              .fills_up = true,
                                              .both_work = true};

LINK_CONTRACT(link_verbs, &verbs_world)

/* ---- a peer that is not honest, beside one that is ---- */

struct scene {
    struct link_pair pair; /* the honest one */
    struct raw raw;
    struct sl_ring_memory rings[SL_RING_COUNT]; /* the raw peer's own */
    uint8_t grants[SL_RING_COUNT][SL_GRANT_BYTES];
};

static void scene_open(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    pair_up(&scene->pair, &verbs_world);
    raw_connect(&scene->raw, scene->pair.sides[ACCEPTING].port, scene->pair.address);
}

static void scene_grant(struct scene *scene)
{
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        cr_assert_eq(sl_memory_ops(scene->pair.memory)
                         ->ring_alloc(scene->pair.memory, SL_PLACE_HOST, SLOTS * STRIDE,
                                      &scene->rings[ring]),
                     SEALANE_OK);
        cr_assert_eq(sl_link_verbs.grant(scene->raw.link, (enum sl_ring_id)ring,
                                         &scene->rings[ring], STRIDE, scene->grants[ring]),
                     SEALANE_OK);
    }
}

static uint32_t key_of(const uint8_t grant[SL_GRANT_BYTES])
{
    return sl_get32(grant + 4);
}

/* The honest link works both ways, and its rings hold what its peer wrote and nothing else. */
static void honest_expect_well(struct scene *scene)
{
    for (int side = 0; side < 2; side++) {
        struct sl_ring_memory *rings = scene->pair.sides[!side].rings;

        for (int ring = 0; ring < SL_RING_COUNT; ring++)
            cr_assert(is_filled(rings[ring].base, SLOTS * STRIDE, 0));
        cr_assert_eq(write_to(&scene->pair, side, SL_RING_BULK, 3, 0x55), SEALANE_OK);
        cr_assert_eq(event_expect(&scene->pair, !side, SL_LINK_ARRIVED).immediate, 0x55);
        cr_assert(is_filled(rings[SL_RING_BULK].base + 3 * STRIDE, STRIDE, 0x55));
    }
}

static void scene_close(struct scene *scene)
{
    if (scene->raw.link)
        sl_link_verbs.drop(scene->raw.link);
    for (int ring = 0; ring < SL_RING_COUNT; ring++) {
        if (scene->rings[ring].base)
            sl_memory_ops(scene->pair.memory)->ring_free(scene->pair.memory, &scene->rings[ring]);
    }
    raw_close(&scene->raw);
    pair_down(&scene->pair);
}

Test(link_verbs, invariant_2_another_peers_ring_is_out_of_reach)
{
    struct scene scene;
    const uint8_t *grant;

    scene_open(&scene);
    scene_grant(&scene);
    memset(scene.raw.bytes, 0xbb, RAW_BYTES);
    grant = scene.pair.sides[ACCEPTING].grants[SL_RING_BULK];
    cr_assert_eq(raw_do(&scene.raw, IBV_WR_RDMA_WRITE, STRIDE, sl_get64(grant + 8), key_of(grant),
                        0),
                 IBV_WC_REM_ACCESS_ERR);
    raw_expect_gone(&scene.raw);
    honest_expect_well(&scene);
    cr_assert_eq(scene.raw.arrived, 0);
    scene_close(&scene);
}

Test(link_verbs, invariant_2_a_ring_can_be_written_and_not_read)
{
    struct scene scene;

    scene_open(&scene);
    scene_grant(&scene);
    memset(scene.rings[0].base, 0x77, STRIDE);
    cr_assert_eq(raw_do(&scene.raw, IBV_WR_RDMA_WRITE_WITH_IMM, 8, 0, key_of(scene.grants[1]), 9),
                 IBV_WC_SUCCESS);
    cr_assert_neq(raw_do(&scene.raw, IBV_WR_RDMA_READ, 64, 0, key_of(scene.grants[0]), 0),
                  IBV_WC_SUCCESS);
    cr_assert_not(is_filled(scene.raw.bytes, 64, 0x77), "a ring was read");
    raw_expect_gone(&scene.raw);
    honest_expect_well(&scene);
    scene_close(&scene);
}

Test(link_verbs, invariant_2_nothing_is_open_before_a_grant)
{
    struct scene scene;
    uint32_t near;

    scene_open(&scene);
    near = key_of(scene.pair.sides[ACCEPTING].grants[0]);
    cr_assert_neq(raw_do(&scene.raw, IBV_WR_RDMA_WRITE, 64, 0, near + 0x100, 0), IBV_WC_SUCCESS);
    raw_expect_gone(&scene.raw);
    honest_expect_well(&scene);
    scene_close(&scene);
    scene_open(&scene);
    (void)raw_do(&scene.raw, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0, 1); /* needs no key */
    raw_expect_gone(&scene.raw);
    cr_assert_eq(scene.raw.arrived, 0);
    cr_assert_neq(strstr(scene.raw.gone, "before it was granted"), NULL, "%s", scene.raw.gone);
    honest_expect_well(&scene);
    scene_close(&scene);
}

/* What the device may do is what was asked of it: registration is looked at, not trusted. */
Test(link_verbs, invariant_2_rings_and_queue_pairs_allow_remote_writes_only)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct link_pair pair;

    pair_up(&pair, &verbs_world);
    for (int side = 0; side < 2; side++) {
        struct sl_verbs *verbs = sl_verbs_of(pair.sides[side].link);

        cr_assert_eq(ibv_query_qp(verbs->qp, &attr,
                                  IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_DEST_RD_ATOMIC |
                                      IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                                  &init),
                     0);
        cr_assert_eq(attr.qp_access_flags & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC), 0);
        cr_assert_eq(attr.max_dest_rd_atomic, 0);
        cr_assert_eq(attr.max_rd_atomic, 0);
        cr_assert_eq(attr.min_rnr_timer, 12);
        cr_assert_eq(sl_get64(pair.sides[side].grants[0] + 8), 0, "a grant tells an address");
    }
    cr_assert_neq(sl_verbs_of(pair.sides[0].link)->pd, sl_verbs_of(pair.sides[1].link)->pd);
    pair_down(&pair);
}

Test(link_verbs, invariant_9_a_write_past_the_ring_ends_its_own_link)
{
    struct scene scene;

    scene_open(&scene);
    scene_grant(&scene);
    cr_assert_eq(raw_do(&scene.raw, IBV_WR_RDMA_WRITE_WITH_IMM, STRIDE,
                        scene.rings[0].bytes - STRIDE + 1, key_of(scene.grants[0]), 0),
                 IBV_WC_REM_ACCESS_ERR);
    cr_assert_eq(scene.raw.arrived, 0);
    raw_expect_gone(&scene.raw);
    honest_expect_well(&scene);
    scene_close(&scene);
}

Test(link_verbs, invariant_9_sends_that_are_none_of_the_protocol_end_their_own_link)
{
    static const struct {
        enum ibv_wr_opcode opcode;
        size_t bytes;
        uint32_t immediate;
        const char *why;
    } wrong[] = {
        {IBV_WR_SEND, 5, 0, "no sealane"},
        {IBV_WR_SEND_WITH_IMM, 5, 0, "no sealane"},
        {IBV_WR_SEND_WITH_IMM, 0, 0x42000000, "no sealane"},
        {IBV_WR_SEND_WITH_IMM, 5, 0x43000000, "no sealane"},
        {IBV_WR_SEND_WITH_IMM, 5, 0x57000000, "no sealane"},
        {IBV_WR_SEND_WITH_IMM, 5, 0x42000001, "never sent"},
        {IBV_WR_SEND_WITH_IMM, 0, 0x43ffffff, "never sent"},
        {IBV_WR_SEND_WITH_IMM, SL_VERBS_PIECE_BYTES + 1, 0x42000000, ""},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct scene scene;

        scene_open(&scene);
        (void)raw_do(&scene.raw, wrong[i].opcode, wrong[i].bytes, 0, 0, wrong[i].immediate);
        raw_expect_gone(&scene.raw);
        cr_assert_neq(strstr(scene.raw.gone, wrong[i].why), NULL, "case %zu: %s", i,
                      scene.raw.gone);
        honest_expect_well(&scene);
        scene_close(&scene);
    }
}

/* More than there are receives, before the victim looks once: the flood waits at its sender, and the other link does not. */
Test(link_verbs, invariant_9_a_flood_is_held_up_by_itself_alone)
{
    enum {
        FLOOD = 2000
    };
    struct scene scene;
    int posted = 0, done = 0;

    scene_open(&scene);
    scene_grant(&scene);
    for (int64_t until = contract_now_ms() + EVENT_LIMIT_MS; done < FLOOD;) {
        cr_assert(contract_now_ms() < until, "%d of %d", done, FLOOD);
        while (posted < FLOOD && posted - done < RAW_DEPTH &&
               raw_post(&scene.raw, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 0, 0xdead))
            posted++;
        if (posted == RAW_DEPTH && done == 0)
            cr_assert_eq(write_to(&scene.pair, ACCEPTING, SL_RING_BULK, 1, 7), SEALANE_OK);
        (void)raw_turn(&scene.raw, 1);
        done += raw_reap(&scene.raw);
    }
    while (scene.raw.arrived < FLOOD && raw_turn(&scene.raw, 10)) {
    }
    cr_assert_eq(scene.raw.arrived, FLOOD);
    cr_assert_eq(event_expect(&scene.pair, CONNECTING, SL_LINK_ARRIVED).immediate, 7);
    memset(scene.pair.sides[CONNECTING].rings[SL_RING_BULK].base, 0, SLOTS * STRIDE);
    honest_expect_well(&scene);
    scene_close(&scene);
}

Test(link_verbs, invariant_9_who_asks_and_never_confirms_keeps_nobody_out)
{
    enum {
        ASKING = 80
    };
    static const uint8_t hello[8] = {'S', 'L', 'V', 'B', 1};
    static struct raw raws[ASKING];
    struct link_pair pair;
    struct sl_link *links[2];

    ports_open(&pair, &verbs_world);
    for (int i = 0; i < ASKING; i++) {
        raw_begin(&raws[i], pair.sides[ACCEPTING].port, pair.address);
        cr_assert_eq(raw_ask(&raws[i], hello, sizeof(hello), EVENT_LIMIT_MS),
                     RDMA_CM_EVENT_CONNECT_RESPONSE);
    }
    cr_assert_leq(pair.sides[ACCEPTING].port->lists[SL_VERBS_ALL].count, 64);
    connect_more(&pair, links);
    for (int i = 0; i < ASKING; i++)
        raw_close(&raws[i]);
    pair_down(&pair);
}

Test(link_verbs, turns_away_who_is_no_sealane)
{
    static const uint8_t wrong[8] = {'S', 'L', 'V', 'B', 2};
    struct link_pair pair;
    struct raw raw;

    ports_open(&pair, &verbs_world);
    raw_begin(&raw, pair.sides[ACCEPTING].port, pair.address);
    cr_assert_eq(raw_ask(&raw, wrong, sizeof(wrong), EVENT_LIMIT_MS), RDMA_CM_EVENT_REJECTED);
    raw_close(&raw);
    raw_begin(&raw, pair.sides[ACCEPTING].port, pair.address);
    cr_assert_eq(raw_ask(&raw, NULL, 0, EVENT_LIMIT_MS), RDMA_CM_EVENT_REJECTED);
    raw_close(&raw);
    pair_down(&pair);
}

/* ---- IPv6 ---- */

static void ipv6_skip_without(void)
{
    raw_skip_without_device();
    if (!getenv("SEALANE_RIG_SELF6"))
        cr_skip_test("no IPv6 address of a device is known");
}

static void ipv6_address(char *to, size_t bytes, const char *name)
{
    (void)snprintf(to, bytes, "[%s]:%d", getenv("SEALANE_RIG_SELF6"),
                   (name[0] == 'n' ? 10000 : 20000) + (int)getpid() % 10000);
}

static const struct link_world ipv6_world = {.ops = &sl_link_verbs,
                                             .begin = ipv6_skip_without,
                                             .address = ipv6_address,
                                             .malformed = malformed,
                                             .foreign = "unix:/path",
                                             .both_work = true};

LINK_CONTRACT_TEST(link_verbs_ipv6, &ipv6_world, delivers_immediates_verbatim_after_their_bytes)
LINK_CONTRACT_TEST(link_verbs_ipv6, &ipv6_world, lets_one_listen_at_an_address)
LINK_CONTRACT_TEST(link_verbs_ipv6, &ipv6_world, tells_gone_when_nobody_listens)

/* ---- limits ---- */

Test(link_verbs, takes_writes_only_from_memory_that_it_was_told_of)
{
    static uint8_t untold[STRIDE];
    struct link_pair pair;
    struct sl_link_write write = {.ring = SL_RING_BULK, .from = untold, .bytes = STRIDE};

    pair_up(&pair, &verbs_world);
    cr_assert_eq(sl_link_verbs.write_imm(pair.sides[CONNECTING].link, &write),
                 SEALANE_INVALID_ARGUMENT);
    write.from = contract_sources[255] + 1;
    cr_assert_eq(sl_link_verbs.write_imm(pair.sides[CONNECTING].link, &write),
                 SEALANE_INVALID_ARGUMENT, "past the end of what was told");
    event_expect_none(&pair, ACCEPTING);
    pair_down(&pair);
}

/* A small write is inline; only a larger one needs its memory registered. */
Test(link_verbs, registers_where_writes_come_from_when_one_needs_it)
{
    static uint8_t bytes[2][STRIDE];
    struct link_pair pair;
    struct sl_verbs *verbs;
    struct sl_link_write write = {.ring = SL_RING_BULK, .from = bytes[1], .bytes = 64};

    pair_up(&pair, &verbs_world);
    verbs = sl_verbs_of(pair.sides[CONNECTING].link);
    cr_assert_null(verbs->sources[0].mr);
    side_sources(&pair, CONNECTING, bytes, sizeof(bytes));
    cr_assert_geq(verbs->inline_max, 64);
    cr_assert_eq(sl_link_verbs.write_imm(&verbs->link, &write), SEALANE_OK);
    cr_assert_null(verbs->sources[1].mr);
    side_let_go(&pair, CONNECTING);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
    write.bytes = verbs->inline_max + 1;
    cr_assert_leq(write.bytes, STRIDE);
    cr_assert_eq(sl_link_verbs.write_imm(&verbs->link, &write), SEALANE_OK);
    cr_assert_not_null(verbs->sources[1].mr);
    side_let_go(&pair, CONNECTING);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
    sl_link_verbs.forget(&verbs->link, contract_sources);
    write.from = contract_sources[0];
    cr_assert_eq(sl_link_verbs.write_imm(&verbs->link, &write), SEALANE_INVALID_ARGUMENT);
    pair_down(&pair);
}

/* The device takes no more than its limit. */
Test(link_verbs, says_that_memory_cannot_be_registered_when_a_write_needs_it)
{
    static uint8_t bytes[STRIDE];
    struct link_pair pair;
    struct sl_verbs *verbs;
    struct sl_link_write write = {.ring = SL_RING_BULK, .from = bytes, .bytes = STRIDE};
    uint64_t max;

    pair_up(&pair, &verbs_world);
    verbs = sl_verbs_of(pair.sides[CONNECTING].link);
    side_sources(&pair, CONNECTING, bytes, sizeof(bytes));
    max = verbs->device->limits.max_mr_size;
    verbs->device->limits.max_mr_size = 1;
    cr_assert_eq(sl_link_verbs.write_imm(&verbs->link, &write), SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_eq(verbs->link.posted, 0);
    verbs->device->limits.max_mr_size = max;
    cr_assert_eq(sl_link_verbs.write_imm(&verbs->link, &write), SEALANE_OK);
    pair_down(&pair);
}

Test(link_verbs, says_how_many_slots_it_has_receives_for)
{
    struct link_pair pair;
    struct sl_ring_memory ring;
    uint8_t grant[SL_GRANT_BYTES];
    enum sealane_status status;

    pair_connect(&pair, &verbs_world);
    cr_assert_eq(
        sl_memory_ops(pair.memory)->ring_alloc(pair.memory, SL_PLACE_HOST, 4096 * 64, &ring),
        SEALANE_OK);
    status = sl_link_verbs.grant(pair.sides[ACCEPTING].link, SL_RING_BULK, &ring, 64, grant);
    cr_assert_eq(status, SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_neq(strstr(sealane_last_error()->message, "4096 slots"), NULL);
    cr_assert_neq(strstr(sealane_last_error()->message, "1024"), NULL, "%s",
                  sealane_last_error()->message);
    side_drop(&pair, ACCEPTING);
    sl_memory_ops(pair.memory)->ring_free(pair.memory, &ring);
    pair_down(&pair);
}

Test(link_verbs, leaves_all_writes_of_a_turn_with_few_completions)
{
    struct link_pair pair;
    struct sl_verbs *verbs;

    pair_up(&pair, &verbs_world);
    verbs = sl_verbs_of(pair.sides[CONNECTING].link);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct sl_link_write write = {.ring = SL_RING_MESSAGE,
                                      .slot = i,
                                      .from = contract_sources[i],
                                      .bytes = STRIDE,
                                      .immediate = i};

        cr_assert_eq(sl_link_verbs.write_imm(&verbs->link, &write), SEALANE_OK);
    }
    cr_assert_eq(verbs->written, 0, "a write left before its turn was over");
    side_let_go(&pair, CONNECTING);
    cr_assert_eq(verbs->written, SLOTS);
    for (uint32_t i = 1; i < SLOTS; i++)
        cr_assert_eq(verbs->writes[i].send_flags & IBV_SEND_SIGNALED, 0);
    cr_assert_neq(verbs->writes[SLOTS].send_flags & IBV_SEND_SIGNALED, 0);
    for (uint32_t i = 0; i < SLOTS; i++)
        cr_assert_eq(event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED).immediate, i);
    pair_down(&pair);
}

/* More of them than are posted again together, and the link takes no receives any more. */
Test(link_verbs, tells_all_that_came_before_the_end)
{
    enum {
        WRITES = 2 * SLOTS
    };
    struct sl_link_event events[WRITES + 4];
    int64_t until = contract_now_ms() + EVENT_LIMIT_MS;
    struct link_pair pair;
    struct sl_verbs *verbs;
    int count = 0;

    pair_up(&pair, &verbs_world);
    for (uint32_t i = 0; i < WRITES; i++)
        cr_assert_eq(write_to(&pair, CONNECTING, (enum sl_ring_id)(i % 2), i / 2, (uint8_t)i),
                     SEALANE_OK);
    side_drop(&pair, CONNECTING);
    verbs = sl_verbs_of(pair.sides[ACCEPTING].link);
    while (!verbs->over && contract_now_ms() < until)
        (void)sl_verbs_completions(verbs->device, 1000);
    cr_assert(verbs->over);
    while (count < WRITES + 1 && contract_now_ms() < until)
        count += sl_link_verbs.poll(pair.sides[ACCEPTING].port, events + count, WRITES + 4 - count);
    cr_assert_eq(count, WRITES + 1);
    for (int i = 0; i < WRITES; i++)
        cr_assert_eq(events[i].kind, SL_LINK_ARRIVED, "event %d", i);
    cr_assert_eq(events[WRITES].kind, SL_LINK_GONE);
    pair_down(&pair);
}

/* ---- a device that seems to be away; link_verbs_lost_test.c takes it away ---- */

static bool away;
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

int __wrap_access(const char *path, int mode)
{
    return away && strstr(path, "infiniband") ? -1 : __real_access(path, mode);
}

/* Turns both sides as sleeping nodes until the connecting one's link is up or gone. */
static enum sl_link_event_kind connect_outcome(struct link_pair *pair)
{
    struct sl_link_event event = {.kind = SL_LINK_WRITABLE};
    struct sl_link *link;

    cr_assert_eq(sl_link_verbs.connect(pair->sides[CONNECTING].port, pair->address, &link),
                 SEALANE_OK);
    cr_assert(side_event_next(pair, CONNECTING, &event));
    cr_assert_eq(event.link, link);
    sl_link_verbs.drop(link);
    return event.kind;
}

Test(link_verbs, listens_again_when_its_device_is_back)
{
    int64_t until = contract_now_ms() + EVENT_LIMIT_MS;
    struct sl_link_event event;
    struct link_pair pair;

    pair_up(&pair, &verbs_world);
    away = true;
    (void)event_expect(&pair, ACCEPTING, SL_LINK_GONE);
    (void)event_expect(&pair, CONNECTING, SL_LINK_GONE);
    cr_assert_eq(connect_outcome(&pair), SL_LINK_GONE, "nobody should listen there now");
    away = false;
    while (connect_outcome(&pair) != SL_LINK_CONNECTED) {
        cr_assert(contract_now_ms() < until, "it does not listen again");
        (void)poll(NULL, 0, 50);
    }
    cr_assert(event_next(&sl_link_verbs, pair.sides[ACCEPTING].port, &event, EVENT_LIMIT_MS));
    cr_assert_eq(event.kind, SL_LINK_ACCEPTED);
    pair_down(&pair);
}

/* ---- without a device, or with one that has another address ---- */

Test(link_verbs, says_so_where_no_device_leads)
{
    struct sl_port *port;
    struct sl_link *link;
    struct sl_link_event event;

    cr_assert_eq(sl_link_verbs.open(NULL, &port), SEALANE_OK);
    cr_assert_eq(sl_link_verbs.listen(port, "203.0.113.7:0", NULL), SEALANE_NOT_FOUND, "%s",
                 sealane_last_error()->message);
    cr_assert_neq(strstr(sealane_last_error()->message, "RDMA device"), NULL);
    cr_assert_eq(sl_link_verbs.connect(port, "255.255.255.255:7000", &link), SEALANE_OK);
    cr_assert(event_next(&sl_link_verbs, port, &event, EVENT_LIMIT_MS));
    cr_assert_eq(event.kind, SL_LINK_GONE);
    cr_assert_neq(strstr(event.why, "RDMA device"), NULL, "%s", event.why);
    cr_assert_eq(sl_link_verbs.send(link, (const uint8_t *)"x", 1), SEALANE_UNAVAILABLE);
    sl_link_verbs.drop(link);
    sl_link_verbs.close(port);
}
