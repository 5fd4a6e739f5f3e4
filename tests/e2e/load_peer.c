/* SPDX-License-Identifier: Apache-2.0 */
/* load_peer.c - load-process spawned and told, and the footprint of this process. posix_spawn, as a test's process has threads. */
#include "tests/e2e/load_peer.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
/* As sanitizer/allocator_interface.h has it, which gcc's package lacks. */
size_t __sanitizer_get_current_allocated_bytes(void);

/* What was freed would else stay resident until there are 256 MiB of it. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}

static long heap_bytes(void)
{
    return (long)__sanitizer_get_current_allocated_bytes();
}
#else
#include <malloc.h>

static long heap_bytes(void)
{
    return (long)mallinfo2().uordblks;
}
#endif

extern char **environ;

struct peer peer_spawn(const char *mode, const char *address, const char *link,
                       uint32_t dead_after_ms)
{
    char dead_after[16];
    const char *const arguments[] = {
        SEALANE_BIN_DIR "/load-process", mode, address, link, dead_after, NULL};
    posix_spawn_file_actions_t actions;
    struct peer peer;
    int in[2], out[2];

    (void)snprintf(dead_after, sizeof(dead_after), "%u", dead_after_ms);
    cr_assert_eq(pipe2(in, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
    cr_assert_eq(posix_spawn_file_actions_init(&actions), 0);
    cr_assert_eq(posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO), 0);
    cr_assert_eq(posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO), 0);
    cr_assert_eq(posix_spawn(&peer.pid, arguments[0], &actions, NULL,
                             (char *const *)(uintptr_t)arguments, environ),
                 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(in[0]);
    (void)close(out[1]);
    peer.in = in[1];
    peer.out = out[0];
    (void)signal(SIGPIPE, SIG_IGN); /* who is told may be dead */
    return peer;
}

bool peer_say(const struct peer *peer, char what)
{
    return write(peer->in, &what, 1) == 1;
}

int peer_hear(const struct peer *peer, int timeout_ms)
{
    struct pollfd fd = {.fd = peer->out, .events = POLLIN};
    unsigned char what;

    if (poll(&fd, 1, timeout_ms) != 1 || read(peer->out, &what, 1) != 1)
        return -1;
    return what;
}

int peer_ask(const struct peer *peer, char what)
{
    int answer;

    cr_assert(peer_say(peer, what));
    answer = peer_hear(peer, 15000);
    cr_assert_geq(answer, 0, "no answer to '%c'", what);
    return answer;
}

void peer_signal(const struct peer *peer, int signal)
{
    cr_assert_eq(kill(peer->pid, signal), 0);
}

static int gone(struct peer *peer)
{
    int status = 0;
    pid_t pid;

    do
        pid = waitpid(peer->pid, &status, 0);
    while (pid < 0 && errno == EINTR);
    cr_assert_eq(pid, peer->pid);
    (void)close(peer->out);
    peer->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void peer_kill(struct peer *peer)
{
    peer_signal(peer, SIGKILL);
    cr_assert_eq(gone(peer), -SIGKILL);
    (void)close(peer->in);
}

int peer_end(struct peer *peer)
{
    (void)close(peer->in);
    return gone(peer);
}

/* ---- footprint ---- */

static long entries(const char *path, const char *containing)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    long count = 0;

    if (!folder)
        return 0;
    while ((entry = readdir(folder)) != NULL)
        count += strstr(entry->d_name, containing) != NULL && entry->d_name[0] != '.';
    (void)closedir(folder);
    return count;
}

/* Each mapping once: the kernel tells of one in parts where large pages are wished for some of it only. */
static long maps_with(const char *text)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    long count = 0;

    cr_assert_not_null(maps);
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, text) && strstr(line, " 00000000 ");
    (void)fclose(maps);
    return count;
}

static long resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long all, resident;

    cr_assert_not_null(file);
    cr_assert_eq(fscanf(file, "%ld %ld", &all, &resident), 2);
    (void)fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

struct footprint footprint_now(void)
{
    return (struct footprint){.fds = entries("/proc/self/fd", "") - 1, /* but for this look */
                              .shared_maps = maps_with("/memfd:"),
                              .heap_bytes = heap_bytes(),
                              .resident_bytes = resident_bytes()};
}

static bool holds_the_same(const struct footprint *a, const struct footprint *b)
{
    return a->fds == b->fds && a->shared_maps == b->shared_maps;
}

struct footprint footprint_quiet(void)
{
    struct footprint now = footprint_now(), last;

    for (int tries = 0, same = 0; tries < 100 && same < 3; tries++) {
        last = now;
        load_rest_ms(10);
        now = footprint_now();
        same = holds_the_same(&now, &last) ? same + 1 : 0;
    }
    return now;
}

long footprint_files(void)
{
    return entries("/dev/shm", "sealane") + entries("/tmp", "sealane-load");
}
