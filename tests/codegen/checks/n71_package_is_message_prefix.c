/* SPDX-License-Identifier: Apache-2.0 */
/* n71_package_is_message_prefix.c - full names are right on the wire, and descriptors are those of the right messages. */
#include "checks/check.h"

int main(void)
{
    CHECK(strcmp(nasty_n71_s_t__service.name, "nasty.n71.S.T") == 0);
    CHECK(strcmp(nasty_n71_s_t__service.methods[0].path, "/nasty.n71.S.T/S") == 0);
    CHECK(strcmp(nasty_n71_s_t__service.methods[0].request->name, "nasty.n71.S.S") == 0);
    return 0;
}
