/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - a queue and the thread that empties it. */
#include "transport/helper.h"

#include <stddef.h>

void sl_helper_init(struct sl_helper *helper, void (*leave)(void))
{
    *helper = (struct sl_helper){.leave = leave};
    (void)pthread_mutex_init(&helper->lock, NULL);
    (void)pthread_cond_init(&helper->wake, NULL);
}

/* NULL once the queue is empty and the helper was told to stop. */
static struct sl_task *task_next(struct sl_helper *helper)
{
    struct sl_task *task;

    (void)pthread_mutex_lock(&helper->lock);
    while (!helper->first && !helper->stop)
        (void)pthread_cond_wait(&helper->wake, &helper->lock);
    task = helper->first;
    if (task)
        helper->first = task->next;
    (void)pthread_mutex_unlock(&helper->lock);
    return task;
}

static void *helper_run(void *argument)
{
    struct sl_helper *helper = argument;
    struct sl_task *task;

    while ((task = task_next(helper)) != NULL)
        task->work(task);
    helper->leave();
    return NULL;
}

void sl_helper_give(struct sl_helper *helper, struct sl_task *task)
{
    if (!helper->started)
        helper->started = pthread_create(&helper->thread, NULL, helper_run, helper) == 0;
    if (!helper->started) {
        task->work(task);
        return;
    }
    (void)pthread_mutex_lock(&helper->lock);
    task->next = NULL;
    if (helper->first)
        helper->last->next = task;
    else
        helper->first = task;
    helper->last = task;
    (void)pthread_cond_signal(&helper->wake);
    (void)pthread_mutex_unlock(&helper->lock);
}

void sl_helper_stop(struct sl_helper *helper)
{
    if (helper->started) {
        (void)pthread_mutex_lock(&helper->lock);
        helper->stop = true;
        (void)pthread_cond_signal(&helper->wake);
        (void)pthread_mutex_unlock(&helper->lock);
        (void)pthread_join(helper->thread, NULL);
    }
    (void)pthread_mutex_destroy(&helper->lock);
    (void)pthread_cond_destroy(&helper->wake);
}
