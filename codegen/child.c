/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - see child.h. */
#include "codegen/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_BYTES_MAX ((size_t)1 << 30)
#define READ_BYTES       ((size_t)64 << 10)

extern char **environ;

/* ---- finding ---- */

static const char *executable(struct sl_arena *arena, const char *directory, size_t length,
                              const char *name)
{
    const char *path = length ? sl_arena_print(arena, "%.*s/%s", (int)length, directory, name)
                              : sl_arena_print(arena, "./%s", name);
    return access(path, X_OK) == 0 ? path : NULL;
}

const char *sl_child_find(struct sl_arena *arena, const char *name)
{
    const char *list = getenv("PATH");
    const char *found = NULL;
    while (list && !found) {
        size_t length = strcspn(list, ":");
        found = executable(arena, list, length, name);
        list = list[length] ? list + length + 1 : NULL;
    }
    return found;
}

const char *sl_child_beside(struct sl_arena *arena, const char *program, const char *name)
{
    char *real = realpath(program, NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;
    const char *found = slash ? executable(arena, real, (size_t)(slash - real), name) : NULL;
    free(real);
    return found;
}

/* ---- running ---- */

struct child {
    pid_t pid;
    int to;   /* -1: closed */
    int from; /* -1: closed */
};

static void close_end(int *end)
{
    if (*end >= 0)
        close(*end);
    *end = -1;
}

static int spawn(const char *program, const int to[2], const int from[2], pid_t *pid_p)
{
    char *arguments[] = {(char *)program, NULL};
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    if (!error)
        error = posix_spawn(pid_p, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* 0 or errno. */
static int start(const char *program, struct child *child)
{
    int to[2] = {-1, -1};
    int from[2] = {-1, -1};
    int error = pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0 ? errno : 0;
    if (!error)
        error = spawn(program, to, from, &child->pid);
    if (!error && fcntl(to[1], F_SETFL, O_NONBLOCK) != 0)
        error = errno;
    close_end(&to[0]);
    close_end(&from[1]);
    if (error) {
        close_end(&to[1]);
        close_end(&from[0]);
    }
    child->to = to[1];
    child->from = from[0];
    return error;
}

static void feed(struct child *child, struct sl_child_input *input)
{
    ssize_t count = write(child->to, input->data, input->bytes);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (count > 0) {
        input->data += count;
        input->bytes -= (size_t)count;
    }
    /* A child that stopped reading ends by itself and says why; its exit status is judged, not the pipe's. */
    if (count < 0 || input->bytes == 0)
        close_end(&child->to);
}

static void drain(struct child *child, struct sl_text *output)
{
    ssize_t count = read(child->from, sl_text_room(output, READ_BYTES), READ_BYTES);
    if (count < 0 && errno == EINTR)
        return;
    if (count > 0)
        output->length += (size_t)count;
    if (count <= 0 || output->length > OUTPUT_BYTES_MAX)
        close_end(&child->from);
}

static void exchange(struct child *child, struct sl_child_input input, struct sl_text *output)
{
    while (child->from >= 0) {
        struct pollfd ends[] = {{.fd = child->from, .events = POLLIN},
                                {.fd = child->to, .events = POLLOUT}};
        if (poll(ends, 2, -1) < 0 && errno != EINTR)
            break;
        if (ends[1].revents)
            feed(child, &input);
        if (ends[0].revents)
            drain(child, output);
    }
    close_end(&child->to);
    close_end(&child->from);
}

static const char *judge(struct sl_arena *arena, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return sl_arena_print(arena, "was lost: %s", strerror(errno));
    }
    if (WIFSIGNALED(status))
        return sl_arena_print(arena, "died of signal %d (%s)", WTERMSIG(status),
                              strsignal(WTERMSIG(status)));
    return WEXITSTATUS(status) ? sl_arena_print(arena, "ended with status %d", WEXITSTATUS(status))
                               : NULL;
}

const char *sl_child_run(const char *program, struct sl_child_input input, struct sl_text *output)
{
    struct child child;
    /* Writing to a child that died must be an error of write, not the end of us. */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    int error = start(program, &child);
    const char *why = NULL;
    if (error) {
        why = sl_arena_print(output->arena, "(%s) does not start: %s", program, strerror(error));
    } else {
        exchange(&child, input, output);
        why = judge(output->arena, child.pid);
    }
    if (!why && output->length > OUTPUT_BYTES_MAX)
        why = "answered with more than 1 GiB";
    signal(SIGPIPE, before);
    return why;
}
