/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_server_shard_test.c - the rules of a shard, call by call: whose gradients count, and whose do not. Weights are compared with those of
 * one process that sees only who counts. */
#include "tests/e2e/parameter_server_world.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

/* ---- synchronous ---- */

static void check_members(const struct heard *turn, uint64_t step, const char *members)
{
    char told[WORKERS + 1] = "";

    cr_assert_eq(turn->status, SEALANE_OK, "%s", turn->why);
    cr_assert_eq(turn->step, step);
    for (size_t i = 0; i < turn->count; i++)
        told[i] = (char)('0' + turn->members[i]);
    cr_assert_str_eq(told, members);
}

/* Everybody has joined, entered and pulled. */
static void begin_together(uint64_t timeout_s)
{
    const struct options common = {.mode = "sync", .timeout_s = timeout_s};

    open_world(&common);
    for (size_t r = 0; r < WORKERS; r++) {
        connect_worker(r);
        join(r);
        enter(r);
    }
    for (size_t r = 0; r < WORKERS; r++) {
        wait_until(&w.enters[r].done);
        check_members(&w.enters[r], 0, "");
        check_weights(r, &w.enters[r]);
    }
}

/* The step of workers that are all well. */
static void step_together(uint64_t step, const size_t *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        push_everywhere(members[i], step);
        commit(members[i], step);
    }
    for (size_t i = 0; i < count; i++)
        wait_until(&w.commits[members[i]].done);
    step_alone(step, members, count);
    for (size_t i = 0; i < count; i++)
        check_weights(members[i], &w.commits[members[i]]);
}

/* What a first worker planned that was not let in binds nobody: neither a rate that is no number nor another training. */
Test(parameter_server_shard, a_join_that_was_refused_binds_nobody)
{
    const struct options common = {.mode = "sync", .timeout_s = 30};
    float rate;

    open_world(&common);
    rate = w.sgd.rate;
    connect_worker(1);
    w.sgd.rate = NAN;
    join(1);
    for (size_t i = 0; i < SHARDS; i++) {
        wait_until(&w.joins[1][i].done);
        cr_assert_eq(w.joins[1][i].status, SEALANE_INVALID_ARGUMENT);
    }
    w.sgd.rate = rate;
    for (size_t r = 0; r < WORKERS; r++) {
        if (r != 1)
            connect_worker(r);
        join(r);
        enter(r);
    }
    for (size_t r = 0; r < WORKERS; r++)
        wait_until(&w.enters[r].done);
    check_members(&w.enters[0], 0, "");
    close_world();
}

Test(parameter_server_shard, a_worker_that_dies_between_two_pushes_counts_nowhere)
{
    begin_together(30);
    step_together(0, (const size_t[]){0, 1, 2}, 3);
    push_everywhere(0, 1);
    commit(0, 1);
    cr_assert_eq(push(1, 0, 1), SEALANE_OK); /* shard 0 has it, shard 1 never will */
    kill_worker(1);
    cr_assert(!w.commits[0].done, "worker 2 is alive and has not pushed yet");
    push_everywhere(2, 1);
    commit(2, 1);
    wait_until(&w.commits[2].done);
    check_members(&w.commits[2], 2, "02");
    cr_assert_float_eq(w.commits[2].loss, (1.0 + 9.0) / (1 + 3), 1e-12);
    step_alone(1, (const size_t[]){0, 2}, 2);
    check_weights(2, &w.commits[2]);
    step_together(2, (const size_t[]){0, 2}, 2);
    cr_assert_eq(w.shards[0].seats[1].applied, 1);
    cr_assert_eq(w.shards[1].seats[1].applied, 1);
    close_world();
}

Test(parameter_server_shard, a_worker_that_dies_before_its_commit_counts_nowhere)
{
    begin_together(30);
    push_everywhere(1, 0); /* both have it; that is not known */
    kill_worker(1);
    step_together(0, (const size_t[]){0, 2}, 2);
    cr_assert_eq(w.shards[0].seats[1].applied + w.shards[1].seats[1].applied, 0);
    close_world();
}

Test(parameter_server_shard, a_worker_that_dies_after_its_commit_counts_everywhere)
{
    begin_together(30);
    push_everywhere(1, 0);
    commit(1, 0);
    let_it_settle();
    kill_worker(1);
    push_everywhere(0, 0);
    commit(0, 0);
    push_everywhere(2, 0);
    commit(2, 0);
    wait_until(&w.commits[2].done);
    check_members(&w.commits[2], 1, "012");
    step_alone(0, (const size_t[]){0, 1, 2}, 3);
    check_weights(0, &w.commits[2]);
    step_together(1, (const size_t[]){0, 2}, 2);
    close_world();
}

