/* SPDX-License-Identifier: Apache-2.0 */
/* hello_fuzz.c - any bytes as HELLO of either side and as RINGS; what is accepted must survive being written again. */
#include "transport/hello.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct sl_hello hello = {0};
    struct sl_hello_bytes out;

    if (sl_hello_parse_client(data, bytes, &hello) == SEALANE_OK) {
        sl_hello_write_client(&hello, &out);
        if (out.count != bytes || memcmp(out.at, data, bytes) != 0)
            abort();
    }
    if (sl_hello_parse_server(data, bytes, &hello) == SEALANE_OK &&
        sl_geometry_check(&hello.geometry) != SEALANE_OK)
        abort();
    if (sl_rings_parse(data, bytes, &hello) == SEALANE_OK && bytes != SL_RINGS_BYTES)
        abort();
    return 0;
}
