/* SPDX-License-Identifier: Apache-2.0 */
/* link_tcp_stream_test.c - the stream of link_tcp: cut anywhere on its way in, taken in part only on its way out, ended at any place. */
#include "tests/transport/link_tcp_raw.h"

static const struct link_world ipv4_world = {.ops = &sl_link_tcp, .address = raw_address};
static unsigned sends;
ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    sends++;
    return __real_sendmsg(fd, message, flags);
}

/* ---- a stream that is cut anywhere ---- */

Test(link_tcp_stream, understands_what_comes_byte_by_byte)
{
    uint8_t bytes[SL_TCP_HEADER_BYTES + 5 + SL_TCP_HEADER_BYTES + STRIDE];
    struct sl_link_event event;
    struct raw raw;
    size_t said = 0, count = SL_TCP_HEADER_BYTES + 5;

    raw_up(&raw);
    raw_header(bytes, &(struct sl_tcp_header){.kind = 'B', .bytes = 5});
    memcpy(bytes + SL_TCP_HEADER_BYTES, "hello", 5);
    count += raw_write(bytes + count, SL_RING_BULK, 3, 0x01020377);
    cr_assert_eq(count, sizeof(bytes));
    for (size_t i = 0; i < count; i++) {
        raw_send(&raw, bytes + i, 1);
        while (event_next(raw_ops, raw.port, &event, 0)) {
            if (event.kind == SL_LINK_ARRIVED)
                break;
            cr_assert_eq(event.kind, SL_LINK_BYTES);
            cr_assert_eq(memcmp(event.bytes, "hello" + said, event.count), 0);
            said += event.count;
        }
        cr_assert(i + 1 == count || event.kind != SL_LINK_ARRIVED, "told after byte %zu", i);
    }
    if (event.kind != SL_LINK_ARRIVED)
        event = raw_expect(&raw, SL_LINK_ARRIVED);
    cr_assert_eq(event.immediate, 0x01020377);
    cr_assert_eq(said, 5);
    cr_assert(is_filled(raw_ring(&raw, SL_RING_BULK) + 3 * STRIDE, STRIDE, 0x77));
    raw_close(&raw);
}

/* Many frames of all sizes, the stream cut at random places; each arrives once, in order, where it belongs. */
Test(link_tcp_stream, understands_many_frames_cut_at_random)
{
    static uint8_t bytes[400 * (SL_TCP_HEADER_BYTES + STRIDE)];
    struct sl_link_event event;
    struct raw raw;
    size_t count = 0, sent = 0;

    raw_up(&raw);
    srand(7);
    for (uint32_t i = 0; i < 400; i++)
        count += raw_write(bytes + count, i % 2, i % SLOTS, i);
    for (uint32_t told = 0; told < 400;) {
        size_t part = (size_t)(rand() % 3 ? rand() % 40 : rand() % 9000);

        part = part < count - sent ? part : count - sent;
        raw_send(&raw, bytes + sent, part);
        sent += part;
        while (event_next(raw_ops, raw.port, &event, sent == count ? EVENT_LIMIT_MS : 0)) {
            cr_assert_eq(event.kind, SL_LINK_ARRIVED);
            cr_assert_eq(event.immediate, told);
            if (++told == 400)
                break;
        }
    }
    for (uint32_t i = 400 - SLOTS; i < 400; i++)
        cr_assert(is_filled(raw_ring(&raw, i % 2) + i % SLOTS * STRIDE, STRIDE, (int)(i & 0xff)));
    raw_close(&raw);
}

Test(link_tcp_stream, takes_two_headers_in_one_segment)
{
    uint8_t bytes[3 * SL_TCP_HEADER_BYTES];
    struct raw raw;

    raw_up(&raw);
    for (uint32_t i = 0; i < 3; i++)
        raw_header(bytes + i * SL_TCP_HEADER_BYTES,
                   &(struct sl_tcp_header){.kind = 'W', .immediate = i});
    raw_send(&raw, bytes, sizeof(bytes));
    for (uint32_t i = 0; i < 3; i++)
        cr_assert_eq(raw_expect(&raw, SL_LINK_ARRIVED).immediate, i);
    raw_close(&raw);
}