/* Shard 0 has decided, nobody has told shard 1, all are dead: who comes next tells it. */
Test(parameter_server_shard, a_decision_survives_all_who_heard_it)
{
    begin_together(30);
    for (size_t r = 0; r < WORKERS; r++) {
        push_everywhere(r, 0);
        commit(r, 0);
    }
    for (size_t r = 0; r < WORKERS; r++)
        wait_until(&w.commits[r].done);
    for (size_t r = 0; r < WORKERS; r++)
        kill_worker(r);
    cr_assert(w.shards[0].step == 1 && w.shards[1].step == 0);
    connect_worker(2);
    join(2);
    enter(2);
    wait_until(&w.enters[2].done);
    check_members(&w.enters[2], 1, "012");
    step_alone(0, (const size_t[]){0, 1, 2}, 3);
    check_weights(2, &w.enters[2]);
    step_together(1, (const size_t[]){2}, 1);
    close_world();
}

Test(parameter_server_shard, a_worker_that_comes_back_takes_part_again)
{
    begin_together(30);
    step_together(0, (const size_t[]){0, 1, 2}, 3);
    kill_worker(0); /* its first weights are not asked for again */
    step_together(1, (const size_t[]){1, 2}, 2);
    connect_worker(0);
    join(0);
    enter(0);
    wait_until(&w.enters[0].done);
    check_members(&w.enters[0], 2, "12");
    check_weights(0, &w.enters[0]);
    step_together(2, (const size_t[]){0, 1, 2}, 3);
    cr_assert_eq(w.shards[0].seats[0].applied, 2);
    cr_assert_eq(w.shards[1].seats[0].applied, 2);
    close_world();
}

Test(parameter_server_shard, a_worker_that_committed_died_and_came_back_is_not_counted_twice)
{
    begin_together(30);
    push_everywhere(1, 0);
    commit(1, 0);
    let_it_settle();
    kill_worker(1);
    connect_worker(1);
    join(1);
    enter(1);
    let_it_settle();
    cr_assert(!w.enters[1].done, "its gradient of this step is in");
    cr_assert_eq(push(1, 0, 0), SEALANE_ALREADY_EXISTS);
    push_everywhere(0, 0);
    commit(0, 0);
    push_everywhere(2, 0);
    commit(2, 0);
    wait_until(&w.enters[1].done);
    check_members(&w.enters[1], 1, "012");
    step_alone(0, (const size_t[]){0, 1, 2}, 3);
    check_weights(1, &w.enters[1]);
    close_world();
}

Test(parameter_server_shard, refuses_late_and_repeated_pushes_and_commits)
{
    begin_together(30);
    step_together(0, (const size_t[]){0, 1, 2}, 3);
    cr_assert_eq(push(1, 1, 0), SEALANE_FAILED_PRECONDITION);
    cr_assert_not_null(strstr(sealane_last_error()->message, "for step 0, which is over"), "%s",
                       sealane_last_error()->message);
    cr_assert_eq(push(1, 0, 2), SEALANE_FAILED_PRECONDITION, "from the future");
    commit(1, 1);
    wait_until(&w.commits[1].done);
    cr_assert_eq(w.commits[1].status, SEALANE_FAILED_PRECONDITION, "nothing was pushed");
    push_everywhere(1, 1);
    cr_assert_eq(push(1, 0, 1), SEALANE_ALREADY_EXISTS);
    cr_assert_eq(push(1, 1, 1), SEALANE_ALREADY_EXISTS);
    commit(1, 1);
    push_everywhere(0, 1);
    commit(0, 1);
    push_everywhere(2, 1);
    commit(2, 1);
    wait_until(&w.commits[2].done);
    step_alone(1, (const size_t[]){0, 1, 2}, 3);
    check_weights(1, &w.commits[2]);
    check_weights(2, &w.commits[2]); /* heard again, made once */
    close_world();
}

