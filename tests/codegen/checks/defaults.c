/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.c - what protobuf-c cannot print is put right, and only that; the INIT macro is free of warnings. */
#include "checks/check.h"
#include <math.h>

int main(void)
{
    const Own__Defaults__M m = OWN__DEFAULTS__M__INIT;
    const double tenth = 0.1;
    const float tenth_f = 0.1f;
    CHECK(isinf(m.inf) && m.inf > 0);
    CHECK(isinf(m.minus_inf) && m.minus_inf < 0);
    CHECK(isnan(m.nan) && isnan(m.d_nan));
    CHECK(isinf(m.d_inf));
    CHECK(signbit(m.d_zero));
    CHECK(memcmp(&m.plain, &tenth_f, sizeof tenth_f) == 0);
    CHECK(memcmp(&m.d_plain, &tenth, sizeof tenth) == 0);
    CHECK(m.whole > 16777216 && m.whole < 16777218);
    CHECK(strcmp(m.marks, "1.00007e-31, -9223372036854775808ll {0} ?\?=") == 0);
    CHECK(m.in_oneof_case == OWN__DEFAULTS__M__IN_ONEOF__NOT_SET);
    return 0;
}
