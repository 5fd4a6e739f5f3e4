/* SPDX-License-Identifier: Apache-2.0 */
/* n13_no_package.c - the wire name has no leading dot. */
#include "checks/check.h"

int main(void)
{
    CHECK(strcmp(echo__service.name, "Echo") == 0);
    CHECK(strcmp(echo__service.methods[0].path, "/Echo/Say") == 0);
    return 0;
}