Test(parameter_server_shard, makes_no_step_of_members_that_cannot_be)
{
    static const struct heard lies[] = {
        {.step = 1, .members = {0, 0}, .count = 2},     {.step = 1, .members = {1, 0}, .count = 2},
        {.step = 1, .members = {0, 2}, .count = 2},     {.step = 1, .members = {0, 3}, .count = 2},
        {.step = 1, .members = {1u << 31}, .count = 1}, {.step = 1, .count = 0},
        {.step = 2, .members = {0, 1}, .count = 2},     {.step = 0, .members = {0, 1}, .count = 2}};
    float weights[COUNT];

    begin_together(30);
    push_everywhere(0, 0);
    push_everywhere(1, 0);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
        for (size_t s = 0; s < SHARDS; s++)
            cr_assert_eq(pull(0, s, &lies[i], weights), SEALANE_FAILED_PRECONDITION, "lie %zu", i);
    cr_assert_eq(pull(0, 0, &(struct heard){.step = 1, .members = {0, 1}, .count = 2}, weights),
                 SEALANE_FAILED_PRECONDITION, "shard 0 decides itself");
    cr_assert_eq(pull(0, 0, NULL, weights), SEALANE_INVALID_ARGUMENT);
    check_weights(0, &w.enters[0]);
    close_world();
}

Test(parameter_server_shard, goes_on_without_a_worker_that_stands_still)
{
    begin_together(1);
    push_everywhere(0, 0);
    commit(0, 0);
    push_everywhere(2, 0);
    commit(2, 0);
    wait_until(&w.commits[0].done);
    check_members(&w.commits[0], 1, "02");
    step_alone(0, (const size_t[]){0, 2}, 2);
    check_weights(0, &w.commits[0]);
    wait_until(&w.joins[1][0].done);
    cr_assert_eq(w.joins[1][0].status, SEALANE_DEADLINE_EXCEEDED);
    cr_assert(!w.joins[0][0].done && !w.joins[2][0].done);
    cr_assert_eq(push(1, 0, 1), SEALANE_FAILED_PRECONDITION, "it has no seat");
    close_world();
}

Test(parameter_server_shard, ends_clearly_when_nobody_comes_back)
{
    double until = clock_s() + 5;

    begin_together(1);
    step_together(0, (const size_t[]){0, 1, 2}, 3);
    for (size_t r = 0; r < WORKERS; r++)
        kill_worker(r);
    while (w.shards[0].phase != PHASE_BROKEN || w.shards[1].phase != PHASE_BROKEN) {
        turn_once();
        cr_assert_lt(clock_s(), until);
    }
    cr_assert_str_eq(w.shards[0].why,
                     "all workers left at step 1 of 6, and none came back within 1 s");
    connect_worker(1);
    cr_assert_eq(push(1, 0, 1), SEALANE_ABORTED);
    cr_assert_not_null(strstr(sealane_last_error()->message, "none came back"));
    close_world();
}

Test(parameter_server_shard, who_comes_after_the_last_step_gets_the_result)
{
    begin_together(30);
    for (uint64_t step = 0; step < STEPS; step++)
        step_together(step, (const size_t[]){0, 1, 2}, 3);
    wait_until(&w.joins[1][1].done);
    cr_assert_eq(w.joins[1][1].status, SEALANE_OK);
    cr_assert(w.shards[0].phase == PHASE_DONE && w.shards[1].phase == PHASE_DONE);
    for (size_t i = 0; i < SHARDS; i++)
        sealane_channel_free(w.channels[1][i]);
    connect_worker(1);
    join(1);
    enter(1);
    wait_until(&w.enters[1].done);
    check_weights(1, &w.enters[1]);
    wait_until(&w.joins[1][0].done);
    cr_assert_eq(w.joins[1][0].status, SEALANE_OK);
    cr_assert_eq(push(1, 0, STEPS), SEALANE_FAILED_PRECONDITION);
    close_world();
}

/* ---- asynchronous ---- */

static void begin_apart(uint64_t max_staleness)
{
    const struct options common = {
        .mode = "async", .asynchronous = true, .timeout_s = 30, .max_staleness = max_staleness};

    open_world(&common);
    for (size_t r = 0; r < WORKERS; r++) {
        connect_worker(r);
        join(r);
    }
    for (size_t r = 0; r < WORKERS; r++)
        check_weights(r, NULL);
}

Test(parameter_server_shard, applies_each_asynchronous_gradient_at_once)
{
    begin_apart(10);
    push_everywhere(2, 0);
    apply_alone(2, 0, 0);
    check_weights(0, NULL); /* nobody waited for 0 and 1 */
    push_everywhere(0, 1);
    apply_alone(0, 1, 1);
    push_everywhere(1, 0);
    apply_alone(1, 0, 2);
    check_weights(1, NULL);
    cr_assert_eq(w.shards[0].staleness.sum, 2);
    close_world();
}

