/* SPDX-License-Identifier: Apache-2.0 */
/* plain.h - Criterion's assertions for plain programs, which run where Criterion is not: the first that fails ends the program. */
#ifndef PLAIN_H
#define PLAIN_H

#include <stdio.h>
#include <stdlib.h>

#define PLAIN_CHECK(condition, ...) \
    ((condition) ? (void)0          \
                 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), exit(1)))
#define PLAIN_CHECK_EQ(a, b, ...)  PLAIN_CHECK((a) == (b), 0)
#define PLAIN_CHECK_GEQ(a, b, ...) PLAIN_CHECK((a) >= (b), 0)

#define cr_assert(...)          PLAIN_CHECK(__VA_ARGS__, 0)
#define cr_assert_eq(...)       PLAIN_CHECK_EQ(__VA_ARGS__, 0)
#define cr_assert_geq(...)      PLAIN_CHECK_GEQ(__VA_ARGS__, 0)
#define cr_assert_not_null(...) PLAIN_CHECK(__VA_ARGS__, 0)

#endif
