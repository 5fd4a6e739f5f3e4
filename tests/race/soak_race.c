/* SPDX-License-Identifier: Apache-2.0 */
/* soak_race.c - client threads that call, start, cancel from outside and let deadlines pass on one channel, a server that answers from its
 * node's thread and from others, for SEALANE_SOAK_SECONDS (2). call_race.c ends channels and servers under them instead.
 * usage: race.soak <folder of make-certs.sh> */
#include "echo.sealane.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    CLIENTS = 4,
    WORKERS = 2,
    QUEUE = 4096, /* max_calls of a lane: it cannot run over */
    TENSOR_FLOATS = 20000
};

/* ---- the server: three calls of four are answered by a worker ---- */

static struct sealane_call *queue[QUEUE];
static unsigned queue_begin, queue_end;
static bool queue_closed;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_more = PTHREAD_COND_INITIALIZER;

static void answer(struct sealane_call *call)
{
    Echo__V1__SayReply reply = ECHO__V1__SAY_REPLY__INIT;
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;
    uint64_t shape = TENSOR_FLOATS;

    reply.text = (char *)"heard";
    tensor.dtype = SEALANE__DTYPE__DTYPE_F32;
    tensor.n_shape = 1;
    tensor.shape = &shape;
    tensor.data.len = shape * sizeof(float);
    tensor.data.data = sealane_call_alloc(call, tensor.data.len);
    if (!tensor.data.data)
        abort();
    memset(tensor.data.data, 1, tensor.data.len);
    reply.tensor = &tensor;
    if (echo_v1_echo_say__reply(call, &reply) != SEALANE_OK)
        abort();
}

static void *work(void *unused)
{
    (void)unused;
    for (;;) {
        struct sealane_call *call = NULL;

        (void)pthread_mutex_lock(&queue_lock);
        while (queue_begin == queue_end && !queue_closed)
            (void)pthread_cond_wait(&queue_more, &queue_lock);
        if (queue_begin != queue_end)
            call = queue[queue_begin++ % QUEUE];
        (void)pthread_mutex_unlock(&queue_lock);
        if (!call)
            return NULL;
        if (sealane_call_is_over(call))
            sealane_call_fail(call, SEALANE_CANCELLED, "nobody waits");
        else
            answer(call);
    }
}

static void say(struct sealane_call *call, const Echo__V1__SayRequest *request, void *user)
{
    static unsigned turn; /* the node's thread only */

    (void)user;
    if (strcmp(request->text, "fail") == 0) {
        sealane_call_fail(call, SEALANE_ABORTED, "as asked");
    } else if (turn++ % 4 == 0) {
        answer(call);
    } else {
        (void)pthread_mutex_lock(&queue_lock);
        queue[queue_end++ % QUEUE] = call;
        (void)pthread_cond_signal(&queue_more);
        (void)pthread_mutex_unlock(&queue_lock);
    }
}

/* ---- the clients ---- */

struct client {
    struct sealane_channel *channel;
    uint64_t until_ns;
    unsigned calls, wrong;
    float numbers[TENSOR_FLOATS];
};

struct started {
    atomic_uint ended;
    enum sealane_status status;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void request_fill(struct client *client, Echo__V1__SayRequest *request,
                         Sealane__Tensor *tensor, uint64_t *shape)
{
    *request = (Echo__V1__SayRequest)ECHO__V1__SAY_REQUEST__INIT;
    *tensor = (Sealane__Tensor)SEALANE__TENSOR__INIT;
    *shape = TENSOR_FLOATS;
    tensor->dtype = SEALANE__DTYPE__DTYPE_F32;
    tensor->n_shape = 1;
    tensor->shape = shape;
    tensor->data = (ProtobufCBinaryData){sizeof(client->numbers), (uint8_t *)client->numbers};
    request->text = (char *)(client->calls % 7 == 0 ? "fail" : "say");
    if (client->calls % 3 == 0)
        request->tensor = tensor;
}

static void call_and_wait(struct client *client, const Echo__V1__SayRequest *request)
{
    /* Now and then a deadline that passes somewhere on the way. */
    struct sealane_call_options options = {.timeout_ms = client->calls % 5 == 0 ? 1 : 20000};
    const Echo__V1__SayReply *reply;
    struct sealane_call *call;
    enum sealane_status status =
        echo_v1_echo_say(client->channel, request, &options, &reply, &call);
    bool fails = strcmp(request->text, "fail") == 0;

    if (status == SEALANE_OK) {
        client->wrong += fails || reply->tensor->data.len != TENSOR_FLOATS * sizeof(float) ||
                         reply->tensor->data.data[client->calls % TENSOR_FLOATS] != 1;
        sealane_call_free(call);
    } else {
        client->wrong += !(status == SEALANE_ABORTED && fails) &&
                         !(status == SEALANE_DEADLINE_EXCEEDED && options.timeout_ms == 1);
    }
}

static void done(struct sealane_call *call, enum sealane_status status,
                 const Echo__V1__SayReply *reply, void *user)
{
    struct started *started = user;

    (void)reply;
    sealane_call_keep(call);
    started->status = status;
    atomic_fetch_add_explicit(&started->ended, 1, memory_order_release);
}

/* Started, and given up at about the time when it ends by itself. */
static void start_and_cancel(struct client *client, const Echo__V1__SayRequest *request)
{
    struct started started = {.status = SEALANE_OK};
    struct sealane_call *call;

    if (echo_v1_echo_say__start(client->channel, request, NULL, done, &started, &call) !=
        SEALANE_OK) {
        client->wrong++;
        return;
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = client->calls % 50 * 10000}, NULL);
    sealane_call_cancel(call);
    while (atomic_load_explicit(&started.ended, memory_order_acquire) == 0)
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    client->wrong += started.status != SEALANE_OK && started.status != SEALANE_CANCELLED &&
                     started.status != SEALANE_ABORTED;
    client->wrong += atomic_load(&started.ended) != 1;
    sealane_call_free(call);
}

