/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_server_train_test.c - whole trainings, as processes: what they give, and what is said when a part of them dies. */
#include "tests/e2e/parameter_server_process.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WEIGHTS_MAX = 100000,
    ARGUMENTS = 40
};

static struct stage stage;
static char addresses[2][160];

static void begin(void)
{
    char name[24], path[128];

    stage_begin(&stage);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(name, sizeof(name), "shard-%d", i);
        (void)snprintf(addresses[i], sizeof(addresses[i]), "unix:%s",
                       stage_path(&stage, name, path));
    }
}

static void end(void)
{
    stage_end(&stage);
}

TestSuite(parameter_server, .init = begin, .fini = end);

static void check_said(const char *log, const char *text)
{
    cr_assert_not_null(strstr(log_text(&stage, log), text), "no \"%s\" in: %s", text,
                       log_text(&stage, log));
}

/* ---- the same weights as alone ---- */

struct course {
    char shards[4], workers[4], model[8], link[8];
};

static size_t read_weights(const char *name, float *weights)
{
    char path[128];
    FILE *file = fopen(stage_path(&stage, name, path), "rb");
    size_t count;

    cr_assert_not_null(file, "%s was not written", path);
    count = fread(weights, sizeof(float), WEIGHTS_MAX, file);
    (void)fclose(file);
    return count;
}