Test(parameter_server_shard, refuses_a_gradient_staler_than_the_bound_and_no_other)
{
    begin_apart(2);
    for (uint64_t step = 0; step < 3; step++) {
        push_everywhere(0, step);
        apply_alone(0, step, step);
    }
    cr_assert_eq(push(1, 0, 0), SEALANE_ABORTED); /* 3 steps stale */
    cr_assert_not_null(strstr(sealane_last_error()->message, "3 steps stale, at most 2"), "%s",
                       sealane_last_error()->message);
    check_weights(1, NULL);                  /* unharmed */
    cr_assert_eq(push(1, 0, 1), SEALANE_OK); /* 2 steps stale */
    cr_assert_eq(push(1, 1, 1), SEALANE_OK);
    apply_alone(1, 1, 3);
    check_weights(1, NULL);
    cr_assert_eq(push(1, 0, 5), SEALANE_FAILED_PRECONDITION, "from the future");
    cr_assert(w.shards[0].staleness.most == 2 && w.shards[0].staleness.refused == 1);
    cr_assert(w.shards[1].staleness.most == 2 && w.shards[1].staleness.refused == 0);
    close_world();
}

Test(parameter_server_shard,
     an_asynchronous_training_goes_on_when_workers_die_and_ends_after_its_steps)
{
    begin_apart(10);
    kill_worker(0);
    kill_worker(1);
    for (uint64_t step = 0; step < STEPS; step++) {
        push_everywhere(2, step);
        apply_alone(2, step, step);
    }
    wait_until(&w.joins[2][1].done);
    cr_assert_eq(w.joins[2][1].status, SEALANE_OK);
    push_everywhere(2, STEPS); /* heard, not applied */
    check_weights(2, NULL);
    cr_assert_eq(w.shards[0].seats[2].applied, STEPS);
    close_world();
}

/* ---- weights that are read and changed ---- */

struct pulled {
    bool done;
    float weights[COUNT_MAX / SHARDS];
    uint64_t step;
};

static void heard_weights(struct sealane_call *call, enum sealane_status status,
                          const ParameterServer__V1__PullReply *reply, void *user)
{
    struct pulled *pulled = user;

    cr_assert_eq(status, SEALANE_OK, "%s", sealane_call_message(call));
    cr_assert_eq(reply->weights->data.len, sizeof(pulled->weights));
    memcpy(pulled->weights, reply->weights->data.data, reply->weights->data.len);
    pulled->step = reply->step;
    pulled->done = true;
}

/* Large ones, so that a gradient comes and is applied while replies to several pulls of one lane are on their way. */
Test(parameter_server_shard, weights_that_arrive_are_those_of_one_step)
{
    static struct pulled pulled[4];
    static float before[COUNT_MAX / SHARDS];
    ParameterServer__V1__PullRequest request = PARAMETER_SERVER__V1__PULL_REQUEST__INIT;

    w.count = COUNT_MAX;
    begin_apart(10);
    memcpy(before, w.weights, sizeof(before));
    request.rank = 1;
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(parameter_server_v1_parameter_server_pull__start(
                         w.channels[1][0], &request, NULL, heard_weights, &pulled[i], NULL),
                     SEALANE_OK);
    cr_assert_eq(push(0, 0, 0), SEALANE_OK);
    cr_assert(!pulled[3].done, "the step was made too late to matter");
    for (size_t i = 0; i < 4; i++) {
        wait_until(&pulled[i].done);
        cr_assert_eq(pulled[i].step, 0);
        cr_assert_eq(memcmp(pulled[i].weights, before, sizeof(before)), 0, "pull %zu", i);
    }
    cr_assert_eq(w.shards[0].step, 1);
    close_world();
}

Test(parameter_server_shard, weights_that_are_being_read_are_not_changed)
{
    struct edition *first = edition_new(2), *now = first;

    cr_assert_not_null(first);
    first->values[0] = first->values[1] = 1;
    cr_assert(edition_own(&now) && now == first, "nobody reads it");
    first->readers = 1;
    cr_assert(edition_own(&now) && now != first);
    now->values[0] = 2;
    cr_assert(first->values[0] == 1.0f && now->values[1] == 1.0f);
    cr_assert(edition_own(&now) && now->values[0] == 2.0f);
    first->readers = 0;
    edition_leave(first);
    edition_leave(now);
}
