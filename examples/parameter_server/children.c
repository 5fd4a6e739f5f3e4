/* SPDX-License-Identifier: Apache-2.0 */
/* children.c - fork, exec, and a loop on signals. */
#include "children.h"

#include "trainer.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ARGUMENTS_MAX = OPTIONS_ARGUMENTS_MAX + 2,
    WORDS_S = 2,    /* after a failure the others may say what they saw … */
    PATIENCE_S = 5, /* … then, asked to end, they have this long */
    LATE_S = 10,    /* after the last server ended well, workers have this long */
    TICK_MS = 200
};

static void watched(sigset_t *set)
{
    struct sigaction old;

    (void)sigemptyset(set);
    (void)sigaddset(set, SIGCHLD);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    /* nohup's ignored one would come out of sigtimedwait all the same */
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        (void)sigaddset(set, SIGHUP);
}

bool children_new(size_t max, struct children *children)
{
    sigset_t set;

    *children = (struct children){.all = calloc(max, sizeof(struct child)), .max = max};
    watched(&set);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return children->all != NULL;
}

static bool beside_this(const char *program, char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    char *slash;

    if (length <= 0)
        return false;
    path[length] = '\0';
    slash = strrchr(path, '/');
    if (!slash || strlen(program) + 1 >= (size_t)(path + PATH_MAX - slash))
        return false;
    memcpy(slash + 1, program, strlen(program) + 1);
    return true;
}

/* In the child. The terminal's SIGINT and SIGHUP go to the whole group; the parent decides what they mean. */
static _Noreturn void become(const char *path, char *const *argv, pid_t parent)
{
    sigset_t none;

    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
        (void)execv(path, argv);
    (void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

/* The place of that name, or a new one; NULL when there is none. */
static struct child *place_of(struct children *children, const char *name)
{
    for (size_t i = 0; i < children->count; i++)
        if (strcmp(children->all[i].name, name) == 0)
            return &children->all[i];
    if (children->count == children->max)
        return NULL;
    (void)snprintf(children->all[children->count].name, sizeof(children->all->name), "%s", name);
    return &children->all[children->count++];
}

struct child *children_start(struct children *children, const char *name, const char *program,
                             const char *const *arguments)
{
    struct child *child = place_of(children, name);
    const char *argv[ARGUMENTS_MAX] = {program};
    char path[PATH_MAX];
    pid_t parent = getpid();
    size_t count = 1;

    for (; arguments[count - 1] && count + 1 < ARGUMENTS_MAX; count++)
        argv[count] = arguments[count - 1];
    if (!child || !beside_this(program, path)) {
        (void)fprintf(stderr, "%s: cannot find %s beside this program\n", name, program);
        return NULL;
    }
    child->pid = fork();
    if (child->pid == 0)
        become(path, (char *const *)argv, parent);
    if (child->pid < 0) {
        (void)fprintf(stderr, "%s: cannot fork: %s\n", name, strerror(errno));
        child->pid = 0;
        return NULL;
    }
    children->running++;
    return child;
}

static void signal_all(const struct children *children, int number)
{
    for (size_t i = children->count; i > 0; i--) /* workers first: they started last */
        if (children->all[i - 1].pid > 0)
            (void)kill(children->all[i - 1].pid, number);
}

/* True when a child ended that should not have. */
static bool judge(struct child *child, int status, bool expected)
{
    child->succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (child->succeeded)
        return false;
    if (expected)
        return true;
    if (WIFSIGNALED(status))
        (void)fprintf(stderr, "%s was killed by signal %d (%s)\n", child->name, WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    else
        (void)fprintf(stderr, "%s failed with exit status %d\n", child->name, WEXITSTATUS(status));
    return true;
}

struct loss {
    children_lost *lost;
    void *user;
};

/* True when the child's end ends everything. */
static bool bury(struct child *child, int status, bool expected, const struct loss *loss)
{
    child->pid = 0;
    return judge(child, status, expected) &&
           (expected || !child->expendable || !loss->lost(loss->user, child));
}

static bool reap(struct children *children, bool expected, const struct loss *loss)
{
    bool failed = false;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < children->count; i++) {
            if (children->all[i].pid != pid)
                continue;
            children->running--;
            failed |= bury(&children->all[i], status, expected || failed, loss);
            break; /* its place may have been taken again */
        }
    }
    return failed;
}

/* Asks at ask_s, insists at insist_s; each once. */
static void press(const struct children *children, double *ask_s, double *insist_s)
{
    double now = clock_s();

    if (*ask_s > 0 && now >= *ask_s) {
        signal_all(children, SIGTERM);
        *ask_s = 0;
    }
    if (*insist_s > 0 && now >= *insist_s) {
        signal_all(children, SIGKILL);
        *insist_s = 0;
    }
}

/* Nothing is left that the others work for. */
static bool servers_are_over(const struct children *children)
{
    for (size_t i = 0; i < children->count; i++)
        if (!children->all[i].expendable && children->all[i].pid > 0)
            return false;
    return true;
}

static void tell_stragglers(const struct children *children)
{
    for (size_t i = 0; i < children->count; i++)
        if (children->all[i].pid > 0)
            (void)fprintf(stderr, "%s has not ended with the training: it is ended\n",
                          children->all[i].name);
}

int children_wait(struct children *children, children_lost *lost, void *user)
{
    const struct loss loss = {lost, user};
    const struct timespec tick = {.tv_nsec = TICK_MS * 1000000L};
    double ask_s = 0, insist_s = 0;
    double late_s = 0; /* when those that a stopped process keeps waiting for are ended */
    bool failed = false, late = false;
    int stopped = 0;
    sigset_t set;

    watched(&set);
    while (children->running > 0) {
        int number = sigtimedwait(&set, NULL, &tick);

        if (number > 0 && number != SIGCHLD && !stopped) {
            stopped = number;
            ask_s = clock_s();
            insist_s = ask_s + PATIENCE_S;
        }
        if (reap(children, failed || stopped || late, &loss) && !failed && !stopped && !late) {
            failed = true;
            ask_s = clock_s() + WORDS_S;
            insist_s = ask_s + PATIENCE_S;
        }
        if (late_s == 0 && servers_are_over(children))
            late_s = clock_s() + LATE_S;
        if (late_s > 0 && !late && !failed && !stopped && clock_s() >= late_s) {
            late = true;
            tell_stragglers(children);
            ask_s = clock_s();
            insist_s = ask_s + PATIENCE_S;
        }
        press(children, &ask_s, &insist_s);
    }
    return stopped ? 128 + stopped : failed;
}

void children_free(struct children *children)
{
    signal_all(children, SIGKILL);
    while (children->running > 0 && waitpid(-1, NULL, 0) > 0)
        children->running--;
    free(children->all);
    *children = (struct children){0};
}
