/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - rounds of calls to all shards. */
#include "exchange.h"

#include "identity.h"
#include "stop.h"

#include <stdlib.h>
#include <string.h>

enum {
    POLL_MS = 100,
    CONNECT_S = 10, /* or --timeout-s, when that is less */
    CONNECT_PAUSE_MS = 50,
    LINGER_MS = 300,
    ANSWER_MS = 10000,  /* to what a server answers at once */
    PATIENCE_MS = 10000 /* beyond --timeout-s, after which the server itself gives up */
};

/* ---- failing ---- */

/* Keeps the first failure; what it brings down need not be told. */
static void fail(const struct peer *peer, const char *doing, enum sealane_status status,
                 const char *message)
{
    struct exchange *exchange = peer->exchange;

    if (exchange->failed)
        return;
    exchange->failed = true;
    (void)snprintf(exchange->why, sizeof(exchange->why), "shard %zu at %s: %s: %s: %s", peer->index,
                   peer->address, doing, sealane_status_name(status), message);
}

static void fail_last(const struct peer *peer, const char *doing)
{
    fail(peer, doing, sealane_last_error()->status, sealane_last_error()->message);
}

static bool going(const struct exchange *exchange)
{
    return !exchange->failed && !stop_signal();
}

/* Moves the node until every answer of this round is in. */
static bool round_trip(struct exchange *exchange)
{
    while (going(exchange) && exchange->waiting > 0) {
        if (sealane_node_poll(exchange->node, POLL_MS) == SEALANE_OK)
            continue;
        exchange->failed = true;
        (void)snprintf(exchange->why, sizeof(exchange->why), "polling: %s",
                       sealane_last_error()->message);
    }
    return going(exchange);
}

/* ---- connecting ---- */

/* A server that is still starting is waited for. */
static bool connect_peer(const struct peer *peer)
{
    struct exchange *exchange = peer->exchange;
    uint64_t timeout_s = exchange->options->timeout_s;
    double until = clock_s() + (timeout_s < CONNECT_S ? (double)timeout_s : CONNECT_S);
    enum sealane_status status;

    for (;;) {
        double pause_until;

        status = sealane_channel_connect(peer->channel, ANSWER_MS);
        if (status != SEALANE_UNAVAILABLE || clock_s() > until || stop_signal())
            break;
        pause_until = clock_s() + CONNECT_PAUSE_MS / 1000.0;
        while (clock_s() < pause_until && going(exchange))
            if (sealane_node_poll(exchange->node, CONNECT_PAUSE_MS) != SEALANE_OK)
                break;
    }
    if (status != SEALANE_OK)
        fail_last(peer, "connecting");
    return status == SEALANE_OK;
}

/* Addresses given in the wrong order would mix the weights up without anybody noticing. */
static bool check_shard(const struct peer *peer)
{
    const struct exchange *exchange = peer->exchange;
    const struct options *options = exchange->options;
    ParameterServer__V1__DescribeRequest request = PARAMETER_SERVER__V1__DESCRIBE_REQUEST__INIT;
    struct sealane_call_options call_options = {.timeout_ms = ANSWER_MS};
    const ParameterServer__V1__DescribeReply *reply;
    struct sealane_call *call;
    char message[256];
    bool good;

    if (parameter_server_v1_parameter_server_describe(peer->channel, &request, &call_options,
                                                      &reply, &call) != SEALANE_OK) {
        fail_last(peer, "describe");
        return false;
    }
    good = reply->shard == peer->index && reply->shards == exchange->peer_count &&
           reply->workers == options->workers;
    (void)snprintf(message, sizeof(message),
                   "it is shard %u of %u for %u workers, expected shard %zu of %zu for %llu",
                   reply->shard, reply->shards, reply->workers, peer->index, exchange->peer_count,
                   (unsigned long long)options->workers);
    if (!good)
        fail(peer, "describe", SEALANE_FAILED_PRECONDITION, message);
    sealane_call_free(call);
    return good;
}

static void print_lane(const struct peer *peer)
{
    struct sealane_security security;
    char who[96];

    if (sealane_channel_security(peer->channel, &security) != SEALANE_OK)
        return;
    (void)snprintf(who, sizeof(who), "%s, lane to shard %zu", peer->exchange->who, peer->index);
    identity_print(who, &security);
}

