/* SPDX-License-Identifier: Apache-2.0 */
/* stop.c - the flag. */
#include "stop.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;

static void catch (int number)
{
    caught = number;
}

int stop_signal(void)
{
    return caught;
}

static void watch_unless_ignored(int number, const struct sigaction *action)
{
    struct sigaction old;

    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        (void)sigaction(number, action, NULL);
}

void stop_watch(void)
{
    struct sigaction action = {.sa_handler = catch};

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGTERM, &action, NULL);
    watch_unless_ignored(SIGINT, &action);
    watch_unless_ignored(SIGHUP, &action);
}