static void run_training(const struct course *course, bool alone, const char *weights)
{
    char weights_path[128], csv_path[128];
    const char *arguments[ARGUMENTS] = {"--synthetic",
                                        "--hidden",
                                        "24",
                                        "--epochs",
                                        "2",
                                        "--batch",
                                        "50",
                                        "--weights",
                                        stage_path(&stage, weights, weights_path),
                                        "--csv",
                                        stage_path(&stage, "curve.csv", csv_path),
                                        "--shards",
                                        course->shards,
                                        "--workers",
                                        course->workers,
                                        "--model",
                                        course->model,
                                        "--link",
                                        course->link,
                                        "--seed",
                                        "7",
                                        alone ? "--alone" : "--certs",
                                        alone ? NULL : stage.folder,
                                        NULL};

    cr_assert_eq(process_run(&stage, "train.log", "parameter-train", arguments), 0, "%s",
                 log_text(&stage, "train.log"));
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

ParameterizedTestParameters(parameter_server, gives_the_weights_of_a_single_process)
{
    static struct course courses[] = {{"2", "4", "mlp", "local"},
                                      {"3", "3", "softmax", "local"},
                                      {"1", "1", "mlp", "local"},
                                      {"2", "3", "mlp", "tcp"}};

    return cr_make_param_array(struct course, courses, sizeof(courses) / sizeof(courses[0]));
}

ParameterizedTest(struct course *course, parameter_server, gives_the_weights_of_a_single_process)
{
    static float together[WEIGHTS_MAX], alone[WEIGHTS_MAX];
    float greatest = 0, size = 0;
    char carrier[64];
    size_t count;

    run_training(course, true, "alone.f32");
    run_training(course, false, "together.f32");
    (void)snprintf(carrier, sizeof(carrier), "sealed with AES-256-GCM over %s\n", course->link);
    check_said("train.log", carrier);
    cr_assert_eq(lines_of(log_text(&stage, "curve.csv")), 3, "a title and two epochs");
    count = read_weights("alone.f32", alone);
    cr_assert_gt(count, 600);
    cr_assert_eq(read_weights("together.f32", together), count);
    for (size_t i = 0; i < count; i++) {
        greatest = fmaxf(greatest, fabsf(together[i] - alone[i]));
        size = fmaxf(size, fabsf(alone[i]));
    }
    cr_assert_gt(size, 0.1f);
    cr_assert_leq(greatest, 1e-5f, "weights differ by up to %g", (double)greatest);
}

/* ---- parts that die ---- */

static pid_t start_server(int shard, const char *option, const char *value)
{
    char name[16], log[16];
    const char *arguments[ARGUMENTS] = {"--certs",   stage.folder, "--listen",    addresses[shard],
                                        "--shard",   name,         "--of-shards", "2",
                                        "--workers", "2",          "--timeout-s", "30",
                                        option,      value,        NULL};
    pid_t pid;

    (void)snprintf(name, sizeof(name), "%d", shard);
    (void)snprintf(log, sizeof(log), "shard-%d.log", shard);
    pid = process_start(&stage, log, "parameter-server", arguments);
    cr_assert(log_waits_for(&stage, log, "listens at", 10), "%s", log_text(&stage, log));
    return pid;
}

static pid_t start_worker(const char *rank, const char *option, const char *value)
{
    char log[24];
    const char *arguments[ARGUMENTS] = {"--certs",     stage.folder, "--server",    addresses[0],
                                        "--server",    addresses[1], "--rank",      rank,
                                        "--workers",   "2",          "--hidden",    "32",
                                        "--batch",     "40",         "--epochs",    "1000000",
                                        "--timeout-s", "30",         "--synthetic", option,
                                        value,         NULL};

    (void)snprintf(log, sizeof(log), "worker-%s.log", rank);
    return process_start(&stage, log, "parameter-worker", arguments);
}

struct cast {
    pid_t servers[2], workers[2];
};

/* Two shards, two workers, and a training that would take days; it has begun when this returns. */
static struct cast raise_curtain(void)
{
    struct cast cast;

    for (int i = 0; i < 2; i++)
        cast.servers[i] = start_server(i, NULL, NULL);
    cast.workers[0] = start_worker("0", NULL, NULL);
    cast.workers[1] = start_worker("1", NULL, NULL);
    cr_assert(log_waits_for(&stage, "worker-0.log", "epoch 1 ", 30), "%s",
              log_text(&stage, "worker-0.log"));
    return cast;
}

static void stop(pid_t pid)
{
    cr_assert_eq(kill(pid, SIGTERM), 0);
    cr_assert_eq(process_wait(pid, 10), 128 + SIGTERM);
}

Test(parameter_server, names_shard_and_address_of_a_server_that_died)
{
    struct cast cast = raise_curtain();
    char wanted[240];

    cr_assert_eq(kill(cast.servers[1], SIGKILL), 0);
    (void)process_wait(cast.servers[1], 5);
    cr_assert_eq(process_wait(cast.workers[0], 5), 1);
    cr_assert_eq(process_wait(cast.workers[1], 5), 1);
    stop(cast.servers[0]); /* which waits for them to come back */
    (void)snprintf(wanted, sizeof(wanted), "worker 0: shard 1 at %s: ", addresses[1]);
    check_said("worker-0.log", wanted);
    check_said("worker-0.log", "UNAVAILABLE");
}

Test(parameter_server, goes_on_without_a_worker_that_died_and_takes_it_back)
{
    struct cast cast = raise_curtain();

    cr_assert_eq(kill(cast.workers[1], SIGKILL), 0);
    (void)process_wait(cast.workers[1], 5);
    for (int i = 0; i < 2; i++) {
        const char *log = i ? "shard-1.log" : "shard-0.log";

        cr_assert(
            log_waits_for(&stage, log, "worker 1 (uri:spiffe://sealane.test/client) left", 10));
        check_said(log, "; 1 of 2 go on");
    }
    cast.workers[1] = start_worker("1", NULL, NULL);
    cr_assert(log_waits_for(&stage, "shard-1.log", ") came back at step ", 10));
    stop(cast.workers[0]);
    stop(cast.workers[1]);
    stop(cast.servers[0]);
    stop(cast.servers[1]);
}

/* Rank 0 reports, until it cannot. */
Test(parameter_server, another_worker_reports_when_the_first_one_died)
{
    struct cast cast = raise_curtain();

    cr_assert_eq(kill(cast.workers[0], SIGKILL), 0);
    (void)process_wait(cast.workers[0], 5);
    cr_assert(log_waits_for(&stage, "worker-1.log", "epoch ", 20), "%s",
              log_text(&stage, "worker-1.log"));
    stop(cast.workers[1]);
    stop(cast.servers[0]);
    stop(cast.servers[1]);
}

Test(parameter_server, ends_clearly_when_all_workers_died)
{
    struct cast cast = {{start_server(0, "--timeout-s", "1"), start_server(1, "--timeout-s", "1")},
                        {start_worker("0", NULL, NULL), start_worker("1", NULL, NULL)}};

    cr_assert(log_waits_for(&stage, "worker-0.log", "epoch 1 ", 30));
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(kill(cast.workers[i], SIGKILL), 0);
        (void)process_wait(cast.workers[i], 5);
    }
    cr_assert_eq(process_wait(cast.servers[0], 10), 1);
    cr_assert_eq(process_wait(cast.servers[1], 10), 1);
    check_said("shard-0.log", "shard 0: ABORTED: all workers left at step ");
    check_said("shard-1.log", ", and none came back within 1 s");
}