Test(link_tcp_stream, tells_gone_when_the_peer_ends_in_the_middle_of_a_frame)
{
    uint8_t bytes[SL_TCP_HEADER_BYTES + STRIDE];
    struct raw raw;

    raw_up(&raw);
    for (size_t cut = 1; cut < sizeof(bytes); cut += 13) {
        raw_send(&raw, bytes, raw_write(bytes, SL_RING_BULK, 1, 9));
        raw_send(&raw, bytes, cut);
        raw_hang_up(&raw);
        (void)raw_expect(&raw, SL_LINK_ARRIVED);
        cr_assert_neq(strstr(raw_expect(&raw, SL_LINK_GONE).why, "middle of a frame"), NULL);
        raw_ops->drop(raw.link);
        raw_connect(&raw);
        raw_grant(&raw);
    }
    raw_close(&raw);
}

/* ---- a kernel that takes little ---- */

/* Only of the sender: TCP itself stalls for a while at each turn when the receiver has too little. */
static void buffers_shrink(const struct link_pair *pair)
{
    int least = 1;

    for (int side = 0; side < 2; side++) {
        int fd = sl_tcp_of(pair->sides[side].link)->fd;

        cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least)), 0);
    }
}

/* Sizes from nothing to the whole ring, copied and lent, through buffers smaller than one write. The sources of what was released
 * are overwritten at once. */
Test(link_tcp_stream, loses_nothing_when_the_kernel_takes_a_part_only)
{
    enum {
        ROUNDS = 600,
        WINDOW = 4
    };
    static uint8_t sources[WINDOW][SLOTS * STRIDE];
    struct link_pair pair;
    struct sl_link_event event;
    struct sl_link *link;
    uint32_t posted = 0, told = 0;
    unsigned seed = 3;

    pair_up(&pair, &ipv4_world);
    buffers_shrink(&pair);
    link = pair.sides[CONNECTING].link;
    while (told < ROUNDS) {
        size_t bytes = (size_t)rand_r(&seed) % (SLOTS * STRIDE + 1);

        if (posted < ROUNDS && posted - told < WINDOW && posted - link->released < WINDOW) {
            struct sl_link_write write = {.ring = (enum sl_ring_id)(posted & 1),
                                          .from = sources[posted % WINDOW],
                                          .bytes = bytes,
                                          .immediate = (uint32_t)bytes};

            memset(sources[posted % WINDOW], (int)(posted & 0xff), sizeof(sources[0]));
            cr_assert_eq(sl_link_tcp.write_imm(link, &write), SEALANE_OK);
            posted++;
            if (posted - told < WINDOW)
                continue; /* some more, before any of them can leave */
        }
        cr_assert_eq(sl_link_tcp.poll(pair.sides[CONNECTING].port, &event, 1), 0);
        if (sl_link_tcp.poll(pair.sides[ACCEPTING].port, &event, 1) == 0)
            continue;
        cr_assert_eq(event.kind, SL_LINK_ARRIVED, "%s", event.why);
        if (posted - told == 1) /* nothing behind it that may have been written over it */
            cr_assert(is_filled(pair.sides[ACCEPTING].rings[told & 1].base, event.immediate,
                                (int)(told & 0xff)));
        told++;
    }
    event_expect_none(&pair, CONNECTING);
    cr_assert_eq(link->released, ROUNDS);
    pair_down(&pair);
}

/* A peer that does not read holds the writer back, which neither calls the kernel in vain nor queues without end. */
Test(link_tcp_stream, says_again_when_the_peer_does_not_read)
{
    static uint8_t large[SLOTS * STRIDE];
    struct sl_link_write write = {
        .ring = SL_RING_BULK, .from = large, .bytes = sizeof(large), .immediate = 0};
    struct link_pair pair;
    struct sl_link_event event;
    struct sl_link *link;
    enum sealane_status status;

    pair_up(&pair, &ipv4_world);
    buffers_shrink(&pair);
    link = pair.sides[CONNECTING].link;
    for (int i = 0; i < 10000; i++) {
        status = sl_link_tcp.write_imm(link, &write);
        write.immediate += status == SEALANE_OK;
        if (i % 10 == 0)
            cr_assert_eq(sl_link_tcp.poll(pair.sides[CONNECTING].port, &event, 1), 0);
    }
    cr_assert_eq(status, SL_AGAIN);
    cr_assert_eq(link->posted, write.immediate);
    cr_assert_lt(link->released, link->posted);
    sends = 0;
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(sl_link_tcp.write_imm(link, &write), SL_AGAIN);
        cr_assert_eq(sl_link_tcp.poll(pair.sides[CONNECTING].port, &event, 1), 0);
    }
    cr_assert_leq(sends, 2, "a full kernel was asked %u times", sends);
    for (uint32_t told = 0; told < write.immediate;) {
        if (sl_link_tcp.poll(pair.sides[ACCEPTING].port, &event, 1) == 1)
            cr_assert_eq(event.immediate, told++);
        cr_assert_eq(sl_link_tcp.poll(pair.sides[CONNECTING].port, &event, 1), 0);
    }
    cr_assert_eq(sl_link_tcp.write_imm(link, &write), SEALANE_OK);
    pair_down(&pair);
}

