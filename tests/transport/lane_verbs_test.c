/* SPDX-License-Identifier: Apache-2.0 */
/* lane_verbs_test.c - a whole lane over link_verbs: it comes up, carries messages and large tensors both ways at once, and ends at
 * both ends. Without a device all tests but one are skipped. */
#include "tests/support/certs.h"
#include "tests/support/lanes.h"
#include "tests/transport/link_verbs_raw.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    TENSOR_BYTES = 8 << 20,
    MESSAGE_BYTES = 300000
};

static struct lanes lanes;
static uint8_t *tensor, *places[2];
static bool as_nobody; /* who may lock as much memory as RLIMIT_MEMLOCK says */

static void open_lanes(const struct sl_lane_options *wanted)
{
    static const struct sl_link_ops *const links[] = {&sl_link_verbs, NULL};

    raw_skip_without_device();
    lanes_init(&lanes, false);
    lanes.links = links;
    if (wanted) {
        lanes.options[0].message_slots = lanes.options[1].message_slots = wanted->message_slots;
        lanes.options[0].bulk_slots = lanes.options[1].bulk_slots = wanted->bulk_slots;
    }
    raw_address(lanes.address, sizeof(lanes.address), "lane");
    /* Before the device is opened: its files answer none but who opened them. */
    if (as_nobody && geteuid() == 0 && seteuid(65534) != 0)
        cr_skip_test("who may lock everything cannot be held to a limit");
    lanes_listen(&lanes);
}

static void close_lanes(void)
{
    lanes_free(&lanes);
    free(tensor);
    free(places[0]);
    free(places[1]);
}

static bool all_came(struct lanes *all)
{
    for (int i = 0; i < 2; i++) {
        if (all->end[i].filled < TENSOR_BYTES || all->end[i].byte_count < MESSAGE_BYTES + 6)
            return false;
    }
    return true;
}

/* A tensor and a long message from each end to the other, together. */
static void carry_all(void)
{
    static struct sl_send sends[2], messages[2];
    struct sl_part part;

    tensor = malloc(TENSOR_BYTES);
    for (size_t i = 0; i < TENSOR_BYTES; i++)
        tensor[i] = (uint8_t)(i * 131 + (i >> 8) * 17);
    part = (struct sl_part){tensor, TENSOR_BYTES};
    for (int i = 0; i < 2; i++) {
        lanes.end[i].place = places[i] = calloc(1, TENSOR_BYTES);
        sends[i] = (struct sl_send){.call = 7,
                                    .bytes = (const uint8_t *)"tensor",
                                    .count = 6,
                                    .parts = &part,
                                    .part_count = 1};
        messages[i] = (struct sl_send){.call = 8, .bytes = tensor, .count = MESSAGE_BYTES};
        cr_assert_eq(sl_lane_send(lanes.end[i].lane, &sends[i]), SEALANE_OK);
        cr_assert_eq(sl_lane_send(lanes.end[i].lane, &messages[i]), SEALANE_OK);
    }
    for (int tries = 0; tries < 4 && !lanes_until(&lanes, all_came); tries++) {
    }
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(lanes.end[i].byte_count, MESSAGE_BYTES + 6, "%s", lanes.end[i].close_text);
        cr_assert_eq(lanes.end[i].filled, TENSOR_BYTES, "%s", lanes.end[i].close_text);
        cr_assert_eq(memcmp(places[i], tensor, TENSOR_BYTES), 0);
    }
}

Test(lane_verbs, carries_messages_and_tensors_both_ways_at_once)
{
    struct sealane_security security;

    open_lanes(NULL);
    lanes_connect(&lanes);
    sl_lane_security(lanes.end[1].lane, &security);
    cr_assert_str_eq(security.link, "verbs");
    carry_all();
    lanes_disconnect(&lanes);
    close_lanes();
}

Test(lane_verbs, carries_all_through_the_smallest_rings)
{
    open_lanes(&(struct sl_lane_options){.message_slots = 8, .bulk_slots = 8});
    lanes_connect(&lanes);
    carry_all();
    lanes_disconnect(&lanes);
    close_lanes();
}

static bool client_closed(struct lanes *all)
{
    return all->end[1].closed > 0;
}

Test(lane_verbs, refuses_rings_that_the_device_has_no_receives_for)
{
    open_lanes(&(struct sl_lane_options){.message_slots = 2048, .bulk_slots = 64});
    lanes_begin(&lanes);
    cr_assert(lanes_until(&lanes, client_closed));
    cr_assert_eq(lanes.end[1].close_status, SEALANE_RESOURCE_EXHAUSTED);
    cr_assert_neq(strstr(lanes.end[1].close_text, "2048 slots"), NULL, "%s",
                  lanes.end[1].close_text);
    close_lanes();
}

Test(lane_verbs, delivers_what_was_said_before_the_end)
{
    open_lanes(NULL);
    lanes_connect(&lanes);
    cr_assert_eq(sl_lane_status(lanes.end[0].lane, 7, SEALANE_ABORTED, "last words"), SEALANE_OK);
    sl_lane_close(lanes.end[0].lane, SEALANE_UNAVAILABLE, "the test ends it");
    cr_assert(lanes_until(&lanes, client_closed));
    cr_assert_eq(lanes.end[1].statuses, 1);
    cr_assert_str_eq(lanes.end[1].last_text, "last words");
    cr_assert_eq(lanes.end[1].close_status, SEALANE_UNAVAILABLE);
    close_lanes();
}

Test(lane_verbs, says_which_limit_keeps_memory_from_being_locked)
{
    const struct rlimit little = {.rlim_cur = 128 << 10, .rlim_max = 128 << 10};

    as_nobody = true;
    open_lanes(NULL);
    cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &little), 0);
    lanes_begin(&lanes);
    cr_assert(lanes_until(&lanes, client_closed));
    cr_assert_neq(strstr(lanes.end[1].close_text, "RLIMIT_MEMLOCK"), NULL, "%s",
                  lanes.end[1].close_text);
    cr_assert_neq(strstr(lanes.end[1].close_text, "131072"), NULL, "%s", lanes.end[1].close_text);
    close_lanes();
}

/* Also where there is no device at all. */
Test(lane_verbs, says_so_where_no_device_leads)
{
    lanes_init(&lanes, false);
    lanes_listen(&lanes);
    lanes.options[1].link = "verbs";
    (void)snprintf(lanes.address, sizeof(lanes.address), "255.255.255.255:7000");
    lanes_begin(&lanes);
    cr_assert(lanes_until(&lanes, client_closed));
    cr_assert_eq(lanes.end[1].close_status, SEALANE_UNAVAILABLE);
    cr_assert_neq(strstr(lanes.end[1].close_text, "RDMA device"), NULL, "%s",
                  lanes.end[1].close_text);
    close_lanes();
}