static bool open_peer(struct exchange *exchange, size_t index)
{
    struct peer *peer = &exchange->peers[index];
    struct sealane_channel_options wanted = {.credentials = exchange->credentials,
                                             .server_name = exchange->options->server_name};

    *peer = (struct peer){.exchange = exchange,
                          .index = index,
                          .address = exchange->options->servers.texts[index]};
    if (sealane_channel_new(exchange->node, peer->address, &wanted, &peer->channel) != SEALANE_OK) {
        fail_last(peer, "channel");
        return false;
    }
    if (!connect_peer(peer) || !check_shard(peer))
        return false;
    print_lane(peer);
    return true;
}

bool exchange_open(const struct options *options, struct exchange *exchange)
{
    struct sealane_node_options polled = {.polled = true};

    *exchange = (struct exchange){.options = options, .peer_count = options->servers.count};
    (void)snprintf(exchange->who, sizeof(exchange->who), "worker %llu",
                   (unsigned long long)options->rank);
    exchange->credentials = identity_load(options);
    exchange->peers = calloc(exchange->peer_count, sizeof(*exchange->peers));
    if (!exchange->credentials || !exchange->peers)
        return false;
    if (sealane_node_new(&polled, &exchange->node) != SEALANE_OK) {
        identity_complain(exchange->who, "node");
        return false;
    }
    for (size_t i = 0; i < exchange->peer_count; i++)
        if (!open_peer(exchange, i))
            return false;
    return true;
}

void exchange_explain(struct exchange *exchange)
{
    double until = clock_s() + LINGER_MS / 1000.0;

    while (exchange->node && clock_s() < until && !stop_signal())
        if (sealane_node_poll(exchange->node, LINGER_MS / 10) != SEALANE_OK)
            break;
    if (exchange->why[0] && !stop_signal())
        (void)fprintf(stderr, "%s: %s\n", exchange->who, exchange->why);
}

void exchange_close(struct exchange *exchange)
{
    for (size_t i = 0; exchange->peers && i < exchange->peer_count; i++)
        sealane_channel_free(exchange->peers[i].channel);
    sealane_node_free(exchange->node);
    sealane_credentials_free(exchange->credentials);
    free(exchange->peers);
    *exchange = (struct exchange){0};
}

/* ---- joining ---- */

/* The part of `from` that is the shard's, as a tensor: borrowed, not copied. */
static Sealane__Tensor *part_of(struct peer *peer, float *from)
{
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;

    tensor.dtype = SEALANE__DTYPE__DTYPE_F32;
    tensor.n_shape = 1;
    tensor.shape = &peer->shape;
    tensor.data.data = (uint8_t *)(from + peer->range.first);
    tensor.data.len = peer->range.count * sizeof(float);
    peer->tensor = tensor;
    return &peer->tensor;
}

/* The training ended, as planned or because a worker left. */
static void joined_to_the_end(struct sealane_call *call, enum sealane_status status,
                              const ParameterServer__V1__JoinReply *reply, void *user)
{
    struct peer *peer = user;

    (void)reply;
    peer->join = NULL;
    if (status != SEALANE_OK)
        fail(peer, "training", status, sealane_call_message(call));
}

static bool start_join(struct peer *peer, struct trainer *trainer)
{
    ParameterServer__V1__JoinRequest request = PARAMETER_SERVER__V1__JOIN_REQUEST__INIT;
    ParameterServer__V1__Plan plan = PARAMETER_SERVER__V1__PLAN__INIT;

    plan.parameters = trainer->parameters;
    plan.steps = trainer->sgd.steps;
    plan.batch = trainer->sgd.batch;
    plan.rate = trainer->sgd.rate;
    plan.momentum = trainer->sgd.momentum;
    request.plan = &plan;
    request.rank = (uint32_t)peer->exchange->options->rank;
    if (request.rank == 0)
        request.initial = part_of(peer, trainer->weights);
    if (parameter_server_v1_parameter_server_join__start(
            peer->channel, &request, NULL, joined_to_the_end, peer, &peer->join) == SEALANE_OK)
        return true;
    fail_last(peer, "join");
    return false;
}

