/* SPDX-License-Identifier: Apache-2.0 */
/* n39_enum_macros.c - fields named like macros are reached with the headers of those macros included. */
#include "checks/check.h"
#include <errno.h>
#include <sys/sysmacros.h>

int main(void)
{
    M39 m = M39__INIT;
    m.os = LINUX__NULL;
    m.unix_ = 1;
    m.linux_ = 2;
    m.errno_ = 3;
    m.major = 4;
    m.stdin_ = 5;
    CHECK(m39__get_packed_size(&m) == 12);
    return 0;
}
