/* SPDX-License-Identifier: Apache-2.0 */
/* shard_steps.c - how gradients become weights: laid down, decided on and applied together, or each at once. */
#include "shard_inside.h"

#include <stdlib.h>
#include <string.h>

/* ---- giving weights away ---- */

static void answer_pull(struct shard *shard, struct sealane_call *call)
{
    ParameterServer__V1__PullReply reply = PARAMETER_SERVER__V1__PULL_REPLY__INIT;
    ParameterServer__V1__Speed speed = PARAMETER_SERVER__V1__SPEED__INIT;
    Sealane__Tensor weights = SEALANE__TENSOR__INIT;
    uint64_t shape = shard->count;

    for (size_t r = 0; r < shard->options->workers; r++) {
        speed.push += shard->seats[r].push_speed;
        speed.pull += shard->seats[r].pull_speed;
    }
    weights.dtype = SEALANE__DTYPE__DTYPE_F32;
    weights.n_shape = 1;
    weights.shape = &shape;
    weights.data.data = (uint8_t *)shard->weights->values;
    weights.data.len = shard->count * sizeof(float);
    reply.weights = &weights;
    reply.step = shard->step;
    reply.reporter = shard->reporter;
    reply.all_workers = &speed;
    edition_lend(shard->weights, call);
    shard_must(shard, parameter_server_v1_parameter_server_pull__reply(call, &reply));
}

/* ---- synchronous: shard 0 decides, the others hear of it ---- */

static bool has_gradient(const struct shard *shard, uint32_t rank)
{
    const struct seat *seat = &shard->seats[rank];

    return seat->examples > 0 && seat->gradient_step == shard->step;
}

/* False, and the shard is broken, when memory is short. */
static bool make_step(struct shard *shard, const uint32_t *members, size_t count)
{
    struct gradients sum = {.all = shard->gradients, .count = count};

    if (!edition_own(&shard->weights)) {
        shard_break(shard, SEALANE_RESOURCE_EXHAUSTED, "no memory for another %zu weights",
                    shard->count);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct seat *seat = &shard->seats[members[i]];

        shard->gradients[i] = seat->gradient;
        sum.examples += seat->examples;
        seat->applied++;
    }
    sgd_step(&shard->sgd, shard->step, &sum,
             &(struct sgd_state){shard->velocity, shard->weights->values, shard->count});
    if (members != shard->members)
        memcpy(shard->members, members, count * sizeof(*members));
    shard->member_count = count;
    shard->step++;
    for (size_t r = 0; r < shard->options->workers; r++) {
        shard->seats[r].pushed = false;
        shard->seats[r].committed = false;
    }
    return true;
}

static ParameterServer__V1__Turn turn_of(const struct shard *shard)
{
    ParameterServer__V1__Turn turn = PARAMETER_SERVER__V1__TURN__INIT;

    turn.step = shard->step;
    turn.n_members = shard->member_count;
    turn.members = shard->members;
    turn.loss = shard->loss;
    return turn;
}

/* A rank whose Commit was heard in an earlier life takes no second part in the same step. */
static void answer_enters(struct shard *shard)
{
    const ParameterServer__V1__Turn turn = turn_of(shard);

    for (size_t r = 0; r < shard->options->workers; r++) {
        struct sealane_call *call = shard->seats[r].enter;

        if (!call || shard->seats[r].committed || !shard_is_taken(shard, &shard->seats[r]))
            continue;
        shard->seats[r].enter = NULL;
        shard_must(shard, parameter_server_v1_parameter_server_enter__reply(call, &turn));
    }
}

static void answer_commits(struct shard *shard)
{
    const ParameterServer__V1__Turn turn = turn_of(shard);

    for (size_t r = 0; r < shard->options->workers; r++) {
        struct sealane_call *call = shard->seats[r].commit;

        shard->seats[r].commit = NULL;
        if (call)
            shard_must(shard, parameter_server_v1_parameter_server_commit__reply(call, &turn));
    }
}

/* True when some are there and all who are have said Commit. */
static bool is_decided(const struct shard *shard)
{
    for (size_t r = 0; r < shard->options->workers; r++)
        if (shard->seats[r].join && !shard->seats[r].committed)
            return false;
    return shard->joined > 0;
}

void shard_decide(struct shard *shard)
{
    uint64_t examples = 0;
    double loss = 0;
    size_t count = 0;

    if (shard->options->asynchronous || shard->options->shard != 0 ||
        shard->phase != PHASE_TRAINING || !is_decided(shard))
        return;
    for (size_t r = 0; r < shard->options->workers; r++) {
        if (!shard->seats[r].committed)
            continue;
        shard->members[count++] = (uint32_t)r;
        loss += shard->seats[r].loss;
        examples += shard->seats[r].examples;
    }
    if (!make_step(shard, shard->members, count))
        return;
    shard->loss = loss / (double)examples;
    shard_wait_for_workers(shard);
    answer_commits(shard);
    answer_enters(shard);
    if (shard->step == shard->sgd.steps && shard->phase == PHASE_TRAINING)
        shard_finish(shard);
}