static bool land(struct peer *peer, const Sealane__Tensor *weights, const char *doing)
{
    if (!weights || weights->dtype != SEALANE__DTYPE__DTYPE_F32 ||
        weights->data.len != peer->range.count * sizeof(float)) {
        fail(peer, doing, SEALANE_DATA_LOSS, "the reply's weights are not of the shard's size");
        return false;
    }
    memcpy(peer->exchange->weights + peer->range.first, weights->data.data, weights->data.len);
    peer->exchange->waiting--;
    return true;
}

static void pulled(struct sealane_call *call, enum sealane_status status,
                   const ParameterServer__V1__PullReply *reply, void *user)
{
    struct peer *peer = user;

    if (status != SEALANE_OK)
        fail(peer, "pull", status, sealane_call_message(call));
    else
        (void)land(peer, reply->weights, "pull");
}

static struct sealane_call_options patience(const struct exchange *exchange)
{
    uint64_t ms = exchange->options->timeout_s * 1000 + PATIENCE_MS;

    return (struct sealane_call_options){.timeout_ms = (uint32_t)ms};
}

static bool start_pull(struct peer *peer)
{
    struct sealane_call_options options = patience(peer->exchange);
    ParameterServer__V1__PullRequest request = PARAMETER_SERVER__V1__PULL_REQUEST__INIT;

    request.rank = (uint32_t)peer->exchange->options->rank;
    peer->exchange->waiting++;
    if (parameter_server_v1_parameter_server_pull__start(peer->channel, &request, &options, pulled,
                                                         peer, NULL) == SEALANE_OK)
        return true;
    fail_last(peer, "pull");
    return false;
}

bool exchange_join(struct exchange *exchange, struct trainer *trainer)
{
    exchange->weights = trainer->weights;
    exchange->waiting = 0;
    for (size_t i = 0; i < exchange->peer_count; i++) {
        struct peer *peer = &exchange->peers[i];

        peer->range = range_of(trainer->parameters, i, exchange->peer_count);
        peer->shape = peer->range.count;
        if (!start_join(peer, trainer) || !start_pull(peer))
            return false;
    }
    return round_trip(exchange);
}

/* ---- a step ---- */

static void pushed(struct sealane_call *call, enum sealane_status status,
                   const ParameterServer__V1__PushReply *reply, void *user)
{
    struct peer *peer = user;

    if (status != SEALANE_OK)
        fail(peer, "push", status, sealane_call_message(call));
    else if (land(peer, reply->weights, "push") && peer->index == 0)
        peer->exchange->loss = reply->loss;
}

static bool start_push(struct peer *peer, const struct trainer *trainer, double loss)
{
    struct sealane_call_options options = patience(peer->exchange);
    ParameterServer__V1__PushRequest request = PARAMETER_SERVER__V1__PUSH_REQUEST__INIT;

    request.rank = (uint32_t)peer->exchange->options->rank;
    request.step = trainer->step;
    request.loss = loss;
    request.gradient = part_of(peer, trainer->gradient);
    peer->exchange->waiting++;
    if (parameter_server_v1_parameter_server_push__start(peer->channel, &request, &options, pushed,
                                                         peer, NULL) == SEALANE_OK)
        return true;
    fail_last(peer, "push");
    return false;
}

bool exchange_step(struct exchange *exchange, struct trainer *trainer, double *loss)
{
    double began = clock_s();

    exchange->waiting = 0;
    for (size_t i = 0; i < exchange->peer_count; i++)
        if (!start_push(&exchange->peers[i], trainer, *loss))
            return false;
    if (!round_trip(exchange))
        return false;
    *loss = exchange->loss;
    trainer->exchange_s += clock_s() - began;
    return true;
}

void exchange_carriage(const struct exchange *exchange, struct carriage *carriage)
{
    *carriage = (struct carriage){.shards = exchange->peer_count};
    for (size_t i = 0; i < exchange->peer_count; i++) {
        struct sealane_security security;

        if (sealane_channel_security(exchange->peers[i].channel, &security) != SEALANE_OK)
            continue;
        carriage->sealed_bytes += security.sealed_bytes;
        carriage->opened_bytes += security.opened_bytes;
        memcpy(carriage->aead, security.bulk_aead, sizeof(carriage->aead));
        memcpy(carriage->link, security.link, sizeof(carriage->link));
    }
}
