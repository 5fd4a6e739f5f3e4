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

void stop_watch(void)
{
    struct sigaction action = {.sa_handler = catch}, old;

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        (void)sigaction(SIGINT, &action, NULL);
}
