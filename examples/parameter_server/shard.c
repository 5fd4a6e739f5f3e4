/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - who takes part: joining, leaving, coming back, being late, and the end. */
#include "shard_inside.h"
#include "trainer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool shard_new(const struct options *options, struct shard *shard)
{
    *shard = (struct shard){.options = options};
    shard->seats = calloc(options->workers, sizeof(*shard->seats));
    shard->members = calloc(options->workers, sizeof(*shard->members));
    shard->gradients = calloc(options->workers, sizeof(*shard->gradients));
    return shard->seats && shard->members && shard->gradients;
}

void shard_free(struct shard *shard)
{
    for (size_t r = 0; shard->seats && r < shard->options->workers; r++)
        free(shard->seats[r].gradient);
    free(shard->seats);
    free(shard->members);
    free(shard->gradients);
    edition_leave(shard->weights);
    free(shard->velocity);
    *shard = (struct shard){0};
}

__attribute__((format(printf, 2, 3))) static void say(const struct shard *shard, const char *format,
                                                      ...)
{
    va_list args;

    (void)printf("shard %llu: ", (unsigned long long)shard->options->shard);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)printf("\n");
    (void)fflush(stdout);
}

void shard_report(const struct shard *shard)
{
    const struct staleness *staleness = &shard->staleness;

    (void)printf("shard %llu: step %llu of %llu; gradients applied:",
                 (unsigned long long)shard->options->shard, (unsigned long long)shard->step,
                 (unsigned long long)shard->sgd.steps);
    for (size_t r = 0; r < shard->options->workers; r++)
        (void)printf("%s worker %zu %llu", r ? "," : "", r,
                     (unsigned long long)shard->seats[r].applied);
    if (shard->options->asynchronous && shard->step > 0)
        (void)printf("; staleness: mean %.2f, most %llu, refused %llu that passed %llu",
                     (double)staleness->sum / (double)shard->step,
                     (unsigned long long)staleness->most, (unsigned long long)staleness->refused,
                     (unsigned long long)shard->options->max_staleness);
    (void)printf("\n");
    (void)fflush(stdout);
}

/* ---- the end ---- */

void shard_fail_kept(struct sealane_call **kept, enum sealane_status status, const char *why)
{
    if (*kept)
        sealane_call_fail(*kept, status, "%s", why);
    *kept = NULL;
}

static void fail_seat(struct seat *seat, enum sealane_status status, const char *why)
{
    shard_fail_kept(&seat->enter, status, why);
    shard_fail_kept(&seat->commit, status, why);
    shard_fail_kept(&seat->pull, status, why);
    shard_fail_kept(&seat->join, status, why);
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
    for (size_t r = 0; r < shard->options->workers; r++)
        fail_seat(&shard->seats[r], status, shard->why);
}

void shard_must(struct shard *shard, enum sealane_status status)
{
    if (status != SEALANE_OK)
        shard_break(shard, status, "a reply could not be sent: %s", sealane_last_error()->message);
}

static void answer_join(struct shard *shard, struct sealane_call *call)
{
    ParameterServer__V1__JoinReply reply = PARAMETER_SERVER__V1__JOIN_REPLY__INIT;

    reply.steps = shard->step;
    shard_must(shard, parameter_server_v1_parameter_server_join__reply(call, &reply));
}

void shard_finish(struct shard *shard)
{
    shard->phase = PHASE_DONE;
    for (size_t r = 0; r < shard->options->workers; r++) {
        struct sealane_call *call = shard->seats[r].join;

        shard->seats[r].join = NULL;
        if (call)
            answer_join(shard, call);
    }
}

/* ---- judging ---- */

const float *shard_floats(const struct shard *shard, const Sealane__Tensor *tensor)
{
    if (!tensor || tensor->dtype != SEALANE__DTYPE__DTYPE_F32 || tensor->n_shape != 1 ||
        tensor->shape[0] != shard->count)
        return NULL;
    return (const float *)(const void *)tensor->data.data;
}

/* False, and the call was failed, when the shard is broken or the rank is none of its. */
static bool may_speak(const struct shard *shard, struct sealane_call *call, uint32_t rank)
{
    if (shard->phase == PHASE_BROKEN)
        sealane_call_fail(call, shard->status, "%s", shard->why);
    else if (rank >= shard->options->workers)
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT, "rank %u, this shard has %llu workers",
                          rank, (unsigned long long)shard->options->workers);
    else
        return true;
    return false;
}

bool shard_is_taken(const struct shard *shard, const struct seat *seat)
{
    return seat->join || (shard->phase == PHASE_DONE && seat->was_here);
}

struct seat *shard_seat(struct shard *shard, struct sealane_call *call, uint32_t rank)
{
    struct sealane_security security;
    struct seat *seat;

