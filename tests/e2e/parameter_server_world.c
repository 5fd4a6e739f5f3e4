/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_server_world.c - the node, what workers say on it, and the reference. */
#include "tests/e2e/parameter_server_world.h"
#include "tests/support/certs.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct world w;

/* ---- the world ---- */

static void address_of(size_t shard, char address[96])
{
    (void)snprintf(address, 96, "unix-abstract:sealane-shard-test-%d-%zu", (int)getpid(), shard);
}

static void open_shard(size_t i, const struct options *common)
{
    struct sealane_server_options wanted = {.credentials = w.server_credentials};
    char address[96];

    w.options[i] = *common;
    w.options[i].shard = i;
    w.options[i].shards = SHARDS;
    w.options[i].workers = WORKERS;
    cr_assert(shard_new(&w.options[i], &w.shards[i]));
    cr_assert_eq(sealane_server_new(w.node, &wanted, &w.servers[i]), SEALANE_OK);
    cr_assert_eq(parameter_server_v1_parameter_server__register(w.servers[i], &shard_handlers,
                                                                &w.shards[i]),
                 SEALANE_OK);
    address_of(i, address);
    cr_assert_eq(sealane_server_listen(w.servers[i], address), SEALANE_OK);
}

void open_world(const struct options *common)
{
    const struct sealane_node_options polled = {.polled = true};

    w.count = w.count ? w.count : COUNT;
    w.sgd = (struct sgd){.rate = 0.5f, .momentum = 0.9f, .steps = STEPS, .batch = BATCH};
    for (size_t i = 0; i < w.count; i++)
        w.weights[i] = (float)i / 8;
    w.server_credentials = certs_load("root-p256", "good/server-p256", NULL);
    w.client_credentials = certs_load("root-p256", "good/client-p256", NULL);
    cr_assert_eq(sealane_node_new(&polled, &w.node), SEALANE_OK);
    for (size_t i = 0; i < SHARDS; i++)
        open_shard(i, common);
}

void close_world(void)
{
    for (size_t i = 0; i < SHARDS; i++) /* kept calls must be answered */
        shard_break(&w.shards[i], SEALANE_CANCELLED, "the test is over");
    sealane_node_free(w.node);
    for (size_t i = 0; i < SHARDS; i++)
        shard_free(&w.shards[i]);
    sealane_credentials_free(w.server_credentials);
    sealane_credentials_free(w.client_credentials);
}

void turn_once(void)
{
    cr_assert_eq(sealane_node_poll(w.node, 1), SEALANE_OK);
    for (size_t i = 0; i < SHARDS; i++)
        shard_tick(&w.shards[i]);
}

void wait_until(const bool *flag)
{
    double until = clock_s() + 10;

    while (!*flag) {
        turn_once();
        cr_assert_lt(clock_s(), until, "nothing came of it");
    }
}

void let_it_settle(void)
{
    for (int i = 0; i < 50; i++)
        turn_once();
}

void connect_worker(size_t worker)
{
    struct sealane_channel_options wanted = {.credentials = w.client_credentials,
                                             .server_name = "server.test"};
    char address[96];

    for (size_t i = 0; i < SHARDS; i++) {
        address_of(i, address);
        cr_assert_eq(sealane_channel_new(w.node, address, &wanted, &w.channels[worker][i]),
                     SEALANE_OK);
        cr_assert_eq(sealane_channel_connect(w.channels[worker][i], 5000), SEALANE_OK, "%s",
                     sealane_last_error()->message);
    }
}

void kill_worker(size_t worker)
{
    for (size_t i = 0; i < SHARDS; i++)
        sealane_channel_free(w.channels[worker][i]);
    for (size_t i = 0; i < SHARDS; i++) {
        double until = clock_s() + 10;

        while (w.shards[i].seats[worker].join) {
            turn_once();
            cr_assert_lt(clock_s(), until);
        }
    }
}

/* ---- what workers say ---- */

static void hear(struct heard *heard, enum sealane_status status, struct sealane_call *call)
{
    heard->done = true;
    heard->status = status;
    (void)snprintf(heard->why, sizeof(heard->why), "%s", sealane_call_message(call));
}

static void heard_turn(struct sealane_call *call, enum sealane_status status,
                       const ParameterServer__V1__Turn *turn, void *user)
{
    struct heard *heard = user;

    hear(heard, status, call);
    if (!turn)
        return;
    heard->step = turn->step;
    heard->count = turn->n_members;
    heard->loss = turn->loss;
    if (turn->n_members > 0)
        memcpy(heard->members, turn->members, turn->n_members * sizeof(*turn->members));
}

static void heard_end(struct sealane_call *call, enum sealane_status status,
                      const ParameterServer__V1__JoinReply *reply, void *user)
{
    (void)reply;
    hear(user, status, call);
}

static Sealane__Tensor tensor_of(const float *values, uint64_t *count)
{
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;

    tensor.dtype = SEALANE__DTYPE__DTYPE_F32;
    tensor.n_shape = 1;
    tensor.shape = count;
    tensor.data.data = (uint8_t *)(uintptr_t)values;
    tensor.data.len = *count * sizeof(float);
    return tensor;
}

