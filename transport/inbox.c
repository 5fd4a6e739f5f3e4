/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.c - a stack of posts that many threads push and one takes whole. */
#include "transport/inbox.h"

#include "transport/log.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

SEALANE_RESULT sl_inbox_init(struct sl_inbox *inbox)
{
    atomic_init(&inbox->newest, NULL);
    inbox->first = inbox->last = NULL;
    atomic_init(&inbox->sleeping, false);
    inbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (inbox->fd < 0)
        return SL_FAIL_CAUSE(SEALANE_RESOURCE_EXHAUSTED, errno,
                             "no descriptor for a node: errno %d", errno);
    return SEALANE_OK;
}

void sl_inbox_clear(struct sl_inbox *inbox)
{
    if (inbox->fd >= 0)
        (void)close(inbox->fd);
}

void sl_inbox_wake(struct sl_inbox *inbox)
{
    uint64_t one = 1;

    /* Pairs with the fence in sleep_begin: either the sleeper sees the post, or this sees it asleep. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&inbox->sleeping, memory_order_relaxed) &&
        write(inbox->fd, &one, sizeof(one)) != (ssize_t)sizeof(one) && errno != EAGAIN)
        SL_LOG(SL_LOG_ERROR, "cannot wake a node: errno %d", errno);
}

void sl_inbox_post(struct sl_inbox *inbox, struct sl_post *post)
{
    struct sl_post *newest = atomic_load_explicit(&inbox->newest, memory_order_relaxed);

    do {
        post->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&inbox->newest, &newest, post,
                                                    memory_order_release, memory_order_relaxed));
    sl_inbox_wake(inbox);
}

/* Moves what was posted behind what waits to be run, turned round into the order of posting. */
static void take(struct sl_inbox *inbox)
{
    struct sl_post *newest = atomic_exchange_explicit(&inbox->newest, NULL, memory_order_acquire);
    struct sl_post *oldest = NULL, *last = newest;

    if (!newest)
        return;
    while (newest) {
        struct sl_post *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    if (inbox->first)
        inbox->last->next = oldest;
    else
        inbox->first = oldest;
    inbox->last = last;
}

bool sl_inbox_run(struct sl_inbox *inbox)
{
    bool any = false;

    if (!sl_inbox_is_empty(inbox))
        take(inbox);
    while (inbox->first) {
        struct sl_post *post = inbox->first;

        inbox->first =
            post->next; /* before it runs: it may be gone then, and may run those behind it */
        post->run(post);
        any = true;
    }
    return any;
}

void sl_inbox_sleep_begin(struct sl_inbox *inbox)
{
    atomic_store_explicit(&inbox->sleeping, true, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst);
}

bool sl_inbox_is_empty(const struct sl_inbox *inbox)
{
    return atomic_load_explicit(&inbox->newest, memory_order_relaxed) == NULL;
}

void sl_inbox_sleep_end(struct sl_inbox *inbox)
{
    uint64_t drained;

    atomic_store_explicit(&inbox->sleeping, false, memory_order_relaxed);
    if (read(inbox->fd, &drained, sizeof(drained)) < 0 && errno != EAGAIN && errno != EINTR)
        SL_LOG(SL_LOG_ERROR, "cannot read a node's eventfd: errno %d", errno);
}
