/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - the handlers, which judge what comes, and the moments at which kept calls are answered. */
#include "shard.h"

#include "trainer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool shard_new(const struct options *options, struct shard *shard)
{
    *shard = (struct shard){.options = options};
    shard->seats = calloc(options->workers, sizeof(*shard->seats));
    shard->gradients = calloc(options->workers, sizeof(*shard->gradients));
    return shard->seats && shard->gradients;
}

void shard_free(struct shard *shard)
{
    free(shard->seats);
    free(shard->gradients);
    free(shard->weights);
    free(shard->velocity);
    *shard = (struct shard){0};
}

/* ---- answering kept calls ---- */

static void fail_kept(struct sealane_call **kept, enum sealane_status status, const char *why)
{
    if (*kept)
        sealane_call_fail(*kept, status, "%s", why);
    *kept = NULL;
}

void shard_break(struct shard *shard, enum sealane_status status, const char *format, ...)
{
    va_list args;

    if (shard->phase == PHASE_DONE || shard->phase == PHASE_BROKEN)
        return;
    va_start(args, format);
    (void)vsnprintf(shard->why, sizeof(shard->why), format, args);
    va_end(args);
    shard->phase = PHASE_BROKEN;
    shard->status = status;
    for (size_t r = 0; r < shard->options->workers; r++) {
        fail_kept(&shard->seats[r].push, status, shard->why);
        fail_kept(&shard->seats[r].pull, status, shard->why);
        fail_kept(&shard->seats[r].join, status, shard->why);
    }
}

/* A reply that the library refuses has been answered with the reason; the training cannot go on without it. */
static void must(struct shard *shard, enum sealane_status status)
{
    if (status != SEALANE_OK)
        shard_break(shard, status, "a reply could not be sent: %s", sealane_last_error()->message);
}

/* Weights as a reply's tensor. They outlive every call, and change only when all workers have the last ones. */
static Sealane__Tensor weights_tensor(struct shard *shard, uint64_t *shape)
{
    Sealane__Tensor tensor = SEALANE__TENSOR__INIT;

    *shape = shard->count;
    tensor.dtype = SEALANE__DTYPE__DTYPE_F32;
    tensor.n_shape = 1;
    tensor.shape = shape;
    tensor.data.data = (uint8_t *)shard->weights;
    tensor.data.len = shard->count * sizeof(float);
    return tensor;
}

static void answer_pulls(struct shard *shard)
{
    uint64_t shape;
    Sealane__Tensor weights = weights_tensor(shard, &shape);
    ParameterServer__V1__PullReply reply = PARAMETER_SERVER__V1__PULL_REPLY__INIT;

    reply.weights = &weights;
    for (size_t r = 0; r < shard->options->workers; r++) {
        struct sealane_call *call = shard->seats[r].pull;

        shard->seats[r].pull = NULL;
        if (call)
            must(shard, parameter_server_v1_parameter_server_pull__reply(call, &reply));
    }
}

static void answer_pushes(struct shard *shard, double loss)
{
    uint64_t shape;
    Sealane__Tensor weights = weights_tensor(shard, &shape);
    ParameterServer__V1__PushReply reply = PARAMETER_SERVER__V1__PUSH_REPLY__INIT;

    reply.loss = loss;
    reply.weights = &weights;
    for (size_t r = 0; r < shard->options->workers; r++) {
        struct sealane_call *call = shard->seats[r].push;

        shard->seats[r].push = NULL;
        if (call)
            must(shard, parameter_server_v1_parameter_server_push__reply(call, &reply));
    }
}

static void answer_joins(struct shard *shard)
{
    ParameterServer__V1__JoinReply reply = PARAMETER_SERVER__V1__JOIN_REPLY__INIT;

    reply.steps = shard->step;
    for (size_t r = 0; r < shard->options->workers; r++) {
        struct sealane_call *call = shard->seats[r].join;

        shard->seats[r].join = NULL;
        if (call)
            must(shard, parameter_server_v1_parameter_server_join__reply(call, &reply));
    }
}

/* ---- judging ---- */

/* The rank's seat, if the call may have it; else the call was failed. */
static struct seat *seat_of(struct shard *shard, struct sealane_call *call, uint32_t rank)
{
    struct sealane_security security;