    if (!may_speak(shard, call, rank))
        return NULL;
    seat = &shard->seats[rank];
    sealane_call_security(call, &security);
    if (!shard_is_taken(shard, seat) || strcmp(seat->peer, security.peer) == 0)
        return seat;
    sealane_call_fail(call, SEALANE_PERMISSION_DENIED, "%s speaks for rank %u, which is %s",
                      security.peer, rank, seat->peer);
    return NULL;
}

struct seat *shard_taken_seat(struct shard *shard, struct sealane_call *call, uint32_t rank)
{
    struct seat *seat = shard_seat(shard, call, rank);

    if (!seat || shard_is_taken(shard, seat))
        return seat;
    sealane_call_fail(call, SEALANE_FAILED_PRECONDITION, "rank %u has not joined", rank);
    return NULL;
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
        plan->steps == 0 || plan->batch == 0 || !isfinite(plan->rate) || !isfinite(plan->momentum))
        return false;
    shard->parameters = plan->parameters;
    shard->sgd = (struct sgd){plan->rate, plan->momentum, plan->steps, plan->batch};
    shard->count = range_of(plan->parameters, shard->options->shard, shard->options->shards).count;
    return true;
}

/* Replaces those of a rank 0 that left before the training began. */
static bool adopt_weights(struct shard *shard, const float *initial)
{
    struct edition *weights = edition_new(shard->count);
    float *velocity = calloc(shard->count, sizeof(float));

    if (!weights || !velocity) {
        edition_leave(weights);
        free(velocity);
        return false;
    }
    memcpy(weights->values, initial, shard->count * sizeof(float));
    edition_leave(shard->weights);
    free(shard->velocity);
    shard->weights = weights;
    shard->velocity = velocity;
    return true;
}

/* ---- joining ---- */

static void describe(struct sealane_call *call, const ParameterServer__V1__DescribeRequest *request,
                     void *user)
{
    struct shard *shard = user;
    ParameterServer__V1__DescribeReply reply = PARAMETER_SERVER__V1__DESCRIBE_REPLY__INIT;

    (void)request;
    reply.shard = (uint32_t)shard->options->shard;
    reply.shards = (uint32_t)shard->options->shards;
    reply.workers = (uint32_t)shard->options->workers;
    reply.asynchronous = shard->options->asynchronous;
    shard_must(shard, parameter_server_v1_parameter_server_describe__reply(call, &reply));
}

void shard_wait_for_workers(struct shard *shard)
{
    shard->late_s = clock_s() + (double)shard->options->timeout_s;
}

static void choose_reporter(struct shard *shard)
{
    if (shard->phase == PHASE_DONE)
        return;
    for (size_t r = shard->options->workers; r > 0; r--)
        if (shard->seats[r - 1].join)
            shard->reporter = (uint32_t)(r - 1);
}

/* Shard 0 waits for everybody; the others need no more than weights, since shard 0 has the say about who takes part. */
static bool is_complete(const struct shard *shard)
{
    return shard->weights &&
           (shard->options->shard != 0 || shard->joined == shard->options->workers);
}

static void take_seat(struct shard *shard, uint32_t rank, struct sealane_call *call)
{
    struct seat *seat = &shard->seats[rank];
    struct sealane_security security;

    sealane_call_security(call, &security);
    if (seat->was_here && shard->phase == PHASE_TRAINING)
        say(shard, "worker %u (%s) came back at step %llu of %llu", rank, security.peer,
            (unsigned long long)shard->step, (unsigned long long)shard->sgd.steps);
    memcpy(seat->peer, security.peer, sizeof(seat->peer));
    seat->join = call;
    seat->was_here = true;
    seat->pushed = false;
    choose_reporter(shard);
    if (shard->joined++ == 0)
        shard_wait_for_workers(shard);
    if (shard->phase == PHASE_GATHERING && is_complete(shard)) {
        shard->phase = PHASE_TRAINING;
        shard_wait_for_workers(shard);
    }
}

/* Is what the Join brings what this shard needs? Else the call was failed. */
static bool may_join(struct shard *shard, struct sealane_call *call,
                     const ParameterServer__V1__JoinRequest *request)
{
    const float *initial;

    if (!request->plan || (shard->joined == 0 && shard->phase == PHASE_GATHERING &&
                           !adopt_plan(shard, request->plan))) {
        sealane_call_fail(
            call, SEALANE_INVALID_ARGUMENT,
            "rank %u has no plan that can be trained: parameters, steps and batch of at least "
            "one, a finite rate and momentum",
            request->rank);
        return false;
    }
    if (!same_plan(shard, request->plan)) {
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT,
                          "rank %u plans another training than the first worker that joined",
                          request->rank);
        return false;
    }
    if (request->rank != 0 || shard->phase != PHASE_GATHERING)
        return true;
    initial = shard_floats(shard, request->initial);
    if (initial && adopt_weights(shard, initial))
        return true;
    if (initial)
        sealane_call_fail(call, SEALANE_RESOURCE_EXHAUSTED, "no memory for %zu weights",
                          shard->count);
    else
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT,
                          "rank 0 brings no %zu first weights of type f32", shard->count);
    return false;
}