/* False, and the call was failed, unless this is what shard 0 is asked in a synchronous training. */
static bool is_asked_rightly(const struct shard *shard, struct sealane_call *call)
{
    if (!shard->options->asynchronous && shard->options->shard == 0)
        return true;
    sealane_call_fail(call, SEALANE_FAILED_PRECONDITION,
                      "shard %llu of %s training decides nothing",
                      (unsigned long long)shard->options->shard,
                      shard->options->asynchronous ? "an asynchronous" : "a synchronous");
    return false;
}

void shard_enter(struct sealane_call *call, const ParameterServer__V1__EnterRequest *request,
                 void *user)
{
    struct shard *shard = user;
    struct seat *seat;

    if (!is_asked_rightly(shard, call) || !(seat = shard_seat(shard, call, request->rank)))
        return;
    shard_fail_kept(&seat->enter, SEALANE_CANCELLED, "another Enter came");
    seat->enter = call;
    shard_answer_kept(shard);
}

void shard_commit(struct sealane_call *call, const ParameterServer__V1__CommitRequest *request,
                  void *user)
{
    struct shard *shard = user;
    struct seat *seat;

    if (!is_asked_rightly(shard, call) || !(seat = shard_taken_seat(shard, call, request->rank)))
        return;
    if (shard->phase != PHASE_TRAINING || request->step != shard->step || !seat->pushed) {
        sealane_call_fail(
            call, SEALANE_FAILED_PRECONDITION,
            "rank %u commits step %llu, this shard is at step %llu and has %s gradient",
            request->rank, (unsigned long long)request->step, (unsigned long long)shard->step,
            seat->pushed ? "its" : "not its");
        return;
    }
    if (seat->committed) {
        sealane_call_fail(call, SEALANE_ALREADY_EXISTS, "rank %u committed step %llu already",
                          request->rank, (unsigned long long)request->step);
        return;
    }
    seat->commit = call;
    seat->committed = true;
    seat->loss = request->loss;
    shard_decide(shard);
}

/* ---- pull ---- */

/* Are these members whose gradients are all here? Input from outside: ranks rise, so none counts twice. */
static bool can_make(const struct shard *shard, const ParameterServer__V1__Turn *turn)
{
    for (size_t i = 0; i < turn->n_members; i++) {
        if (turn->members[i] >= shard->options->workers ||
            (i > 0 && turn->members[i] <= turn->members[i - 1]) ||
            !has_gradient(shard, turn->members[i]))
            return false;
    }
    return turn->n_members > 0;
}

static bool same_turn(const struct shard *shard, const ParameterServer__V1__Turn *turn)
{
    return turn->step == shard->step && turn->n_members == shard->member_count &&
           (turn->n_members == 0 ||
            memcmp(turn->members, shard->members, turn->n_members * sizeof(*turn->members)) == 0);
}

/* The first who tells of a turn has the step made; from others it is heard again. */
static void pull_turn(struct shard *shard, struct sealane_call *call,
                      const ParameterServer__V1__Turn *turn)
{
    bool news = shard->options->shard != 0 && shard->phase == PHASE_TRAINING &&
                turn->step == shard->step + 1 && can_make(shard, turn);

    if (!news && !same_turn(shard, turn)) {
        sealane_call_fail(call, SEALANE_FAILED_PRECONDITION,
                          "weights for step %llu of %zu members are asked for, this shard is at "
                          "step %llu of %zu members",
                          (unsigned long long)turn->step, turn->n_members,
                          (unsigned long long)shard->step, shard->member_count);
        return;
    }
    if (news && !make_step(shard, turn->members, turn->n_members)) {
        sealane_call_fail(call, shard->status, "%s", shard->why);
        return;
    }
    answer_pull(shard, call);
    if (news && shard->step == shard->sgd.steps && shard->phase == PHASE_TRAINING)
        shard_finish(shard);
}

static void answer_kept_pull(struct shard *shard, struct seat *seat)
{
    struct sealane_call *call = seat->pull;

    seat->pull = NULL;
    if (shard->options->asynchronous)
        answer_pull(shard, call);
    else
        pull_turn(shard, call, seat->pull_turn);
}

void shard_pull(struct sealane_call *call, const ParameterServer__V1__PullRequest *request,
                void *user)
{
    struct shard *shard = user;
    struct seat *seat = shard_seat(shard, call, request->rank);

    if (!seat)
        return;
    if (!shard->options->asynchronous && !request->turn) {
        sealane_call_fail(call, SEALANE_INVALID_ARGUMENT, "rank %u pulls without a turn",
                          request->rank);
        return;
    }
    if (request->speed) {
        seat->push_speed = request->speed->push;
        seat->pull_speed = request->speed->pull;
    }
    shard_fail_kept(&seat->pull, SEALANE_CANCELLED, "another Pull came");
    seat->pull = call;
    seat->pull_turn = request->turn;
    shard_answer_kept(shard);
}

void shard_answer_kept(struct shard *shard)
{
    if (shard->phase == PHASE_GATHERING)
        return;
    answer_enters(shard);
    for (size_t r = 0; r < shard->options->workers; r++)
        if (shard->seats[r].pull && shard_is_taken(shard, &shard->seats[r]))
            answer_kept_pull(shard, &shard->seats[r]);
}

