/* SPDX-License-Identifier: Apache-2.0 */
/* services.c - the documented names of services and methods whose plain names are taken. */
#include "checks/check.h"

int main(void)
{
    FUNCTIONS(F(pthread_create_rpc), F(pthread_create_rpc2), F(pthread_create_rpc3));
    FUNCTIONS(F(static_assert_rpc), F(size_t_rpc), F(sealane_server_new_rpc));
    FUNCTIONS(F(foo_bar_get), F(foo_bar_rpc_get), F(foo_bar_get_rpc), F(foo_errno), F(x1_x2));
    struct pthread__handlers pthread = {.create = NULL, .create_rpc = NULL, .create_rpc2 = NULL};
    struct foo__handlers foo = {.bar_get = NULL, .errno_rpc = NULL};
    struct empty__handlers empty = {.none = NULL};
    CHECK(pthread__register(NULL, &pthread, NULL) == SEALANE_OK);
    CHECK(foo__register(NULL, &foo, NULL) == SEALANE_OK);
    CHECK(empty__register(NULL, &empty, NULL) == SEALANE_OK);
    CHECK(empty__service.method_count == 0);
    CHECK(strcmp(foo_bar_rpc__service.name, "foo_bar") == 0);
    return 0;
}
