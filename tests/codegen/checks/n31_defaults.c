/* SPDX-License-Identifier: Apache-2.0 */
/* n31_defaults.c - defaults have exact values. */
#include "checks/check.h"
#include <float.h>
#include <math.h>

int main(void)
{
    static const Nasty__N31__M fixed = NASTY__N31__M__INIT;
    Nasty__N31__M m;
    nasty__n31__m__init(&m);
    CHECK(fixed.i32min == INT32_MIN && m.i32min == INT32_MIN);
    CHECK(fixed.i64min == INT64_MIN && m.i64min == INT64_MIN);
    CHECK(m.u64max == UINT64_MAX);
    CHECK(m.fmax >= FLT_MAX && m.fmax <= FLT_MAX);
    CHECK(signbit(m.fneg) && signbit(fixed.fneg));
    CHECK(m.dmax >= DBL_MAX && !isinf(m.dmax));
    CHECK(m.dtiny > 0 && m.dtiny <= DBL_TRUE_MIN);
    CHECK(strcmp(m.str, "q\"b\\n\n\t?\?/ \303\251 %s") == 0);
    CHECK(m.raw.len == 5 && memcmp(m.raw.data, "a\0b\377\1", 5) == 0);
    CHECK(m.e == NASTY__N31__E__NEG && m.b && m.empty[0] == '\0');
    return 0;
}
