/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_calls.c - rounds of calls to all shards: joining, pushing, settling, pulling. */
#include "exchange_inside.h"

#include <string.h>

enum {
    PATIENCE_MS = 10000 /* beyond --timeout-s, after which the server itself gives up */
};

static struct sealane_call_options patience(const struct exchange *exchange)
{
    uint64_t ms = exchange->options->timeout_s * 1000 + PATIENCE_MS;

    return (struct sealane_call_options){.timeout_ms = (uint32_t)ms};
}

static uint32_t rank_of(const struct exchange *exchange)
{
    return (uint32_t)exchange->options->rank;
}

static void counted(const struct exchange *exchange, struct traffic *traffic, double began_s)
{
    for (size_t i = 0; i < exchange->peer_count; i++)
        traffic->bytes += exchange->peers[i].range.count * sizeof(float);
    traffic->seconds += clock_s() - began_s;
}

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

/* ---- pull ---- */

static bool land(struct peer *peer, const Sealane__Tensor *weights)
{
    if (!weights || weights->dtype != SEALANE__DTYPE__DTYPE_F32 ||
        weights->data.len != peer->range.count * sizeof(float)) {
        exchange_fail(peer, "pull", SEALANE_DATA_LOSS,
                      "the reply's weights are not of the shard's size");
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
    struct exchange *exchange = peer->exchange;

    if (status != SEALANE_OK)
        exchange_fail(peer, "pull", status, sealane_call_message(call));
    if (status != SEALANE_OK || !land(peer, reply->weights))
        return;
    peer->step = reply->step;
    if (peer->index != 0)
        return;
    exchange->reporter = reply->reporter;
    exchange->all_push = reply->all_workers ? reply->all_workers->push : 0;
    exchange->all_pull = reply->all_workers ? reply->all_workers->pull : 0;
}

static bool start_pull(struct peer *peer)
{
    const struct exchange *exchange = peer->exchange;
    struct sealane_call_options options = patience(exchange);
    ParameterServer__V1__PullRequest request = PARAMETER_SERVER__V1__PULL_REQUEST__INIT;
    ParameterServer__V1__Turn turn = PARAMETER_SERVER__V1__TURN__INIT;
    ParameterServer__V1__Speed speed = PARAMETER_SERVER__V1__SPEED__INIT;

    speed.push = exchange_speed(&exchange->pushed);
    speed.pull = exchange_speed(&exchange->pulled);
    turn.step = exchange->turn_step;
    turn.n_members = exchange->member_count;
    turn.members = exchange->members;
    request.rank = rank_of(exchange);
    request.turn = exchange->options->asynchronous ? NULL : &turn;
    request.speed = &speed;
    peer->exchange->waiting++;
    if (parameter_server_v1_parameter_server_pull__start(peer->channel, &request, &options, pulled,
                                                         peer, NULL) == SEALANE_OK)
        return true;
    exchange_fail_last(peer, "pull");
    return false;
}

bool exchange_pull(struct exchange *exchange)
{
    double began_s = clock_s();

    exchange->waiting = 0;
    for (size_t i = 0; i < exchange->peer_count; i++)
        if (!start_pull(&exchange->peers[i]))
            return false;
    if (!exchange_round(exchange))
        return false;
    counted(exchange, &exchange->pulled, began_s);
    return true;
}

/* ---- push ---- */

static void pushed(struct sealane_call *call, enum sealane_status status,
                   const ParameterServer__V1__PushReply *reply, void *user)
{
    struct peer *peer = user;
    struct exchange *exchange = peer->exchange;

    (void)reply;
    if (status == SEALANE_ABORTED && exchange->options->asynchronous)
        exchange->stale++; /* the next pull brings fresh weights */
    else if (status != SEALANE_OK)
        exchange_fail(peer, "push", status, sealane_call_message(call));
    exchange->waiting--;
}

static bool start_push(struct peer *peer, const struct trainer *trainer)
{
    const struct exchange *exchange = peer->exchange;
    struct sealane_call_options options = patience(exchange);
    ParameterServer__V1__PushRequest request = PARAMETER_SERVER__V1__PUSH_REQUEST__INIT;

    request.rank = rank_of(exchange);
    request.step = peer->step;
    request.examples = trainer_examples(trainer, exchange->options->rank);
    request.gradient = part_of(peer, trainer->gradient);
    peer->exchange->waiting++;
    if (parameter_server_v1_parameter_server_push__start(peer->channel, &request, &options, pushed,
                                                         peer, NULL) == SEALANE_OK)
        return true;
    exchange_fail_last(peer, "push");
    return false;
}

bool exchange_push(struct exchange *exchange, struct trainer *trainer)
{
    double began_s = clock_s();

    exchange->waiting = 0;
    for (size_t i = 0; i < exchange->peer_count; i++)
        if (!start_push(&exchange->peers[i], trainer))
            return false;
    if (!exchange_round(exchange))
        return false;
    counted(exchange, &exchange->pushed, began_s);
    return true;
}

/* ---- settling with shard 0 ---- */

static void turned(struct sealane_call *call, enum sealane_status status,
                   const ParameterServer__V1__Turn *turn, void *user)
{
    struct peer *peer = user;
    struct exchange *exchange = peer->exchange;

    if (status != SEALANE_OK) {
        exchange_fail(peer, "settling", status, sealane_call_message(call));
        return;
    }
    if (turn->n_members > exchange->options->workers) {
        exchange_fail(peer, "settling", SEALANE_DATA_LOSS, "more members than workers");
        return;
    }
    exchange->turn_step = turn->step;
    exchange->member_count = turn->n_members;
    if (turn->n_members > 0)
        memcpy(exchange->members, turn->members, turn->n_members * sizeof(*turn->members));
    exchange->loss = turn->loss;
    exchange->waiting--;
}

bool exchange_settle(struct exchange *exchange, const struct trainer *trainer, double loss)
{
    struct peer *first = &exchange->peers[0];
    struct sealane_call_options options = patience(exchange);
    ParameterServer__V1__CommitRequest request = PARAMETER_SERVER__V1__COMMIT_REQUEST__INIT;

    if (exchange->options->asynchronous) {
        exchange->loss = loss / (double)trainer_examples(trainer, exchange->options->rank);
        return true;
    }
    request.rank = rank_of(exchange);
    request.step = first->step;
    request.loss = loss;
    exchange->waiting = 1;
    if (parameter_server_v1_parameter_server_commit__start(first->channel, &request, &options,
                                                           turned, first, NULL) == SEALANE_OK)
        return exchange_round(exchange);
    exchange_fail_last(first, "commit");
    return false;
}

/* ---- joining ---- */

/* The training ended, as planned or for this worker only. */
static void joined_to_the_end(struct sealane_call *call, enum sealane_status status,
                              const ParameterServer__V1__JoinReply *reply, void *user)
{
    struct peer *peer = user;

    (void)reply;
    peer->join = NULL;
    if (status != SEALANE_OK)
        exchange_fail(peer, "training", status, sealane_call_message(call));
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
    request.rank = rank_of(peer->exchange);
    if (request.rank == 0)
        request.initial = part_of(peer, trainer->weights);
    if (parameter_server_v1_parameter_server_join__start(
            peer->channel, &request, NULL, joined_to_the_end, peer, &peer->join) == SEALANE_OK)
        return true;
    exchange_fail_last(peer, "join");
    return false;
}

static bool enter(struct exchange *exchange)
{
    struct peer *first = &exchange->peers[0];
    struct sealane_call_options options = patience(exchange);
    ParameterServer__V1__EnterRequest request = PARAMETER_SERVER__V1__ENTER_REQUEST__INIT;

    request.rank = rank_of(exchange);
    exchange->waiting = 1;
    if (parameter_server_v1_parameter_server_enter__start(first->channel, &request, &options,
                                                          turned, first, NULL) == SEALANE_OK)
        return exchange_round(exchange);
    exchange_fail_last(first, "enter");
    return false;
}

bool exchange_join(struct exchange *exchange, struct trainer *trainer)
{
    exchange->weights = trainer->weights;
    for (size_t i = 0; i < exchange->peer_count; i++) {
        struct peer *peer = &exchange->peers[i];

        peer->range = range_of(trainer->parameters, i, exchange->peer_count);
        peer->shape = peer->range.count;
        if (!start_join(peer, trainer))
            return false;
    }
    if (!exchange->options->asynchronous && !enter(exchange))
        return false;
    if (!exchange_pull(exchange))
        return false;
    exchange->pulled = (struct traffic){0}; /* waiting for others was no travel */
    return true;
}