/* A copied write behind a lent one counts as released after it: the counter tells of all up to a number. */
Test(link_tcp_stream, releases_in_the_order_of_posting)
{
    static uint8_t large[SLOTS * STRIDE];
    struct sl_link_write lent = {.ring = SL_RING_BULK, .from = large, .bytes = sizeof(large)};
    struct sl_link_write copied = {.ring = SL_RING_MESSAGE, .from = large, .bytes = 64};
    struct link_pair pair;
    struct sl_link *link;

    pair_up(&pair, &ipv4_world);
    link = pair.sides[CONNECTING].link;
    cr_assert_eq(sl_link_tcp.write_imm(link, &copied), SEALANE_OK);
    cr_assert_eq(link->released, 1);
    cr_assert_eq(sl_link_tcp.write_imm(link, &lent), SEALANE_OK);
    cr_assert_eq(sl_link_tcp.write_imm(link, &copied), SEALANE_OK);
    cr_assert_eq(link->released, 1);
    cr_assert_eq(link->placed, 3);
    side_let_go(&pair, CONNECTING);
    cr_assert_eq(link->released, 3);
    pair_down(&pair);
}

/* That nothing can be sent any more is found out first; what the peer said before it reset the connection still counts. */
Test(link_tcp_stream, hears_what_came_before_a_write_failed)
{
    static uint8_t bytes[SL_TCP_HEADER_BYTES + STRIDE];
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    struct raw raw;

    raw_up(&raw);
    raw_send(&raw, bytes, raw_write(bytes, SL_RING_MESSAGE, 2, 0x1234));
    cr_assert_eq(setsockopt(raw.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    raw_hang_up(&raw);
    cr_assert_eq(raw_ops->send(raw.link, bytes, 1), SEALANE_UNAVAILABLE);
    cr_assert_eq(raw_expect(&raw, SL_LINK_ARRIVED).immediate, 0x1234);
    cr_assert_neq(strstr(raw_expect(&raw, SL_LINK_GONE).why, "reset"), NULL);
    raw_close(&raw);
}

/* A reset would destroy what the peer had no room for yet; closing with something unread makes one. */
Test(link_tcp_stream, delivers_all_that_the_kernel_took_before_the_end_of_a_link_with_unread_bytes)
{
    enum {
        SENDS = 40,
        WINDOW_BYTES = 32768
    };
    static uint8_t bytes[SL_LINK_SEND_BYTES];
    struct timeval limit = {.tv_sec = EVENT_LIMIT_MS / 1000};
    int window = WINDOW_BYTES;
    struct raw raw;
    size_t total = 0;
    ssize_t got;

    raw_open(&raw);
    raw_connect(&raw);
    cr_assert_eq(setsockopt(raw.fd, SOL_SOCKET, SO_RCVBUF, &window, sizeof(window)), 0);
    cr_assert_eq(setsockopt(raw.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    for (int i = 0; i < SENDS; i++)
        cr_assert_eq(raw_ops->send(raw.link, bytes, sizeof(bytes)), SEALANE_OK);
    raw_send(&raw, "unread", 6);
    raw_ops->drop(raw.link);
    while ((got = recv(raw.fd, bytes, sizeof(bytes), 0)) > 0)
        total += (size_t)got;
    cr_assert_eq(got, 0, "errno %d after %zu bytes", errno, total);
    cr_assert_eq(total, SENDS * (SL_TCP_HEADER_BYTES + sizeof(bytes)));
    raw_close(&raw);
}
