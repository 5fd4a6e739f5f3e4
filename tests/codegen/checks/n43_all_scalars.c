/* SPDX-License-Identifier: Apache-2.0 */
/* n43_all_scalars.c - extreme values come back through a call. */
#include "checks/check.h"
#include <float.h>

static void handle(struct sealane_call *call, const Nasty__N43__M *request, void *user)
{
    (void)user;
    CHECK(nasty_n43_s_run__reply(call, request) == SEALANE_OK);
}

int main(void)
{
    const struct nasty_n43_s__handlers handlers = {.run = handle};
    Nasty__N43__M m = NASTY__N43__M__INIT;
    double numbers[] = {DBL_MAX, -DBL_MIN};
    int64_t longs[] = {INT64_MIN, INT64_MAX};
    m.f_double = DBL_MAX;
    m.f_float = -FLT_MAX;
    m.f_sint64 = INT64_MIN;
    m.f_uint64 = UINT64_MAX;
    m.f_fixed32 = UINT32_MAX;
    m.f_bool = 1;
    m.f_bytes = (ProtobufCBinaryData){3, (uint8_t *)"a\0b"};
    m.n_r_double = 2, m.r_double = numbers;
    m.n_u_sint64 = 2, m.u_sint64 = longs;
    const Nasty__N43__M *reply = NULL;
    struct sealane_call *call = NULL;
    CHECK(nasty_n43_s__register(NULL, &handlers, NULL) == SEALANE_OK);
    CHECK(nasty_n43_s_run(NULL, &m, NULL, &reply, &call) == SEALANE_OK);
    CHECK(memcmp(&reply->f_double, &m.f_double, sizeof m.f_double) == 0);
    CHECK(memcmp(&reply->f_float, &m.f_float, sizeof m.f_float) == 0);
    CHECK(reply->f_sint64 == INT64_MIN && reply->f_uint64 == UINT64_MAX);
    CHECK(reply->f_fixed32 == UINT32_MAX && reply->f_bool);
    CHECK(reply->f_bytes.len == 3 && memcmp(reply->f_bytes.data, "a\0b", 3) == 0);
    CHECK(reply->n_r_double == 2 && memcmp(reply->r_double, numbers, sizeof numbers) == 0);
    CHECK(reply->n_u_sint64 == 2 && memcmp(reply->u_sint64, longs, sizeof longs) == 0);
    sealane_call_free(call);
    return 0;
}
