/* SPDX-License-Identifier: Apache-2.0 */
/* load_peer.h - load-process as a test sees it: spawned, told, stopped, killed; and what the survivor is left with. */
#ifndef LOAD_PEER_H
#define LOAD_PEER_H

#include "tests/e2e/load.h"

#include <sys/types.h>

struct peer {
    pid_t pid;
    int in, out; /* its stdin and stdout */
};

/* Fails the test when it cannot. `mode`: "server" or "client". */
struct peer peer_spawn(const char *mode, const char *address, const char *link,
                       uint32_t dead_after_ms);
/* False: it is gone. */
bool peer_say(const struct peer *peer, char what);
/* Its answer; -1 when none came within timeout_ms. */
int peer_hear(const struct peer *peer, int timeout_ms);
/* Says and hears; fails the test when there is no answer within 15 s. */
int peer_ask(const struct peer *peer, char what);
/* kill -9. */
void peer_kill(struct peer *peer);
/* Lets it end by itself; its exit status, below 0 for a signal. */
int peer_end(struct peer *peer);
void peer_signal(const struct peer *peer, int signal);

/* What a process holds. */
struct footprint {
    long fds, shared_maps;
    long heap_bytes; /* allocated and not freed */
    long resident_bytes;
};
struct footprint footprint_now(void);

/* Once it stays the same for a moment: lanes that are just being made, or taken down, are gone. */
struct footprint footprint_quiet(void);

/* Files of ours in /dev/shm and /tmp that were not there before the test. */
long footprint_files(void);

#endif
