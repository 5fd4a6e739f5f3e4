/* SPDX-License-Identifier: Apache-2.0 */
/* inbox.h - the only way into a node from other threads: posts, run in order on the node's thread, and what wakes it up. */
#ifndef SL_INBOX_H
#define SL_INBOX_H

#include "transport/status.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Embedded in whatever is to be done; must stay valid until run. */
struct sl_post {
    struct sl_post *next;
    void (*run)(struct sl_post *post);
};

struct sl_inbox {
    _Atomic(struct sl_post *) newest;
    struct sl_post *first, *last; /* the node's thread: taken, not run yet */
    atomic_bool sleeping;
    int fd; /* an eventfd; readable when the sleeper was woken */
};

SEALANE_RESULT sl_inbox_init(struct sl_inbox *inbox);
void sl_inbox_clear(struct sl_inbox *inbox);

/* Any thread. */
void sl_inbox_post(struct sl_inbox *inbox, struct sl_post *post);
void sl_inbox_wake(struct sl_inbox *inbox);

/* The node's thread: runs what was posted so far, in order of posting. A post may call this again, to wait for one behind it.
 * False: there was nothing. */
bool sl_inbox_run(struct sl_inbox *inbox);

/* The node's thread, round a sleep on `fd`. Between the two, true from _is_empty means that any later post wakes the sleeper. */
void sl_inbox_sleep_begin(struct sl_inbox *inbox);
bool sl_inbox_is_empty(const struct sl_inbox *inbox);
void sl_inbox_sleep_end(struct sl_inbox *inbox);

#endif
