/* SPDX-License-Identifier: Apache-2.0 */
/* link_verbs_lost_test.c - what becomes of links when the network goes down or the device is removed. In the rig only, whose device
 * may be taken away. Each test first makes the device as it was. */
#include "tests/transport/link_pair.h"
#include "tests/transport/link_verbs_raw.h"

#include <stdlib.h>

/* Runs a command of the shell with $N, the network interface of rxe0. */
static void shell(const char *command)
{
    char line[400];

    (void)snprintf(
        line, sizeof(line),
        "N=$(cat /run/rxe0-netdev 2>/dev/null || cat /sys/class/infiniband/rxe0/parent) && "
        "echo $N > /run/rxe0-netdev && { %s; } >&2",
        command);
    cr_assert_eq(system(line), 0, "%s", command);
}

/* A device that was removed goes when the last process that used it ends. The connection manager's own queue pair on Soft-RoCE of Linux
 * 6.1 breaks for good when it has something to say, as of a link that ends, while the network is down: nobody connects any more then,
 * so the device is made anew. */
static void device_anew(void)
{
    if (!getenv("SEALANE_RIG"))
        cr_skip_test("only the rig's device may be taken away");
    shell("ip link set $N up; rdma link del rxe0 2>/dev/null; "
          "until rdma link add rxe0 type rxe netdev $N 2>/dev/null; do sleep 0.1; done");
}

static const struct link_world lost_world = {
    .ops = &sl_link_verbs, .begin = device_anew, .address = raw_address, .both_work = true};

/* Both ends hear of it, the first with this reason. */
static void gone_expect(struct link_pair *pair, const char *why)
{
    for (int side = 0; side < 2; side++) {
        struct sl_link_event event = event_expect(pair, side, SL_LINK_GONE);

        cr_assert(side == ACCEPTING || strstr(event.why, why), "%s", event.why);
        side_drop(pair, side);
    }
    event_expect_none(pair, CONNECTING);
    event_expect_none(pair, ACCEPTING);
}

Test(link_verbs_lost, tells_gone_when_the_network_goes_down)
{
    struct link_pair pair;

    pair_up(&pair, &lost_world);
    shell("ip link set $N down");
    gone_expect(&pair, "went down");
    pair_down(&pair);
}

/* The command returns when nobody holds the device any more. */
Test(link_verbs_lost, tells_gone_when_the_device_is_removed)
{
    struct sl_link_event event;
    struct sl_link *link;
    struct link_pair pair;

    pair_up(&pair, &lost_world);
    cr_assert_eq(write_to(&pair, CONNECTING, SL_RING_BULK, 0, 1), SEALANE_OK);
    (void)event_expect(&pair, ACCEPTING, SL_LINK_ARRIVED);
    shell("(sleep 0.05; rdma link del rxe0) & true");
    gone_expect(&pair, "removed");
    cr_assert_eq(sl_link_verbs.connect(pair.sides[CONNECTING].port, pair.address, &link),
                 SEALANE_OK);
    event = event_expect(&pair, CONNECTING, SL_LINK_GONE);
    cr_assert_eq(event.link, link);
    pair_down(&pair);
}

/* Also where there was never one: what a node does with every carrier costs nothing and says nothing. */
Test(link_verbs_lost, opens_a_port_at_once_whether_there_is_a_device_or_not)
{
    int64_t began = contract_now_ms();
    struct sl_link_event event;
    struct sl_port *port;

    for (int i = 0; i < 100; i++) {
        cr_assert_eq(sl_link_verbs.open(NULL, &port), SEALANE_OK);
        cr_assert_eq(sl_link_verbs.poll(port, &event, 1), 0);
        cr_assert_geq(sl_link_verbs.arm(port), 0);
        sl_link_verbs.close(port);
    }
    cr_assert_lt(contract_now_ms() - began, 1000);
}
