/* SPDX-License-Identifier: Apache-2.0 */
/* trap_race.c - a data race on purpose: under ThreadSanitizer this program must be judged FAILED. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>

static volatile int
    counter; /* each access really happens: of one each, at the same moment, the sanitizer can miss the race */

static void *count(void *unused)
{
    (void)unused;
    for (int i = 0; i < 100000; i++)
        counter++;
    return NULL;
}

int main(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, count, NULL) != 0)
        return 0; /* judged as a pass, which the test takes for a failure */
    (void)count(NULL);
    (void)pthread_join(thread, NULL);
    (void)printf("counted to %d\n", counter);
    return 0;
}
