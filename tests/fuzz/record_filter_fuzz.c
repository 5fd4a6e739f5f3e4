/* SPDX-License-Identifier: Apache-2.0 */
/* record_filter_fuzz.c - any bytes before the TLS record filter, as a client's and as a server's. */
#include "transport/record_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

/* The verdict may not depend on how the bytes were cut. */
static void look(const uint8_t *data, size_t bytes, bool server)
{
    struct sl_record_filter whole = {.server = server}, single = {.server = server};
    enum sealane_status at_once = sl_record_filter_look(&whole, data, bytes),
                        one_by_one = SEALANE_OK;

    for (size_t i = 0; i < bytes && one_by_one == SEALANE_OK; i++)
        one_by_one = sl_record_filter_look(&single, data + i, 1);
    must(at_once == one_by_one, "pieces change the verdict");
    must(memcmp(&whole, &single, sizeof(whole)) == 0, "pieces change the state");
    must(at_once != SEALANE_OK || whole.total <= SL_FILTER_HANDSHAKE_MAX,
         "too much was let through");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    look(data, bytes, true);
    look(data, bytes, false);
    return 0;
}
