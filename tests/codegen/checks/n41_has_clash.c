/* SPDX-License-Identifier: Apache-2.0 */
/* n41_has_clash.c - the later field gives way, the wire stays. */
#include "checks/check.h"

int main(void)
{
    Nasty__N41__M m = NASTY__N41__M__INIT;
    uint8_t wire[16];
    m.has_x = 1, m.x = 5;
    m.has_has_x_ = 1, m.has_x_ = 6;
    CHECK(nasty__n41__m__pack(&m, wire) == 4 && memcmp(wire, "\x08\5\x10\6", 4) == 0);
    return 0;
}