    if (shard->phase == PHASE_BROKEN)
        sealane_call_fail(call, shard->status, "%s", shard->why);
    else if (shard->phase == PHASE_DONE)
        sealane_call_fail(call, SEALANE_FAILED_PRECONDITION, "the training is over after step %llu",
                          (unsigned long long)shard->step);
    else if (rank >= shard->options->workers)
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT, "rank %u, this shard has %llu workers",
                          rank, (unsigned long long)shard->options->workers);
    else {
        sealane_call_security(call, &security);
        if (!shard->seats[rank].join || strcmp(shard->seats[rank].peer, security.peer) == 0)
            return &shard->seats[rank];
        sealane_call_fail(call, SEALANE_PERMISSION_DENIED, "%s speaks for rank %u, which is %s",
                          security.peer, rank, shard->seats[rank].peer);
    }
    return NULL;
}

/* The tensor's numbers when it is one of this shard; NULL otherwise. */
static const float *floats_of(const struct shard *shard, const Sealane__Tensor *tensor)
{
    if (!tensor || tensor->dtype != SEALANE__DTYPE__DTYPE_F32 || tensor->n_shape != 1 ||
        tensor->shape[0] != shard->count)
        return NULL;
    return (const float *)(const void *)tensor->data.data;
}

static bool same_plan(const struct shard *shard, const ParameterServer__V1__Plan *plan)
{
    return plan->parameters == shard->parameters && plan->steps == shard->sgd.steps &&
           plan->batch == shard->sgd.batch && plan->rate == shard->sgd.rate &&
           plan->momentum == shard->sgd.momentum;
}

/* The first worker's plan becomes the shard's. Bounded: the weights are allocated only when they came. */
static bool adopt_plan(struct shard *shard, const ParameterServer__V1__Plan *plan)
{
    if (plan->parameters < shard->options->shards || plan->parameters > SIZE_MAX / 64 ||
        plan->steps == 0 || plan->batch == 0)
        return false;
    shard->parameters = plan->parameters;
    shard->sgd = (struct sgd){plan->rate, plan->momentum, plan->steps, plan->batch};
    shard->count = range_of(plan->parameters, shard->options->shard, shard->options->shards).count;
    return true;
}

static bool adopt_weights(struct shard *shard, const float *initial)
{
    free(shard->weights); /* of a join that failed half-way */
    free(shard->velocity);
    shard->weights = malloc(shard->count * sizeof(float));
    shard->velocity = calloc(shard->count, sizeof(float));
    if (!shard->weights || !shard->velocity)
        return false;
    memcpy(shard->weights, initial, shard->count * sizeof(float));
    return true;
}

/* ---- handlers ---- */

static void describe(struct sealane_call *call, const ParameterServer__V1__DescribeRequest *request,
                     void *user)
{
    struct shard *shard = user;
    ParameterServer__V1__DescribeReply reply = PARAMETER_SERVER__V1__DESCRIBE_REPLY__INIT;

    (void)request;
    reply.shard = (uint32_t)shard->options->shard;
    reply.shards = (uint32_t)shard->options->shards;
    reply.workers = (uint32_t)shard->options->workers;
    must(shard, parameter_server_v1_parameter_server_describe__reply(call, &reply));
}

static void wait_for_the_others(struct shard *shard)
{
    shard->late_s = clock_s() + (double)shard->options->timeout_s;
}

static void take_seat(struct shard *shard, struct seat *seat, struct sealane_call *call)
{
    struct sealane_security security;

    sealane_call_security(call, &security);
    memcpy(seat->peer, security.peer, sizeof(seat->peer));
    seat->join = call;
    if (shard->joined++ == 0)
        wait_for_the_others(shard);
    if (shard->joined < shard->options->workers)
        return;
    shard->phase = PHASE_TRAINING;
    wait_for_the_others(shard);
    answer_pulls(shard);
}

static void join(struct sealane_call *call, const ParameterServer__V1__JoinRequest *request,
                 void *user)
{
    struct shard *shard = user;
    struct seat *seat = seat_of(shard, call, request->rank);
    const float *initial;

    if (!seat)
        return;
    if (seat->join) {
        sealane_call_fail(call, SEALANE_ALREADY_EXISTS, "rank %u has joined already: %s",
                          request->rank, seat->peer);
        return;
    }
    if (!request->plan || (shard->parameters == 0 && !adopt_plan(shard, request->plan)) ||
        !same_plan(shard, request->plan)) {
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT,
                          "rank %u plans another training than the first worker that joined",
                          request->rank);
        return;
    }
    initial = floats_of(shard, request->initial);
    if (request->rank == 0 && !initial) {
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT,
                          "rank 0 brings no %zu first weights of type f32", shard->count);
        return;
    }
    if (request->rank == 0 && !adopt_weights(shard, initial)) {
        sealane_call_fail(call, SEALANE_RESOURCE_EXHAUSTED, "no memory for %zu weights",
                          shard->count);
        return;
    }
    take_seat(shard, seat, call);
}

