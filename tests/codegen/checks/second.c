/* SPDX-License-Identifier: Apache-2.0 */
/* second.c - the importing file's stem gives way to the imported one's. */
#include "checks/check.h"

int main(void)
{
    FUNCTIONS(F(a_b_c_d), F(a_b_c_rpc_d));
    CHECK(strcmp(a_b_c__service.name, "a.b.C") == 0);
    CHECK(strcmp(a_b_c_rpc__service.name, "a.B_C") == 0);
    return 0;
}
