/* SPDX-License-Identifier: Apache-2.0 */
/* loss_test.c - two guests, calls over RDMA between them, and what becomes of the calls when the other end is killed, its host vanishes
 * from the network, or a device is removed at either end: each call ends once, nothing hangs, and there is a lane again. In guest 1;
 * guest 0 does what two.sh is told. What the soft device cannot do is said where it is met.
 */
#include "tests/e2e/load.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PORT = 7200,
    BUSY = 60,        /* calls that came back before something happens */
    FAR_MS = 30000,   /* for what guest 0 is told */
    ENDS_MS = 30000,  /* retries of a queue pair to a host that is silent are over in 8 s */
    AGAIN_MS = 30000, /* until there is a lane again */
    COMMAND = 1000
};

static char target[LOAD_ADDRESS], near_address[LOAD_ADDRESS];

/* ---- both hosts ---- */

static void shared_path(const char *name, char path[512])
{
    (void)snprintf(path, 512, "%s/%s", getenv("SEALANE_RIG_SHARED"), name);
}

/* Runs a script in guest 0; its status. */
static int far(const char *script)
{
    char draft[512], path[512], done[512];
    uint64_t until = load_now_ms() + FAR_MS;
    FILE *file;
    int status = -1;

    shared_path("script", draft);
    shared_path("do", path);
    shared_path("done", done);
    file = fopen(draft, "we");
    cr_assert(file && fputs(script, file) >= 0 && fclose(file) == 0);
    cr_assert_eq(rename(draft, path), 0);
    while (access(done, F_OK) != 0 && load_now_ms() < until)
        load_rest_ms(10);
    file = fopen(done, "re");
    cr_assert(file && fscanf(file, "%d", &status) == 1, "guest 0 did not do: %s", script);
    (void)fclose(file);
    cr_assert_eq(unlink(done), 0);
    return status;
}

static void far_must(const char *script)
{
    cr_assert_eq(far(script), 0, "guest 0: %s", script);
}

static void near_must(const char *script)
{
    cr_assert_eq(system(script), 0, "%s", script);
}

/* Each case begins with devices that were removed and added again. A device goes when the last process that used it ends. */
static const char anew[] =
    "exec 2>/dev/null; pkill -9 -x load-process; ip link set vec0 up; rdma link del rxe0; "
    "for i in $(seq 100); do rdma link add rxe0 type rxe netdev vec0 && exit 0; sleep 0.1; done; "
    "exit 1";

/* The far server, or client, that load_process.c is; what it is told stands in `commands`. It has answered the first: a client that came
 * between the listeners of a server would take the second-best way. */
static void far_start(const char *mode, const char *address, const char *link, const char *commands)
{
    char script[COMMAND];

    (void)snprintf(script, sizeof(script),
                   "rm -f /tmp/answer; (printf %s; exec sleep 600) | " SEALANE_BIN_DIR
                   "/load-process %s %s '%s' 0 >/tmp/answer 2>far.log &\n"
                   "for i in $(seq 200); do [ -s /tmp/answer ] && exit 0; sleep 0.05; done\n"
                   "cat far.log; exit 1",
                   commands, mode, address, link);
    far_must(script);
}

static const char far_kill[] = "pkill -9 -x load-process";

static void both_anew(void)
{
    if (!getenv("SEALANE_RIG_PEER") || !getenv("SEALANE_RIG_SHARED"))
        cr_skip_test("only between two guests of the rig");
    (void)snprintf(target, sizeof(target), "%s:%d", getenv("SEALANE_RIG_PEER"), PORT);
    (void)snprintf(near_address, sizeof(near_address), "%s:%d", getenv("SEALANE_RIG_SELF"), PORT);
    near_must(anew);
    far_must(anew);
}

TestSuite(loss, .init = both_anew, .timeout = 110);

/* ---- a client with its load ---- */

static const char *link_of(const struct load_client *client)
{
    static struct sealane_security security;

    return sealane_channel_security(client->channel, &security) == SEALANE_OK ? security.link : "";
}

static bool call_once(const struct load_client *client)
{
    const struct sealane_call_options options = {.timeout_ms = 10000};
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;
    struct load_dish dish;
    bool good;

    load_dish_fill(&dish, 4711, 100, 100000);
    good = kitchen_v1_kitchen_echo(client->channel, &dish.request, &options, &reply, &call) ==
               SEALANE_OK &&
           load_dish_matches(&dish.request, reply);
    sealane_call_free(call);
    return good;
}

/* A lane over the link, and a call on it, at last. */
static void again_over(const struct load_client *client, const char *link)
{
    uint64_t began = load_now_ms();

    while (sealane_channel_connect(client->channel, 2000) != SEALANE_OK || !call_once(client)) {
        cr_assert_lt(load_now_ms() - began, AGAIN_MS, "no lane: %s", sealane_last_error()->message);
        load_rest_ms(50);
    }
    cr_assert_str_eq(link_of(client), link);
    (void)fprintf(stderr, "a lane over %s again after %llu ms\n", link,
                  (unsigned long long)(load_now_ms() - began));
}

static struct load *busy(const struct load_client *client)
{
    const struct load_options options = {.seed = 3, .most_outstanding = 16};
    struct load *load = load_begin(client->channel, &options);
    uint64_t until = load_now_ms() + FAR_MS;

    while (atomic_load(&load->ok) < BUSY && load_now_ms() < until)
        load_rest_ms(5);
    cr_assert_geq(load->ok, BUSY);
    return load;
}

