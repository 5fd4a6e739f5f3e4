/* SPDX-License-Identifier: Apache-2.0 */
/* epoch_race.c - thousands of key epochs while both nodes run on threads of their own and several threads call: what one end seals the
 * other opens at the same time, out of the same pages. Eight records to a key; every reply is compared. A plain main(): Criterion
 * does not start under ThreadSanitizer. Linked with --wrap=sl_lane_turn, to read how far the rings are. */
#include "tests/e2e/load.h"
#include "transport/lane_inside.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    SHIFT = 3,
    EPOCHS = 3000,
    THREADS = 3,
    SMALL = 100,
    LARGE = 40000 /* three chunks of the small rings */
};

static atomic_ullong epochs[2][SL_RING_COUNT]; /* that an end has sealed for; 0 is the server */
static atomic_int wrong;
static struct sealane_channel *channel;

bool __real_sl_lane_turn(struct sl_lane *lane, size_t *budget);
bool __wrap_sl_lane_turn(struct sl_lane *lane, size_t *budget);

/* On the lane's own thread. */
bool __wrap_sl_lane_turn(struct sl_lane *lane, size_t *budget)
{
    bool more = __real_sl_lane_turn(lane, budget);

    for (int ring = 0; ring < SL_RING_COUNT; ring++)
        atomic_store(&epochs[!lane->server][ring], lane->tx[ring].seq >> SHIFT);
    return more;
}

static bool enough(void)
{
    bool all = true;

    for (int i = 0; i < 2 * SL_RING_COUNT; i++)
        all &= atomic_load(&epochs[i / 2][i % 2]) >= EPOCHS;
    return all;
}

static void serve_echo(struct sealane_call *call, const Kitchen__V1__Dish *request, void *user)
{
    (void)user;
    load_must(kitchen_v1_kitchen_echo__reply(call, request), "reply");
}

static void *customer(void *argument)
{
    unsigned random = (unsigned)(uintptr_t)argument;
    uint8_t bytes[LARGE];
    uint64_t shape;
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;

    tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    tensor.n_shape = 1;
    tensor.shape = &shape;
    tensor.data.data = bytes;
    request.tensor = &tensor;
    for (unsigned i = 0; !enough() && atomic_load(&wrong) == 0; i++) {
        const Kitchen__V1__Dish *reply;
        struct sealane_call *call;

        shape = i % 16 == 0 ? LARGE : SMALL;
        tensor.data.len = shape;
        for (uint64_t at = 0; at < shape; at++)
            bytes[at] = (uint8_t)((random = random * 1103515245 + 12345) >> 16);
        load_must(kitchen_v1_kitchen_echo(channel, &request, NULL, &reply, &call), "call");
        if (reply->tensor->data.len != shape || memcmp(reply->tensor->data.data, bytes, shape) != 0)
            atomic_fetch_add(&wrong, 1);
        sealane_call_free(call);
    }
    return NULL;
}

static void call_over(const char *address, const char *link, struct sealane_credentials *const *who)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    struct sealane_server_options server_options = {
        .credentials = who[0], .small_rings = true, .epoch_shift = SHIFT, .link = link};
    struct sealane_channel_options channel_options = {.credentials = who[1],
                                                      .server_name = "localhost",
                                                      .small_rings = true,
                                                      .epoch_shift = SHIFT,
                                                      .link = link};
    struct sealane_node *nodes[2];
    struct sealane_server *server;
    pthread_t threads[THREADS];
    char bound[128];

    for (int i = 0; i < 2; i++)
        load_must(sealane_node_new(NULL, &nodes[i]), "node");
    load_must(sealane_server_new(nodes[0], &server_options, &server), "server");
    load_must(kitchen_v1_kitchen__register(server, &handlers, NULL), "register");
    load_must(sealane_server_listen(server, address), "listen");
    load_must(sealane_server_address(server, 0, bound, sizeof(bound)), "address");
    load_must(sealane_channel_new(nodes[1], bound, &channel_options, &channel), "channel");
    for (int i = 0; i < 2 * SL_RING_COUNT; i++)
        atomic_store(&epochs[i / 2][i % 2], 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_create(&threads[i], NULL, customer, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    (void)fprintf(stderr, "%s: epochs of messages %llu and %llu, of chunks %llu and %llu\n", link,
                  atomic_load(&epochs[0][0]), atomic_load(&epochs[1][0]),
                  atomic_load(&epochs[0][1]), atomic_load(&epochs[1][1]));
    sealane_channel_free(channel);
    sealane_server_free(server);
    for (int i = 0; i < 2; i++)
        sealane_node_free(nodes[i]);
}

int main(void)
{
    struct sealane_credentials *const who[2] = {load_credentials("server"),
                                                load_credentials("client")};
    char address[64];

    (void)snprintf(address, sizeof(address), "unix-abstract:sealane-epoch-race-%d", (int)getpid());
    call_over(address, "local", who);
    call_over("127.0.0.1:0", "tcp", who);
    for (int i = 0; i < 2; i++)
        sealane_credentials_free(who[i]);
    (void)fprintf(stderr, "%d replies were wrong\n", atomic_load(&wrong));
    return atomic_load(&wrong) == 0 ? 0 : 1;
}