void join(size_t worker)
{
    static uint64_t counts[SHARDS];
    ParameterServer__V1__Plan plan = PARAMETER_SERVER__V1__PLAN__INIT;

    plan.parameters = w.count;
    plan.steps = w.sgd.steps;
    plan.batch = w.sgd.batch;
    plan.rate = w.sgd.rate;
    plan.momentum = w.sgd.momentum;
    for (size_t i = 0; i < SHARDS; i++) {
        ParameterServer__V1__JoinRequest request = PARAMETER_SERVER__V1__JOIN_REQUEST__INIT;
        struct range range = range_of(w.count, i, SHARDS);
        Sealane__Tensor initial;

        counts[i] = range.count;
        initial = tensor_of(w.weights + range.first, &counts[i]);
        request.rank = (uint32_t)worker;
        request.plan = &plan;
        request.initial = worker == 0 ? &initial : NULL;
        w.joins[worker][i] = (struct heard){0};
        cr_assert_eq(parameter_server_v1_parameter_server_join__start(w.channels[worker][i],
                                                                      &request, NULL, heard_end,
                                                                      &w.joins[worker][i], NULL),
                     SEALANE_OK);
    }
}

void enter(size_t worker)
{
    ParameterServer__V1__EnterRequest request = PARAMETER_SERVER__V1__ENTER_REQUEST__INIT;

    request.rank = (uint32_t)worker;
    w.enters[worker] = (struct heard){0};
    cr_assert_eq(parameter_server_v1_parameter_server_enter__start(
                     w.channels[worker][0], &request, NULL, heard_turn, &w.enters[worker], NULL),
                 SEALANE_OK);
}

void commit(size_t worker, uint64_t step)
{
    ParameterServer__V1__CommitRequest request = PARAMETER_SERVER__V1__COMMIT_REQUEST__INIT;

    request.rank = (uint32_t)worker;
    request.step = step;
    request.loss = (double)(worker + 1) * (double)(worker + 1);
    w.commits[worker] = (struct heard){0};
    cr_assert_eq(parameter_server_v1_parameter_server_commit__start(
                     w.channels[worker][0], &request, NULL, heard_turn, &w.commits[worker], NULL),
                 SEALANE_OK);
}

/* Worker r's gradient for a step, over r + 1 examples. */
static void gradient_of(size_t worker, uint64_t step, float *gradient)
{
    for (size_t i = 0; i < w.count; i++)
        gradient[i] = (float)((worker + 2) * (i + 1) % 7) - (float)step / 3;
}

enum sealane_status push(size_t worker, size_t shard, uint64_t step)
{
    ParameterServer__V1__PushRequest request = PARAMETER_SERVER__V1__PUSH_REQUEST__INIT;
    const struct range range = range_of(w.count, shard, SHARDS);
    const ParameterServer__V1__PushReply *reply;
    uint64_t count = range.count;
    struct sealane_call *call;
    static float gradient[COUNT_MAX];
    Sealane__Tensor tensor;
    enum sealane_status status;

    gradient_of(worker, step, gradient);
    tensor = tensor_of(gradient + range.first, &count);
    request.rank = (uint32_t)worker;
    request.step = step;
    request.examples = worker + 1;
    request.gradient = &tensor;
    status = parameter_server_v1_parameter_server_push(w.channels[worker][shard], &request, NULL,
                                                       &reply, &call);
    sealane_call_free(call);
    return status;
}

void push_everywhere(size_t worker, uint64_t step)
{
    for (size_t i = 0; i < SHARDS; i++)
        cr_assert_eq(push(worker, i, step), SEALANE_OK, "%s", sealane_last_error()->message);
}

enum sealane_status pull(size_t worker, size_t shard, const struct heard *turn, float *weights)
{
    ParameterServer__V1__PullRequest request = PARAMETER_SERVER__V1__PULL_REQUEST__INIT;
    ParameterServer__V1__Turn told = PARAMETER_SERVER__V1__TURN__INIT;
    const ParameterServer__V1__PullReply *reply;
    struct sealane_call *call;
    enum sealane_status status;

    request.rank = (uint32_t)worker;
    if (turn) {
        told.step = turn->step;
        told.n_members = turn->count;
        told.members = (uint32_t *)(uintptr_t)turn->members;
        request.turn = &told;
    }
    status = parameter_server_v1_parameter_server_pull(w.channels[worker][shard], &request, NULL,
                                                       &reply, &call);
    if (status == SEALANE_OK)
        memcpy(weights + range_of(w.count, shard, SHARDS).first, reply->weights->data.data,
               reply->weights->data.len);
    sealane_call_free(call);
    return status;
}

/* ---- one process ---- */

void step_alone(uint64_t step, const size_t *members, size_t count)
{
    static float all[WORKERS][COUNT_MAX];
    const float *gradients[WORKERS];
    struct gradients sum = {gradients, count, 0};

    for (size_t i = 0; i < count; i++) {
        gradient_of(members[i], step, all[i]);
        gradients[i] = all[i];
        sum.examples += members[i] + 1;
    }
    sgd_step(&w.sgd, step, &sum, &(struct sgd_state){w.velocity, w.weights, w.count});
}

void apply_alone(size_t worker, uint64_t made_for, uint64_t step)
{
    static float gradient[COUNT_MAX];
    const float *all = gradient;

    gradient_of(worker, made_for, gradient);
    sgd_step(&w.sgd, step, &(struct gradients){&all, 1, BATCH},
             &(struct sgd_state){w.velocity, w.weights, w.count});
}

void check_weights(size_t worker, const struct heard *turn)
{
    static float weights[COUNT_MAX];

    for (size_t i = 0; i < SHARDS; i++)
        cr_assert_eq(pull(worker, i, turn, weights), SEALANE_OK, "%s",
                     sealane_last_error()->message);
    for (size_t i = 0; i < w.count; i++)
        cr_assert_leq(fabsf(weights[i] - w.weights[i]), 1e-6f, "number %zu is %g, alone it is %g",
                      i, (double)weights[i], (double)w.weights[i]);
}