Test(parameter_server, gives_a_worker_up_that_stays_away)
{
    pid_t server = start_server(0, "--timeout-s", "1"), other = start_server(1, "--timeout-s", "1");
    pid_t worker = start_worker("0", NULL, NULL);

    cr_assert_eq(process_wait(worker, 10), 1);
    cr_assert_eq(process_wait(server, 10), 1);
    cr_assert_eq(process_wait(other, 10), 1);
    check_said("worker-0.log", "DEADLINE_EXCEEDED: worker 1 did not join within 1 s");
}

/* A worker that is stopped, not dead: its lane stays up, its gradient does not come. */
Test(parameter_server, goes_on_without_a_worker_that_stands_still)
{
    struct cast cast = {{start_server(0, "--timeout-s", "1"), start_server(1, NULL, NULL)},
                        {start_worker("0", NULL, NULL), start_worker("1", NULL, NULL)}};

    cr_assert(log_waits_for(&stage, "worker-0.log", "epoch 1 ", 30));
    cr_assert_eq(kill(cast.workers[1], SIGSTOP), 0);
    cr_assert(
        log_waits_for(&stage, "shard-0.log", ": it did not commit its gradient within 1 s; ", 10));
    check_said("shard-0.log", "worker 1 (uri:spiffe://sealane.test/client) left at step ");
    cr_assert_eq(kill(cast.workers[1], SIGCONT), 0); /* it hears what happened */
    cr_assert_eq(process_wait(cast.workers[1], 10), 1);
    check_said("worker-1.log", "DEADLINE_EXCEEDED: it did not commit its gradient within 1 s");
    stop(cast.workers[0]);
    stop(cast.servers[0]);
    stop(cast.servers[1]);
}

Test(parameter_server, tells_that_no_server_is_there)
{
    char wanted[240];
    pid_t worker = start_worker("0", "--timeout-s", "1");

    cr_assert_eq(process_wait(worker, 10), 1);
    (void)snprintf(wanted, sizeof(wanted),
                   "shard 0 at %s: connecting: UNAVAILABLE: ", addresses[0]);
    check_said("worker-0.log", wanted);
}

/* ---- what is refused ---- */

Test(parameter_server, refuses_servers_in_the_wrong_order)
{
    pid_t servers[2] = {start_server(0, NULL, NULL), start_server(1, NULL, NULL)};
    const char *arguments[] = {"--certs",   stage.folder, "--server",    addresses[1],
                               "--server",  addresses[0], "--rank",      "0",
                               "--workers", "2",          "--synthetic", NULL};

    cr_assert_eq(process_run(&stage, "worker-0.log", "parameter-worker", arguments), 1);
    check_said("worker-0.log",
               "it is shard 1 of 2 for 2 workers in sync mode, expected shard 0 of 2 for 2");
    stop(servers[0]);
    stop(servers[1]);
}

Test(parameter_server, refuses_a_worker_that_is_not_allowed)
{
    pid_t server = start_server(0, "--allow", "uri:spiffe://sealane.test/worker");
    pid_t worker = start_worker("0", NULL, NULL);

    cr_assert_eq(process_wait(worker, 15), 1);
    check_said("worker-0.log", "UNAUTHENTICATED");
    stop(server);
}

