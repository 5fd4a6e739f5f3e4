/* SPDX-License-Identifier: Apache-2.0 */
/* call_race.c - threads call, cancel and answer on nodes with threads of their own, while channels and the server end under them.
 * Every call must end exactly once at each end. A plain main(): Criterion does not start under ThreadSanitizer. */
#include "tests/e2e/load.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS = 3,
    CALLS = 400, /* of each thread, each round */
    ROUNDS = 3
};

static struct world {
    struct sealane_credentials *server_credentials, *client_credentials;
    struct sealane_node *server_node, *client_node;
    struct sealane_server *server;
    struct sealane_channel *channel;
    char address[64];
    atomic_int started, done, handled, ended;
    /* calls that wait for an answerer thread */
    pthread_mutex_t lock;
    struct sealane_call *waiting[THREADS * CALLS];
    int waiting_count;
    atomic_bool stop;
} w = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void rest(long us)
{
    const struct timespec time = {0, us * 1000};
    (void)nanosleep(&time, NULL);
}

static void count_end(void *user)
{
    (void)user;
    atomic_fetch_add(&w.ended, 1);
}

static void serve_echo(struct sealane_call *call, const Kitchen__V1__Dish *request, void *user)
{
    (void)user;
    atomic_fetch_add(&w.handled, 1);
    sealane_call_on_end(call, count_end, NULL);
    if (!request->never) {
        if (kitchen_v1_kitchen_echo__reply(call, request) != SEALANE_OK)
            (void)fprintf(stderr, "reply: %s\n", sealane_last_error()->message);
        return;
    }
    (void)pthread_mutex_lock(&w.lock);
    w.waiting[w.waiting_count++] = call;
    (void)pthread_mutex_unlock(&w.lock);
}

static struct sealane_call *take_waiting(void)
{
    struct sealane_call *call = NULL;

    (void)pthread_mutex_lock(&w.lock);
    if (w.waiting_count > 0)
        call = w.waiting[--w.waiting_count];
    (void)pthread_mutex_unlock(&w.lock);
    return call;
}

static void *answerer(void *argument)
{
    Kitchen__V1__Dish reply = KITCHEN__V1__DISH__INIT;
    struct sealane_call *call;

    (void)argument;
    for (;;) {
        bool stopping = atomic_load(&w.stop);

        call = take_waiting();
        if (call && sealane_call_is_over(call))
            sealane_call_fail(call, SEALANE_ABORTED, "nobody waits");
        else if (call)
            load_must(kitchen_v1_kitchen_echo__reply(call, &reply), "late reply");
        else if (stopping)
            return NULL;
        else
            rest(50);
    }
}

static void done(struct sealane_call *call, enum sealane_status status,
                 const Kitchen__V1__Dish *reply, void *user)
{
    (void)call;
    (void)status;
    (void)reply;
    (void)user;
    atomic_fetch_add(&w.done, 1);
}

static void call_async(const Kitchen__V1__Dish *request, const struct sealane_call_options *options)
{
    if (kitchen_v1_kitchen_echo__start(w.channel, request, options, done, NULL, NULL) == SEALANE_OK)
        atomic_fetch_add(&w.started, 1);
}

static void call_blocking(const Kitchen__V1__Dish *request)
{
    const Kitchen__V1__Dish *reply;
    struct sealane_call *call;

    if (kitchen_v1_kitchen_echo(w.channel, request, NULL, &reply, &call) == SEALANE_OK) {
        sealane_call_cancel(call); /* after its end: no effect, but it must be safe */
        sealane_call_free(call);
    }
}

static void *caller(void *argument)
{
    uint8_t *data = calloc(1, 500000);
    uint64_t shape = 500000;
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    Kitchen__V1__Dish request = KITCHEN__V1__DISH__INIT;
    const struct sealane_call_options hasty = {.timeout_ms = 1};

    (void)argument;
    tensor.dtype = SEALANE__DTYPE__DTYPE_U8;
    tensor.n_shape = 1;
    tensor.shape = &shape;
    tensor.data = (ProtobufCBinaryData){shape, data};
    for (int i = 0; i < CALLS; i++) {
        request.never = i % 3 == 0;
        request.tensor = i % 7 == 0 ? &tensor : NULL;
        if (i % 5 == 0)
            call_blocking(&request);
        else
            call_async(&request, i % 5 == 2 ? &hasty : NULL);
    }
    while (atomic_load(&w.done) <
           atomic_load(&w.started)) /* the tensor's bytes are borrowed until done */
        rest(200);
    free(data);
    return NULL;
}

static void server_start(void)
{
    static const struct kitchen_v1_kitchen__handlers handlers = {.echo = serve_echo};
    struct sealane_server_options options = {.credentials = w.server_credentials};

    load_must(sealane_server_new(w.server_node, &options, &w.server), "server");
    load_must(kitchen_v1_kitchen__register(w.server, &handlers, NULL), "register");
    load_must(sealane_server_listen(w.server, w.address), "listen");
}

/* The server ends and comes back in mid-traffic; then the channel ends with what is left. */
static void round_run(void)
{
    struct sealane_channel_options options = {.credentials = w.client_credentials,
                                              .server_name = "server.test"};
    pthread_t callers[THREADS], answerers[THREADS];

    server_start();
    load_must(sealane_channel_new(w.client_node, w.address, &options, &w.channel), "channel");
    atomic_store(&w.stop, false);
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_create(&answerers[i], NULL, answerer, NULL);
        (void)pthread_create(&callers[i], NULL, caller, NULL);
    }
    rest(100000);
    sealane_server_free(w.server);
    server_start();
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(callers[i], NULL);
    sealane_channel_free(w.channel);
    sealane_server_free(w.server);
    atomic_store(&w.stop, true);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(answerers[i], NULL);
}

int main(void)
{
    (void)snprintf(w.address, sizeof(w.address), "unix-abstract:sealane-call-race-%d",
                   (int)getpid());
    w.server_credentials = load_credentials("server");
    w.client_credentials = load_credentials("client");
    load_must(sealane_node_new(NULL, &w.server_node), "node");
    load_must(sealane_node_new(NULL, &w.client_node), "node");
    for (int round = 0; round < ROUNDS; round++)
        round_run();
    sealane_node_free(w.client_node);
    sealane_node_free(w.server_node);
    sealane_credentials_free(w.client_credentials);
    sealane_credentials_free(w.server_credentials);
    (void)fprintf(stderr, "%d calls started, %d ended; %d handled, %d ended\n", w.started, w.done,
                  w.handled, w.ended);
    return w.started == w.done && w.handled == w.ended && w.handled > 100 ? 0 : 1;
}