static void leave_seat(struct shard *shard, size_t rank, enum sealane_status status,
                       const char *why);

static void join(struct sealane_call *call, const ParameterServer__V1__JoinRequest *request,
                 void *user)
{
    struct shard *shard = user;
    struct seat *seat;

    if (!may_speak(shard, call, request->rank))
        return;
    seat = &shard->seats[request->rank];
    if (seat->join && sealane_call_is_over(seat->join))
        leave_seat(shard, request->rank, SEALANE_CANCELLED, "it left");
    if (seat->join)
        sealane_call_fail(call, SEALANE_ALREADY_EXISTS, "rank %u has joined already: %s",
                          request->rank, seat->peer);
    else if (may_join(shard, call, request))
        take_seat(shard, request->rank, call);
    if (seat->join != call)
        return;
    shard_answer_kept(shard);
    if (shard->phase == PHASE_DONE)
        shard_finish(shard); /* who comes after the end hears so at once */
}

const struct parameter_server_v1_parameter_server__handlers shard_handlers = {.describe = describe,
                                                                              .join = join,
                                                                              .enter = shard_enter,
                                                                              .pull = shard_pull,
                                                                              .push = shard_push,
                                                                              .commit =
                                                                                  shard_commit};

/* ---- leaving, and being late ---- */

/* What the worker laid down stays: its Commit may have been heard. Who else waits for it goes on. */
static void leave_seat(struct shard *shard, size_t rank, enum sealane_status status,
                       const char *why)
{
    struct seat *seat = &shard->seats[rank];

    shard->joined--;
    say(shard, "worker %zu (%s) left at step %llu of %llu: %s; %zu of %llu go on", rank, seat->peer,
        (unsigned long long)shard->step, (unsigned long long)shard->sgd.steps, why, shard->joined,
        (unsigned long long)shard->options->workers);
    fail_seat(seat, status, why);
    choose_reporter(shard);
    if (shard->phase != PHASE_TRAINING)
        return;
    if (shard->joined == 0)
        shard_wait_for_workers(shard);
    shard_decide(shard);
}

/* Commits that are missing hold everybody up: the step is made without them. */
static void give_up_the_late(struct shard *shard)
{
    const uint64_t step = shard->step; /* once it is made, nobody is late any more */
    char why[160];

    (void)snprintf(why, sizeof(why),
                   "it did not commit its gradient within %llu s; the training goes on without it",
                   (unsigned long long)shard->options->timeout_s);
    for (size_t r = 0; r < shard->options->workers && shard->step == step; r++)
        if (shard->seats[r].join && !shard->seats[r].committed)
            leave_seat(shard, r, SEALANE_DEADLINE_EXCEEDED, why);
}

static void name_the_missing(const struct shard *shard, char *names, size_t max)
{
    size_t used = 0;

    names[0] = '\0';
    for (size_t r = 0; r < shard->options->workers && used + 1 < max; r++) {
        int more = shard->seats[r].join
                       ? 0
                       : snprintf(names + used, max - used, "%s%zu", used ? ", " : "", r);

        used += more > 0 ? (size_t)more : 0;
    }
}

static void too_late(struct shard *shard)
{
    unsigned long long timeout_s = shard->options->timeout_s;
    char missing[100];

    if (shard->phase == PHASE_GATHERING) {
        name_the_missing(shard, missing, sizeof(missing));
        shard_break(shard, SEALANE_DEADLINE_EXCEEDED, "worker %s did not join within %llu s",
                    missing, timeout_s);
    } else if (shard->joined == 0) {
        shard_break(shard, SEALANE_ABORTED,
                    "all workers left at step %llu of %llu, and none came back within %llu s",
                    (unsigned long long)shard->step, (unsigned long long)shard->sgd.steps,
                    timeout_s);
    } else if (shard->options->shard == 0 && !shard->options->asynchronous) {
        give_up_the_late(shard);
    }
}

void shard_tick(struct shard *shard)
{
    for (size_t r = 0; r < shard->options->workers; r++) {
        struct seat *seat = &shard->seats[r];

        if (seat->join && sealane_call_is_over(seat->join))
            leave_seat(shard, r, SEALANE_CANCELLED, sealane_call_message(seat->join));
    }
    if (shard->phase == PHASE_DONE || shard->phase == PHASE_BROKEN || shard->late_s == 0 ||
        clock_s() < shard->late_s)
        return;
    too_late(shard);
}