Test(parameter_server, refuses_a_worker_with_another_plan)
{
    pid_t servers[2] = {start_server(0, NULL, NULL), start_server(1, NULL, NULL)};
    pid_t workers[2] = {start_worker("0", NULL, NULL)};

    cr_assert(log_waits_for(&stage, "worker-0.log", "training an mlp", 10));
    cr_assert(log_waits_for(&stage, "worker-0.log", "lane to shard 1: peer ", 10));
    check_said("worker-0.log", "; data sealed with AES-256-GCM, link local");
    (void)usleep(200000); /* worker 0's joins arrive first: whoever joins second is refused */
    workers[1] = start_worker("1", "--momentum", "0.8");
    cr_assert_eq(process_wait(workers[1], 15), 1);
    check_said("worker-1.log", "INVALID_ARGUMENT: rank 1 plans another training");
    stop(workers[0]);
    stop(servers[0]);
    stop(servers[1]);
}

Test(parameter_server, refuses_a_worker_of_the_other_mode)
{
    pid_t servers[2] = {start_server(0, NULL, NULL), start_server(1, NULL, NULL)};

    cr_assert_eq(process_wait(start_worker("0", "--mode", "async"), 15), 1);
    check_said("worker-0.log", "2 workers in sync mode, expected shard 0 of 2 for 2 in async mode");
    stop(servers[0]);
    stop(servers[1]);
}

/* ---- whole trainings in which workers die ---- */

/* Starts parameter-train on the built-in set; it has begun when this returns. */
static pid_t start_short_training(const char *option, const char *another)
{
    char csv[128];
    const char *arguments[ARGUMENTS] = {
        "--certs", stage.folder,  "--synthetic", "--hidden", "32",
        "--batch", "40",          "--epochs",    "16",       "--workers",
        "3",       "--timeout-s", "30",          "--csv",    stage_path(&stage, "curve.csv", csv),
        option,    another,       NULL};
    pid_t pid = process_start(&stage, "train.log", "parameter-train", arguments);

    cr_assert(log_waits_for(&stage, "train.log", "epoch 1", 30), "%s",
              log_text(&stage, "train.log"));
    return pid;
}

/* A worker's own options follow those that it was handed down, the last of which is `option` with `value`, unless NULL. */
struct handed {
    const char *option, *value;
};
static void signal_worker(struct handed last, char rank, int number)
{
    char path[128], wanted[200];
    int bytes =
        snprintf(wanted, sizeof(wanted), "%s%c", stage_path(&stage, "curve.csv", path), '\0');

    if (last.option)
        bytes += snprintf(wanted + bytes, sizeof(wanted) - (size_t)bytes, "%s%c%s%c", last.option,
                          '\0', last.value, '\0');
    bytes +=
        snprintf(wanted + bytes, sizeof(wanted) - (size_t)bytes, "--rank%c%c%c", '\0', rank, '\0');
    cr_assert_eq(kill(process_with(wanted, (size_t)bytes), number), 0);
}

static void kill_worker_of_training(const char *link, char rank)
{
    signal_worker((struct handed){link ? "--link" : NULL, link}, rank, SIGKILL);
}

/* A number that follows `text` in the log. */
static double number_after(const char *log, const char *text)
{
    const char *at = strstr(log_text(&stage, log), text);

    cr_assert_not_null(at, "no \"%s\" in: %s", text, log_text(&stage, log));
    return strtod(at + strlen(text), NULL);
}

ParameterizedTestParameters(parameter_server, a_training_ends_well_although_a_worker_was_killed)
{
    static struct course courses[] = {{.link = "local"}, {.link = "tcp"}};

    return cr_make_param_array(struct course, courses, sizeof(courses) / sizeof(courses[0]));
}

ParameterizedTest(struct course *course, parameter_server,
                  a_training_ends_well_although_a_worker_was_killed)
{
    pid_t pid = start_short_training("--link", course->link);
    double dead;

    kill_worker_of_training(course->link, '1');
    cr_assert_eq(process_wait(pid, 40), 0, "%s", log_text(&stage, "train.log"));
    check_said("train.log", "worker 1 was killed by signal 9 (Killed)");
    check_said("train.log", "the training goes on without worker 1");
    check_said("train.log", "step 800 of 800; gradients applied: worker 0 800, worker 1 ");
    dead = number_after("train.log", "gradients applied: worker 0 800, worker 1 ");
    cr_assert(dead >= 50 && dead < 800, "%g gradients of the worker that died", dead);
    cr_assert_gt(number_after("train.log", "result: test accuracy "), 0.85);
    cr_assert_eq(lines_of(log_text(&stage, "curve.csv")), 17, "a title and every epoch");
}