/* ---- push ---- */

static void answer_push(struct shard *shard, struct sealane_call *call, uint64_t staleness)
{
    ParameterServer__V1__PushReply reply = PARAMETER_SERVER__V1__PUSH_REPLY__INIT;

    reply.step = shard->step;
    reply.staleness = staleness;
    shard_must(shard, parameter_server_v1_parameter_server_push__reply(call, &reply));
}

/* The request's memory goes with its call, which is answered now; the gradient is needed until the decision. */
static void lay_down(struct shard *shard, struct sealane_call *call, struct seat *seat,
                     const ParameterServer__V1__PushRequest *request)
{
    if (!seat->gradient)
        seat->gradient = malloc(shard->count * sizeof(float));
    if (!seat->gradient) {
        sealane_call_fail(call, SEALANE_RESOURCE_EXHAUSTED, "no memory for a gradient of %zu",
                          shard->count);
        return;
    }
    memcpy(seat->gradient, shard_floats(shard, request->gradient), shard->count * sizeof(float));
    seat->gradient_step = request->step;
    seat->examples = request->examples;
    seat->pushed = true;
    answer_push(shard, call, 0);
}

static void push_synchronously(struct shard *shard, struct sealane_call *call, struct seat *seat,
                               const ParameterServer__V1__PushRequest *request)
{
    unsigned long long step = request->step, now = shard->step;

    if (shard->phase != PHASE_TRAINING || step != now)
        sealane_call_fail(call, SEALANE_FAILED_PRECONDITION,
                          "rank %u pushes a gradient for step %llu%s, this shard is at step %llu",
                          request->rank, step, step < now ? ", which is over" : "", now);
    else if (seat->pushed || seat->committed)
        sealane_call_fail(call, SEALANE_ALREADY_EXISTS,
                          "rank %u has pushed its gradient for step %llu already", request->rank,
                          step);
    else
        lay_down(shard, call, seat, request);
}

/* A share of the whole batch's size: `workers` gradients move the weights as far as one synchronous step. False when the call was
 * failed. */
static bool apply(struct shard *shard, struct sealane_call *call, struct seat *seat,
                  const float *gradient)
{
    const struct gradients one = {.all = &gradient, .count = 1, .examples = shard->sgd.batch};

    if (!edition_own(&shard->weights)) {
        sealane_call_fail(call, SEALANE_RESOURCE_EXHAUSTED, "no memory for another %zu weights",
                          shard->count);
        return false;
    }
    sgd_step(&shard->sgd, shard->step, &one,
             &(struct sgd_state){shard->velocity, shard->weights->values, shard->count});
    shard->step++;
    seat->applied++;
    return true;
}

static void push_asynchronously(struct shard *shard, struct sealane_call *call, struct seat *seat,
                                const ParameterServer__V1__PushRequest *request)
{
    const uint64_t staleness = shard->step - request->step;

    if (shard->phase == PHASE_GATHERING || request->step > shard->step) {
        sealane_call_fail(call, SEALANE_FAILED_PRECONDITION,
                          "rank %u pushes a gradient for step %llu, this shard %s step %llu",
                          request->rank, (unsigned long long)request->step,
                          shard->phase == PHASE_GATHERING ? "waits for workers at" : "is at",
                          (unsigned long long)shard->step);
        return;
    }
    if (shard->phase == PHASE_DONE) { /* nobody's fault: it was on its way */
        answer_push(shard, call, staleness);
        return;
    }
    if (staleness > shard->options->max_staleness) {
        shard->staleness.refused++;
        sealane_call_fail(
            call, SEALANE_ABORTED,
            "the gradient is %llu steps stale, at most %llu are allowed (--max-staleness): pull again",
            (unsigned long long)staleness, (unsigned long long)shard->options->max_staleness);
        return;
    }
    if (!apply(shard, call, seat, shard_floats(shard, request->gradient)))
        return;
    shard->staleness.sum += staleness;
    if (staleness > shard->staleness.most)
        shard->staleness.most = staleness;
    answer_push(shard, call, staleness);
    if (shard->step == shard->sgd.steps && shard->phase == PHASE_TRAINING)
        shard_finish(shard);
}

void shard_push(struct sealane_call *call, const ParameterServer__V1__PushRequest *request,
                void *user)
{
    struct shard *shard = user;
    struct seat *seat = shard_taken_seat(shard, call, request->rank);

    if (!seat)
        return; /* answered: the request is gone */
    if (!shard_floats(shard, request->gradient) || request->examples == 0 ||
        request->examples > shard->sgd.batch) {
        sealane_call_fail(
            call, SEALANE_INVALID_ARGUMENT,
            "rank %u pushes no gradient of %zu numbers of type f32 over 1 to %zu examples",
            request->rank, shard->count, shard->sgd.batch);
        return;
    }
    if (shard->options->asynchronous)
        push_asynchronously(shard, call, seat, request);
    else
        push_synchronously(shard, call, seat, request);
}
