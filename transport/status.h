/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - how the inside of the house decides and propagates failures. Two macros, no more.
 *
 * Whoever decides a failure first records it with SL_FAIL; callers pass it on untouched.
 */
#ifndef SL_STATUS_H
#define SL_STATUS_H

#include <sealane_status.h>

/* Not a failure and never public: nothing happened, poll and try again. Leaves no trace in the error. */
#define SL_AGAIN ((enum sealane_status)64)

/* Records the failure at the place that decides it, and evaluates to `status`: said in the macro, so that static analysis
 * sees it too. */
#define SL_FAIL(status, ...) SL_FAIL_CAUSE(status, 0, __VA_ARGS__)
#define SL_FAIL_CAUSE(status, cause, ...) \
    (sl_fail((status), (cause), __FILE__, __LINE__, __VA_ARGS__), (enum sealane_status)(status))

/* Passes a callee's failure on, untouched. Only in functions that hold nothing to release. */
#define SL_TRY(expr)                             \
    do {                                         \
        enum sealane_status sl_status_ = (expr); \
        if (sl_status_ != SEALANE_OK)            \
            return sl_status_;                   \
    } while (0)

SEALANE_PRINTF(5, 6)
enum sealane_status sl_fail(enum sealane_status status, int cause, const char *file, int line,
                            const char *format, ...);

#endif
