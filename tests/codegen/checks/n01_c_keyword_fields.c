/* SPDX-License-Identifier: Apache-2.0 */
/* n01_c_keyword_fields.c - each field is there under the documented name, and its number on the wire is its own. */
#include "checks/check.h"

int main(void)
{
    Nasty__N01__Kw m = NASTY__N01__KW__INIT;
    uint8_t wire[64];
    m.has_auto_ = 1, m.auto_ = 1;
    m.has_restrict_ = 1, m.restrict_ = 2;
    m.has_typeof_unqual_ = 1, m.typeof_unqual_ = 3;
    m.has__bool = 1, m._bool = 4;
    m.has_asm_ = 1, m.asm_ = 5;
    size_t bytes = nasty__n01__kw__pack(&m, wire);
    CHECK(bytes == 14);
    CHECK(memcmp(wire, "\x08\1\xa8\1\2\xb0\2\4\xb8\3\3\xc0\3\5", bytes) == 0);
    return 0;
}