Test(parameter_server, a_worker_that_is_started_again_takes_part_again)
{
    pid_t pid = start_short_training("--restart", "1");
    double left, applied;

    kill_worker_of_training(NULL, '0');
    cr_assert_eq(process_wait(pid, 40), 0, "%s", log_text(&stage, "train.log"));
    check_said("train.log", "worker 0 is started again (1 of 1)");
    left = number_after("train.log", "worker 0 (uri:spiffe://sealane.test/client) left at step ");
    check_said("train.log", "worker 0 (uri:spiffe://sealane.test/client) came back at step ");
    applied = number_after("train.log", "gradients applied: worker 0 ");
    cr_assert(applied > left + 1 && applied <= 800, "%g gradients, of which %g before it died",
              applied, left);
    cr_assert_gt(number_after("train.log", "result: test accuracy "), 0.85);
}

/* It is given up, and when all is done nobody waits for it. */
Test(parameter_server, a_training_ends_although_a_worker_was_stopped)
{
    pid_t pid = start_short_training("--timeout-s", "1");

    signal_worker((struct handed){"--timeout-s", "1"}, '1', SIGSTOP);
    cr_assert_eq(process_wait(pid, 60), 0, "%s", log_text(&stage, "train.log"));
    check_said("train.log", "it did not commit its gradient within 1 s");
    check_said("train.log", "worker 1 has not ended with the training: it is ended");
    cr_assert_gt(number_after("train.log", "result: test accuracy "), 0.85);
}

Test(parameter_server, a_training_without_any_worker_fails)
{
    pid_t pid = start_short_training("--link", "tcp");

    for (char rank = '0'; rank < '3'; rank++)
        kill_worker_of_training("tcp", rank);
    cr_assert_eq(process_wait(pid, 15), 1);
    check_said("train.log", "no worker is left");
}

/* ---- asynchronous ---- */

Test(parameter_server, asynchronous_training_learns_as_well)
{
    pid_t pid = start_short_training("--mode", "async");

    cr_assert_eq(process_wait(pid, 40), 0, "%s", log_text(&stage, "train.log"));
    check_said("train.log", "step 2400 of 2400; gradients applied: worker 0 ");
    cr_assert_leq(number_after("train.log", ", most "), 32);
    cr_assert_gt(number_after("train.log", "result: test accuracy "), 0.85);
}

Test(parameter_server, gradients_that_are_refused_as_stale_do_no_harm)
{
    pid_t pid = start_short_training("--mode=async", "--max-staleness=1");

    cr_assert_eq(process_wait(pid, 40), 0, "%s", log_text(&stage, "train.log"));
    check_said("train.log", ", most 1, refused ");
    cr_assert_gt(number_after("train.log", ", refused "), 0);
    cr_assert_gt(number_after("train.log", "result: test accuracy "), 0.85);
}

/* ---- throughput ---- */

Test(parameter_server, tells_how_fast_tensors_of_64_MiB_travel)
{
    const char *arguments[] = {"--certs",   stage.folder, "--shape", "throughput", "--steps",
                               "1",         "--test",     "4",       "--shards",   "1",
                               "--workers", "2",          NULL};

    cr_assert_eq(process_run(&stage, "train.log", "parameter-train", arguments), 0, "%s",
                 log_text(&stage, "train.log"));
    check_said("train.log", "worker 1: pushed 64.0 MiB at ");
    check_said("train.log", "throughput: tensors of 64.0 MiB, all workers together: pushes ");
    cr_assert_gt(number_after("train.log", "all workers together: pushes "), 0.01);
}

/* ---- stopping ---- */

