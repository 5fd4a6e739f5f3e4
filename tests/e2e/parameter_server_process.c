/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_server_process.c - fork, exec, wait with a limit, and reading of logs. */
#include "tests/e2e/parameter_server_process.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ARGUMENTS_MAX = 64,
    RUN_S = 60
};

static void nap(void)
{
    const struct timespec pause = {.tv_nsec = 5000000};

    (void)nanosleep(&pause, NULL);
}

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *stage_path(const struct stage *stage, const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", stage->folder, name);
    return path;
}

/* In the child: exit statuses only, no assertions. */
static _Noreturn void become(const char *program, const char *const *arguments, const char *output)
{
    const char *argv[ARGUMENTS_MAX] = {program};
    int out = open(output, O_WRONLY | O_CREAT | O_APPEND, 0600);

    for (size_t i = 0; arguments[i] && i + 2 < ARGUMENTS_MAX; i++)
        argv[i + 1] = arguments[i];
    (void)setpgid(0, 0);
    if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(126);
    (void)execv(program, (char *const *)argv);
    _exit(127);
}

static pid_t start(const char *program, const char *const *arguments, const char *output)
{
    pid_t pid = fork();

    if (pid == 0)
        become(program, arguments, output);
    cr_assert_gt(pid, 0, "fork failed");
    (void)setpgid(pid, pid); /* whoever comes first */
    return pid;
}

void stage_begin(struct stage *stage)
{
    const char *arguments[] = {stage->folder, NULL};
    char log[128];

    *stage = (struct stage){.folder = "/tmp/sealane-e2e-XXXXXX"};
    cr_assert_not_null(mkdtemp(stage->folder));
    cr_assert_eq(process_wait(start(SEALANE_SOURCE_DIR "/tools/make-certs.sh", arguments,
                                    stage_path(stage, "certs.log", log)),
                              RUN_S),
                 0, "tools/make-certs.sh failed: %s", log_text(stage, "certs.log"));
}

void stage_end(struct stage *stage)
{
    DIR *folder = opendir(stage->folder);
    const struct dirent *entry;

    cr_assert_not_null(folder);
    while ((entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(folder), entry->d_name, 0);
    (void)closedir(folder);
    cr_assert_eq(rmdir(stage->folder), 0);
}

pid_t process_start(const struct stage *stage, const char *log, const char *program,
                    const char *const *arguments)
{
    char path[128], binary[512];

    (void)snprintf(binary, sizeof(binary), "%s/%s", SEALANE_BIN_DIR, program);
    return start(binary, arguments, stage_path(stage, log, path));
}

int process_wait(pid_t pid, double seconds)
{
    double until = now_s() + seconds;
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_s() > until) {
            (void)kill(-pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            return PROCESS_LATE;
        }
        nap();
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int process_run(const struct stage *stage, const char *log, const char *program,
                const char *const *arguments)
{
    return process_wait(process_start(stage, log, program, arguments), RUN_S);
}

const char *log_text(const struct stage *stage, const char *log)
{
    static char text[1 << 18];
    char path[128];
    FILE *file = fopen(stage_path(stage, log, path), "r");
    size_t bytes = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    if (file)
        (void)fclose(file);
    text[bytes] = '\0';
    cr_assert(!strstr(text, "Sanitizer") && !strstr(text, "runtime error"), "%s: %s", log, text);
    return text;
}

bool log_waits_for(const struct stage *stage, const char *log, const char *text, double seconds)
{
    double until = now_s() + seconds;

    while (!strstr(log_text(stage, log), text)) {
        if (now_s() > until)
            return false;
        nap();
    }
    return true;
}

static bool command_line_holds(const char *pid, const char *wanted, size_t count)
{
    char path[300], line[4096];
    FILE *file;
    size_t bytes;

    (void)snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
    file = fopen(path, "r");
    if (!file)
        return false;
    bytes = fread(line, 1, sizeof(line), file);
    (void)fclose(file);
    return memmem(line, bytes, wanted, count) != NULL;
}

/* How many there are, and the last of them. */
static size_t find(const char *wanted, size_t count, pid_t *last)
{
    DIR *all = opendir("/proc");
    const struct dirent *entry;
    size_t found = 0;

    cr_assert_not_null(all);
    while ((entry = readdir(all)) != NULL) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
            !command_line_holds(entry->d_name, wanted, count))
            continue;
        found++;
        *last = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    (void)closedir(all);
    return found;
}

size_t processes_with(const char *text)
{
    pid_t last;

    return find(text, strlen(text), &last);
}

pid_t process_with(const char *bytes, size_t count)
{
    pid_t last;

    cr_assert_eq(find(bytes, count, &last), 1);
    return last;
}