/* There may be the next one already, over another link. */
static void lane_lost(const struct load_client *client, uint64_t began)
{
    while (strcmp(link_of(client), "verbs") == 0) {
        cr_assert_lt(load_now_ms() - began, ENDS_MS, "the lane lives on");
        load_rest_ms(5);
    }
    (void)fprintf(stderr, "the lane was lost after %llu ms\n",
                  (unsigned long long)(load_now_ms() - began));
}

static void all_ended(struct load *load)
{
    char why[LOAD_WHY];

    cr_assert(load_wait(load, ENDS_MS, why), "%s", why);
    (void)fprintf(stderr, "%d calls, %d answered, %d UNAVAILABLE, %d too late, %d cancelled\n",
                  load->started, load->ok, load->unavailable, load->late, load->cancelled);
    cr_assert_gt(load->unavailable, 0);
    load_free(load);
}

/* A call fails at once, with a status and words that a person can use. */
static void refused_with_reason(const struct load_client *client)
{
    cr_assert_not(call_once(client));
    cr_assert_eq(sealane_last_error()->status, SEALANE_UNAVAILABLE);
    cr_assert_gt(strlen(sealane_last_error()->message), 10);
    (void)fprintf(stderr, "calls say: %s\n", sealane_last_error()->message);
}

static struct load_client client_to_far(const char *link)
{
    const struct sealane_channel_options options = {.link = link};
    struct load_client client;

    far_start("server", target, link, "l");
    client = load_client_open(target, &options, false);
    again_over(&client, "verbs");
    return client;
}

/* ---- kill -9 ---- */

Test(loss, invariant_8_a_far_server_that_is_killed_leaves_no_call_open)
{
    struct load_client client = client_to_far("verbs");
    struct load *load = busy(&client);

    far_must(far_kill);
    lane_lost(&client, load_now_ms());
    all_ended(load);
    refused_with_reason(&client);
    far_start("server", target, "verbs", "l");
    again_over(&client, "verbs");
    load_client_close(&client);
}

static void wait_equal(const atomic_int *a, const atomic_int *b, const char *what)
{
    uint64_t until = load_now_ms() + ENDS_MS;

    while (atomic_load(a) != atomic_load(b) && load_now_ms() < until)
        load_rest_ms(5);
    cr_assert_eq(*a, *b, "%s: %d and %d", what, *a, *b);
}

Test(loss, invariant_8_a_far_client_that_is_killed_leaves_no_call_open)
{
    struct load_server *kitchen = load_server_new("verbs", NULL);
    uint64_t until;

    load_server_listen(kitchen, near_address);
    for (int round = 1; round <= 2; round++) {
        int handled = kitchen->handled;

        until = load_now_ms() + FAR_MS;
        far_start("client", near_address, "verbs", "b");
        while (atomic_load(&kitchen->handled) < handled + BUSY && load_now_ms() < until)
            load_rest_ms(5);
        cr_assert_geq(kitchen->handled, handled + BUSY);
        far_must(far_kill);
        wait_equal(&kitchen->downs, &kitchen->ups, "lanes that ended, and came");
        wait_equal(&kitchen->ended, &kitchen->handled, "calls that ended, and came");
    }
    (void)fprintf(stderr, "%d calls of killed clients ended: %s\n", kitchen->ended,
                  kitchen->down_why);
    cr_assert_eq(kitchen->ups, 2);
    cr_assert(load_server_free(kitchen));
}

/* ---- a device is removed ---- */

/* `rdma link del` returns when nobody holds the device any more, which a process that connected does to its end (librdmacm). */
static const char remove_device[] = "rdma link del rxe0 >/dev/null 2>&1 & sleep 0.3";

/* The same process is served again as soon as the server has a device again. */
Test(loss, invariant_8_a_removed_device_of_the_server_leaves_no_call_open)
{
    struct load_client client = client_to_far("verbs");
    struct load *load = busy(&client);
    uint64_t began = load_now_ms();

    far_must(remove_device);
    lane_lost(&client, began);
    all_ended(load);
    refused_with_reason(&client);
    far_must(anew);
    far_start("server", target, "verbs", "l");
    again_over(&client, "verbs");
    load_client_close(&client);
}

/* Who forces no link goes on over tcp at once, and over RDMA in a process that begins when the device is back. */
Test(loss, invariant_8_a_removed_device_of_the_client_leaves_no_call_open)
{
    struct load_client client = client_to_far("");
    struct load *load = busy(&client);

    near_must(remove_device);
    lane_lost(&client, load_now_ms());
    again_over(&client, "tcp");
    all_ended(load);
    load_client_close(&client);
}

/* ---- the network ---- */

/* Nothing tells this end: the retries of its queue pair do, or the lane's clock. */
Test(loss, invariant_8_a_network_that_is_silent_leaves_no_call_open)
{
    struct load_client client = client_to_far("verbs");
    struct load *load = busy(&client);

    near_must("tc qdisc add dev vec0 root netem loss 100%");
    lane_lost(&client, load_now_ms());
    all_ended(load);
    near_must("tc qdisc del dev vec0 root");
    again_over(&client, "verbs");
    load_client_close(&client);
}

/* In a suite of its own, which comes last: UML's network device closes its socket for good when it goes down. */
TestSuite(loss_for_good, .init = both_anew, .timeout = 110);

Test(loss_for_good, invariant_8_a_network_that_goes_down_leaves_no_call_open)
{
    struct load_client client = client_to_far("");
    struct load *load = busy(&client);

    near_must("ip link set vec0 down");
    lane_lost(&client, load_now_ms());
    refused_with_reason(&client);
    all_ended(load);
    load_client_close(&client);
}