static pid_t start_training(void)
{
    const char *arguments[] = {"--certs",  stage.folder, "--synthetic", "--hidden", "32",
                               "--epochs", "1000000",    "--batch",     "40",       NULL};
    pid_t pid = process_start(&stage, "train.log", "parameter-train", arguments);

    cr_assert(log_waits_for(&stage, "train.log", "epoch 1 ", 30), "%s",
              log_text(&stage, "train.log"));
    return pid;
}

/* The folder of the sockets, which all children have in their command lines. */
static void street_of(char folder[64])
{
    const char *from = strstr(log_text(&stage, "train.log"), "/tmp/parameter-train-");

    cr_assert_not_null(from);
    (void)snprintf(folder, 64, "%.*s", (int)strlen("/tmp/parameter-train-XXXXXX"), from);
    cr_assert_eq(processes_with(folder), 6, "two servers and four workers");
}

static void check_interrupted(pid_t pid, pid_t whom, int number)
{
    char folder[64];

    street_of(folder);
    cr_assert_eq(kill(whom, number), 0);
    cr_assert_eq(process_wait(pid, 15), 128 + number, "%s", log_text(&stage, "train.log"));
    check_said("train.log", "interrupted at step ");
    check_said("train.log", ": test accuracy 0.");
    cr_assert_eq(processes_with(folder), 0, "a process was left behind");
    cr_assert_neq(access(folder, F_OK), 0, "%s was left behind", folder);
}

Test(parameter_server, stops_cleanly_when_the_terminal_interrupts_all)
{
    pid_t pid = start_training();

    check_interrupted(pid, -pid, SIGINT);
}

Test(parameter_server, stops_cleanly_when_it_alone_is_terminated)
{
    pid_t pid = start_training();

    check_interrupted(pid, pid, SIGTERM);
}

Test(parameter_server, stops_cleanly_when_its_terminal_goes_away)
{
    pid_t pid = start_training();

    check_interrupted(pid, -pid, SIGHUP);
}

Test(parameter_server, tells_once_that_the_data_is_missing)
{
    const char *arguments[] = {"--certs", stage.folder, "--data", stage.folder, NULL};

    cr_assert_eq(process_run(&stage, "train.log", "parameter-train", arguments), 1);
    check_said("train.log", "/train-images-idx3-ubyte: No such file or directory");
    cr_assert_eq(lines_of(log_text(&stage, "train.log")), 1);
}

Test(parameter_server, refuses_a_built_in_set_beside_files)
{
    const char *arguments[] = {"--certs", stage.folder, "--synthetic", "--data", "/tmp", NULL};

    cr_assert_eq(process_run(&stage, "train.log", "parameter-train", arguments), 2);
    check_said("train.log", "--synthetic and data files exclude each other");
}

Test(parameter_server, leaves_no_process_when_it_is_killed)
{
    pid_t pid = start_training();
    char folder[64], path[128];

    street_of(folder);
    cr_assert_eq(kill(pid, SIGKILL), 0);
    cr_assert_eq(process_wait(pid, 5), -SIGKILL);
    for (int tries = 0; tries < 400 && processes_with(folder) > 0; tries++)
        (void)usleep(10000);
    cr_assert_eq(processes_with(folder), 0, "a process was left behind");
    for (int i = 0; i < 2; i++) { /* what a killed process cannot tidy */
        (void)snprintf(path, sizeof(path), "%s/shard-%d", folder, i);
        (void)unlink(path);
    }
    cr_assert_eq(rmdir(folder), 0);
}

Test(parameter_server, names_the_process_that_failed)
{
    pid_t pid = start_training();
    char folder[64], listen[100];

    street_of(folder);
    (void)snprintf(listen, sizeof(listen), "--listen%cunix:%s/shard-1", '\0', folder);
    cr_assert_eq(kill(process_with(listen, strlen("--listen") + 1 + strlen(listen + 9)), SIGKILL),
                 0);
    cr_assert_eq(process_wait(pid, 15), 1);
    check_said("train.log", "shard 1 was killed by signal 9 (Killed)");
    check_said("train.log", "/shard-1: ");
    cr_assert_eq(processes_with(folder), 0, "a process was left behind");
}
