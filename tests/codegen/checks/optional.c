/* SPDX-License-Identifier: Apache-2.0 */
/* optional.c - presence of proto3 optional fields travels. */
#include "checks/check.h"

int main(void)
{
    Own__Optional__M m = OWN__OPTIONAL__M__INIT;
    uint8_t wire[64];
    CHECK(own__optional__m__pack(&m, wire) == 0);
    m._restrict_case = OWN__OPTIONAL__M___RESTRICT_RESTRICT_;
    m._base_case = OWN__OPTIONAL__M___BASE_BASE_;
    m.base_ = (char *)"";
    size_t bytes = own__optional__m__pack(&m, wire);
    CHECK(bytes == 4 && memcmp(wire, "\x08\0\x1a\0", 4) == 0);
    Own__Optional__M *copy = own__optional__m__unpack(NULL, bytes, wire);
    CHECK(copy && copy->_restrict_case == OWN__OPTIONAL__M___RESTRICT_RESTRICT_);
    CHECK(copy->restrict_ == 0 && copy->__data_case == OWN__OPTIONAL__M____DATA__NOT_SET);
    own__optional__m__free_unpacked(copy, NULL);
    return 0;
}
