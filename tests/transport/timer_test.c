/* SPDX-License-Identifier: Apache-2.0 */
/* timer_test.c - the heap of timers. */
#include "transport/timer.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(timer, fires_in_order_of_time_whatever_the_order_of_starts)
{
    enum { COUNT = 2000 };
    struct sl_timers timers = {.heap = NULL};
    struct sl_timer *all = calloc(COUNT, sizeof(*all));
    uint64_t last = 0, seen = 0;
    unsigned seed = 1;

    for (int i = 0; i < COUNT; i++) {
        seed = seed * 1103515245 + 12345;
        cr_assert_eq(sl_timers_start(&timers, &all[i], seed % 1000), SEALANE_OK);
    }
    for (int i = 0; i < COUNT; i += 3) /* every third is moved, every seventh stopped */
        cr_assert_eq(sl_timers_start(&timers, &all[i], 500 + (uint64_t)i % 700), SEALANE_OK);
    for (int i = 0; i < COUNT; i += 7) {
        sl_timers_stop(&timers, &all[i]);
        sl_timers_stop(&timers, &all[i]);
    }
    for (struct sl_timer *timer; (timer = sl_timers_due(&timers, 5000)) != NULL; seen++) {
        cr_assert_geq(timer->at_ns, last);
        cr_assert_eq(timer->place, 0);
        cr_assert_neq((timer - all) % 7, 0, "a stopped timer fired");
        last = timer->at_ns;
    }
    cr_assert_eq(seen, COUNT - (COUNT + 6) / 7);
    cr_assert_eq(sl_timers_next(&timers), UINT64_MAX);
    sl_timers_clear(&timers);
    free(all);
}

Test(timer, is_not_due_before_its_time)
{
    struct sl_timers timers = {.heap = NULL};
    struct sl_timer timer = {0};

    cr_assert_eq(sl_timers_start(&timers, &timer, 100), SEALANE_OK);
    cr_assert_null(sl_timers_due(&timers, 99));
    cr_assert_eq(sl_timers_next(&timers), 100);
    cr_assert_eq(sl_timers_due(&timers, 100), &timer);
    cr_assert_null(sl_timers_due(&timers, 100));
    sl_timers_clear(&timers);
}