static void pull(struct sealane_call *call, const ParameterServer__V1__PullRequest *request,
                 void *user)
{
    struct shard *shard = user;
    struct seat *seat = seat_of(shard, call, request->rank);

    if (!seat)
        return;
    if (seat->pull && !sealane_call_is_over(seat->pull)) {
        sealane_call_fail(call, SEALANE_FAILED_PRECONDITION, "rank %u pulls already",
                          request->rank);
        return;
    }
    fail_kept(&seat->pull, SEALANE_CANCELLED, "another pull came");
    seat->pull = call; /* may be here before the join, whose weights take longer */
    if (shard->phase == PHASE_TRAINING)
        answer_pulls(shard);
}

/* Every gradient is in. */
static void end_step(struct shard *shard)
{
    const size_t workers = shard->options->workers;
    double loss = 0;

    for (size_t r = 0; r < workers; r++) {
        shard->gradients[r] = shard->seats[r].gradient;
        loss += shard->seats[r].loss;
    }
    sgd_step(&shard->sgd, shard->step, shard->gradients, workers,
             &(struct sgd_state){shard->velocity, shard->weights, shard->count});
    shard->step++;
    shard->pushed = 0;
    wait_for_the_others(shard);
    answer_pushes(shard, loss);
    if (shard->step < shard->sgd.steps || shard->phase == PHASE_BROKEN)
        return;
    shard->phase = PHASE_DONE;
    answer_joins(shard);
}

static void push(struct sealane_call *call, const ParameterServer__V1__PushRequest *request,
                 void *user)
{
    struct shard *shard = user;
    struct seat *seat = seat_of(shard, call, request->rank);
    const float *gradient;

    if (!seat)
        return; /* answered: the request is gone */
    gradient = floats_of(shard, request->gradient);
    if (shard->phase != PHASE_TRAINING || seat->push || request->step != shard->step) {
        sealane_call_fail(call, SEALANE_FAILED_PRECONDITION,
                          "rank %u pushes step %llu, this shard waits for step %llu of %s",
                          request->rank, (unsigned long long)request->step,
                          (unsigned long long)shard->step,
                          shard->phase == PHASE_TRAINING ? "others" : "all to join");
        return;
    }
    if (!gradient) {
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT,
                          "rank %u pushes no gradient of %zu numbers of type f32", request->rank,
                          shard->count);
        return;
    }
    seat->push = call;
    seat->gradient = gradient;
    seat->loss = request->loss;
    if (++shard->pushed == shard->options->workers)
        end_step(shard);
}

const struct parameter_server_v1_parameter_server__handlers shard_handlers = {
    .describe = describe, .join = join, .pull = pull, .push = push};

/* ---- time ---- */

static void name_the_late(const struct shard *shard, char *names, size_t max)
{
    size_t used = 0;

    names[0] = '\0';
    for (size_t r = 0; r < shard->options->workers && used + 1 < max; r++) {
        const struct seat *seat = &shard->seats[r];
        bool here = shard->phase == PHASE_GATHERING ? seat->join != NULL : seat->push != NULL;
        int more = here ? 0 : snprintf(names + used, max - used, "%s%zu", used ? ", " : "", r);

        used += more > 0 ? (size_t)more : 0;
    }
}

void shard_tick(struct shard *shard)
{
    char late[100];

    if (shard->phase == PHASE_DONE || shard->phase == PHASE_BROKEN)
        return;
    for (size_t r = 0; r < shard->options->workers; r++) {
        if (shard->seats[r].join && sealane_call_is_over(shard->seats[r].join)) {
            shard_break(shard, SEALANE_ABORTED, "worker %zu (%s) left at step %llu of %llu: %s", r,
                        shard->seats[r].peer, (unsigned long long)shard->step,
                        (unsigned long long)shard->sgd.steps,
                        sealane_call_message(shard->seats[r].join));
            return;
        }
    }
    if (shard->late_s == 0 || clock_s() < shard->late_s)
        return;
    name_the_late(shard, late, sizeof(late));
    shard_break(shard, SEALANE_DEADLINE_EXCEEDED, "worker %s did not %s within %llu s", late,
                shard->phase == PHASE_GATHERING ? "join" : "push its gradient",
                (unsigned long long)shard->options->timeout_s);
}
