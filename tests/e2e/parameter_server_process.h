/* SPDX-License-Identifier: Apache-2.0 */
/* parameter_server_process.h - runs the built programs as a user would: real processes, real certificates, judged by exit status and
 * by what they printed. */
#ifndef PARAMETER_SERVER_PROCESS_H
#define PARAMETER_SERVER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A folder of this test alone: certificates made by tools/make-certs.sh, sockets, logs. */
struct stage {
    char folder[64];
};
void stage_begin(struct stage *stage);
void stage_end(struct stage *stage);

/* "<folder>/<name>" */
const char *stage_path(const struct stage *stage, const char *name, char path[128]);

/* Starts bin/<program> with arguments (NULL-terminated) in a process group of its own; both outputs go to the file `log` of
 * the stage. It is killed when this process ends. */
pid_t process_start(const struct stage *stage, const char *log, const char *program,
                    const char *const *arguments);

enum {
    PROCESS_LATE = -1000
};

/* Exit status; or minus the signal that ended it; PROCESS_LATE, and it is killed, when it took longer than `seconds`. */
int process_wait(pid_t pid, double seconds);

/* Both, for what ends by itself. */
int process_run(const struct stage *stage, const char *log, const char *program,
                const char *const *arguments);

/* What was printed so far; valid until the next call. Fails the test when a sanitizer spoke. */
const char *log_text(const struct stage *stage, const char *log);

/* True as soon as the log holds `text`; false after `seconds`. */
bool log_waits_for(const struct stage *stage, const char *log, const char *text, double seconds);

/* Running processes whose command line holds `text`. */
size_t processes_with(const char *text);

/* The one whose command line holds these bytes; its arguments are separated by NULs. */
pid_t process_with(const char *bytes, size_t count);

#endif