static void *call_all(void *argument)
{
    struct client *client = argument;
    Echo__V1__SayRequest request;
    Sealane__Tensor tensor;
    uint64_t shape;

    while (now_ns() < client->until_ns) {
        client->calls++;
        request_fill(client, &request, &tensor, &shape);
        if (client->calls % 2 == 0)
            start_and_cancel(client, &request);
        else
            call_and_wait(client, &request);
    }
    return NULL;
}

/* ---- both ---- */

static struct sealane_credentials *identity(const char *folder, const char *role)
{
    char ca[512], certificate[512], key[512];
    struct sealane_credentials_options options = {.ca_file = ca,
                                                  .certificate_file = certificate,
                                                  .key_file = key};
    struct sealane_credentials *credentials;

    (void)snprintf(ca, sizeof(ca), "%s/ca.pem", folder);
    (void)snprintf(certificate, sizeof(certificate), "%s/%s.pem", folder, role);
    (void)snprintf(key, sizeof(key), "%s/%s.key", folder, role);
    return sealane_credentials_new(&options, &credentials) == SEALANE_OK ? credentials : NULL;
}

static unsigned clients_run(struct sealane_channel *channel, unsigned *calls_p)
{
    static struct client clients[CLIENTS];
    const char *seconds = getenv("SEALANE_SOAK_SECONDS");
    uint64_t until = now_ns() + (seconds ? strtoull(seconds, NULL, 10) : 2) * 1000000000u;
    pthread_t threads[CLIENTS];
    unsigned wrong = 0;

    for (int i = 0; i < CLIENTS; i++) {
        clients[i].channel = channel;
        clients[i].until_ns = until;
        if (pthread_create(&threads[i], NULL, call_all, &clients[i]) != 0)
            abort();
    }
    for (int i = 0; i < CLIENTS; i++) {
        (void)pthread_join(threads[i], NULL);
        *calls_p += clients[i].calls;
        wrong += clients[i].wrong;
    }
    return wrong;
}

int main(int count, char **arguments)
{
    static const struct echo_v1_echo__handlers handlers = {.say = say};
    struct sealane_server_options server_options = {0};
    struct sealane_channel_options channel_options = {.server_name = "dns:localhost"};
    struct sealane_node *nodes[2];
    struct sealane_server *server;
    struct sealane_channel *channel;
    pthread_t workers[WORKERS];
    char address[64];
    unsigned calls = 0;

    (void)snprintf(address, sizeof(address), "unix-abstract:sealane-soak-%d", (int)getpid());
    server_options.credentials = identity(count > 1 ? arguments[1] : ".", "server");
    channel_options.credentials = identity(count > 1 ? arguments[1] : ".", "client");
    if (!server_options.credentials || !channel_options.credentials ||
        sealane_node_new(NULL, &nodes[0]) != SEALANE_OK ||
        sealane_node_new(NULL, &nodes[1]) != SEALANE_OK ||
        sealane_server_new(nodes[0], &server_options, &server) != SEALANE_OK ||
        echo_v1_echo__register(server, &handlers, NULL) != SEALANE_OK ||
        sealane_server_listen(server, address) != SEALANE_OK ||
        sealane_channel_new(nodes[1], address, &channel_options, &channel) != SEALANE_OK) {
        (void)fprintf(stderr, "%s\n", sealane_last_error()->message);
        return 1;
    }
    for (int i = 0; i < WORKERS; i++) {
        if (pthread_create(&workers[i], NULL, work, NULL) != 0)
            abort();
    }
    unsigned wrong = clients_run(channel, &calls);
    sealane_channel_free(channel);
    (void)pthread_mutex_lock(&queue_lock);
    queue_closed = true;
    (void)pthread_cond_broadcast(&queue_more);
    (void)pthread_mutex_unlock(&queue_lock);
    for (int i = 0; i < WORKERS; i++)
        (void)pthread_join(workers[i], NULL);
    sealane_server_free(server);
    sealane_node_free(nodes[0]);
    sealane_node_free(nodes[1]);
    sealane_credentials_free(server_options.credentials);
    sealane_credentials_free(channel_options.credentials);
    (void)printf("%u calls, %u went wrong\n", calls, wrong);
    return wrong > 0 || calls < 10;
}
