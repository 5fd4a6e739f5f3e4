/* SPDX-License-Identifier: Apache-2.0 */
/* helper.h - one thread beside a node's own, for what costs milliseconds: the arithmetic of TLS handshakes. */
#ifndef SL_HELPER_H
#define SL_HELPER_H

#include <pthread.h>
#include <stdbool.h>

/* Embedded in what is to be worked on; the helper has it from sl_helper_give until `work` returns. */
struct sl_task {
    struct sl_task *next;
    void (*work)(struct sl_task *task);
};

struct sl_helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct sl_task *first, *last;
    void (*leave)(void);
    bool started, stop;
};

/* `leave` runs on the helper's thread when it ends: what libraries keep for a thread is released there. */
void sl_helper_init(struct sl_helper *helper, void (*leave)(void));

/* Has `work` run on the helper's thread, which starts with the first task; where the system refuses a thread it runs here. */
void sl_helper_give(struct sl_helper *helper, struct sl_task *task);

/* Finishes what was given, joins the thread. */
void sl_helper_stop(struct sl_helper *helper);

#endif
