/* SPDX-License-Identifier: Apache-2.0 */
/* children.h - the processes of a training: started, watched, ended. None outlives the parent. */
#ifndef PARAMETER_SERVER_CHILDREN_H
#define PARAMETER_SERVER_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct child {
    char name[32]; /* "shard 0", "worker 3" */
    pid_t pid;     /* 0: ended */
    bool expendable;
    bool succeeded; /* ended well */
};

struct children {
    struct child *all;
    size_t count, max;
    size_t running;
};

/* Room for `max`. From here on SIGCHLD, SIGINT and SIGTERM are taken by children_wait only. */
bool children_new(size_t max, struct children *children);

/* Starts `program`, a file beside this one, with arguments (argv[0] is added; NULL-terminated); in the place of the child of that name when there
 * was one, which has ended. The child, which ends when this process does; NULL, and a line that says why, when it cannot. */
struct child *children_start(struct children *children, const char *name, const char *program,
                             const char *const *arguments);

/* An expendable child failed: can the others go on? May start it again. */
typedef bool children_lost(void *user, const struct child *child);

/* Waits until all children ended. One that fails and cannot be spared, or a signal, has the others asked to end, then made to. Says who failed
 * and how. Returns main's status: 0, 1, or 128 + the signal. */
int children_wait(struct children *children, children_lost *lost, void *user);

/* Ends what still runs. */
void children_free(struct children *children);

#endif
