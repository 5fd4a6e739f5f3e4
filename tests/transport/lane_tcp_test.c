/* SPDX-License-Identifier: Apache-2.0 */
/* lane_tcp_test.c - a whole lane over link_tcp: it comes up, carries messages and large tensors both ways, and ends at both ends. */
#include "tests/support/certs.h"
#include "tests/support/lanes.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct lanes lanes;

enum {
    TENSOR_BYTES = 20 << 20
};

static void open_lanes(void)
{
    unsigned pid = (unsigned)getpid();

    lanes_init(&lanes, false);
    (void)snprintf(lanes.address, sizeof(lanes.address), "127.%u.%u.%u:7000", 1 + pid / 62500 % 250,
                   pid / 250 % 250, 1 + pid % 250);
    lanes_listen(&lanes);
    lanes_connect(&lanes);
}

static void fill(uint8_t *at, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        at[i] = (uint8_t)(i * 131 + (i >> 8) * 17 + seed);
}

static size_t messages_expected;

static bool messages_came(struct lanes *all)
{
    return all->end[0].byte_count >= messages_expected &&
           all->end[1].byte_count >= messages_expected;
}

static bool tensors_came(struct lanes *all)
{
    return all->end[0].filled >= TENSOR_BYTES && all->end[1].filled >= TENSOR_BYTES;
}

Test(lane_tcp, carries_messages_both_ways_and_says_so)
{
    enum {
        BYTES = 300000
    };
    uint8_t *bytes = malloc(BYTES);
    struct sl_send sends[2];
    struct sealane_security security;

    fill(bytes, BYTES, 5);
    open_lanes();
    sl_lane_security(lanes.end[1].lane, &security);
    cr_assert_str_eq(security.link, "tcp");
    for (int from = 0; from < 2; from++) {
        sends[from] = (struct sl_send){.call = 7, .bytes = bytes, .count = BYTES};
        cr_assert_eq(sl_lane_send(lanes.end[from].lane, &sends[from]), SEALANE_OK);
    }
    messages_expected = BYTES;
    cr_assert(lanes_until(&lanes, messages_came));
    for (int to = 0; to < 2; to++) {
        cr_assert_eq(lanes.end[to].byte_count, BYTES);
        cr_assert_arr_eq(lanes.end[to].bytes, bytes, BYTES);
    }
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(bytes);
}

Test(lane_tcp, carries_large_tensors_both_ways_at_once)
{
    uint8_t *tensor = malloc(TENSOR_BYTES), *places[2];
    struct sl_part part = {tensor, TENSOR_BYTES};
    struct sl_send sends[2];

    fill(tensor, TENSOR_BYTES, 9);
    open_lanes();
    for (int end = 0; end < 2; end++) {
        places[end] = calloc(1, TENSOR_BYTES);
        lanes.end[end].place = places[end];
        sends[end] = (struct sl_send){.call = 7,
                                      .bytes = (const uint8_t *)"tensor",
                                      .count = 6,
                                      .parts = &part,
                                      .part_count = 1};
        cr_assert_eq(sl_lane_send(lanes.end[end].lane, &sends[end]), SEALANE_OK);
    }
    cr_assert(lanes_until(&lanes, tensors_came), "%llu and %llu bytes came",
              (unsigned long long)lanes.end[0].filled, (unsigned long long)lanes.end[1].filled);
    for (int end = 0; end < 2; end++)
        cr_assert_eq(memcmp(places[end], tensor, TENSOR_BYTES), 0);
    lanes_disconnect(&lanes);
    lanes_free(&lanes);
    free(tensor);
    free(places[0]);
    free(places[1]);
}

static bool client_closed(struct lanes *all)
{
    return all->end[1].closed > 0;
}

/* The server closes: what it queued before still reaches the client, and then the end. */
Test(lane_tcp, delivers_what_was_said_before_the_end)
{
    open_lanes();
    cr_assert_eq(sl_lane_status(lanes.end[0].lane, 7, SEALANE_ABORTED, "last words"), SEALANE_OK);
    sl_lane_close(lanes.end[0].lane, SEALANE_UNAVAILABLE, "the test ends it");
    cr_assert(lanes_until(&lanes, client_closed));
    cr_assert_eq(lanes.end[1].statuses, 1);
    cr_assert_str_eq(lanes.end[1].last_text, "last words");
    cr_assert_eq(lanes.end[1].close_status, SEALANE_UNAVAILABLE);
    lanes_free(&lanes);
}
